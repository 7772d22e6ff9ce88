//! Records as bytes: a golden one, round trips, and bytes of no good will.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use expect_test::expect;
use proptest::prelude::*;
use tarndb_table::codec::Entry;
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TimestampMs, TxnId, Uuid};

use super::{
    Action, AttachAction, EntryBody, Record, RecordError, RecordTxn, Staged, TableEntryAction,
    encode, holds_txn, parse,
};

fn table() -> TableId {
    TableId(Uuid::from_u128(2))
}

fn entry(version: u64, body: EntryBody) -> Action {
    let version = TableVersion(version);
    let files = match &body {
        EntryBody::Inline(_) => vec![("d=1/\"x\".parquet".to_owned(), Bytes::from("PAR1\0\u{ff}"))],
        EntryBody::Staged(_) => Vec::new(),
    };
    Action::Entry(TableEntryAction {
        format: "delta".into(),
        table: table(),
        version,
        body,
        notes: None,
        files: files.into_iter().collect(),
    })
}

fn sample() -> Record {
    let lines = vec![
        // Spacing, escapes and numbers stay as they are.
        r#"{"commitInfo": {"a":1.50,"b":"\u00e9/\/"}}"#.to_owned(),
        r#"{"add":{"path":"x%20y.parquet"}}"#.to_owned(),
    ];
    let inline = EntryBody::Inline(Arc::new(Entry {
        version: TableVersion(0),
        lines,
    }));
    let staged = EntryBody::Staged(Staged {
        path: "_delta_log/_staged_commits/x.json".into(),
        size_bytes: 9,
        hash: "sha256:00".into(),
    });
    let txn = |id: u128, timestamp: i64, actions: Vec<Action>| RecordTxn {
        id: TxnId(Uuid::from_u128(id)),
        read_version: DbVersion(40),
        timestamp: TimestampMs(timestamp),
        isolation: "snapshot".into(),
        operation: "WRITE".into(),
        user_metadata: BTreeMap::from([("k".to_owned(), 1.into())]),
        actions,
    };
    let (schema, name, location) = ("main".to_owned(), "T \"1\"".to_owned(), "main/t".to_owned());
    let format = "delta".to_owned();
    let first = vec![
        Action::CreateSchema { name: "s".into() },
        Action::CreateTable {
            id: table(),
            schema,
            name,
            format,
            location,
            bases: vec!["main/s".to_owned()],
        },
        entry(0, inline),
        entry(1, staged),
    ];
    let second = vec![
        Action::RenameTable {
            id: table(),
            schema: "s".into(),
            name: "u".into(),
        },
        Action::DropTable { id: table() },
        Action::AttachTable(AttachAction {
            id: table(),
            schema: "s".into(),
            name: "u".into(),
            format: "delta".into(),
            location: "s3://b/t".into(),
            version: TableVersion(9),
        }),
        Action::DetachTable { id: table() },
        Action::DropSchema { name: "s".into() },
        Action::Fence {
            txns: vec![TxnId(Uuid::from_u128(4)), TxnId(Uuid::from_u128(5))],
        },
    ];
    Record {
        version: DbVersion(42),
        timestamp: TimestampMs(8),
        writer: "tarndb/test".into(),
        reader_features: vec!["r".into()],
        writer_features: Vec::new(),
        txns: vec![txn(1, 7, first), txn(3, 8, second)],
        size_bytes: 0,
    }
}

