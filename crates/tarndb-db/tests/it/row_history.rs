//! Row tracking and the change data feed against a model that follows every row.
//!
//! Invariant of the tests: a row keeps its id as long as it lives, no id is given out twice, and
//! the feed of a version is exactly what differs between its rows and those before.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use futures::TryStreamExt as _;
use object_store::prefix::PrefixStore;
use serde_json::Value;
use tarndb_db::{CompactOptions, Database, Snapshot, Transaction};
use tarndb_delta::native::native_changes;
use tarndb_storage::Path;
use tarndb_table::parquet::read::{ReadOptions, read_file, read_file_rows};
use tarndb_table::{DataFile, DataType, Deletion, Field, Origin, RowIdColumns, RowSet, TableState};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use crate::support::*;

const ROW_TRACKING: &str = "delta.enableRowTracking";
const CHANGE_FEED: &str = "delta.enableChangeDataFeed";

/// A row with its stable id and commit version.
pub(crate) type Tracked = (Row, i64, i64);

/// Live rows of a table with their stable ids, sorted.
pub(crate) async fn tracked(snapshot: &Snapshot, id: TableId) -> Vec<Tracked> {
    let state = snapshot.table(id).await.unwrap();
    let columns = RowIdColumns::of(&state.properties).unwrap();
    let schema = columns.added_to(&state.schema);
    let location = snapshot.entry(id).unwrap().location.clone();
    let mut rows = Vec::new();
    for file in state.files.values() {
        let deleted = snapshot.deleted_rows(id, &file.deletion).await.unwrap();
        let store = snapshot.database().store();
        let partitions = &state.partition_columns;
        let options = ReadOptions::default();
        let read = read_file_rows(
            store,
            &location,
            &file,
            &schema,
            partitions,
            Some(&deleted),
            options,
        );
        let read: Vec<_> = read.await.unwrap().try_collect().await.unwrap();
        for live in read {
            let batch = columns.resolved(&file, &live).unwrap();
            let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().clone();
            let [key, n, row_id, version] = [column(0), column(1), column(2), column(3)];
            for row in 0..batch.num_rows() {
                let values = (key.value(row), n.value(row));
                rows.push((values, row_id.value(row), version.value(row)));
            }
        }
    }
    rows.sort_unstable();
    rows
}

/// Rows that match, with where they are.
async fn found(
    txn: &Transaction,
    id: TableId,
    matches: impl Fn(Row) -> bool,
) -> Vec<(Row, Origin)> {
    let state = txn.table(id).await.unwrap();
    let location = txn.location(id).unwrap();
    let mut rows = Vec::new();
    for file in state.files.values() {
        let deleted = txn.deleted_rows(id, &file.deletion).await.unwrap();
        let store = txn.snapshot().database().store();
        let partitions = &state.partition_columns;
        let options = ReadOptions::default();
        let schema = &state.schema;
        let read = read_file_rows(
            store,
            &location,
            &file,
            schema,
            partitions,
            Some(&deleted),
            options,
        );
        let read: Vec<_> = read.await.unwrap().try_collect().await.unwrap();
        for live in read {
            let [key, n] = [0, 1].map(|at| live.batch.column(at).as_primitive::<Int64Type>());
            for (at, position) in live.positions.iter().enumerate() {
                let row = (key.value(at), n.value(at));
                let (file, position) = (file.clone(), *position);
                if matches(row) {
                    rows.push((row, Origin { file, position }));
                }
            }
        }
    }
    rows
}

fn by_path(rows: &[(Row, Origin)]) -> BTreeMap<String, RowSet> {
    let mut found: BTreeMap<String, RowSet> = BTreeMap::new();
    for (_, origin) in rows {
        let rows = found.entry(origin.file.path.clone()).or_default();
        rows.insert(origin.position);
    }
    found
}

/// An UPDATE as SQL does it.
pub(crate) async fn update_rows(
    txn: &mut Transaction,
    id: TableId,
    matches: impl Fn(Row) -> bool,
    change: impl Fn(Row) -> Row,
) {
    let old = found(txn, id, matches).await;
    if old.is_empty() {
        return;
    }
    let new: Vec<Row> = old.iter().map(|(row, _)| change(*row)).collect();
    let origins: Vec<Origin> = old.iter().map(|(_, origin)| origin.clone()).collect();
    let mut writer = txn.change_writer(id, None).await.unwrap();
    let new = batch(&new);
    writer.write_updated(&new, &origins, None).await.unwrap();
    let written = writer.finish().await.unwrap();
    let rows = by_path(&old);
    txn.replace_rows(id, rows, written, Operation::Update)
        .await
        .unwrap();
}

