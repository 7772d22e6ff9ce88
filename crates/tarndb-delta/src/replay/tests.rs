//! Tests of replay: states from commits, and the order of commits.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tarndb_table::TableState;

use super::Replay;
use crate::action::*;
use crate::state::{DeltaState, vector_id};

fn vector(id: u8) -> Option<DeletionVector> {
    (id > 0).then(|| DeletionVector {
        storage_type: "u".to_owned(),
        path_or_inline_dv: format!("{id}"),
        offset: Some(1),
        size_in_bytes: 40,
        cardinality: id.into(),
    })
}

fn add(path: &str, id: u8) -> Action {
    Action::Add(Box::new(Add {
        path: path.to_owned(),
        partition_values: BTreeMap::new(),
        size: 1,
        modification_time: 0,
        data_change: true,
        stats: Some("{\"numRecords\":10}".to_owned()),
        tags: None,
        deletion_vector: vector(id),
        base_row_id: None,
        default_row_commit_version: None,
        clustering_provider: None,
    }))
}

fn remove(path: &str, id: u8) -> Action {
    Action::Remove(Box::new(Remove {
        path: path.to_owned(),
        deletion_timestamp: Some(1),
        data_change: true,
        extended_file_metadata: None,
        partition_values: None,
        size: None,
        stats: None,
        tags: None,
        deletion_vector: vector(id),
        base_row_id: None,
        default_row_commit_version: None,
    }))
}

fn start() -> Vec<Action> {
    let schema =
        r#"{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}"#;
    vec![
        Action::Protocol(Protocol {
            min_reader_version: 1,
            min_writer_version: 2,
            reader_features: None,
            writer_features: None,
        }),
        Action::Metadata(Box::new(Metadata {
            id: "id".to_owned(),
            name: None,
            description: None,
            format: Format::default(),
            schema_string: schema.to_owned(),
            partition_columns: Vec::new(),
            created_time: None,
            configuration: BTreeMap::new(),
        })),
    ]
}

fn replay(commits: Vec<Vec<Action>>) -> TableState {
    let mut replay = Replay::default();
    replay.commit(start()).unwrap();
    let version = commits.len() as u64;
    for commit in commits {
        replay.commit(commit).unwrap();
    }
    replay.finish(version, "log").unwrap()
}

fn live(state: &TableState) -> Vec<(String, Option<String>)> {
    state
        .files
        .values()
        .map(|file| (file.path.clone(), vector_id(&file.deletion)))
        .collect()
}

fn tombstones(state: &TableState) -> Vec<(String, Option<String>)> {
    DeltaState::of(state)
        .unwrap()
        .tombstones
        .keys()
        .cloned()
        .collect()
}

#[test]
fn removal_of_the_old_vector_does_not_remove_the_new_add_in_either_order() {
    for swap in [false, true] {
        let mut update = vec![remove("f", 1), add("f", 2)];
        if swap {
            update.reverse();
        }
        let state = replay(vec![vec![add("f", 1)], update]);
        assert_eq!(live(&state), [("f".to_owned(), Some("u2@1".to_owned()))]);
        assert_eq!(
            tombstones(&state),
            [("f".to_owned(), Some("u1@1".to_owned()))]
        );
        assert_eq!(state.live_rows(), Some(8));
    }
}

#[test]
fn file_that_comes_back_is_live_and_no_tombstone() {
    let state = replay(vec![
        vec![add("f", 0)],
        vec![remove("f", 0)],
        vec![add("f", 0)],
    ]);
    assert_eq!(live(&state), [("f".to_owned(), None)]);
    assert!(tombstones(&state).is_empty());
}

#[test]
fn spellings_of_one_path_are_one_file() {
    let state = replay(vec![
        vec![add("a%20b", 0), add("/x/y", 0)],
        vec![remove("a b", 0), remove("file:///x/y", 0)],
    ]);
    assert!(live(&state).is_empty());
    assert_eq!(tombstones(&state).len(), 2);
}

#[test]
fn removed_domains_vanish_and_transactions_keep_the_last_number() {
    let domain = |removed| {
        Action::Domain(DomainMetadata {
            domain: "d".to_owned(),
            configuration: "{}".to_owned(),
            removed,
        })
    };
    let txn = |version| {
        Action::Txn(AppTxn {
            app_id: "a".to_owned(),
            version,
            last_updated: None,
        })
    };
    let state = replay(vec![vec![domain(false), txn(7)], vec![txn(3)]]);
    assert_eq!(state.app_txns.get("a"), Some(&3));
    assert_eq!(DeltaState::of(&state).unwrap().domains.len(), 1);
    let state = replay(vec![vec![domain(false)], vec![domain(true)]]);
    assert!(DeltaState::of(&state).unwrap().domains.is_empty());
}

