//! A database whose power is cut at every moment: what was acknowledged is there, and nothing
//! is half there.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tarndb_db::{CompactOptions, Database, DbError, DbOptions, PublishMode};
use tarndb_storage::powercut::{Crash, CutPlan, PowerCut, SyncPoint};
use tarndb_storage::{Context, Durability, DurableLocal, Store};
use tarndb_table::DataType;
use tarndb_types::TableId;
use tempfile::TempDir;

use crate::support::*;

const PLAN: CutPlan = CutPlan {
    exhaustive_max: 3,
    samples: 4,
    seed: 11,
};

/// The rows of each table.
type Rows = BTreeMap<TableId, Vec<Row>>;

/// What was done to a database on a disk whose power can be cut.
struct Run {
    _top: TempDir,
    disk: PowerCut,
    handles: u64,
    /// The rows at every version that a commit tried to make, from 0.
    states: Vec<Rows>,
    /// When how many versions were acknowledged.
    promises: Vec<(usize, usize)>,
}

fn options() -> DbOptions {
    DbOptions {
        publish: PublishMode::Manual,
        background: false,
        checkpoint_interval: 4,
        table_checkpoint_interval: 2,
        ..DbOptions::default()
    }
}

impl Run {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        Self {
            disk: PowerCut::new(top.path()),
            _top: top,
            handles: 0,
            states: vec![Rows::new()],
            promises: Vec::new(),
        }
    }

    /// The store of a handle in another process.
    fn store(&mut self) -> Store {
        self.handles += 1;
        let context = Context::seeded(self.handles);
        let objects = Arc::new(self.disk.store("db", &context));
        Store::new(objects, "power-cut", context)
    }

    async fn create(&mut self) -> Database {
        let store = self.store();
        let db = Database::create(store, options()).await.unwrap();
        self.promise();
        db
    }

    async fn open(&mut self, options: DbOptions) -> Database {
        Database::open(self.store(), options).await.unwrap()
    }

    /// All that was tried so far is acknowledged.
    fn promise(&mut self) {
        self.promises.push((self.disk.now(), self.states.len()));
    }

    /// The state that the next commit makes.
    fn next(&mut self, change: impl FnOnce(&mut Rows)) {
        let mut rows = self.states.last().unwrap().clone();
        change(&mut rows);
        for rows in rows.values_mut() {
            rows.sort_unstable();
        }
        self.states.push(rows);
    }

    /// Rows into several tables by one transaction.
    async fn insert(&mut self, db: &Database, tables: &[TableId], rows: &[Row]) {
        self.next(|state| {
            for id in tables {
                state.entry(*id).or_default().extend(rows);
            }
        });
        let mut txn = begin(db).await;
        for id in tables {
            append(&mut txn, *id, rows).await;
        }
        txn.commit().await.unwrap();
        self.promise();
    }

    async fn create_table(&mut self, db: &Database, name: &str) -> TableId {
        let mut txn = begin(db).await;
        let id = txn.create_table("main", new_table(name)).await.unwrap();
        self.next(|state| drop(state.insert(id, Vec::new())));
        txn.commit().await.unwrap();
        self.promise();
        id
    }

    async fn delete(&mut self, db: &Database, id: TableId, below: i64) {
        self.next(|state| state.get_mut(&id).unwrap().retain(|row| row.0 >= below));
        let mut txn = begin(db).await;
        delete(&mut txn, id, |row| row.0 < below).await;
        txn.commit().await.unwrap();
        self.promise();
    }

    async fn drop_table(&mut self, db: &Database, id: TableId) {
        self.next(|state| drop(state.remove(&id)));
        let mut txn = begin(db).await;
        txn.drop_table(id).unwrap();
        txn.commit().await.unwrap();
        self.promise();
    }

    async fn compact(&mut self, db: &Database, id: TableId) {
        self.next(|_| {});
        let all = CompactOptions {
            all: true,
            ..CompactOptions::default()
        };
        let report = db.compact(id, &all).await.unwrap();
        assert_eq!(report.versions.len(), 1, "{report:?}");
        self.promise();
    }

    /// A process dies between showing a record and syncing its name.
    async fn die_in_commit(&mut self, id: TableId, row: Row) {
        let impatient = DbOptions {
            commit_deadline: Duration::ZERO,
            ..options()
        };
        let db = self.open(impatient).await;
        self.next(|state| state.get_mut(&id).unwrap().push(row));
        let mut txn = begin(&db).await;
        append(&mut txn, id, &[row]).await;
        self.disk.fail_once(SyncPoint::ObjectName);
        let outcome = txn.commit().await;
        assert!(outcome.is_err(), "{outcome:?}");
    }

    fn promised(&self, at: usize) -> usize {
        let kept = self.promises.iter().filter(|(when, _)| *when <= at);
        kept.map(|(_, versions)| *versions).max().unwrap_or(0)
    }

    /// Opens what is left; what is wrong with it.
    async fn loss(&self, crash: &Crash) -> Result<(), String> {
        let (_top, store) = left(crash);
        let found = self.judge(store, self.promised(crash.at)).await;
        found.map_err(|text| format!("cut at {}: {text}", crash.at))
    }

    async fn judge(&self, store: Store, promised: usize) -> Result<(), String> {
        let told = |error: DbError| format!("{error}: {error:?}");
        let db = match Database::open(store, options()).await {
            Err(DbError::NotADatabase { .. }) if promised == 0 => return Ok(()),
            other => other.map_err(told)?,
        };
        let snapshot = db.snapshot().await.map_err(told)?;
        let version = usize::try_from(snapshot.version().0).unwrap();
        if version + 1 < promised {
            return Err(format!("version {version}, {promised} were acknowledged"));
        }
        let Some(expected) = self.states.get(version) else {
            return Err(format!("version {version} was never committed"));
        };
        for (id, rows) in expected {
            snapshot.entry(*id).map_err(told)?;
            let found = rows_at(&snapshot, *id).await;
            if found != *rows {
                return Err(format!(
                    "version {version} of {id:?}: {found:?}, not {rows:?}"
                ));
            }
        }
        // What was not published is published now, and the database goes on.
        for _ in 0..2 {
            let report = db.check(true, |_| {}).await.map_err(told)?;
            if !report.is_clean() {
                return Err(format!("{:#?}", report.findings));
            }
            db.publish().await.map_err(told)?;
        }
        if let Some(id) = expected.keys().next() {
            let rows = futures::stream::iter([Ok::<_, Infallible>(batch(&[(-1, -1)]))]);
            let mut txn = begin(&db).await;
            txn.append(*id, rows).await.map_err(told)?;
            txn.commit().await.map_err(told)?;
        }
        Ok(())
    }

    /// Looks at what cuts leave until something is lost; how many states were right.
    async fn first_loss(&self, plan: CutPlan) -> Result<usize, String> {
        let promises: Vec<_> = self.promises.iter().map(|(at, _)| *at).collect();
        let mut checked = 0;
        for crash in self.disk.crashes(0..=self.disk.now(), &promises, plan) {
            // A lost row makes the readers of the tests panic where it is not an error.
            self.loss(&crash).await?;
            checked += 1;
        }
        Ok(checked)
    }
}