/// The changes that a version's actions tell, as `(row, kind)`, by the rules of the protocol.
async fn feed(
    db: &Database,
    world: &World,
    id: TableId,
    before: &TableState,
    after: &TableState,
) -> Vec<(Row, String)> {
    db.publish().await.unwrap();
    let location = db
        .snapshot()
        .await
        .unwrap()
        .entry(id)
        .unwrap()
        .location
        .clone();
    let key = format!("{location}/_delta_log/{:020}.json", after.version.0);
    let bytes = world.get(&key).await.unwrap();
    let text = std::str::from_utf8(&bytes).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let actions = |name: &str| -> Vec<Value> {
        let found = lines.iter().filter_map(|line| line.get(name).cloned());
        found.collect()
    };
    let mut changes = Vec::new();
    let cdc = actions("cdc");
    if !cdc.is_empty() {
        for action in cdc {
            assert_eq!(action["dataChange"], false);
            changes.extend(change_rows(db, &location, &action, after).await);
        }
        changes.sort();
        return changes;
    }
    let changing = |action: &Value| action["dataChange"] == true;
    let path = |action: &Value| action["path"].as_str().unwrap().to_owned();
    let adds: BTreeSet<String> = actions("add")
        .iter()
        .filter(|a| changing(a))
        .map(path)
        .collect();
    let removes = actions("remove");
    let removes: BTreeSet<String> = removes.iter().filter(|a| changing(a)).map(path).collect();
    for path in adds.union(&removes) {
        let old = match removes.contains(path) {
            true => Some(before.files.get(path).unwrap()),
            false => None,
        };
        let new = match adds.contains(path) {
            true => Some(after.files.get(path).unwrap()),
            false => None,
        };
        let old = live(db, id, before, old.as_deref()).await;
        let new = live(db, id, after, new.as_deref()).await;
        let gone = old.iter().filter(|(at, _)| !new.contains_key(at));
        changes.extend(gone.map(|(_, row)| (*row, "delete".to_owned())));
        let came = new.iter().filter(|(at, _)| !old.contains_key(at));
        changes.extend(came.map(|(_, row)| (*row, "insert".to_owned())));
    }
    changes.sort();
    changes
}

/// Live rows of a file by position.
async fn live(
    db: &Database,
    id: TableId,
    state: &TableState,
    file: Option<&DataFile>,
) -> BTreeMap<u64, Row> {
    let Some(file) = file else {
        return BTreeMap::new();
    };
    let snapshot = db.snapshot().await.unwrap();
    let location = snapshot.entry(id).unwrap().location.clone();
    let deleted = snapshot.deleted_rows(id, &file.deletion).await.unwrap();
    let (store, schema, options) = (db.store(), &state.schema, ReadOptions::default());
    let partitions = &state.partition_columns;
    let read = read_file_rows(
        store,
        &location,
        file,
        schema,
        partitions,
        Some(&deleted),
        options,
    );
    let read: Vec<_> = read.await.unwrap().try_collect().await.unwrap();
    let mut rows = BTreeMap::new();
    for live in read {
        let [key, n] = [0, 1].map(|at| live.batch.column(at).as_primitive::<Int64Type>());
        for (at, position) in live.positions.iter().enumerate() {
            rows.insert(*position, (key.value(at), n.value(at)));
        }
    }
    rows
}