#[test]
fn state_without_protocol_or_metadata_is_an_error_that_names_the_log() {
    let error = Replay::default().finish(0, "t/_delta_log").unwrap_err();
    assert!(error.to_string().contains("t/_delta_log"), "{error}");
    let mut only_protocol = Replay::default();
    only_protocol.commit(start()[..1].to_vec()).unwrap();
    assert!(
        only_protocol
            .finish(0, "log")
            .unwrap_err()
            .to_string()
            .contains("metadata")
    );
}

#[test]
fn expired_tombstones_are_forgotten_and_young_ones_kept() {
    let state = replay(vec![vec![remove("old", 0)]]);
    let mut replay = Replay::from_state(&state).unwrap();
    let info = CommitInfo {
        in_commit_timestamp: Some(8 * 24 * 3_600_000),
        ..CommitInfo::default()
    };
    let mut young = remove("young", 0);
    if let Action::Remove(young) = &mut young {
        young.deletion_timestamp = info.in_commit_timestamp;
    }
    replay
        .commit(vec![Action::CommitInfo(info), young])
        .unwrap();
    replay.expire_tombstones();
    let state = replay.finish(2, "log").unwrap();
    assert_eq!(tombstones(&state), [("young".to_owned(), None)]);
}

#[test]
fn partition_values_are_found_whatever_the_case_of_their_names() {
    let mut partitioned = start();
    let Action::Metadata(metadata) = &mut partitioned[1] else {
        panic!("metadata comes second");
    };
    metadata.partition_columns = vec!["A".to_owned()];
    let mut file = add("f", 0);
    if let Action::Add(file) = &mut file {
        file.partition_values
            .insert("A".to_owned(), Some("7".to_owned()));
    }
    let state = replay(vec![partitioned, vec![file]]);
    assert_eq!(state.partition_columns, ["a"]);
    assert_eq!(
        state.files.get("f").unwrap().partition_values["a"].as_deref(),
        Some("7")
    );
}

fn commit() -> impl Strategy<Value = Vec<Action>> {
    let file = (0_u8..4, 0_u8..3, any::<bool>()).prop_map(|(path, id, is_add)| {
        let path = format!("f{path}");
        if is_add {
            add(&path, id)
        } else {
            remove(&path, id)
        }
    });
    proptest::collection::vec(file, 0..4)
}

proptest! {
    #[test]
    fn replaying_a_prefix_and_then_the_rest_equals_replaying_all(
        commits in proptest::collection::vec(commit(), 0..12),
        cut in 0_usize..12,
    ) {
        let cut = cut.min(commits.len());
        let prefix = replay(commits[..cut].to_vec());
        let mut rest = Replay::from_state(&prefix).unwrap();
        for commit in &commits[cut..] {
            rest.commit(commit.clone()).unwrap();
        }
        let rest = rest.finish(commits.len() as u64, "log").unwrap();
        let all = replay(commits);
        prop_assert_eq!(&rest.files, &all.files);
        prop_assert_eq!(tombstones(&rest), tombstones(&all));
    }

    #[test]
    fn newest_reference_of_a_key_wins(commits in proptest::collection::vec(commit(), 0..12)) {
        // Only legal histories: one live vector per path at a time, and per commit and path at
        // most one add and one remove, of different keys.
        let mut live_model: BTreeMap<String, u8> = BTreeMap::new();
        let mut legal = Vec::new();
        for commit in commits {
            let mut kept = Vec::new();
            for action in commit {
                match &action {
                    Action::Add(new) => {
                        let id = new.deletion_vector.as_ref().map_or(0, |v| v.cardinality as u8);
                        if let Some(old) = live_model.get(&new.path) {
                            if *old == id { continue; }
                            kept.push(remove(&new.path, *old));
                        }
                        live_model.insert(new.path.clone(), id);
                    }
                    Action::Remove(old) => {
                        let id = old.deletion_vector.as_ref().map_or(0, |v| v.cardinality as u8);
                        if live_model.get(&old.path) != Some(&id) { continue; }
                        live_model.remove(&old.path);
                    }
                    _ => {}
                }
                // One action a commit, so that no two of a commit concern one path.
                kept.push(action);
                legal.push(std::mem::take(&mut kept));
            }
        }
        let state = replay(legal);
        let expected: Vec<_> = live_model
            .iter()
            .map(|(path, id)| (path.clone(), vector(*id).map(|v| v.unique_id())))
            .collect();
        prop_assert_eq!(live(&state), expected);
    }
}