/// The store that opens what is left.
fn left(crash: &Crash) -> (TempDir, Store) {
    let top = tempfile::tempdir().unwrap();
    crash.write_to(top.path()).unwrap();
    let context = Context::seeded(4711);
    let folder = top.path().join("db");
    let objects = DurableLocal::new(folder, Durability::None, context.clone());
    let store = Store::new(Arc::new(objects), "what is left", context);
    (top, store)
}

/// Transactions, tables, publishing, checkpoints and a compaction by three handles.
async fn workload(disk: impl FnOnce(&PowerCut)) -> Run {
    let mut run = Run::new();
    disk(&run.disk);
    let db = run.create().await;
    let a = run.create_table(&db, "a").await;
    let b = run.create_table(&db, "b").await;
    run.insert(&db, &[a, b], &[(1, 1), (2, 2)]).await;
    db.publish().await.unwrap();
    // Data files of its own instead of bytes in the record, and staged entries.
    let stored = DbOptions {
        inline_file_bytes_max: 0,
        record_bytes_max: 4 << 10,
        ..options()
    };
    let other = run.open(stored).await;
    run.insert(&other, &[a, b], &[(3, 3), (4, 4)]).await;
    run.insert(&other, &[a], &[(5, 5)]).await;
    run.delete(&db, a, 2).await;
    other.publish().await.unwrap();
    run.die_in_commit(b, (8, 8)).await;
    db.publish().await.unwrap();
    run.promise();
    let c = run.create_table(&other, "c").await;
    run.insert(&other, &[c, b], &[(6, 6)]).await;
    run.compact(&other, a).await;
    run.drop_table(&db, c).await;
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    run.insert(&db, &[a, b], &[(7, 7)]).await;
    run.delete(&other, b, 4).await;
    run
}