#[test]
fn the_bytes_of_a_record_do_not_change() {
    let text = String::from_utf8(encode(&sample()).to_vec()).unwrap();
    expect![[r#"
        {"record":{"version":42,"timestamp":8,"writer":"tarndb/test","readerFeatures":["r"],"writerFeatures":[]}}
        {"txn":{"id":"00000000-0000-0000-0000-000000000001","readVersion":40,"timestamp":7,"isolation":"snapshot","operation":"WRITE","userMetadata":{"k":1}}}
        {"createSchema":{"name":"s"}}
        {"createTable":{"bases":["main/s"],"format":"delta","id":"00000000-0000-0000-0000-000000000002","location":"main/t","name":"T \"1\"","schema":"main"}}
        {"delta":{"table":"00000000-0000-0000-0000-000000000002","version":0,"actions":[{"commitInfo": {"a":1.50,"b":"\u00e9/\/"}},{"add":{"path":"x%20y.parquet"}}],"files":{"d=1/\"x\".parquet":"UEFSMQDDvw=="}}}
        {"delta":{"table":"00000000-0000-0000-0000-000000000002","version":1,"staged":"_delta_log/_staged_commits/x.json","bytes":9,"hash":"sha256:00"}}
        {"txn":{"id":"00000000-0000-0000-0000-000000000003","readVersion":40,"timestamp":8,"isolation":"snapshot","operation":"WRITE","userMetadata":{"k":1}}}
        {"renameTable":{"id":"00000000-0000-0000-0000-000000000002","name":"u","schema":"s"}}
        {"dropTable":{"id":"00000000-0000-0000-0000-000000000002"}}
        {"attachTable":{"format":"delta","id":"00000000-0000-0000-0000-000000000002","location":"s3://b/t","name":"u","schema":"s","version":9}}
        {"detachTable":{"id":"00000000-0000-0000-0000-000000000002"}}
        {"dropSchema":{"name":"s"}}
        {"fence":{"txns":["00000000-0000-0000-0000-000000000004","00000000-0000-0000-0000-000000000005"]}}
    "#]]
    .assert_eq(&text);
}

#[test]
fn what_is_encoded_parses_to_the_same() {
    let mut record = sample();
    let bytes = encode(&record);
    record.size_bytes = bytes.len();
    assert_eq!(parse(&bytes).unwrap(), record);
    assert!(holds_txn(&bytes, TxnId(Uuid::from_u128(3))));
    let (third, fourth) = (TxnId(Uuid::from_u128(3)), TxnId(Uuid::from_u128(4)));
    assert!(record.fences(fourth) && !record.holds(fourth));
    assert!(record.holds(third) && !record.fences(third));
    assert!(
        !holds_txn(&bytes, TxnId(Uuid::from_u128(2))),
        "a table's id is no transaction's"
    );
}

#[test]
fn unknown_keys_are_ignored_and_unknown_actions_are_named() {
    let text = "{\"record\":{\"version\":1,\"timestamp\":2,\"new\":[1]}}\n\
                {\"txn\":{\"id\":\"00000000-0000-0000-0000-000000000001\",\"readVersion\":0,\"timestamp\":2}}\n\
                {\"setProperty\":{\"name\":\"x\"}}\n";
    let record = parse(text.as_bytes()).unwrap();
    assert_eq!(
        record.txns[0].actions,
        [Action::Unknown {
            name: "setProperty".into()
        }]
    );
    let id = DatabaseId(Uuid::from_u128(5));
    assert_ne!(
        record.txns[0].actions,
        [Action::CreateDatabase { id, format: 1 }]
    );
}

#[test]
fn each_way_to_be_no_record_has_its_error() {
    let head = "{\"record\":{\"version\":1,\"timestamp\":2}}\n";
    let txn = "{\"txn\":{\"id\":\"00000000-0000-0000-0000-000000000001\",\"readVersion\":0,\"timestamp\":2}}\n";
    let delta = "{\"delta\":{\"table\":\"00000000-0000-0000-0000-000000000001\",\"version\":1}}\n";
    assert!(matches!(parse(b""), Err(RecordError::Empty)));
    assert!(matches!(parse(b"\xff\n"), Err(RecordError::NotText(_))));
    assert!(matches!(
        parse(&head.as_bytes()[..5]),
        Err(RecordError::Torn { line: 1 })
    ));
    let check = |text: String| parse(text.as_bytes()).unwrap_err();
    assert!(matches!(
        check(txn.into()),
        RecordError::OutOfOrder { line: 1, .. }
    ));
    assert!(matches!(
        check(format!("{head}{head}")),
        RecordError::OutOfOrder { line: 2, .. }
    ));
    assert!(matches!(
        check(format!("{head}{delta}")),
        RecordError::OutOfOrder { line: 2, .. }
    ));
    assert!(matches!(
        check(format!("{head}{txn}{delta}")),
        RecordError::NoBody { line: 3 }
    ));
    assert!(matches!(
        check(format!("{head}{{}}\n")),
        RecordError::NotOneAction { line: 2, .. }
    ));
    assert!(matches!(
        check(format!("{head}nonsense\n")),
        RecordError::Malformed { line: 2, .. }
    ));
    let bad_fence = "{\"fence\":{\"txns\":[\"x\"]}}\n";
    assert!(matches!(
        check(format!("{head}{txn}{bad_fence}")),
        RecordError::Malformed { line: 3, .. }
    ));
    let bad_file = "{\"delta\":{\"table\":\"00000000-0000-0000-0000-000000000001\",\"version\":1,\
                    \"actions\":[],\"files\":{\"f\":\"UEF\"}}}\n";
    assert!(matches!(
        check(format!("{head}{txn}{bad_file}")),
        RecordError::InlineFile { line: 3, path } if path == "f"
    ));
    let bad_id = "{\"dropTable\":{\"id\":\"x\"}}\n";
    assert!(matches!(
        check(format!("{head}{txn}{bad_id}")),
        RecordError::Malformed { line: 3, .. }
    ));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _outcome = parse(&bytes);
    }

    #[test]
    fn no_damaged_record_panics(at in 0_usize..1000, byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = encode(&sample()).to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        let _outcome = parse(&bytes);
        holds_txn(&bytes, TxnId(Uuid::nil()));
    }
}