/// Rows of a file of changed rows.
async fn change_rows(
    db: &Database,
    location: &Path,
    action: &Value,
    state: &TableState,
) -> Vec<(Row, String)> {
    let path = action["path"].as_str().unwrap();
    assert!(path.starts_with("_change_data/"), "{path}");
    let values = action["partitionValues"].as_object().unwrap().iter();
    let values = values.map(|(key, value)| (key.clone(), value.as_str().map(str::to_owned)));
    let file = DataFile {
        path: path.to_owned(),
        raw_path: path.to_owned(),
        partition_values: values.collect(),
        size_bytes: action["size"].as_u64().unwrap(),
        modification_time_ms: 0,
        stats: None,
        raw_stats: None,
        deletion: Deletion::None,
        base_row_id: None,
        default_row_commit_version: None,
        tags: BTreeMap::new(),
        clustering_provider: None,
        held: None,
        beside: None,
    };
    let mut schema = state.schema.as_ref().clone();
    schema
        .fields
        .push(Field::new("_change_type", DataType::String, false));
    let partitions = &state.partition_columns;
    let read = read_file(db.store(), location, &file, &schema, partitions, None);
    let read: Vec<_> = read.await.unwrap().try_collect().await.unwrap();
    let mut rows = Vec::new();
    for batch in read {
        let [key, n] = [0, 1].map(|at| batch.column(at).as_primitive::<Int64Type>());
        let kinds = batch.column(2).as_string::<i32>();
        for row in 0..batch.num_rows() {
            rows.push(((key.value(row), n.value(row)), kinds.value(row).to_owned()));
        }
    }
    rows
}

/// What the changes come to: how often each row was added, less how often it went.
fn net(changes: &[(Row, String)]) -> BTreeMap<Row, i64> {
    let mut net = BTreeMap::new();
    for (row, kind) in changes {
        let count = match kind.as_str() {
            "insert" | "update_postimage" => 1,
            "delete" | "update_preimage" => -1,
            other => panic!("{other}"),
        };
        *net.entry(*row).or_default() += count;
    }
    net.retain(|_, count| *count != 0);
    net
}

fn difference(before: &[Tracked], after: &[Tracked]) -> BTreeMap<Row, i64> {
    let mut net: BTreeMap<Row, i64> = BTreeMap::new();
    for (row, _, _) in after {
        *net.entry(*row).or_default() += 1;
    }
    for (row, _, _) in before {
        *net.entry(*row).or_default() -= 1;
    }
    net.retain(|_, count| *count != 0);
    net
}

/// A small generator: the tests must be the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn key(&mut self) -> i64 {
        i64::try_from(self.below(40)).unwrap()
    }
}

struct Model {
    world: World,
    db: Database,
    id: TableId,
    /// Ids ever given out, and the key that each belongs to.
    given: BTreeMap<i64, i64>,
    last: Vec<Tracked>,
    state: std::sync::Arc<TableState>,
    /// Next number, so that a new form always differs.
    next: i64,
    /// What each version changed.
    changes: BTreeMap<u64, BTreeMap<Row, i64>>,
}

impl Model {
    async fn new(partitioned: bool, vectors: bool) -> Self {
        let world = World::new();
        let db = world.create().await;
        let partitions: &[&str] = if partitioned { &["n"] } else { &[] };
        let columns = [("id", DataType::Long), ("n", DataType::Long)];
        let mut table = table_of("t", &columns, partitions);
        for key in [ROW_TRACKING, CHANGE_FEED] {
            table.properties.insert(key.to_owned(), "true".to_owned());
        }
        if !vectors {
            let (key, value) = ("tarndb.deletionVectors", "off");
            table.properties.insert(key.to_owned(), value.to_owned());
        }
        let id = create(&db, table).await;
        let state = db.snapshot().await.unwrap().table(id).await.unwrap();
        Self {
            world,
            db,
            id,
            given: BTreeMap::new(),
            last: Vec::new(),
            state,
            next: 0,
            changes: BTreeMap::new(),
        }
    }

    fn fresh(&mut self) -> i64 {
        self.next += 1;
        // Few values, where they are partitions.
        if self.state.partition_columns.is_empty() {
            self.next
        } else {
            self.next % 3
        }
    }

