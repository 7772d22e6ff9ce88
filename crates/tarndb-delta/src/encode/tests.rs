//! Tests of encoding commits: what is written and what is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_table::*;
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TimestampMs, TxnId, Uuid};

use super::encode;
use crate::DeltaCodec;
use crate::action::{Action, Change, parse_lines};
use crate::error::DeltaError;
use crate::state::DeltaState;

pub(super) fn definition(properties: &[(&str, &str)], fields: Vec<Field>) -> TableDefinition {
    TableDefinition {
        id: TableId(Uuid::from_u128(1)),
        name: "t".to_owned(),
        schema: Schema { fields },
        partition_columns: Vec::new(),
        properties: properties
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        description: None,
    }
}

fn stamp(version: u64) -> CommitStamp {
    CommitStamp {
        txn: TxnId(Uuid::from_u128(2)),
        timestamp: TimestampMs(1000 + version as i64),
        version: TableVersion(version),
        read_version: version.checked_sub(1).map(TableVersion),
        database: DatabaseId(Uuid::from_u128(3)),
        db_version: DbVersion(version + 5),
        engine: "tarndb/test",
        isolation: "Serializable",
    }
}

static NO_APP_TXNS: BTreeMap<String, i64> = BTreeMap::new();

pub(super) fn commit<'a>(
    head: Option<&'a TableState>,
    create: Option<&'a TableDefinition>,
) -> Commit<'a> {
    Commit {
        head,
        create,
        operation: "WRITE",
        parameters: BTreeMap::new(),
        metrics: BTreeMap::new(),
        adds: &[],
        updates: &[],
        removes: &[],
        changes: &[],
        app_txns: &NO_APP_TXNS,
        metadata: &[],
        restored: None,
        data_change: true,
        stamp: stamp(head.map_or(0, |head| head.version.0 + 1)),
    }
}

pub(super) fn long(name: &str) -> Field {
    Field::new(name, DataType::Long, true)
}

pub(super) fn file(path: &str, rows: u64) -> DataFile {
    DataFile {
        path: path.to_owned(),
        raw_path: path.replace(' ', "%20"),
        partition_values: BTreeMap::new(),
        size_bytes: 10,
        modification_time_ms: 7,
        stats: Some(Arc::new(Statistics {
            num_records: Some(rows),
            columns: BTreeMap::new(),
            tight_bounds: true,
        })),
        raw_stats: None,
        deletion: Deletion::None,
        base_row_id: None,
        default_row_commit_version: None,
        tags: BTreeMap::new(),
        clustering_provider: None,
        held: None,
        beside: None,
    }
}

fn vector(name: &str, cardinality: i64) -> DvDescriptor {
    DvDescriptor {
        storage: DvStorage::Inline,
        path_or_inline: name.to_owned(),
        offset: None,
        size_in_bytes: 34,
        cardinality,
    }
}

fn created(properties: &[(&str, &str)], adds: &[DataFile]) -> TableState {
    let definition = definition(properties, vec![long("a")]);
    let entry = encode(&Commit {
        adds,
        ..commit(None, Some(&definition))
    })
    .unwrap();
    DeltaCodec::default().apply(None, &entry).unwrap()
}

pub(super) fn applied(head: &TableState, entry: &Entry) -> TableState {
    DeltaCodec::default().apply(Some(head), entry).unwrap()
}

pub(super) fn changes(entry: &Entry) -> Vec<Change> {
    let actions = parse_lines(entry.lines.iter().map(String::as_str), "f").unwrap();
    let Some(Action::CommitInfo(info)) = actions.into_iter().next() else {
        panic!("commitInfo is the first line");
    };
    info.tarndb.unwrap().changes
}

