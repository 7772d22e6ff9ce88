//! Vacuum: what goes, what stays, and who meets it.
//!
//! Time is the test's: `DAY`s pass for the store and for everybody's clocks at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tarndb_db::{
    CompactOptions, Database, DbError, DbOptions, DoomedReason, ErrorKind, NewTable, VacuumOptions,
    VacuumReport,
};
use tarndb_storage::Context;
use tarndb_storage::hand_store::HandStore;
use tarndb_table::DataType;
use tarndb_types::{DbVersion, TableId, TimestampMs};

use crate::clock::{HandClock, store_of};
use crate::hook::{Call, HookStore, Reaction, When};
use crate::support::*;
use crate::timed::{pass, timed_by};

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// A world in which time is the test's.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) clock: Arc<HandClock>,
    pub(crate) timed: HandStore,
    pub(crate) world: World,
}

pub(crate) fn options() -> DbOptions {
    DbOptions {
        inline_file_bytes_max: 0,
        ..manual()
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        let clock = HandClock::right();
        let timed = timed_by(&clock);
        let world = World {
            objects: Arc::new(timed.clone()),
        };
        Self {
            clock,
            timed,
            world,
        }
    }

    pub(crate) async fn create(&self) -> Database {
        self.create_with(options()).await
    }

    pub(crate) async fn create_with(&self, options: DbOptions) -> Database {
        let store = store_of(Arc::clone(&self.world.objects), &self.clock, seed());
        Database::create(store, options).await.unwrap()
    }

    pub(crate) async fn open(&self) -> Database {
        self.open_with(options()).await
    }

    pub(crate) async fn open_with(&self, options: DbOptions) -> Database {
        let store = store_of(Arc::clone(&self.world.objects), &self.clock, seed());
        Database::open(store, options).await.unwrap()
    }

    /// When the store says that an object was written.
    pub(crate) async fn time_of(&self, key: &str) -> TimestampMs {
        let store = store_of(Arc::clone(&self.world.objects), &self.clock, seed());
        let info = store.head(&tarndb_storage::Path::from(key)).await.unwrap();
        info.unwrap().last_modified
    }

    /// A handle whose requests the test sees.
    pub(crate) async fn hooked(&self, options: DbOptions) -> (HookStore, Database) {
        let hooks = HookStore::new(&self.world.objects, &self.clock);
        let store = store_of(Arc::new(hooks.clone()), &self.clock, seed());
        let db = Database::open(store, options).await.unwrap();
        (hooks, db)
    }

    pub(crate) fn pass(&self, duration: Duration) {
        pass(&self.clock, duration);
    }

    async fn data_files(&self) -> Vec<String> {
        let keys = self.world.keys("main/t").await;
        let data = keys.into_iter().filter(|key| key.ends_with(".parquet"));
        data.filter(|key| !key.contains("_delta_log")).collect()
    }
}

fn seed() -> u64 {
    Context::system().random_u64()
}

pub(crate) async fn vacuum(db: &Database) -> VacuumReport {
    db.vacuum(&VacuumOptions::default(), |_| {}).await.unwrap()
}

/// Versions 1 to 4 of a new table, each with a row and a file of its own, five days apart; published.
pub(crate) async fn four_ages(scene: &Scene, table: NewTable) -> (Database, TableId) {
    let db = scene.create().await;
    let id = create(&db, table).await;
    for n in 1..=4 {
        let mut txn = begin(&db).await;
        txn.truncate(id).await.unwrap();
        append(&mut txn, id, &[(n, n)]).await;
        txn.commit().await.unwrap();
        scene.pass(5 * DAY);
    }
    db.publish().await.unwrap();
    (db, id)
}

fn keys(report: &VacuumReport) -> Vec<String> {
    report.files().map(|file| file.key.to_string()).collect()
}

async fn replace(db: &Database, id: TableId, row: Row) {
    let mut txn = begin(db).await;
    txn.truncate(id).await.unwrap();
    append(&mut txn, id, &[row]).await;
    txn.commit().await.unwrap();
}