    async fn statement(&mut self, txn: &mut Transaction, dice: &mut Dice) {
        let (a, b) = (dice.key(), dice.key());
        let (low, high) = (a.min(b), a.max(b));
        let within = move |row: Row| row.0 >= low && row.0 <= high;
        let n = self.fresh();
        match dice.below(12) {
            0..=2 => {
                let taken: BTreeSet<i64> = rows_in(txn, self.id)
                    .await
                    .iter()
                    .map(|row| row.0)
                    .collect();
                let new: Vec<Row> = (0..40)
                    .filter(|key| !taken.contains(key) && dice.below(3) == 0)
                    .map(|key| (key, n))
                    .collect();
                append(txn, self.id, &new).await;
            }
            3..=5 => update_rows(txn, self.id, within, |row| (row.0, row.1 + n + 1)).await,
            6..=7 => {
                let keys: BTreeSet<i64> = [a, b, dice.key()].into();
                let source: Vec<Row> = keys.into_iter().map(|key| (key, n)).collect();
                txn.upsert(self.id, &["id"], once(batch(&source)))
                    .await
                    .unwrap();
            }
            8..=9 => delete(txn, self.id, within).await,
            10 => delete(txn, self.id, |_| dice_even(low)).await,
            _ => {
                txn.truncate(self.id).await.unwrap();
                append(txn, self.id, &[(a, n)]).await;
            }
        }
    }

    /// Checks a new version, if there is one.
    async fn check(&mut self, moved: bool) {
        let snapshot = self.db.snapshot().await.unwrap();
        let state = snapshot.table(self.id).await.unwrap();
        if state.version == self.state.version {
            return;
        }
        let rows = tracked(&snapshot, self.id).await;
        let known: BTreeMap<i64, i64> = self.last.iter().map(|(row, id, _)| (row.0, *id)).collect();
        let unique: BTreeSet<i64> = rows.iter().map(|(_, id, _)| *id).collect();
        assert_eq!(unique.len(), rows.len(), "{rows:?}");
        let version = i64::try_from(state.version.0).unwrap();
        for (row, row_id, changed) in &rows {
            let kept = known.get(&row.0) == Some(row_id);
            // A key that was deleted and inserted within one transaction is a new row.
            assert!(kept || !self.given.contains_key(row_id), "{row:?} {row_id}");
            self.given.insert(*row_id, row.0);
            let same = self.last.contains(&(*row, *row_id, *changed));
            assert!(same || *changed == version, "{row:?} {changed} {version}");
        }
        if moved {
            assert_eq!(rows, self.last);
        }
        let told = feed(&self.db, &self.world, self.id, &self.state, &state).await;
        let changed = difference(&self.last, &rows);
        self.changes.insert(state.version.0, changed.clone());
        assert_eq!(net(&told), changed, "{told:?}");
        let count = |kind: &str| told.iter().filter(|(_, told)| told == kind).count();
        assert_eq!(
            count("update_preimage"),
            count("update_postimage"),
            "{told:?}"
        );
        (self.last, self.state) = (rows, state);
    }
}

fn dice_even(low: i64) -> bool {
    low % 2 == 0
}

async fn run(seed: u64, partitioned: bool, vectors: bool) {
    let mut model = Model::new(partitioned, vectors).await;
    let mut dice = Dice(seed);
    for _ in 0..30 {
        if dice.below(5) == 0 {
            let options = CompactOptions {
                all: dice.below(2) == 0,
                ..CompactOptions::default()
            };
            let report = model.db.compact(model.id, &options).await.unwrap();
            assert!(report.versions.len() <= 1);
            model.check(true).await;
            continue;
        }
        let mut txn = begin(&model.db).await;
        for _ in 0..=dice.below(3) {
            model.statement(&mut txn, &mut dice).await;
        }
        txn.commit().await.unwrap();
        model.check(false).await;
    }
    assert_clean(&model.db).await;
    // A reader of the published table finds the same.
    let told = read_feed(&model.world).await;
    model.changes.retain(|_, changes| !changes.is_empty());
    assert_eq!(told, model.changes);
}

/// The change feed of the published table as a reader by path finds it.
async fn read_feed(world: &World) -> BTreeMap<u64, BTreeMap<Row, i64>> {
    let folder = PrefixStore::new(std::sync::Arc::clone(&world.objects), "main/t");
    let store = world.store_over(std::sync::Arc::new(folder));
    let feed = native_changes(&store, 0, None).await.unwrap();
    let batches = feed.batches(store, Path::default());
    let batches: Vec<_> = batches.try_collect().await.unwrap();
    let mut changes: BTreeMap<u64, Vec<(Row, String)>> = BTreeMap::new();
    for batch in batches {
        let [key, n, version] =
            [0, 1, 3].map(|at| batch.column(at).as_primitive::<Int64Type>().clone());
        let kinds = batch.column(2).as_string::<i32>();
        for row in 0..batch.num_rows() {
            let version = u64::try_from(version.value(row)).unwrap();
            let change = ((key.value(row), n.value(row)), kinds.value(row).to_owned());
            changes.entry(version).or_default().push(change);
        }
    }
    let nets = changes
        .iter()
        .map(|(version, changes)| (*version, net(changes)));
    nets.filter(|(_, net)| !net.is_empty()).collect()
}

