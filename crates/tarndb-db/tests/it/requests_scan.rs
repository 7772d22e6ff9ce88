//! What reading a table costs in requests, bytes and rounds: promised, so counted.
//! Spec: docs/performance.md, "Reading".

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use futures::TryStreamExt as _;
use object_store::ObjectStore;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use tarndb_db::{Database, DbOptions, Snapshot};
use tarndb_storage::{Counts, DiskCacheOptions, Store};
use tarndb_table::{DataFile, DataType, Predicate, RowSet, Scalar, Schema, TableState};
use tarndb_txn::Operation;
use tarndb_types::TableId;
use tokio::time::Instant;

use crate::support::*;

/// Of each GET.
const LATENCY: Duration = Duration::from_millis(50);
const KIB: u64 = 1 << 10;
const COLUMNS: [&str; 6] = ["id", "a", "b", "c", "d", "e"];
/// 8 bytes in each column that do not compress, in a dictionary to no avail: 480 to 490 KiB each,
/// so that a file is about 3 MB.
const ROWS: i64 = 50_000;
const COLUMN_BYTES: u64 = 480 * KIB;

/// Numbers that do not compress.
fn noise(rows: i64, seed: i64) -> impl Iterator<Item = i64> {
    let mut state = (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..rows).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as i64
    })
}

/// Rows of file `number`: ascending ids of its own, noise in the other columns.
fn file_rows(rows: i64, number: i64) -> RecordBatch {
    let ids = longs(number * rows..(number + 1) * rows);
    let others = COLUMNS.iter().skip(1).enumerate();
    let others = others.map(|(at, name)| (*name, longs(noise(rows, number * 7 + at as i64 + 1))));
    columns(std::iter::once(("id", ids)).chain(others).collect())
}

fn options() -> DbOptions {
    DbOptions {
        inline_file_bytes_max: 0,
        ..manual()
    }
}

/// A table of `files` files with `rows` rows each.
async fn table(world: &World, files: i64, rows: i64) -> TableId {
    let db = Database::create(world.store(), options()).await.unwrap();
    let fields: Vec<_> = COLUMNS.iter().map(|name| (*name, DataType::Long)).collect();
    let id = create(&db, table_of("t", &fields, &[])).await;
    let mut txn = begin(&db).await;
    for number in 0..files {
        txn.append(id, once(file_rows(rows, number))).await.unwrap();
    }
    txn.commit().await.unwrap();
    db.publish().await.unwrap();
    id
}

/// A handle of its own at a distance.
async fn far(world: &World) -> Database {
    open(far_store(world)).await
}

fn far_store(world: &World) -> Store {
    let config = ThrottleConfig {
        wait_get_per_call: LATENCY,
        ..ThrottleConfig::default()
    };
    let objects: Arc<dyn ObjectStore> =
        Arc::new(ThrottledStore::new(Arc::clone(&world.objects), config));
    world.store_over(objects)
}

async fn open(store: Store) -> Database {
    Database::open(store, options()).await.unwrap()
}

/// What a scan cost, its rounds one after the other, and the sum of its first column.
#[derive(Debug)]
struct Cost {
    counts: Counts,
    rounds: u128,
    rows: usize,
}

impl Cost {
    #[track_caller]
    fn assert(&self, requests: u64, rounds: u128) {
        let counts = &self.counts;
        assert_eq!(counts.requests(), requests, "{counts}");
        assert_eq!(counts.get + counts.get_range, requests, "{counts}");
        assert_eq!(self.rounds, rounds, "{self:?}");
    }

    /// Not more than `least` and what footers and borders add.
    #[track_caller]
    fn assert_bytes(&self, least: u64, more: u64) {
        let bytes = self.counts.bytes_read;
        assert!(
            (least..=least + more).contains(&bytes),
            "{bytes} of {least}"
        );
    }
}

struct Reading {
    snapshot: Snapshot,
    id: TableId,
    state: Arc<TableState>,
}

impl Reading {
    async fn of(db: &Database, id: TableId) -> Self {
        let snapshot = db.snapshot().await.unwrap();
        let state = snapshot.table(id).await.unwrap();
        Self {
            snapshot,
            id,
            state,
        }
    }

    fn files(&self) -> Vec<Arc<DataFile>> {
        self.state.files.values().collect()
    }