#[tokio::test]
async fn old_versions_go_and_those_of_the_retention_stay_readable() {
    let scene = Scene::new();
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    // Version 2 + n, a day each, each with a file of its own.
    for n in 0..12 {
        replace(&db, id, (n, n)).await;
        scene.pass(DAY);
    }
    db.publish().await.unwrap();
    scene
        .world
        .put("main/t/notes.txt", "not ours".as_bytes())
        .await;
    let early = db.snapshot_at(DbVersion(4)).await.unwrap();
    let dry = VacuumOptions {
        dry_run: true,
        ..VacuumOptions::default()
    };
    let shown = db.vacuum(&dry, |_| {}).await.unwrap();
    assert_eq!(db.snapshot().await.unwrap().version(), DbVersion(13));
    let before = scene.data_files().await;
    assert_eq!(before.len(), 12);
    let report = vacuum(&db).await;
    // 7 days ago the row written 7 days ago had just come.
    assert_eq!(report.horizon, DbVersion(7));
    assert_eq!(report.version, Some(DbVersion(14)));
    assert_eq!(keys(&shown), keys(&report));
    assert_eq!(report.tables, shown.tables);
    assert_eq!(keys(&report).len(), 5);
    let after = scene.data_files().await;
    let gone: BTreeSet<String> = keys(&report).into_iter().collect();
    let kept: Vec<String> = before.into_iter().filter(|k| !gone.contains(k)).collect();
    assert_eq!(after, kept);
    assert!(scene.world.get("main/t/notes.txt").await.is_some());
    for reader in [&db, &scene.open().await] {
        for n in 5..12_i64 {
            let snapshot = reader.snapshot_at(DbVersion(n as u64 + 2)).await.unwrap();
            assert_eq!(rows_at(&snapshot, id).await, [(n, n)]);
        }
        let old = reader.snapshot_at(DbVersion(4)).await.unwrap();
        let error = old.table(id).await.unwrap_err();
        assert!(
            matches!(
                error,
                DbError::VersionVacuumed {
                    wanted: DbVersion(4),
                    horizon: DbVersion(7),
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
    assert!(early.table(id).await.is_err());
    assert_clean(&scene.open().await).await;
    assert_eq!(keys(&vacuum(&db).await), Vec::<String>::new());
}

#[tokio::test]
async fn bc_27_a_file_written_long_ago_stays_for_the_retention_after_its_removal() {
    let scene = Scene::new();
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    insert(&db, id, &[(2, 2)]).await;
    scene.pass(DAY * 60);
    let options = CompactOptions {
        all: true,
        ..CompactOptions::default()
    };
    let compacted = db.compact(id, &options).await.unwrap();
    assert_eq!(compacted.files_rewritten, 2);
    db.publish().await.unwrap();
    scene.pass(DAY);
    assert_eq!(keys(&vacuum(&db).await), Vec::<String>::new());
    let before = db.snapshot_at(DbVersion(3)).await.unwrap();
    assert_eq!(rows_at(&before, id).await, [(1, 1), (2, 2)]);
    scene.pass(DAY * 7);
    let gone = vacuum(&db).await;
    let data = gone
        .files()
        .filter(|file| file.reason == DoomedReason::Unreferenced);
    assert_eq!(data.count(), 2);
    assert_eq!(rows(&scene.open().await, id).await, [(1, 1), (2, 2)]);
    assert_clean(&db).await;
}

#[tokio::test]
async fn what_others_name_or_are_about_to_name_stays() {
    let scene = Scene::new();
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1), (2, 2), (3, 3)]).await;
    // Stored vectors, not inline ones.
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 2).await;
    txn.commit().await.unwrap();
    scene.pass(DAY * 30);
    // An upload that began a moment ago, and one whose writer died a month ago.
    let name = |scene: &Scene| {
        let store = store_of(Arc::clone(&scene.world.objects), &scene.clock, seed());
        format!("main/t/part-{}.parquet", store.context().uuid())
    };
    let (dead, alive) = (name(&scene), name(&scene));
    scene.world.put(&dead, "x".as_bytes()).await;
    scene.pass(DAY * 8);
    scene.world.put(&alive, "x".as_bytes()).await;
    // Nothing was ever published: foreign readers see nothing, the records are all there is.
    let report = vacuum(&db).await;
    assert_eq!(keys(&report), [dead]);
    assert!(scene.world.get(&alive).await.is_some());
    db.publish().await.unwrap();
    assert_eq!(rows(&scene.open().await, id).await, [(1, 1), (3, 3)]);
    assert_clean(&scene.open().await).await;
}