#[tokio::test]
async fn rows_keep_their_ids_and_the_feed_tells_each_version_with_vectors() {
    for seed in 1..=4 {
        run(seed * 7919, false, true).await;
    }
}

#[tokio::test]
async fn rows_keep_their_ids_and_the_feed_tells_each_version_copy_on_write() {
    for seed in 1..=4 {
        run(seed * 104_729, false, false).await;
    }
}

#[tokio::test]
async fn rows_keep_their_ids_and_the_feed_tells_each_version_partitioned() {
    for (seed, vectors) in [(11, true), (12, false), (13, true)] {
        run(seed * 1_299_709, true, vectors).await;
    }
}

#[tokio::test]
async fn an_update_is_told_as_both_images_and_a_deletion_by_vector_needs_no_file() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, table_with("t", CHANGE_FEED, "true")).await;
    insert(&db, id, &[(1, 1), (2, 2), (3, 3)]).await;
    let before = db.snapshot().await.unwrap().table(id).await.unwrap();
    let mut txn = begin(&db).await;
    update_rows(&mut txn, id, |row| row.0 == 2, |row| (row.0, 20)).await;
    append(&mut txn, id, &[(4, 4)]).await;
    delete(&mut txn, id, |row| row.0 == 3).await;
    txn.commit().await.unwrap();
    let after = db.snapshot().await.unwrap().table(id).await.unwrap();
    let told = feed(&db, &world, id, &before, &after).await;
    let expected = [
        ((2, 2), "update_preimage"),
        ((2, 20), "update_postimage"),
        ((3, 3), "delete"),
        ((4, 4), "insert"),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(row, kind)| (*row, (*kind).to_owned()))
        .collect();
    assert_eq!(told, expected);
    let change_files = world.keys("main/t/_change_data").await.len();
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 1).await;
    txn.commit().await.unwrap();
    assert_eq!(world.keys("main/t/_change_data").await.len(), change_files);
}

#[tokio::test]
async fn row_tracking_enabled_later_numbers_every_row_beside_a_concurrent_append() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1), (2, 2)]).await;
    let mut enable = begin(&db).await;
    enable
        .set_property(id, ROW_TRACKING, Some("true"))
        .await
        .unwrap();
    insert(&other, id, &[(3, 3)]).await;
    let mut update = begin(&other).await;
    update_rows(&mut update, id, |row| row.0 == 1, |row| (row.0, 10)).await;
    enable.commit().await.unwrap();
    // It was written without the ids of its rows.
    assert_conflict(update.commit().await, true);
    let snapshot = db.snapshot().await.unwrap();
    let ids: BTreeSet<i64> = tracked(&snapshot, id)
        .await
        .iter()
        .map(|row| row.1)
        .collect();
    assert_eq!(ids, BTreeSet::from([0, 1, 2]));
    assert_clean(&db).await;
}

#[tokio::test]
async fn ids_are_not_given_out_again_after_all_rows_are_gone() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, table_with("t", ROW_TRACKING, "true")).await;
    insert(&db, id, &[(1, 1), (2, 2)]).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |_| true).await;
    txn.commit().await.unwrap();
    insert(&db, id, &[(3, 3)]).await;
    let mut txn = begin(&db).await;
    txn.truncate(id).await.unwrap();
    txn.commit().await.unwrap();
    insert(&db, id, &[(4, 4)]).await;
    let snapshot = db.snapshot().await.unwrap();
    assert_eq!(tracked(&snapshot, id).await, [((4, 4), 3, 5)]);
}

