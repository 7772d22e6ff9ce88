//! Files in records, read with hardly any memory.

use std::sync::Arc;

use bytes::Bytes;
use tarndb_log::LogDir;
use tarndb_storage::{Context, Origin as _, Path, Store};
use tarndb_table::codec::Entry;
use tarndb_types::{DbVersion, TableId, TableVersion, TimestampMs, TxnId, Uuid};

use super::InlineFiles;
use crate::catalog::{Catalog, TableEntry};
use crate::layout;
use crate::record::{Action, EntryBody, Record, TableEntryAction, encode, parse};

const TABLE: TableId = TableId(Uuid::from_u128(2));

/// A record at version 1 that adds files to the first version of a table at `main/t`.
fn record(files: &[(&str, &str)]) -> Record {
    let files = files.iter();
    let entry = TableEntryAction {
        format: "delta".into(),
        table: TABLE,
        version: TableVersion::ZERO,
        body: EntryBody::Inline(Arc::new(Entry {
            version: TableVersion::ZERO,
            lines: vec!["{}".into()],
        })),
        notes: None,
        files: files
            .map(|(path, text)| ((*path).to_owned(), Bytes::from((*text).to_owned())))
            .collect(),
    };
    let text = "{\"record\":{\"version\":1,\"timestamp\":2}}\n\
                {\"txn\":{\"id\":\"00000000-0000-0000-0000-000000000001\",\"readVersion\":0,\"timestamp\":2}}\n";
    let mut record = parse(text.as_bytes()).unwrap();
    record.txns[0].actions.push(Action::Entry(entry));
    record
}

fn table() -> TableEntry {
    let id = TxnId(Uuid::nil());
    let mut catalog = Catalog::empty(
        tarndb_types::DatabaseId(id.0),
        DbVersion::ZERO,
        TimestampMs(1),
    );
    let create = Action::CreateTable {
        id: TABLE,
        schema: "main".into(),
        name: "t".into(),
        format: "delta".into(),
        location: "main/t".into(),
        bases: Vec::new(),
    };
    catalog.restore_schema("main".into()).unwrap();
    let applied = catalog.apply_action(&create, DbVersion(1), TimestampMs(2));
    applied.unwrap();
    catalog.table(TABLE).unwrap().as_ref().clone()
}

#[tokio::test]
async fn forgotten_bytes_are_read_from_the_record_again_and_stored_files_from_their_paths() {
    let store = Store::memory(Context::seeded(1));
    let log = LogDir::new(store.clone(), layout::log_dir());
    let record = record(&[("a", "first file"), ("p=1/b", "second file")]);
    store.put(&log.key(1), encode(&record)).await.unwrap();
    let files = InlineFiles::with_memory(log.clone(), 10);
    let (a, b) = (Path::from("main/t/a"), Path::from("main/t/p=1/b"));
    assert_eq!(files.find(&a).await.unwrap(), None, "not noted");
    let entry = record.entry(TABLE, TableVersion::ZERO).unwrap();
    files.note(&table(), DbVersion(1), entry).unwrap();
    for _ in 0..2 {
        assert_eq!(files.find(&a).await.unwrap().unwrap(), "first file");
        assert_eq!(files.find(&b).await.unwrap().unwrap(), "second file");
    }
    assert!(store.meter().counts().get >= 2, "the memory holds one file");
    let other = Path::from("main/t/c");
    assert_eq!(files.find(&other).await.unwrap(), None);

    // Whoever cleans records up published their versions before.
    store.delete(&log.key(1)).await.unwrap();
    assert_eq!(files.find(&a).await.unwrap(), None);
    store
        .put(&log.key(1), Bytes::from_static(b"torn"))
        .await
        .unwrap();
    let error = files.find(&a).await.unwrap_err();
    assert!(error.to_string().contains("main/t/a"), "{error}");

    files.forget(TABLE, TableVersion::ZERO);
    assert_eq!(files.find(&a).await.unwrap(), None);
    assert_eq!(files.find(&b).await.unwrap(), None);
}

#[tokio::test]
async fn a_path_that_leaves_the_table_is_refused() {
    let log = LogDir::new(Store::memory(Context::seeded(1)), layout::log_dir());
    let files = InlineFiles::new(log);
    let record = record(&[("../u/a", "x")]);
    let entry = record.entry(TABLE, TableVersion::ZERO).unwrap();
    files.note(&table(), DbVersion(1), entry).unwrap_err();
}