#[tokio::test]
async fn a_database_survives_a_power_cut_at_any_moment() {
    let run = workload(|_| {}).await;
    let checked = run.first_loss(PLAN).await.unwrap();
    assert!(checked > 50, "only {checked} states were looked at");
}

#[tokio::test]
async fn without_any_sync_that_it_uses_a_database_loses_what_it_acknowledged() {
    for point in [
        SyncPoint::ObjectData,
        SyncPoint::ObjectName,
        SyncPoint::SeenName,
        SyncPoint::MadeFolder,
    ] {
        let run = workload(|disk| disk.ignore(point)).await;
        let loss = run.first_loss(PLAN).await;
        assert!(loss.is_err(), "nothing is lost without the sync {point:?}");
    }
}

/// A transaction whose data file is too large for one request, and cuts after it.
async fn large_file(ignored: Option<SyncPoint>) -> Result<usize, String> {
    let mut run = Run::new();
    if let Some(point) = ignored {
        run.disk.ignore(point);
    }
    let db = run.create().await;
    let id = create(&db, table_of("t", &[("s", DataType::String)], &[])).await;
    let begun = run.disk.now();
    let random = Context::seeded(8);
    let piece = || (0..6_000).map(|_| format!("{:016x}", random.random_u64()));
    let large: Vec<String> = (0..200).map(|_| piece().collect()).collect();
    let mut txn = begin(&db).await;
    let rows = texts(large.iter().map(String::as_str));
    txn.append(id, once(columns(vec![("s", rows)])))
        .await
        .unwrap();
    txn.commit().await.unwrap();
    let calls = run.disk.calls();
    assert_eq!(calls.get(&SyncPoint::UploadData), Some(&1), "{calls:?}");
    let acknowledged = run.disk.now();
    let mut checked = 0;
    for crash in run
        .disk
        .crashes(begun..=acknowledged, &[acknowledged], PLAN)
    {
        let (_top, store) = left(&crash);
        let db = Database::open(store, options()).await.unwrap();
        let snapshot = db.snapshot().await.unwrap();
        let rows = snapshot.table(id).await.unwrap().live_rows();
        if rows == Some(0) && crash.at < acknowledged {
            checked += 1;
            continue;
        }
        let report = db.check(true, |_| {}).await.unwrap();
        if rows != Some(200) || !report.is_clean() {
            return Err(format!("cut at {}: {rows:?}, {report:?}", crash.at));
        }
        checked += 1;
    }
    Ok(checked)
}

#[tokio::test]
async fn a_large_file_survives_a_power_cut() {
    let checked = large_file(None).await.unwrap();
    assert!(checked >= 4, "only {checked} states were looked at");
}

#[tokio::test]
async fn a_large_file_that_is_not_synced_is_lost() {
    let loss = large_file(Some(SyncPoint::UploadData)).await;
    assert!(loss.is_err(), "{loss:?}");
}