#[tokio::test]
async fn concurrent_appends_get_different_ids() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let id = create(&db, table_with("t", ROW_TRACKING, "true")).await;
    let mut first = begin(&db).await;
    let mut second = begin(&other).await;
    append(&mut first, id, &[(1, 1), (2, 2)]).await;
    append(&mut second, id, &[(3, 3)]).await;
    first.commit().await.unwrap();
    second.commit().await.unwrap();
    let snapshot = db.snapshot().await.unwrap();
    let expected = [((1, 1), 0, 1), ((2, 2), 1, 1), ((3, 3), 2, 2)];
    assert_eq!(tracked(&snapshot, id).await, expected);
}

#[tokio::test]
async fn ex_12_row_ids_stay_over_repeated_upserts_deletions_and_compactions() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, table_with("t", ROW_TRACKING, "true")).await;
    let all: Vec<Row> = (0..50).map(|key| (key, 0)).collect();
    insert(&db, id, &all).await;
    let first = tracked(&db.snapshot().await.unwrap(), id).await;
    let ids: BTreeMap<i64, i64> = first.iter().map(|(row, id, _)| (row.0, *id)).collect();
    let options = CompactOptions {
        all: true,
        ..CompactOptions::default()
    };
    for round in 1..=6_i64 {
        let mut txn = begin(&db).await;
        let source: Vec<Row> = (0..50)
            .filter(|key| key % 3 == round % 3)
            .map(|key| (key, round))
            .collect();
        txn.upsert(id, &["id"], once(batch(&source))).await.unwrap();
        txn.commit().await.unwrap();
        let mut txn = begin(&db).await;
        delete(&mut txn, id, |row| row.0 == 40 + round).await;
        txn.commit().await.unwrap();
        if round % 2 == 0 {
            db.compact(id, &options).await.unwrap();
        }
        let rows = tracked(&db.snapshot().await.unwrap(), id).await;
        // A key that was deleted and upserted again is another row.
        for (row, row_id, _) in rows.iter().filter(|(row, _, _)| row.0 <= 40) {
            assert_eq!(ids[&row.0], *row_id, "{row:?} in round {round}");
        }
        let unique: BTreeSet<i64> = rows.iter().map(|(_, id, _)| *id).collect();
        assert_eq!(unique.len(), rows.len());
    }
    assert_clean(&db).await;
}

#[tokio::test]
async fn bc_15_no_row_id_and_no_file_name_comes_back_after_all_rows_are_gone() {
    for way in ["delete", "overwrite", "delete and compact"] {
        let world = World::new();
        let db = world.create().await;
        let id = create(&db, table_with("t", ROW_TRACKING, "true")).await;
        let old: Vec<Row> = (0..100).map(|key| (key, 0)).collect();
        let new: Vec<Row> = (100..120).map(|key| (key, 1)).collect();
        insert(&db, id, &old).await;
        let files = |state: &TableState| -> BTreeSet<String> {
            state.files.values().map(|file| file.path.clone()).collect()
        };
        let before = db.snapshot().await.unwrap();
        let given: BTreeSet<i64> = ids(&tracked(&before, id).await);
        let named = files(&before.table(id).await.unwrap());
        let mut txn = begin(&db).await;
        if way == "overwrite" {
            let mut writer = txn.writer(id).await.unwrap();
            writer.write(&batch(&new)).await.unwrap();
            let written = writer.finish().await.unwrap();
            txn.overwrite(id, written, false).await.unwrap();
        } else {
            delete(&mut txn, id, |_| true).await;
        }
        txn.commit().await.unwrap();
        if way == "delete and compact" {
            let options = CompactOptions {
                all: true,
                ..CompactOptions::default()
            };
            db.compact(id, &options).await.unwrap();
        }
        if way != "overwrite" {
            insert(&world.open().await, id, &new).await;
        }
        for handle in [world.open().await, db] {
            let after = handle.snapshot().await.unwrap();
            let rows = tracked(&after, id).await;
            assert_eq!(rows.len(), 20, "{way}");
            let fresh = ids(&rows);
            assert_eq!(fresh.len(), 20, "{way}");
            assert!(given.is_disjoint(&fresh), "{way}: {fresh:?}");
            let files = files(&after.table(id).await.unwrap());
            assert!(named.is_disjoint(&files), "{way}");
        }
    }
}

fn ids(rows: &[Tracked]) -> BTreeSet<i64> {
    rows.iter().map(|(_, id, _)| *id).collect()
}
