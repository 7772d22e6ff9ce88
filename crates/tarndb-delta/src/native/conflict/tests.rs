//! The matrix of conflicts, cell by cell, and the cases that it does not show.

use std::collections::BTreeSet;

use tarndb_table::{Comparison, Entry, Predicate, Scalar, TableCodec, TableState};
use tarndb_types::TableVersion;

use super::{Current, Judged, NativeIsolation, Reads, Taken, Winner, judge};
use crate::DeltaCodec;
use crate::action::{Action, parse_lines};

const PROTOCOL: &str = r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#;

fn metadata(configuration: &str, field: &str) -> String {
    format!(
        r#"{{"metaData":{{"id":"m","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{{\"type\":\"struct\",\"fields\":[{{\"name\":\"a\",\"type\":\"long\",\"nullable\":true,\"metadata\":{field}}},{{\"name\":\"p\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{{}}}}]}}","partitionColumns":["p"],"configuration":{configuration}}}}}"#
    )
}

fn table() -> TableState {
    let base = metadata(r#"{"k":"v"}"#, "{}");
    let files = [add("f1", 1, true), add("f2", 2, true)];
    let lines = [PROTOCOL.to_owned(), base].into_iter().chain(files);
    let entry = Entry {
        version: TableVersion(0),
        lines: lines.collect(),
    };
    DeltaCodec::default().apply(None, &entry).unwrap()
}

fn add(path: &str, p: i32, data_change: bool) -> String {
    format!(
        r#"{{"add":{{"path":"{path}","partitionValues":{{"p":"{p}"}},"size":1,"modificationTime":1,"dataChange":{data_change}}}}}"#
    )
}

fn remove(path: &str, data_change: bool) -> String {
    format!(r#"{{"remove":{{"path":"{path}","deletionTimestamp":1,"dataChange":{data_change}}}}}"#)
}

fn info(blind: bool) -> String {
    format!(r#"{{"commitInfo":{{"operation":"WRITE","isBlindAppend":{blind}}}}}"#)
}

const TXN: &str = r#"{"txn":{"appId":"app","version":1}}"#;

fn actions(lines: &[String]) -> Vec<Action> {
    parse_lines(lines.iter().map(String::as_str), "test").unwrap()
}

/// Rows of `p = 1`, which lie in `f1`.
fn reads_p1() -> Reads {
    Reads::Rows {
        partitions: Some(Predicate::Compare {
            column: "P".to_owned(),
            op: Comparison::Equal,
            value: Scalar::Long(1),
        }),
        files: BTreeSet::from(["f1".to_owned()]),
    }
}

fn reads_files(files: &[&str]) -> Reads {
    Reads::Rows {
        partitions: None,
        files: files.iter().map(|file| (*file).to_owned()).collect(),
    }
}

/// A current transaction by its name in the matrix.
fn current(name: &str, isolation: NativeIsolation) -> Current {
    let set = || metadata(r#"{"k":"w"}"#, "{}");
    let (reads, lines) = match name {
        "blind append" => (Reads::Nothing, vec![add("n", 1, true)]),
        "delete" => (reads_p1(), vec![remove("f1", true), add("n", 1, true)]),
        "compaction" => (
            reads_files(&["f1"]),
            vec![remove("f1", false), add("n", 1, false)],
        ),
        "overwrite" => (
            Reads::Table,
            vec![remove("f1", true), remove("f2", true), add("n", 1, true)],
        ),
        "metadata" => (Reads::Nothing, vec![set()]),
        "metadata that read" => (Reads::Table, vec![set()]),
        "streaming append" => (Reads::Nothing, vec![add("n", 1, true), TXN.to_owned()]),
        "create" => (Reads::Nothing, vec![PROTOCOL.to_owned(), set()]),
        other => panic!("{other}"),
    };
    Current::new(&actions(&lines), reads, isolation, name == "create").unwrap()
}

/// A winner by its name in the matrix; in `p = 1` and on `f1`, unless it is "elsewhere".
fn winner(name: &str) -> Vec<String> {
    let (file, p) = if name.ends_with("elsewhere") {
        ("f2", 2)
    } else {
        ("f1", 1)
    };
    match name.trim_end_matches(" elsewhere") {
        "blind append" => vec![info(true), add("w", p, true)],
        "append" => vec![info(false), add("w", p, true)],
        "rewrite" => vec![info(false), remove(file, true), add("w", p, true)],
        "removal" => vec![info(false), remove(file, true)],
        "compaction" => vec![info(false), remove(file, false), add("w", p, false)],
        "metadata" => vec![info(false), metadata(r#"{"k":"x"}"#, "{}")],
        "txn" => vec![info(true), TXN.to_owned()],
        other => panic!("{other}"),
    }
}

fn verdict(current: &Current, lines: &[String]) -> String {
    let (state, actions) = (table(), actions(lines));
    let winner = Winner::new(1, &state, &actions).unwrap();
    match judge(current, &winner).unwrap() {
        Judged::Compatible(_) => "ok".to_owned(),
        Judged::Conflict(conflict) => format!("{:?}", conflict.kind),
    }
}

const WINNERS: [&str; 11] = [
    "blind append",
    "blind append elsewhere",
    "append",
    "append elsewhere",
    "rewrite",
    "rewrite elsewhere",
    "removal",
    "compaction",
    "compaction elsewhere",
    "metadata",
    "txn",
];

fn matrix(isolation: NativeIsolation) -> String {
    let mut text = String::new();
    for name in [
        "blind append",
        "delete",
        "compaction",
        "overwrite",
        "metadata",
        "metadata that read",
        "streaming append",
        "create",
    ] {
        let verdicts = WINNERS.map(|w| verdict(&current(name, isolation), &winner(w)));
        text.push_str(&format!("{name}: {}\n", verdicts.join(" ")));
    }
    text
}

#[test]
fn matrix_of_serializable_is_that_of_the_protocol() {
    // Columns: WINNERS.
    expect_test::expect![[r#"
        blind append: ok ok ok ok ok ok ok ok ok Metadata ok
        delete: Append ok Append ok Append ok DeleteRead DeleteRead ok Metadata ok
        compaction: ok ok ok ok DeleteRead ok DeleteRead DeleteRead ok Metadata ok
        overwrite: Append Append Append Append Append Append DeleteRead DeleteRead DeleteRead Metadata ok
        metadata: ok ok ok ok ok ok ok ok ok Metadata ok
        metadata that read: Append Append Append Append Append Append DeleteRead DeleteRead DeleteRead Metadata ok
        streaming append: ok ok ok ok ok ok ok ok ok Metadata Transaction
        create: Exists Exists Exists Exists Exists Exists Exists Exists Exists Exists Exists
    "#]]
    .assert_eq(&matrix(NativeIsolation::Serializable));
}

#[test]
fn write_serializable_ignores_blind_appends_unless_metadata_changes() {
    expect_test::expect![[r#"
        blind append: ok ok ok ok ok ok ok ok ok Metadata ok
        delete: ok ok Append ok Append ok DeleteRead DeleteRead ok Metadata ok
        compaction: ok ok ok ok DeleteRead ok DeleteRead DeleteRead ok Metadata ok
        overwrite: ok ok Append Append Append Append DeleteRead DeleteRead DeleteRead Metadata ok
        metadata: ok ok ok ok ok ok ok ok ok Metadata ok
        metadata that read: Append Append Append Append Append Append DeleteRead DeleteRead DeleteRead Metadata ok
        streaming append: ok ok ok ok ok ok ok ok ok Metadata Transaction
        create: Exists Exists Exists Exists Exists Exists Exists Exists Exists Exists Exists
    "#]]
    .assert_eq(&matrix(NativeIsolation::WriteSerializable));
}

#[test]
fn level_is_the_tables_and_an_unknown_one_is_the_strictest() {
    for (level, expected) in [
        (None, NativeIsolation::Serializable),
        (Some("Serializable"), NativeIsolation::Serializable),
        (
            Some("writeserializable"),
            NativeIsolation::WriteSerializable,
        ),
        (Some("ReadUncommitted"), NativeIsolation::Serializable),
    ] {
        let level = level.map(|level| ("delta.isolationLevel".to_owned(), level.to_owned()));
        let properties = level.into_iter().collect();
        assert_eq!(NativeIsolation::of_table(&properties), expected);
    }
    let moved = current("compaction", NativeIsolation::Serializable);
    assert_eq!(moved.level(), NativeIsolation::Snapshot);
}

#[test]
fn winner_that_says_nothing_or_lies_counts_as_the_most_it_can_be() {
    let delete = current("delete", NativeIsolation::WriteSerializable);
    let silent = vec![add("w", 1, true)];
    assert_eq!(
        verdict(&delete, &silent),
        "Append",
        "no commitInfo: not blind"
    );
    let liar = vec![info(true), remove("f2", true), add("w", 1, true)];
    assert_eq!(verdict(&delete, &liar), "Append");
}

#[test]
fn reading_without_a_predicate_conflicts_with_an_append_to_any_partition() {
    let lines = [remove("f1", true)];
    let unknown = Current::new(
        &actions(&lines),
        reads_files(&["f1"]),
        NativeIsolation::Serializable,
        false,
    )
    .unwrap();
    assert_eq!(verdict(&unknown, &winner("append elsewhere")), "Append");
    assert_eq!(verdict(&unknown, &winner("compaction elsewhere")), "ok");
}

#[test]
fn spellings_of_one_path_are_one_file() {
    let lines = [remove("f%31", true)];
    let ours = Current::new(
        &actions(&lines),
        Reads::Nothing,
        NativeIsolation::Serializable,
        false,
    )
    .unwrap();
    assert_eq!(verdict(&ours, &winner("removal")), "DeleteDelete");
}

#[test]
fn features_on_the_list_leave_others_alone_and_all_else_stops_them() {
    let appends = current("blind append", NativeIsolation::Serializable);
    let protocol = |reader: Option<&str>, writers: &str| {
        let (version, readers) = match reader {
            Some(name) => (3, format!(r#""readerFeatures":["{name}"],"#)),
            None => (1, String::new()),
        };
        vec![format!(
            r#"{{"protocol":{{"minReaderVersion":{version},"minWriterVersion":7,{readers}"writerFeatures":[{writers}]}}}}"#
        )]
    };
    const OLD: &str = r#""appendOnly","invariants""#;
    for (reader, writers, expected) in [
        (
            Some("deletionVectors"),
            format!(r#"{OLD},"deletionVectors""#),
            "ok",
        ),
        (
            Some("timestampNtz"),
            format!(r#"{OLD},"timestampNtz""#),
            "ok",
        ),
        (None, format!(r#"{OLD},"domainMetadata""#), "ok"),
        (None, format!(r#"{OLD},"inCommitTimestamp""#), "ok"),
        (None, format!(r#"{OLD},"checkConstraints""#), "Protocol"),
        (None, format!(r#"{OLD},"allowColumnDefaults""#), "Protocol"),
        // Dropped: invariants.
        (None, r#""appendOnly""#.to_owned(), "Protocol"),
        // Not written by this build.
        (None, format!(r#"{OLD},"com.example.x""#), "Protocol"),
        (
            Some("com.example.x"),
            format!(r#"{OLD},"com.example.x""#),
            "Protocol",
        ),
    ] {
        assert_eq!(
            verdict(&appends, &protocol(reader, &writers)),
            expected,
            "{writers}"
        );
    }
    let raises = actions(&[PROTOCOL.to_owned()]);
    let raises = Current::new(&raises, Reads::Nothing, NativeIsolation::default(), false).unwrap();
    let both = protocol(
        Some("deletionVectors"),
        &format!(r#"{OLD},"deletionVectors""#),
    );
    assert_eq!(verdict(&raises, &both), "Protocol");
}

#[test]
fn properties_on_the_list_leave_others_alone_and_all_else_stops_them() {
    let appends = current("blind append", NativeIsolation::Serializable);
    let mapped = r#"{\"delta.columnMapping.id\":1,\"delta.columnMapping.physicalName\":\"a\"}"#;
    let renamed = r#"{\"delta.columnMapping.id\":1,\"delta.columnMapping.physicalName\":\"b\"}"#;
    for (configuration, field, expected) in [
        (r#"{"k":"v"}"#, "{}", "ok"),
        (
            r#"{"k":"v","delta.enableDeletionVectors":"true"}"#,
            "{}",
            "ok",
        ),
        (
            r#"{"k":"v","delta.enableDeletionVectors":"false"}"#,
            "{}",
            "Metadata",
        ),
        (
            r#"{"k":"v","delta.enableInCommitTimestamps":"true"}"#,
            "{}",
            "ok",
        ),
        (r#"{"k":"v","delta.enableRowTracking":"true"}"#, "{}", "ok"),
        (r#"{"k":"v","delta.appendOnly":"true"}"#, "{}", "Metadata"),
        (
            r#"{"k":"v","delta.columnMapping.mode":"id"}"#,
            "{}",
            "Metadata",
        ),
        (
            r#"{"k":"v","delta.columnMapping.mode":"name"}"#,
            mapped,
            "ok",
        ),
        (
            r#"{"k":"v","delta.columnMapping.mode":"name"}"#,
            renamed,
            "Metadata",
        ),
        (r#"{"k":"v"}"#, r#"{\"comment\":\"c\"}"#, "Metadata"),
        ("{}", "{}", "Metadata"),
    ] {
        let lines = [metadata(configuration, field)];
        assert_eq!(
            verdict(&appends, &lines),
            expected,
            "{configuration} {field}"
        );
    }
}

#[test]
fn domain_of_both_conflicts_but_for_row_ids_which_are_given_anew() {
    let domain = |name: &str| {
        format!(r#"{{"domainMetadata":{{"domain":"{name}","configuration":"","removed":false}}}}"#)
    };
    let writes = |name: &str| {
        let lines = [domain(name), add("n", 1, true)];
        Current::new(
            &actions(&lines),
            Reads::Nothing,
            NativeIsolation::default(),
            false,
        )
        .unwrap()
    };
    for (ours, theirs, expected) in [
        ("x", "x", "Domain"),
        ("x", "y", "ok"),
        ("delta.rowTracking", "delta.rowTracking", "ok"),
    ] {
        assert_eq!(verdict(&writes(ours), &[domain(theirs)]), expected);
    }
    let (state, lines) = (table(), [domain("delta.rowTracking")]);
    let theirs = actions(&lines);
    let winner = Winner::new(1, &state, &theirs).unwrap();
    let judged = judge(&writes("delta.rowTracking"), &winner).unwrap();
    let taken = Taken {
        row_ids: true,
        ..Taken::default()
    };
    assert_eq!(judged, Judged::Compatible(taken));
}