#[tokio::test]
async fn the_newest_published_version_keeps_its_files_however_old_it_is() {
    let scene = Scene::new();
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    replace(&db, id, (1, 1)).await;
    db.publish().await.unwrap();
    let published = scene.data_files().await;
    for n in 2..5 {
        replace(&db, id, (n, n)).await;
        scene.pass(DAY * 9);
    }
    // Foreign readers still stand at version 1, and the versions up to 4 are to be published.
    assert_eq!(keys(&vacuum(&db).await), Vec::<String>::new());
    assert!(
        scene
            .data_files()
            .await
            .iter()
            .any(|key| *key == published[0])
    );
    db.publish().await.unwrap();
    assert_eq!(keys(&vacuum(&db).await).len(), 3);
    assert_eq!(rows(&scene.open().await, id).await, [(4, 4)]);
    assert_clean(&scene.open().await).await;
}

#[tokio::test]
async fn a_transaction_with_files_that_may_be_gone_runs_again() {
    let scene = Scene::new();
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(0, 0)]).await;
    let mut old = begin(&db).await;
    append(&mut old, id, &[(1, 1)]).await;
    scene.pass(DAY * 8);
    let mut young = begin(&db).await;
    append(&mut young, id, &[(2, 2)]).await;
    let report = vacuum(&scene.open().await).await;
    assert_eq!(keys(&report).len(), 1);
    let error = old.commit().await.unwrap_err();
    assert!(matches!(error, DbError::FilesVacuumed { .. }), "{error}");
    assert!(error.is_retryable());
    young.commit().await.unwrap();
    insert(&db, id, &[(1, 1)]).await;
    assert_eq!(rows(&db, id).await, [(0, 0), (1, 1), (2, 2)]);
    assert_clean(&scene.open().await).await;
}

/// The vacuum spares the file (its table is not vacuumed, or nothing is deleted yet); it counts
/// what it may delete.
#[tokio::test]
async fn the_announcement_counts_and_not_what_was_deleted_already() {
    let scene = Scene::new();
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    let other = create_table(&db, "other").await;
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(1, 1)]).await;
    let mut spared = begin(&db).await;
    append(&mut spared, other, &[(2, 2)]).await;
    scene.pass(DAY * 8);
    let (hooks, vacuumer) = scene.hooked(options()).await;
    hooks.set(|call: &Call<'_>| match call.when {
        When::BeforeDelete if call.key.contains("part-") => Reaction::Fail,
        _ => Reaction::Pass,
    });
    let only = VacuumOptions {
        tables: Some([id].into()),
        ..VacuumOptions::default()
    };
    vacuumer.vacuum(&only, |_| {}).await.unwrap_err();
    assert_eq!(scene.data_files().await.len(), 1);
    let error = txn.commit().await.unwrap_err();
    assert!(matches!(error, DbError::FilesVacuumed { .. }), "{error}");
    spared.commit().await.unwrap();
    assert_eq!(rows(&db, other).await, [(2, 2)]);
    assert_eq!(rows(&db, id).await, []);
}

