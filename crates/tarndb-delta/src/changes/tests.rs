//! Tests of the planner: from commits to what is read.

use tarndb_table::{Entry, TableState};
use tarndb_types::TableVersion;

use super::*;
use crate::error::DeltaError;

const HEAD: &str = r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":4}}"#;

fn metadata(on: bool, fields: &str) -> String {
    let schema = format!(r#"{{"type":"struct","fields":[{fields}]}}"#);
    let schema = serde_json::Value::from(schema).to_string();
    format!(
        r#"{{"metaData":{{"id":"t","format":{{"provider":"parquet","options":{{}}}},"schemaString":{schema},"partitionColumns":[],"configuration":{{"delta.enableChangeDataFeed":"{on}"}}}}}}"#
    )
}

fn column(name: &str, data_type: &str) -> String {
    format!(r#"{{"name":"{name}","type":"{data_type}","nullable":true,"metadata":{{}}}}"#)
}

fn vector(rows: u64) -> String {
    match rows {
        0 => String::new(),
        rows => format!(
            r#","deletionVector":{{"storageType":"u","pathOrInlineDv":"v{rows}","offset":1,"sizeInBytes":4,"cardinality":{rows}}}"#
        ),
    }
}

fn add(path: &str, change: bool, deleted: u64) -> String {
    let vector = vector(deleted);
    format!(
        r#"{{"add":{{"path":"{path}","partitionValues":{{}},"size":1,"modificationTime":0,"dataChange":{change}{vector}}}}}"#
    )
}

fn remove(path: &str, change: bool, deleted: u64) -> String {
    let vector = vector(deleted);
    format!(r#"{{"remove":{{"path":"{path}","dataChange":{change}{vector}}}}}"#)
}

fn cdc(path: &str) -> String {
    format!(r#"{{"cdc":{{"path":"{path}","partitionValues":{{}},"size":1,"dataChange":false}}}}"#)
}

/// A feed over commits, of which the first creates the table.
fn feed(commits: &[Vec<String>]) -> Result<ChangeFeed, DeltaError> {
    let mut planner = FeedPlanner::after(None);
    for (version, lines) in commits.iter().enumerate() {
        let entry = Entry {
            version: TableVersion(version as u64),
            lines: lines.clone(),
        };
        planner.commit(&entry, 1000 + version as i64)?;
    }
    Ok(planner.finish()?.unwrap())
}

fn start() -> Vec<String> {
    let metadata = metadata(true, &column("a", "long"));
    vec![
        HEAD.to_owned(),
        metadata,
        add("f", true, 0),
        add("g", true, 1),
    ]
}

/// What a read is, in a word.
fn word(read: &ChangeRead) -> String {
    match read {
        ChangeRead::Changes(file) => format!("told by {}", file.path),
        ChangeRead::Whole(kind, file) => format!("{} {}", kind.as_str(), file.path),
        ChangeRead::Difference { file, before } => format!(
            "{} from {} to {}",
            file.path,
            before.cardinality(),
            file.deletion.cardinality()
        ),
    }
}

#[test]
fn each_kind_of_commit_is_read_as_the_format_says() {
    for (commit, wanted) in [
        (vec![add("h", true, 0)], vec!["insert h"]),
        (vec![remove("f", true, 0)], vec!["delete f"]),
        (vec![add("h", false, 0), remove("f", false, 0)], vec![]),
        (
            vec![remove("f", true, 0), add("f", true, 2)],
            vec!["f from 0 to 2"],
        ),
        (
            vec![add("g", true, 0), remove("g", true, 1)],
            vec!["g from 1 to 0"],
        ),
        // The same rows, described anew.
        (vec![remove("g", true, 1), add("g", true, 1)], vec![]),
        // A file that is not live has no rows to lose.
        (vec![remove("f", true, 3)], vec![]),
        (vec![remove("never", true, 0)], vec![]),
        // Files of changes tell everything.
        (
            vec![cdc("c%201"), add("h", true, 0), remove("f", true, 0)],
            vec!["told by c 1"],
        ),
        (vec![], vec![]),
    ] {
        let feed = feed(&[start(), commit.clone()]).unwrap();
        let found: Vec<String> = feed.versions[1].reads.iter().map(word).collect();
        assert_eq!(found, wanted, "{commit:?}");
        assert_eq!(feed.versions[1].timestamp_ms, 1001);
        let first: Vec<String> = feed.versions[0].reads.iter().map(word).collect();
        assert_eq!(first, ["insert f", "insert g"]);
    }
}

#[test]
fn a_version_without_the_feed_is_refused() {
    let off = vec![metadata(false, &column("a", "long"))];
    let error = feed(&[start(), off]).unwrap_err();
    assert!(
        matches!(error, DeltaError::ChangeFeedOff { version: 1 }),
        "{error}"
    );
}

#[test]
fn columns_may_be_added_but_not_lost_within_a_range() {
    let (a, b) = (column("a", "long"), column("b", "string"));
    for (first, last, misfit) in [
        (a.clone(), format!("{a},{b}"), None),
        (format!("{a},{b}"), a.clone(), Some("b")),
        (column("a", "integer"), a.clone(), None),
        (a.clone(), column("a", "integer"), Some("a")),
        (a.clone(), column("a", "string"), Some("a")),
    ] {
        let create = vec![HEAD.to_owned(), metadata(true, &first)];
        let result = feed(&[create, vec![metadata(true, &last)]]);
        match misfit {
            None => assert_eq!(result.unwrap().versions.len(), 2, "{first} {last}"),
            Some(name) => assert!(
                matches!(result.unwrap_err(), DeltaError::ChangeFeedSchema { version: 0, column }
                    if column == name),
                "{first} {last}"
            ),
        }
    }
}

#[test]
fn without_the_state_before_a_removal_must_tell_its_file() {
    let lines = |remove: &str| Entry {
        version: TableVersion(7),
        lines: vec![
            HEAD.to_owned(),
            metadata(true, &column("a", "long")),
            remove.to_owned(),
        ],
    };
    let state = || -> TableState {
        let mut replay = crate::replay::Replay::default();
        let entry = lines(r#"{"txn":{"appId":"x","version":1}}"#);
        let log = tarndb_storage::Path::from("_delta_log");
        replay
            .commit(crate::load::entry_actions(&entry, &log).unwrap())
            .unwrap();
        replay.finish(7, "log").unwrap()
    };
    let full = r#"{"remove":{"path":"f","dataChange":true,"extendedFileMetadata":true,"partitionValues":{},"size":9}}"#;
    let mut planner = FeedPlanner::at(state());
    planner.commit(&lines(full), 0).unwrap();
    let feed = planner.finish().unwrap().unwrap();
    assert_eq!(word(&feed.versions[0].reads[0]), "delete f");

    let bare = r#"{"remove":{"path":"f","dataChange":true}}"#;
    let error = FeedPlanner::at(state())
        .commit(&lines(bare), 0)
        .unwrap_err();
    assert!(
        matches!(error, DeltaError::RemovalTellsTooLittle { .. }),
        "{error}"
    );
}