    async fn scan(&self, columns: &[&str], files: Vec<Arc<DataFile>>) -> Cost {
        let fields = columns
            .iter()
            .map(|name| self.state.schema.field(name).unwrap().1.clone());
        let columns = Schema::new(fields.collect());
        let meter = self.snapshot.database().store().meter().clone();
        let (before, begun) = (meter.counts(), Instant::now());
        let rows = self
            .snapshot
            .scan(self.id, &self.state, &columns, files)
            .unwrap();
        let rows: Vec<_> = rows.try_collect().await.unwrap();
        Cost {
            counts: meter.counts() - before,
            rounds: begun.elapsed().as_millis() / LATENCY.as_millis(),
            rows: rows.iter().map(|(_, rows)| rows.positions.len()).sum(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_scan_takes_two_rounds_and_the_next_one_needs_no_footer() {
    let world = World::new();
    let id = table(&world, 5, ROWS).await;
    let db = far(&world).await;
    let reading = Reading::of(&db, id).await;
    // A footer and a column of each file.
    let first = reading.scan(&["a"], reading.files()).await;
    first.assert(10, 2);
    first.assert_bytes(5 * (COLUMN_BYTES + 64 * KIB), 5 * 16 * KIB);
    assert_eq!(first.rows, 5 * ROWS as usize);
    let second = reading.scan(&["b"], reading.files()).await;
    second.assert(5, 1);
    second.assert_bytes(5 * COLUMN_BYTES, 5 * 16 * KIB);
    // The footers are known to the handle, not to this snapshot of it.
    let reading = Reading::of(&db, id).await;
    reading.scan(&["a"], reading.files()).await.assert(5, 1);
}

#[tokio::test(start_paused = true)]
async fn near_columns_are_one_request_and_far_ones_one_each() {
    let world = World::new();
    let id = table(&world, 2, ROWS).await;
    let db = far(&world).await;
    let reading = Reading::of(&db, id).await;
    reading.scan(&["a"], reading.files()).await;
    // Two columns between them are less than 1 MiB, three are more.
    reading
        .scan(&["a", "d"], reading.files())
        .await
        .assert(2, 1);
    let apart = reading.scan(&["a", "e"], reading.files()).await;
    apart.assert(4, 1);
    apart.assert_bytes(2 * 2 * COLUMN_BYTES, 2 * 2 * 16 * KIB);
    reading.scan(&COLUMNS, reading.files()).await.assert(2, 1);
}

#[tokio::test(start_paused = true)]
async fn small_files_are_one_request_each_and_many_take_one_round_for_sixteen() {
    let world = World::new();
    let id = table(&world, 40, 500).await;
    let db = far(&world).await;
    let reading = Reading::of(&db, id).await;
    let first = reading.scan(&["a"], reading.files()).await;
    first.assert(40, 3);
    let all: u64 = reading.files().iter().map(|file| file.size_bytes).sum();
    assert_eq!(first.counts.bytes_read, all);
    let second = reading.scan(&["a"], reading.files()).await;
    assert_eq!(second.counts.requests(), 40, "{second:?}");
    assert!(second.rounds <= 3, "{second:?}");
    second.assert_bytes(40 * 500 * 8, 40 * KIB);
}

#[tokio::test(start_paused = true)]
async fn only_files_that_can_match_are_asked() {
    let world = World::new();
    let id = table(&world, 6, ROWS).await;
    let db = far(&world).await;
    let mut txn = db.begin(options_of_txn()).await.unwrap();
    txn.table(id).await.unwrap();
    let meter = db.store().meter().clone();
    let before = meter.counts();
    let given = columns(vec![("id", longs([3 * ROWS + 5, 3 * ROWS + 6]))]);
    let report = txn.upsert(id, &["id"], once(given)).await.unwrap();
    assert_eq!((report.updated, report.files_read), (2, 1));
    let cost = meter.counts() - before;
    // Footer, key column; then the other columns of the rows that are replaced; the new file.
    assert_eq!(
        (cost.get_range, cost.put, cost.requests()),
        (3, 1, 4),
        "{cost}"
    );
}

fn options_of_txn() -> tarndb_db::TxnOptions {
    tarndb_db::TxnOptions::default()
}

/// Deletes every third row, so that the vectors are too large to ride in the log.
async fn delete_some(world: &World, id: TableId) {
    let db = open(world.store()).await;
    let mut txn = begin(&db).await;
    let state = txn.table(id).await.unwrap();
    let mut seed = 1_u64;
    let mut rows = BTreeMap::new();
    for path in state.files.paths() {
        let chosen: RowSet = (0..ROWS as u64)
            .filter(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                seed >> 63 == 0
            })
            .collect();
        rows.insert(path.clone(), chosen);
    }
    txn.delete_rows(id, rows, Operation::Delete).await.unwrap();
    txn.commit().await.unwrap();
    db.publish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn deletion_vectors_come_in_the_round_of_the_footers() {
    let world = World::new();
    let id = table(&world, 5, ROWS).await;
    delete_some(&world, id).await;
    let db = far(&world).await;
    let reading = Reading::of(&db, id).await;
    let vectors = reading
        .files()
        .iter()
        .filter(|file| !file.deletion.is_none())
        .count();
    assert_eq!(vectors, 5);
    let first = reading.scan(&["a"], reading.files()).await;
    first.assert(15, 2);
    assert!(first.rows < 4 * ROWS as usize && first.rows > 2 * ROWS as usize);
    let second = reading.scan(&["a"], reading.files()).await;
    second.assert(5, 1);
    assert_eq!(second.rows, first.rows);
    // As many footers as vectors, all at the same time, also where rows are looked up.
    let db = far(&world).await;
    let mut txn = begin(&db).await;
    txn.table(id).await.unwrap();
    let (before, begun) = (db.store().meter().counts(), Instant::now());
    let given = columns(vec![("id", longs((0..5).map(|file| file * ROWS + 1)))]);
    let report = txn.upsert(id, &["id"], once(given)).await.unwrap();
    assert_eq!(report.files_read, 5);
    let cost = db.store().meter().counts() - before;
    assert!(cost.requests() >= 15, "{cost}");
    assert!(
        begun.elapsed() <= LATENCY * (2 + u32::try_from(report.updated).unwrap()),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn an_overwrite_by_predicate_reads_its_files_together() {
    let world = World::new();
    let id = table(&world, 8, ROWS).await;
    let db = far(&world).await;
    let mut txn = begin(&db).await;
    txn.table(id).await.unwrap();
    let begun = Instant::now();
    let nothing = futures::stream::empty::<Result<RecordBatch, std::convert::Infallible>>();
    let predicate = Predicate::Compare {
        column: "a".to_owned(),
        op: tarndb_table::Comparison::Equal,
        value: Scalar::Long(1),
    };
    txn.overwrite_where(id, &predicate, nothing, false)
        .await
        .unwrap();
    assert_eq!(begun.elapsed().as_millis() / LATENCY.as_millis(), 2);
}

#[tokio::test]
async fn with_a_warm_cache_on_disk_no_data_is_asked_of_the_store() {
    let world = World::new();
    let id = table(&world, 3, ROWS).await;
    let folder = tempfile::tempdir().unwrap();
    let cached = |identity: &str| {
        let cache = DiskCacheOptions {
            folder: folder.path().to_owned(),
            bytes_max: 1 << 30,
        };
        world.store().caching(cache, identity)
    };
    let db = open(cached("here")).await;
    let reading = Reading::of(&db, id).await;
    let cold = reading.scan(&COLUMNS, reading.files()).await;
    assert!(cold.counts.get_range >= 3, "{cold:?}");
    assert_eq!(
        reading
            .scan(&COLUMNS, reading.files())
            .await
            .counts
            .requests(),
        0
    );
    // Another process of the same machine: neither footers nor data.
    let db = open(cached("here")).await;
    let reading = Reading::of(&db, id).await;
    let warm = reading.scan(&COLUMNS, reading.files()).await;
    assert_eq!(
        (warm.counts.requests(), warm.rows),
        (0, cold.rows),
        "{warm:?}"
    );
    // Another store with files of the same names.
    let db = open(cached("elsewhere")).await;
    let reading = Reading::of(&db, id).await;
    assert!(reading.scan(&["a"], reading.files()).await.counts.get_range >= 3);
    // A check asks the store, whatever is cached.
    let before = db.store().meter().counts();
    assert_clean(&db).await;
    let cost = db.store().meter().counts() - before;
    assert!(cost.bytes_read > 3 * 5 * COLUMN_BYTES, "{cost}");
}

#[tokio::test]
async fn damage_behind_a_warm_handle_is_found_by_check() {
    let world = World::new();
    let id = table(&world, 1, 500).await;
    let db = open(world.store()).await;
    let reading = Reading::of(&db, id).await;
    reading.scan(&["a"], reading.files()).await;
    let key = world
        .keys("")
        .await
        .into_iter()
        .find(|key| key.ends_with(".parquet"))
        .unwrap();
    let mut bytes = world.get(&key).await.unwrap().to_vec();
    // The footer, which the handle knows.
    let last = bytes.len() - 9;
    bytes[last - 40..last].fill(0xff);
    world.put(&key, bytes).await;
    let report = db.check(true, |_| {}).await.unwrap();
    assert!(!report.is_clean());
}
