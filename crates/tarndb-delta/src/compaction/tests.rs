//! A compaction against the commits that it stands for.

use proptest::prelude::*;
use tarndb_table::TableState;

use super::Range;
use crate::action::{Action, parse_lines};
use crate::replay::Replay;
use crate::state::DeltaState;

const START: [&str; 2] = [
    r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#,
    r#"{"metaData":{"id":"id","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":[],"configuration":{}}}"#,
];

fn actions(lines: &[String]) -> Vec<Action> {
    parse_lines(lines.iter().map(String::as_str), "a test").unwrap()
}

fn vector(id: u8) -> String {
    match id {
        0 => String::new(),
        id => format!(
            r#","deletionVector":{{"storageType":"u","pathOrInlineDv":"{id}","offset":1,"sizeInBytes":40,"cardinality":1}}"#
        ),
    }
}

fn add(path: u8, id: u8, size: u64) -> String {
    let vector = vector(id);
    format!(
        r#"{{"add":{{"path":"f%20{path}","partitionValues":{{}},"size":{size},"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":9}}"{vector}}}}}"#
    )
}

fn remove(path: u8, id: u8) -> String {
    let vector = vector(id);
    format!(
        r#"{{"remove":{{"path":"f%20{path}","deletionTimestamp":1,"dataChange":true{vector}}}}}"#
    )
}

/// One step of a history: what becomes of a path, or a line without files.
#[derive(Clone, Debug)]
enum Step {
    Put { path: u8, id: u8, size: u64 },
    Take { path: u8 },
    Domain { name: u8, removed: bool },
    Txn { app: u8, version: u8 },
    Property { value: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..4, 0_u8..3, 1_u64..9).prop_map(|(path, id, size)| Step::Put { path, id, size }),
        3 => (0_u8..4).prop_map(|path| Step::Take { path }),
        1 => (0_u8..2, any::<bool>()).prop_map(|(name, removed)| Step::Domain { name, removed }),
        1 => (0_u8..2, any::<u8>()).prop_map(|(app, version)| Step::Txn { app, version }),
        1 => any::<u8>().prop_map(|value| Step::Property { value }),
    ]
}

/// Legal commits: one step each, the removal of an old vector with the new one.
fn history(steps: &[Step]) -> Vec<Vec<String>> {
    let mut live = std::collections::BTreeMap::new();
    let mut commits = vec![START.map(str::to_owned).to_vec()];
    for step in steps {
        let mut lines =
            vec![r#"{"commitInfo":{"operation":"x","inCommitTimestamp":5}}"#.to_owned()];
        match step {
            Step::Put { path, id, size } => {
                if let Some(old) = live.insert(*path, *id).filter(|old| old != id) {
                    lines.push(remove(*path, old));
                }
                lines.push(add(*path, *id, *size));
            }
            Step::Take { path } => lines.extend(live.remove(path).map(|id| remove(*path, id))),
            Step::Domain { name, removed } => lines.push(format!(
                r#"{{"domainMetadata":{{"domain":"d{name}","configuration":"{{}}","removed":{removed}}}}}"#
            )),
            Step::Txn { app, version } => lines.push(format!(
                r#"{{"txn":{{"appId":"a{app}","version":{version}}}}}"#
            )),
            Step::Property { value } => lines.push(START[1].replace(
                r#""configuration":{}"#,
                &format!(r#""configuration":{{"k":"{value}"}}"#),
            )),
        }
        commits.push(lines);
    }
    commits
}

fn compacted(commits: &[Vec<String>]) -> Vec<String> {
    let mut range = Range::default();
    for action in commits.iter().flat_map(|commit| actions(commit)) {
        range.action(action).unwrap();
    }
    let lines = range.into_actions().map(|action| action.to_line());
    lines.collect::<Result<_, _>>().unwrap()
}

fn replayed(commits: &[Vec<String>]) -> TableState {
    let mut replay = Replay::default();
    for commit in commits {
        replay.commit(actions(commit)).unwrap();
    }
    replay.finish(1, "log").unwrap()
}

/// All of a state but the in-commit timestamp, which no compaction holds.
fn all_of(state: &TableState) -> impl PartialEq + std::fmt::Debug {
    let delta = DeltaState::of(state).unwrap();
    let mut files: Vec<_> = state.files.values().collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let tombstones: Vec<_> = delta.tombstones.keys().cloned().collect();
    (
        files,
        state.size_bytes(),
        tombstones,
        delta.domains.clone(),
        delta.txns.clone(),
        (delta.metadata.clone(), delta.protocol.clone()),
    )
}

proptest! {
    #[test]
    fn a_compaction_in_the_place_of_its_commits_gives_the_same_state(
        steps in proptest::collection::vec(step(), 0..24),
        first in 0_usize..24,
        width in 1_usize..24,
    ) {
        let commits = history(&steps);
        let first = first.min(commits.len() - 1);
        let after = (first + width).min(commits.len());
        let mut with = commits[..first].to_vec();
        with.push(compacted(&commits[first..after]));
        with.extend_from_slice(&commits[after..]);
        let (expected, found) = (replayed(&commits), replayed(&with));
        prop_assert_eq!(all_of(&found), all_of(&expected));
    }
}

#[test]
fn what_was_removed_within_a_range_is_told_and_what_a_commit_says_of_itself_is_not() {
    let commits = history(&[
        Step::Domain {
            name: 0,
            removed: true,
        },
        Step::Put {
            path: 1,
            id: 0,
            size: 3,
        },
        Step::Take { path: 1 },
    ]);
    let text = compacted(&commits[1..]).join("\n");
    assert!(text.contains(r#""removed":true"#), "{text}");
    assert!(text.contains(r#"{"remove":{"path":"f%201""#), "{text}");
    assert!(
        !text.contains("commitInfo") && !text.contains("\"add\""),
        "{text}"
    );
    assert!(!text.contains(r#""dataChange":true"#), "{text}");
}
