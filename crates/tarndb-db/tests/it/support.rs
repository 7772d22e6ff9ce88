//! A world of handles over one in-memory store, and short words for what tests do.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt as _};
use tarndb_db::{
    Committed, Database, DbError, DbOptions, NewTable, PublishMode, Snapshot, Transaction,
    TxnOptions,
};
use tarndb_storage::{Context, Path, Store};
use tarndb_table::parquet::read::{ReadOptions, read_file, read_file_rows};
use tarndb_table::{DataType, Field, RowSet, Schema, TableState, row_text};
use tarndb_txn::Operation;
use tarndb_types::TableId;

static SEEDS: AtomicU64 = AtomicU64::new(1);

/// A row of the tests' tables: `id`, `n`.
pub(crate) type Row = (i64, i64);

/// One store and any number of handles.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) objects: Arc<dyn ObjectStore>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            objects: Arc::new(InMemory::new()),
        }
    }

    /// A handle's store: its own meter and its own random numbers.
    pub(crate) fn store(&self) -> Store {
        self.store_over(Arc::clone(&self.objects))
    }

    pub(crate) fn store_over(&self, objects: Arc<dyn ObjectStore>) -> Store {
        let seed = SEEDS.fetch_add(1, Ordering::SeqCst);
        Store::new(objects, "memory://test", Context::seeded(seed))
    }

    pub(crate) async fn create(&self) -> Database {
        Database::create(self.store(), manual()).await.unwrap()
    }

    pub(crate) async fn open(&self) -> Database {
        self.try_open().await.unwrap()
    }

    pub(crate) async fn try_open(&self) -> Result<Database, DbError> {
        Database::open(self.store(), manual()).await
    }

    pub(crate) async fn get(&self, key: &str) -> Option<Bytes> {
        let got = self.objects.get(&Path::from(key)).await.ok()?;
        Some(got.bytes().await.unwrap())
    }

    pub(crate) async fn put(&self, key: &str, bytes: impl Into<Bytes>) {
        let bytes: Bytes = bytes.into();
        self.objects
            .put(&Path::from(key), bytes.into())
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self, key: &str) {
        self.objects.delete(&Path::from(key)).await.unwrap();
    }

    pub(crate) async fn keys(&self, prefix: &str) -> Vec<String> {
        let listed = self.objects.list(Some(&Path::from(prefix)));
        let objects: Vec<_> = listed.try_collect().await.unwrap();
        let mut keys: Vec<String> = objects
            .into_iter()
            .map(|object| object.location.to_string())
            .collect();
        keys.sort();
        keys
    }
}

pub(crate) fn record_key(version: u64) -> String {
    format!("_tarndb/log/{version:020}.json")
}

pub(crate) fn manual() -> DbOptions {
    DbOptions {
        publish: PublishMode::Manual,
        ..DbOptions::default()
    }
}

/// A new table with one property.
pub(crate) fn table_with(name: &str, key: &str, value: &str) -> NewTable {
    let mut table = new_table(name);
    table.properties.insert(key.to_owned(), value.to_owned());
    table
}

pub(crate) fn new_table(name: &str) -> NewTable {
    NewTable {
        name: name.to_owned(),
        schema: Schema::new(vec![
            Field::new("id", DataType::Long, true),
            Field::new("n", DataType::Long, true),
        ]),
        partition_columns: Vec::new(),
        properties: BTreeMap::new(),
        comment: None,
    }
}

pub(crate) async fn create_table(db: &Database, name: &str) -> TableId {
    create(db, new_table(name)).await
}

pub(crate) async fn create(db: &Database, table: NewTable) -> TableId {
    let mut txn = begin(db).await;
    let id = txn.create_table("main", table).await.unwrap();
    txn.commit().await.unwrap();
    id
}

pub(crate) async fn begin(db: &Database) -> Transaction {
    db.begin(TxnOptions::default()).await.unwrap()
}