#[tokio::test]
async fn a_vacuum_that_comes_right_before_the_put_is_met() {
    let scene = Scene::new();
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(0, 0)]).await;
    let (hooks, writer) = scene.hooked(options()).await;
    let mut txn = begin(&writer).await;
    append(&mut txn, id, &[(1, 1)]).await;
    let mut once = Some(scene.clone());
    hooks.set(move |call: &Call<'_>| {
        let is_put = call.when == When::BeforePut && call.key == record_key(3);
        match once.take_if(|_| is_put) {
            None => Reaction::Pass,
            Some(scene) => Reaction::Run(Box::pin(async move {
                scene.pass(DAY * 8);
                vacuum(&scene.open().await).await;
            })),
        }
    });
    let error = txn.commit().await.unwrap_err();
    assert!(matches!(error, DbError::FilesVacuumed { .. }), "{error}");
    assert_eq!(rows(&db, id).await, [(0, 0)]);
    assert_clean(&scene.open().await).await;
}

/// Files that one transaction wrote and a later one adds.
#[tokio::test]
async fn files_that_were_prepared_before_the_transaction_are_looked_at() {
    let scene = Scene::new();
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    let preparing = begin(&db).await;
    let mut writer = preparing.writer(id).await.unwrap();
    writer.write(&batch(&[(1, 1)])).await.unwrap();
    let written = writer.finish().await.unwrap();
    drop(preparing);
    scene.pass(DAY * 8);
    vacuum(&scene.open().await).await;
    let mut txn = begin(&db).await;
    let append = tarndb_txn::Operation::Append;
    txn.add_files(id, written, append).await.unwrap();
    let error = txn.commit().await.unwrap_err();
    assert!(matches!(error, DbError::FilesVacuumed { .. }), "{error}");
    assert_eq!(rows(&db, id).await, []);
}

#[tokio::test]
async fn vectors_that_an_attempt_stored_before_the_vacuum_are_stored_again() {
    let scene = Scene::new();
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    let all: Vec<Row> = (0..40_000).map(|n| (n, n)).collect();
    insert(&db, id, &all).await;
    let (hooks, writer) = scene.hooked(options()).await;
    let mut txn = begin(&writer).await;
    // Every other row: a vector too large for the log.
    delete(&mut txn, id, |row| row.0 % 2 == 0 || row.0 % 7 == 1).await;
    let mut once = Some(scene.clone());
    hooks.set(move |call: &Call<'_>| {
        let is_put = call.when == When::BeforePut && call.key == record_key(3);
        match once.take_if(|_| is_put) {
            None => Reaction::Pass,
            Some(scene) => Reaction::Run(Box::pin(async move {
                scene.pass(DAY * 8);
                let report = vacuum(&scene.open().await).await;
                assert_eq!(keys(&report).len(), 1, "{report:?}");
            })),
        }
    });
    txn.commit().await.unwrap();
    let left = all
        .into_iter()
        .filter(|row| row.0 % 2 == 1 && row.0 % 7 != 1);
    assert_eq!(
        rows(&scene.open().await, id).await,
        left.collect::<Vec<_>>()
    );
    assert_clean(&scene.open().await).await;
}

#[tokio::test]
async fn a_dropped_table_goes_after_the_retention_and_is_not_published_again() {
    let scene = Scene::new();
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let mut txn = begin(&db).await;
    txn.drop_table(id).unwrap();
    txn.commit().await.unwrap();
    assert_eq!(keys(&vacuum(&db).await), Vec::<String>::new());
    // Somebody who knows nothing of what comes is to publish it.
    let late = scene.open().await;
    scene.pass(DAY * 8);
    let report = vacuum(&db).await;
    assert!(report.tables.iter().any(|table| table.dropped));
    assert_eq!(scene.world.keys("main/t").await, Vec::<String>::new());
    for publisher in [&db, &scene.open().await, &late] {
        publisher.publish().await.unwrap();
    }
    assert_eq!(scene.world.keys("main/t").await, Vec::<String>::new());
    // Also when the records are forgotten.
    db.checkpoint().await.unwrap();
    scene.open().await.publish().await.unwrap();
    assert_eq!(scene.world.keys("main/t").await, Vec::<String>::new());
    assert_clean(&scene.open().await).await;
    // A table of the same name lies elsewhere.
    let again = create_table(&db, "t").await;
    insert(&db, again, &[(2, 2)]).await;
    assert_eq!(rows(&db, again).await, [(2, 2)]);
}