pub(super) fn set(key: &str, value: &str) -> MetadataChange {
    MetadataChange::SetProperty {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

#[test]
fn new_table_is_written_so_that_every_reader_can_read_it() {
    let definition = definition(&[("owner", "me")], vec![long("a")]);
    let commit = commit(None, Some(&definition));
    let entry = encode(&commit).unwrap();
    assert_eq!(encode(&commit).unwrap(), entry, "deterministic");
    expect_test::expect![[r#"
        {"commitInfo":{"timestamp":1000,"inCommitTimestamp":1000,"operation":"WRITE","operationParameters":{},"operationMetrics":{},"isolationLevel":"Serializable","isBlindAppend":false,"engineInfo":"tarndb/test","txnId":"00000000-0000-0000-0000-000000000002","tarndb":{"created":true}}}
        {"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["domainMetadata","inCommitTimestamp","tarndbManaged"]}}
        {"metaData":{"id":"00000000-0000-0000-0000-000000000001","name":"t","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":[],"createdTime":1000,"configuration":{"delta.enableInCommitTimestamps":"true","owner":"me"}}}
        {"domainMetadata":{"domain":"tarndb","configuration":"{\"databaseId\":\"00000000-0000-0000-0000-000000000003\",\"dbVersion\":5}","removed":false}}"#]]
    .assert_eq(&entry.lines.join("\n"));
}

#[test]
fn first_vector_raises_the_protocol_and_keeps_what_is_known_of_the_file() {
    let head = created(&[], &[file("a b", 10), file("c", 10)]);
    let updates = [
        FileUpdate {
            old: head.files.get("a b").unwrap(),
            new: Some(vector("x", 2)),
        },
        FileUpdate {
            old: head.files.get("c").unwrap(),
            new: None,
        },
    ];
    let entry = encode(&Commit {
        updates: &updates,
        ..commit(Some(&head), None)
    })
    .unwrap();
    let state = applied(&head, &entry);
    let delta = DeltaState::of(&state).unwrap();
    assert_eq!(delta.protocol.min_reader_version, 3);
    assert!(delta.protocol.lists_reader_feature("deletionVectors"));
    assert_eq!(state.properties["delta.enableDeletionVectors"], "true");
    assert_eq!(state.files.len(), 1);
    let file = state.files.get("a b").unwrap();
    assert_eq!(
        (file.raw_path.as_str(), file.modification_time_ms),
        ("a%20b", 7)
    );
    assert!(!file.stats.as_ref().unwrap().tight_bounds);
    assert_eq!(state.live_rows(), Some(8));
    assert_eq!(
        changes(&entry),
        [
            Change::Set {
                key: "delta.enableDeletionVectors".to_owned(),
                value: "true".to_owned()
            },
            Change::AddFeature {
                name: "deletionVectors".to_owned()
            },
        ]
    );
    let again = [FileUpdate {
        old: file.clone(),
        new: Some(vector("y", 3)),
    }];
    let entry = encode(&Commit {
        updates: &again,
        ..commit(Some(&state), None)
    })
    .unwrap();
    assert!(changes(&entry).is_empty());
    assert!(
        !entry
            .lines
            .iter()
            .any(|line| line.starts_with("{\"metaData") || line.starts_with("{\"protocol"))
    );
    assert_eq!(applied(&state, &entry).live_rows(), Some(7));
}

#[test]
fn changes_of_metadata_are_applied_to_the_head_and_lose_nothing() {
    let head = created(&[("owner", "me")], &[]);
    let mut ntz = Field::new("b", DataType::TimestampNtz, true);
    ntz.metadata
        .insert("unknown".to_owned(), serde_json::json!({"x": 1}));
    let metadata = [
        MetadataChange::AddColumn(ntz.into()),
        set("k", "v"),
        MetadataChange::UnsetProperty {
            key: "owner".to_owned(),
        },
        MetadataChange::SetComment {
            column: Some("A".to_owned()),
            text: Some("c".to_owned()),
        },
        MetadataChange::SetComment {
            column: None,
            text: Some("d".to_owned()),
        },
    ];
    let entry = encode(&Commit {
        metadata: &metadata,
        ..commit(Some(&head), None)
    })
    .unwrap();
    let state = applied(&head, &entry);
    assert_eq!(state.schema.fields[0].comment(), Some("c"));
    assert_eq!(state.schema.fields[1].metadata["unknown"]["x"], 1);
    assert_eq!(state.description.as_deref(), Some("d"));
    assert_eq!(
        state
            .properties
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>(),
        ["delta.enableInCommitTimestamps", "k"]
    );
    assert_eq!(
        DeltaState::of(&state).unwrap().protocol.min_reader_version,
        3
    );
    let told = changes(&entry);
    assert!(told.contains(&Change::AddColumn {
        name: "b".to_owned(),
        r#type: "timestamp_ntz".to_owned(),
        nullable: true
    }));
    assert_eq!(told.len(), 6, "{told:?}");
}

#[test]
fn what_a_user_may_not_do_is_refused_with_advice() {
    let head = created(&[("delta.appendOnly", "true")], &[file("a", 2)]);
    let with = |metadata: &[MetadataChange]| {
        encode(&Commit {
            metadata,
            ..commit(Some(&head), None)
        })
        .unwrap_err()
    };
    let not_null = MetadataChange::AddColumn(Field::new("b", DataType::Long, false).into());
    assert!(matches!(
        with(&[not_null]),
        DeltaError::NewColumnNotNull { .. }
    ));
    assert!(matches!(
        with(&[MetadataChange::AddColumn(long("A").into())]),
        DeltaError::ColumnExists { .. }
    ));
    let comment = MetadataChange::SetComment {
        column: Some("z".to_owned()),
        text: None,
    };
    assert!(matches!(with(&[comment]), DeltaError::NoSuchColumn { .. }));
    for (key, value) in [
        ("delta.checkpointInterval", "often"),
        ("delta.appendOnly", "yes"),
        ("delta.logRetentionDuration", "interval 1 month"),
        ("delta.checkpointPolicy", "v3"),
        ("delta.feature.appendOnly", "on"),
    ] {
        assert!(
            matches!(
                with(&[set(key, value)]),
                DeltaError::PropertyMalformed { .. }
            ),
            "{key}"
        );
    }
    for (key, value) in [
        ("delta.columnMapping.mode", "id"),
        ("delta.enableInCommitTimestamps", "false"),
        ("delta.feature.icebergCompatV2", "supported"),
        ("delta.enableIcebergCompatV2", "true"),
        ("delta.coordinatedCommits.commitCoordinator-preview", "x"),
        ("delta.constraints.c", "a > 0"),
        ("delta.minReaderVersion", "3"),
    ] {
        assert!(
            matches!(with(&[set(key, value)]), DeltaError::PropertyRefused { .. }),
            "{key}"
        );
    }
    let removes = [head.files.get("a").unwrap()];
    let delete = Commit {
        removes: &removes,
        ..commit(Some(&head), None)
    };
    assert!(matches!(
        encode(&delete).unwrap_err(),
        DeltaError::AppendOnly
    ));
    encode(&Commit {
        data_change: false,
        ..delete
    })
    .unwrap();
}

#[test]
fn rules_of_the_format_guard_against_bugs_of_the_caller() {
    let head = created(&[], &[file("a", 2)]);
    let live = head.files.get("a").unwrap();
    let base = || commit(Some(&head), None);
    let rule = |commit: Commit<'_>| match encode(&commit).unwrap_err() {
        DeltaError::IllegalCommit { rule, .. } => rule,
        other => panic!("{other}"),
    };
    let twice = [live.clone(), live.clone()];
    assert!(
        rule(Commit {
            removes: &twice,
            ..base()
        })
        .contains("removed once")
    );
    let unknown = [Arc::new(file("b", 1))];
    assert!(
        rule(Commit {
            removes: &unknown,
            ..base()
        })
        .contains("live file")
    );
    assert!(
        rule(Commit {
            adds: &[file("a", 2)],
            ..base()
        })
        .contains("new path")
    );
    assert!(
        rule(Commit {
            adds: &[file("n", 2), file("n", 2)],
            ..base()
        })
        .contains("added once")
    );
    assert!(
        rule(Commit {
            adds: &[file("../n", 2)],
            ..base()
        })
        .contains("below the table")
    );
    let update = |new| {
        [FileUpdate {
            old: live.clone(),
            new,
        }]
    };
    assert!(
        rule(Commit {
            updates: &update(Some(vector("x", 2))),
            ..base()
        })
        .contains("without live rows")
    );
    let mut partitioned = file("p", 1);
    partitioned.partition_values.insert("a".to_owned(), None);
    assert!(
        rule(Commit {
            adds: &[partitioned],
            ..base()
        })
        .contains("partition values")
    );
    assert!(
        rule(Commit {
            stamp: stamp(2),
            ..base()
        })
        .contains("consecutive")
    );
    let late = CommitStamp {
        timestamp: TimestampMs(1000),
        ..stamp(1)
    };
    assert!(
        rule(Commit {
            stamp: late,
            ..base()
        })
        .contains("timestamps grow")
    );
}

#[test]
fn table_with_a_writer_feature_of_a_newer_build_is_not_written() {
    let head = created(&[], &[]);
    let line = r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["tarndbManaged","newFeature"]}}"#;
    let entry = Entry {
        version: TableVersion(1),
        lines: vec![line.to_owned()],
    };
    let state = applied(&head, &entry);
    let error = encode(&commit(Some(&state), None)).unwrap_err();
    assert!(
        matches!(&error, DeltaError::UnsupportedWriterFeature { feature } if feature == "newFeature")
    );
}

#[test]
fn replaced_schema_brings_its_features() {
    let head = created(&[], &[]);
    let schema = Schema {
        fields: vec![Field::new("x", DataType::Date, false), long("y")],
    };
    let replace = MetadataChange::ReplaceSchema {
        schema,
        partition_columns: vec!["y".to_owned()],
        seed: Uuid::nil(),
    };
    let entry = encode(&Commit {
        metadata: &[replace],
        ..commit(Some(&head), None)
    })
    .unwrap();
    let state = applied(&head, &entry);
    assert_eq!(state.partition_columns, ["y"]);
    assert!(
        DeltaState::of(&state)
            .unwrap()
            .protocol
            .lists_writer_feature("invariants")
    );
}

#[test]
fn application_transactions_are_written_and_replayed() {
    let head = created(&[], &[]);
    let app_txns = BTreeMap::from([("app".to_owned(), 7), ("other".to_owned(), -1)]);
    let entry = encode(&Commit {
        app_txns: &app_txns,
        ..commit(Some(&head), None)
    })
    .unwrap();
    let line = "{\"txn\":{\"appId\":\"app\",\"version\":7,\"lastUpdated\":1001}}";
    assert!(entry.lines.iter().any(|found| found == line), "{entry:?}");
    let state = applied(&head, &entry);
    assert_eq!(state.app_txns.get("app"), Some(&7));
    assert_eq!(state.app_txns.get("other"), Some(&-1));
}