pub(crate) fn batch(rows: &[Row]) -> RecordBatch {
    let schema = new_table("t").schema.to_arrow();
    let ids = Int64Array::from_iter_values(rows.iter().map(|row| row.0));
    let numbers = Int64Array::from_iter_values(rows.iter().map(|row| row.1));
    RecordBatch::try_new(schema, vec![Arc::new(ids), Arc::new(numbers)]).unwrap()
}

pub(crate) async fn append(txn: &mut Transaction, id: TableId, rows: &[Row]) {
    let batches = futures::stream::iter([Ok::<_, Infallible>(batch(rows))]);
    txn.append(id, batches).await.unwrap();
}

pub(crate) async fn insert(db: &Database, id: TableId, rows: &[Row]) -> Committed {
    let mut txn = begin(db).await;
    append(&mut txn, id, rows).await;
    txn.commit().await.unwrap()
}

/// A table of any columns.
pub(crate) fn table_of(name: &str, columns: &[(&str, DataType)], partitions: &[&str]) -> NewTable {
    let fields = columns
        .iter()
        .map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    NewTable {
        schema: Schema::new(fields.collect()),
        partition_columns: partitions.iter().map(|name| (*name).to_owned()).collect(),
        ..new_table(name)
    }
}

/// A batch of nullable columns.
pub(crate) fn columns(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

pub(crate) fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

pub(crate) fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

pub(crate) fn once(
    batch: RecordBatch,
) -> impl futures::Stream<Item = Result<RecordBatch, Infallible>> {
    futures::stream::iter([Ok(batch)])
}

/// All rows as text, sorted.
pub(crate) async fn told(db: &Database, id: TableId) -> Vec<String> {
    told_at(&db.snapshot().await.unwrap(), id).await
}

pub(crate) async fn told_at(snapshot: &Snapshot, id: TableId) -> Vec<String> {
    let state = snapshot.table(id).await.unwrap();
    let location = snapshot.entry(id).unwrap().location.clone();
    let mut rows = Vec::new();
    for file in state.files.values() {
        let deleted = snapshot.deleted_rows(id, &file.deletion).await.unwrap();
        let batches = read_file(
            snapshot.database().store(),
            &location,
            &file,
            &state.schema,
            &state.partition_columns,
            Some(&deleted),
        );
        let batches: Vec<_> = batches.await.unwrap().try_collect().await.unwrap();
        for batch in batches {
            rows.extend((0..batch.num_rows()).map(|row| row_text(&batch, row, &state.schema)));
        }
    }
    rows.sort();
    rows
}

/// Rows of a state with the file and position of each, sorted by id.
async fn located(
    store: &Store,
    location: &Path,
    state: &TableState,
    deleted: BTreeMap<String, Arc<RowSet>>,
) -> Vec<(Row, String, u64)> {
    let mut rows = Vec::new();
    for file in state.files.values() {
        let mut stream = read_file_rows(
            store,
            location,
            &file,
            &state.schema,
            &state.partition_columns,
            deleted.get(&file.path).map(Arc::as_ref),
            ReadOptions::default(),
        )
        .await
        .unwrap();
        while let Some(live) = stream.try_next().await.unwrap() {
            let ids = live.batch.column(0).as_primitive::<Int64Type>();
            let numbers = live.batch.column(1).as_primitive::<Int64Type>();
            for (at, position) in live.positions.iter().enumerate() {
                rows.push((
                    (ids.value(at), numbers.value(at)),
                    file.path.clone(),
                    *position,
                ));
            }
        }
    }
    rows.sort();
    rows
}

pub(crate) async fn rows_at(snapshot: &Snapshot, id: TableId) -> Vec<Row> {
    let state = snapshot.table(id).await.unwrap();
    let location = snapshot.entry(id).unwrap().location.clone();
    let mut deleted = BTreeMap::new();
    for file in state.files.values() {
        let rows = snapshot.deleted_rows(id, &file.deletion).await.unwrap();
        deleted.insert(file.path.clone(), rows);
    }
    let rows = located(snapshot.database().store(), &location, &state, deleted).await;
    rows.into_iter().map(|(row, _, _)| row).collect()
}

pub(crate) async fn rows(db: &Database, id: TableId) -> Vec<Row> {
    rows_at(&db.snapshot().await.unwrap(), id).await
}

async fn located_in(txn: &Transaction, id: TableId) -> Vec<(Row, String, u64)> {
    let state = txn.table(id).await.unwrap();
    let mut deleted = BTreeMap::new();
    for file in state.files.values() {
        let rows = txn.deleted_rows(id, &file.deletion).await.unwrap();
        deleted.insert(file.path.clone(), rows);
    }
    let store = txn.snapshot().database().store();
    located(store, &txn.location(id).unwrap(), &state, deleted).await
}

pub(crate) async fn rows_in(txn: &Transaction, id: TableId) -> Vec<Row> {
    located_in(txn, id)
        .await
        .into_iter()
        .map(|(row, _, _)| row)
        .collect()
}

/// Deletes the rows that match and returns them.
pub(crate) async fn try_delete(
    txn: &mut Transaction,
    id: TableId,
    operation: Operation,
    matches: impl Fn(Row) -> bool,
) -> Result<Vec<Row>, DbError> {
    let mut positions: BTreeMap<String, RowSet> = BTreeMap::new();
    let mut deleted = Vec::new();
    for (row, file, position) in located_in(txn, id).await {
        if matches(row) {
            positions.entry(file).or_default().insert(position);
            deleted.push(row);
        }
    }
    let count = txn.delete_rows(id, positions, operation).await?;
    assert_eq!(count, deleted.len() as u64);
    Ok(deleted)
}

pub(crate) async fn delete(txn: &mut Transaction, id: TableId, matches: impl Fn(Row) -> bool) {
    try_delete(txn, id, Operation::Delete, matches)
        .await
        .unwrap();
}

/// Replaces the rows that match by what `change` makes of them.
pub(crate) async fn update(
    txn: &mut Transaction,
    id: TableId,
    matches: impl Fn(Row) -> bool,
    change: impl Fn(Row) -> Row,
) -> usize {
    let old = try_delete(txn, id, Operation::Update, matches)
        .await
        .unwrap();
    let new: Vec<Row> = old.iter().map(|row| change(*row)).collect();
    let mut writer = txn.writer(id).await.unwrap();
    writer.write(&batch(&new)).await.unwrap();
    let written = writer.finish().await.unwrap();
    txn.add_files(id, written, Operation::Update).await.unwrap();
    new.len()
}

/// Runs an autocommit update until no retryable conflict is in its way.
pub(crate) async fn update_retrying(
    db: &Database,
    id: TableId,
    matches: impl Fn(Row) -> bool,
    change: impl Fn(Row) -> Row,
) -> u32 {
    for attempt in 1..=1000 {
        let mut txn = begin(db).await;
        update(&mut txn, id, &matches, &change).await;
        match txn.commit().await {
            Ok(_) => return attempt,
            Err(error) if error.is_retryable() => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no success in 1000 attempts");
}

#[track_caller]
pub(crate) fn assert_conflict(result: Result<Committed, DbError>, retryable: bool) -> String {
    match result {
        Err(DbError::Conflict {
            retryable: found,
            conflict,
            table,
        }) => {
            assert_eq!(found, retryable, "{conflict}");
            conflict.describe(table.as_deref())
        }
        other => panic!("expected a conflict, found {other:?}"),
    }
}

pub(crate) async fn assert_clean(db: &Database) {
    let report = db.check(true, |_| {}).await.unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

pub(crate) fn kinds(report: &tarndb_db::CheckReport) -> Vec<&'static str> {
    let mut kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    kinds.dedup();
    kinds
}