#[tokio::test]
async fn logs_of_tables_go_below_a_checkpoint_that_was_read_back() {
    let scene = Scene::new();
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    for n in 0..25 {
        insert(&db, id, &[(n, n)]).await;
        db.publish().await.unwrap();
    }
    scene.pass(DAY * 8);
    insert(&db, id, &[(25, 25)]).await;
    db.publish().await.unwrap();
    let log = "main/t/_delta_log";
    let damaged = format!("{log}/{:020}.checkpoint.parquet", 20);
    let checkpoint = scene.world.get(&damaged).await.unwrap();
    let time = TimestampMs(scene.clock.wall.load(std::sync::atomic::Ordering::SeqCst));
    let half = checkpoint.slice(..checkpoint.len() / 2);
    scene.world.put(&damaged, half).await;
    scene
        .timed
        .set_time(&damaged, TimestampMs(time.0 - 8 * 86_400_000));
    let report = vacuum(&db).await;
    let expired: Vec<String> = report
        .files()
        .filter(|file| file.reason == DoomedReason::ExpiredLog)
        .map(|file| file.key.to_string())
        .filter(|key| !key.ends_with(".crc"))
        .collect();
    // The one at 20 cannot be read, so the one at 10 counts.
    let commits = (0..10).map(|version| format!("{log}/{version:020}.json"));
    assert_eq!(expired, commits.collect::<Vec<_>>());
    scene.world.put(&damaged, checkpoint).await;
    scene.pass(DAY * 8);
    vacuum(&db).await;
    let left = scene.world.keys(log).await;
    assert!(left.contains(&format!("{log}/{:020}.json", 20)));
    assert!(!left.contains(&format!("{log}/{:020}.json", 19)));
    assert!(!left.contains(&format!("{log}/{:020}.checkpoint.parquet", 10)));
    assert_eq!(rows(&scene.open().await, id).await.len(), 26);
    assert_clean(&scene.open().await).await;
}

#[tokio::test]
async fn a_short_retention_needs_force() {
    let scene = Scene::new();
    let db = scene.create().await;
    let short = VacuumOptions {
        retention: Duration::from_secs(3599),
        ..VacuumOptions::default()
    };
    let error = db.vacuum(&short, |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let forced = VacuumOptions {
        force: true,
        ..short
    };
    db.vacuum(&forced, |_| {}).await.unwrap();
}

/// Folders are named after values; what a vacuum compares must not depend on how.
#[tokio::test]
async fn no_partition_value_makes_a_live_file_look_unreferenced() {
    let scene = Scene::new();
    let db = scene.create().await;
    let mut values: Vec<String> = (1_u32..=255)
        .filter_map(char::from_u32)
        .map(|c| format!("x{c}y"))
        .collect();
    values.extend([".", "..", "/a/", "a%2Fb", " ", "\u{1f600}"].map(str::to_owned));
    values.push("v".repeat(100));
    let columns_of = [("id", DataType::Long), ("p", DataType::String)];
    let id = create(&db, table_of("t", &columns_of, &["p"])).await;
    for round in 0..2 {
        let mut txn = begin(&db).await;
        if round > 0 {
            txn.truncate(id).await.unwrap();
        }
        let ids = longs((0..values.len() as i64).map(|n| n + round * 1000));
        let all = texts(values.iter().map(String::as_str));
        let rows = columns(vec![("id", ids), ("p", all)]);
        txn.append(id, once(rows)).await.unwrap();
        txn.commit().await.unwrap();
    }
    db.publish().await.unwrap();
    let before = told(&db, id).await;
    assert_eq!(before.len(), values.len());
    scene.pass(DAY * 8);
    let report = vacuum(&db).await;
    assert_eq!(report.files().count(), values.len());
    assert_eq!(told(&scene.open().await, id).await, before);
    assert_clean(&scene.open().await).await;
}
