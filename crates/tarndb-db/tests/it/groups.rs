//! Commits of one handle at the same time: they share records, and fail alone.
//!
//! Time is virtual: a request takes as long as the store below says, and nothing else takes any.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use tarndb_db::{Database, DbError, DbOptions, ErrorKind, Transaction, TxnOptions, TxnStatus};
use tarndb_storage::fault::{Fault, FaultPlan, FaultStore};
use tarndb_storage::{Clock, Context, SeededRandom, Store};
use tarndb_types::{TableId, TimestampMs};
use tokio::time::Instant;

use crate::support::*;

const LATENCY: Duration = Duration::from_millis(20);

static SEED: AtomicU64 = AtomicU64::new(5000);

/// A clock that goes with tokio's.
#[derive(Debug)]
struct VirtualClock {
    start: Instant,
    wall: i64,
}

impl Clock for VirtualClock {
    fn now(&self) -> TimestampMs {
        let millis = i64::try_from(self.monotonic().as_millis()).unwrap();
        TimestampMs(self.wall + millis)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let system = Context::system();
        Box::pin(async move { system.sleep(duration).await })
    }
}

/// The world's store as one that takes its time.
pub(crate) fn slow_store(world: &World) -> Store {
    let config = ThrottleConfig {
        wait_put_per_call: LATENCY,
        wait_get_per_call: LATENCY,
        wait_list_per_call: LATENCY,
        ..ThrottleConfig::default()
    };
    let objects = Arc::new(ThrottledStore::new(Arc::clone(&world.objects), config));
    let clock = VirtualClock {
        start: Instant::now(),
        wall: Context::system().now().0,
    };
    let random = SeededRandom::new(SEED.fetch_add(1, Ordering::SeqCst));
    let context = Context::new(Arc::new(clock), Arc::new(random));
    Store::new(objects, "memory://test", context)
}

pub(crate) async fn open_slow(world: &World) -> Database {
    Database::open(slow_store(world), manual()).await.unwrap()
}

async fn with_table(rows: &[Row]) -> (World, TableId) {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    if !rows.is_empty() {
        insert(&db, id, rows).await;
    }
    (world, id)
}

fn cached() -> TxnOptions {
    TxnOptions {
        cached_snapshot: true,
        ..TxnOptions::default()
    }
}

async fn appending(db: &Database, id: TableId, row: Row) -> Transaction {
    let mut txn = db.begin(cached()).await.unwrap();
    append(&mut txn, id, &[row]).await;
    txn
}

async fn deleting(db: &Database, id: TableId, row: i64) -> Transaction {
    let mut txn = db.begin(cached()).await.unwrap();
    delete(&mut txn, id, |found| found.0 == row).await;
    txn
}

/// Lets every task do what it can do without waiting for time.
async fn let_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn thirty_two_commits_at_once_share_few_records_in_order() {
    let (world, id) = with_table(&[]).await;
    let db = open_slow(&world).await;
    let first = db.cached_snapshot().version().0;
    let mut txns = Vec::new();
    for n in 0..32 {
        txns.push(appending(&db, id, (n, n)).await);
    }
    let start = Instant::now();
    let commits = txns.into_iter().map(|txn| tokio::spawn(txn.commit()));
    let commits: Vec<_> = commits.collect();
    let mut versions = Vec::new();
    for commit in commits {
        let committed = commit.await.unwrap().unwrap();
        assert_eq!(committed.attempts, 1);
        versions.push(committed.version.unwrap().0);
    }
    assert!(versions.is_sorted());
    let records = versions.iter().collect::<BTreeSet<_>>().len() as u64;
    assert!(records <= 2, "{versions:?}");
    assert!(start.elapsed() <= LATENCY * 3, "{:?}", start.elapsed());
    let metrics = db.metrics();
    assert_eq!((metrics.commits, metrics.records), (32, records));
    assert_eq!((metrics.attempts, metrics.lost_puts), (records, 0));
    assert!(metrics.group_txns_max >= 16);
    // Each is a version of its own, at a time of its own, and every reader comes to the same.
    let fresh = world.open().await;
    assert_eq!(fresh.cached_snapshot().version().0, first + records);
    let entry = fresh.cached_snapshot().entry(id).unwrap().version.0;
    assert_eq!(entry, 32);
    let all: Vec<Row> = (0..32).map(|n| (n, n)).collect();
    assert_eq!(rows(&fresh, id).await, all);
    assert_eq!(rows(&db, id).await, all);
    let log = fresh.log(100).await.unwrap();
    let times: Vec<i64> = log.iter().map(|entry| entry.timestamp.0).collect();
    assert!(times.windows(2).all(|pair| pair[0] > pair[1]), "{times:?}");
    fresh.publish().await.unwrap();
    fresh.checkpoint().await.unwrap();
    let again = world.open().await;
    assert_eq!(rows(&again, id).await, all);
    assert_clean(&again).await;
}

#[tokio::test(start_paused = true)]
async fn rows_of_one_file_deleted_by_one_group_are_all_deleted() {
    let all: Vec<Row> = (0..16).map(|n| (n, 0)).collect();
    let (world, id) = with_table(&all).await;
    let db = open_slow(&world).await;
    let mut txns = Vec::new();
    for n in 0..16 {
        txns.push(deleting(&db, id, n).await);
    }
    let before = db.metrics().records;
    let results = join_all(txns.into_iter().map(Transaction::commit)).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert!(db.metrics().records - before <= 2);
    assert!(rows(&world.open().await, id).await.is_empty());
    world.open().await.publish().await.unwrap();
    assert_clean(&world.open().await).await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_inside_a_group_fails_alone_and_names_what_was_committed() {
    let (world, id) = with_table(&[(1, 0), (2, 0), (3, 0)]).await;
    let db = open_slow(&world).await;
    let mut one_and_three = db.begin(cached()).await.unwrap();
    delete(&mut one_and_three, id, |row| row.0 != 2).await;
    let txns = [
        deleting(&db, id, 1).await,
        one_and_three,
        deleting(&db, id, 2).await,
        appending(&db, id, (4, 0)).await,
    ];
    let first = txns[0].reference().id;
    let mut results = join_all(txns.map(Transaction::commit)).await;
    let lost = results.remove(1);
    let versions: BTreeSet<_> = results
        .into_iter()
        .map(|result| result.unwrap().version.unwrap())
        .collect();
    assert_eq!(versions.len(), 1, "{versions:?}");
    let Err(DbError::Conflict { conflict, .. }) = &lost else {
        panic!("{lost:?}")
    };
    assert_eq!(conflict.txn, first);
    assert!(versions.contains(&conflict.version));
    assert_conflict(lost, true);
    assert_eq!(rows(&world.open().await, id).await, [(3, 0), (4, 0)]);
    assert_eq!(db.metrics().conflicts.get("same rows"), Some(&1));
    assert_eq!(db.metrics().deferred, 1);
}

#[tokio::test(start_paused = true)]
async fn who_meets_one_of_its_group_that_is_not_committed_has_no_conflict() {
    let (world, id) = with_table(&[(1, 0), (2, 0)]).await;
    let (db, other) = (open_slow(&world).await, open_slow(&world).await);
    // The first of the group has a conflict with another handle's commit, the second with the
    // first only.
    let mut both = db.begin(cached()).await.unwrap();
    delete(&mut both, id, |_| true).await;
    let two = deleting(&db, id, 2).await;
    deleting(&other, id, 1).await.commit().await.unwrap();
    let results = join_all([both, two].map(Transaction::commit)).await;
    let [both, two] = <[_; 2]>::try_from(results).unwrap();
    assert_conflict(both, true);
    assert_eq!(two.unwrap().attempts, 1);
    assert!(rows(&other, id).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_group_that_loses_its_version_is_judged_again_one_by_one() {
    let (world, id) = with_table(&[(1, 0), (2, 0), (3, 0)]).await;
    let (db, other) = (open_slow(&world).await, open_slow(&world).await);
    let ours = [
        deleting(&db, id, 1).await,
        deleting(&db, id, 2).await,
        appending(&db, id, (9, 9)).await,
    ];
    deleting(&other, id, 2).await.commit().await.unwrap();
    let results = join_all(ours.map(Transaction::commit)).await;
    let [one, two, three] = <[_; 3]>::try_from(results).unwrap();
    assert_eq!((one.unwrap().attempts, three.unwrap().attempts), (2, 2));
    assert_conflict(two, true);
    assert_eq!(rows(&other, id).await, [(3, 0), (9, 9)]);
    let metrics = db.metrics();
    assert_eq!((metrics.lost_puts, metrics.records), (1, 1));
    assert_clean(&other).await;
}

fn lying(world: &World, plan: FaultPlan) -> (FaultStore, World) {
    let faults = FaultStore::new(Arc::clone(&world.objects), plan, Context::seeded(7));
    faults.set_active(false);
    let objects = Arc::new(faults.clone());
    (faults, World { objects })
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_groups_put_is_seen_through_for_all_in_it() {
    for fault in [
        Fault::LostAnswer,
        Fault::ErrorAfter,
        Fault::ErrorBefore,
        Fault::SelfConflict,
        Fault::PhantomConflict,
    ] {
        let (world, id) = with_table(&[]).await;
        let (faults, lying) = lying(&world, FaultPlan::default());
        let db = lying.open().await;
        let mut txns = Vec::new();
        for n in 0..8 {
            txns.push(appending(&db, id, (n, n)).await);
        }
        faults.set_active(true);
        faults.script([fault, fault]);
        let results = join_all(txns.into_iter().map(Transaction::commit)).await;
        assert!(results.iter().all(Result::is_ok), "{fault:?} {results:?}");
        let found = rows(&world.open().await, id).await;
        assert_eq!(found, (0..8).map(|n| (n, n)).collect::<Vec<_>>());
        assert!(db.metrics().records <= 2, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_in_doubt_is_pending_for_each_by_its_own_id() {
    let (world, id) = with_table(&[]).await;
    let plan = FaultPlan {
        error_before: 1.0,
        ..FaultPlan::default()
    };
    let (faults, lying) = lying(&world, plan);
    let options = DbOptions {
        commit_deadline: Duration::from_millis(100),
        ..manual()
    };
    let db = Database::open(lying.store(), options).await.unwrap();
    let mut txns = Vec::new();
    for n in 0..4 {
        txns.push(appending(&db, id, (n, n)).await);
    }
    let asked: Vec<_> = txns.iter().map(Transaction::reference).collect();
    faults.set_active(true);
    faults.script([Fault::LostAnswer]);
    let results = join_all(txns.into_iter().map(Transaction::commit)).await;
    faults.set_active(false);
    for (result, asked) in results.into_iter().zip(asked) {
        match result {
            Err(DbError::Pending { txn }) => assert_eq!(txn, asked),
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            db.lookup(asked).await.unwrap(),
            TxnStatus::Committed { .. }
        ));
    }
    // And the handle goes on.
    insert(&db, id, &[(9, 9)]).await;
    assert_eq!(rows(&world.open().await, id).await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_commit_given_up_while_it_waits_is_withdrawn_and_holds_up_nobody() {
    let (world, id) = with_table(&[]).await;
    let db = open_slow(&world).await;
    let mut txns = Vec::new();
    for n in 0..4 {
        txns.push(appending(&db, id, (n, n)).await);
    }
    let mut commits = Vec::new();
    for txn in txns {
        commits.push(tokio::spawn(txn.commit()));
        // The record of the first is under way; the others wait.
        let_run().await;
    }
    commits[0].abort();
    commits[2].abort();
    let_run().await;
    for (n, commit) in commits.into_iter().enumerate() {
        assert_eq!(commit.await.is_ok(), n % 2 == 1);
    }
    let found = rows(&world.open().await, id).await;
    assert_eq!(found, [(0, 0), (1, 1), (3, 3)]);
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_record_under_way_and_refuses_what_waits() {
    let (world, id) = with_table(&[]).await;
    let db = open_slow(&world).await;
    let txns = [
        appending(&db, id, (1, 1)).await,
        appending(&db, id, (2, 2)).await,
    ];
    let [one, two] = txns.map(|txn| txn.commit());
    let one = tokio::spawn(one);
    let_run().await;
    let two = tokio::spawn(two);
    let_run().await;
    db.close().await.unwrap();
    assert_eq!(world.open().await.cached_snapshot().version().0, 2);
    one.await.unwrap().unwrap();
    let error = two.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(rows(&world.open().await, id).await, [(1, 1)]);
}

#[test]
fn a_runtime_that_ends_with_a_record_under_way_leaves_it_pending_and_the_handle_usable() {
    let world = World::new();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap()
    };
    let outer = runtime();
    let (db, id) = outer.block_on(async {
        let id = create_table(&world.create().await, "t").await;
        (open_slow(&world).await, id)
    });
    let (first, second) = outer.block_on(async {
        (
            appending(&db, id, (1, 1)).await,
            appending(&db, id, (2, 2)).await,
        )
    });
    let asked = first.reference();
    let ending = runtime();
    let mut commit = Box::pin(first.commit());
    ending.block_on(async {
        // The leader is a task of this runtime, and the put begins here.
        let system = Context::system();
        tokio::select! {
            _ = &mut commit => panic!("too early"),
            () = system.sleep(LATENCY / 4) => {}
        }
    });
    drop(ending);
    outer.block_on(async {
        let Err(DbError::Pending { txn }) = commit.await else {
            panic!("nobody can know")
        };
        assert_eq!(txn, asked);
        second.commit().await.unwrap();
        assert!(rows(&db, id).await.contains(&(2, 2)));
    });
}

#[tokio::test(start_paused = true)]
async fn a_full_record_leaves_the_rest_for_the_next() {
    let (world, id) = with_table(&[]).await;
    for options in [
        DbOptions {
            group_txns_max: 3,
            ..manual()
        },
        DbOptions {
            // Three transactions with their files.
            record_bytes_max: 8000,
            ..manual()
        },
        DbOptions {
            record_bytes_max: 1,
            ..manual()
        },
    ] {
        let most = if options.record_bytes_max == 1 { 1 } else { 3 };
        let db = Database::open(slow_store(&world), options).await.unwrap();
        let mut txns = Vec::new();
        for n in 0..9 {
            txns.push(appending(&db, id, (n, n)).await);
        }
        let results = join_all(txns.into_iter().map(Transaction::commit)).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!(db.metrics().group_txns_max, most);
    }
    let fresh = world.open().await;
    assert_eq!(rows(&fresh, id).await.len(), 27);
    fresh.publish().await.unwrap();
    assert_clean(&world.open().await).await;
}

#[tokio::test(start_paused = true)]
async fn two_commits_under_one_id_in_one_group_are_one() {
    let (world, id) = with_table(&[]).await;
    let db = open_slow(&world).await;
    let options = TxnOptions {
        id: Some(tarndb_types::TxnId(db.store().context().uuid())),
        ..cached()
    };
    let mut txns = Vec::new();
    for _ in 0..2 {
        let mut txn = db.begin(options.clone()).await.unwrap();
        append(&mut txn, id, &[(1, 1)]).await;
        txns.push(txn);
    }
    let results = join_all(txns.into_iter().map(Transaction::commit)).await;
    let versions: Vec<_> = results.into_iter().map(|r| r.unwrap().version).collect();
    assert_eq!(versions[0], versions[1]);
    assert_eq!(rows(&world.open().await, id).await, [(1, 1)]);
}

/// Commits per second of virtual time.
async fn rate(clients: i64, each: i64) -> f64 {
    let (world, id) = with_table(&[]).await;
    let db = open_slow(&world).await;
    let start = Instant::now();
    let work = (0..clients).map(|client| {
        let db = db.clone();
        tokio::spawn(async move {
            for n in 0..each {
                appending(&db, id, (client, n))
                    .await
                    .commit()
                    .await
                    .unwrap();
            }
        })
    });
    for done in join_all(work.collect::<Vec<_>>()).await {
        done.unwrap();
    }
    (clients * each) as f64 / start.elapsed().as_secs_f64()
}

#[tokio::test(start_paused = true)]
async fn thirty_two_clients_commit_eight_times_as_much_as_one() {
    let (one, many) = (rate(1, 20).await, rate(32, 10).await);
    assert!(many >= 8.0 * one, "{one} {many}");
}

#[tokio::test(start_paused = true)]
async fn ex_14_thirty_two_sessions_on_different_tables_all_finish_and_upload_once() {
    let world = World::new();
    let db = world.create().await;
    let mut tables = Vec::new();
    for n in 0..32 {
        tables.push(create_table(&db, &format!("t{n}")).await);
    }
    let db = open_slow(&world).await;
    let work = tables.iter().enumerate().map(|(n, id)| {
        let (db, id) = (db.clone(), *id);
        tokio::spawn(async move {
            for round in 0..4 {
                let mut txn = begin(&db).await;
                let rows = [(n as i64, round)];
                if n % 2 == 0 {
                    append(&mut txn, id, &rows).await;
                } else {
                    let mut writer = txn.writer(id).await.unwrap();
                    writer.write(&batch(&rows)).await.unwrap();
                    let written = writer.finish().await.unwrap();
                    txn.overwrite(id, written, false).await.unwrap();
                }
                let committed = txn.commit().await.unwrap();
                assert_eq!(committed.attempts, 1);
            }
        })
    });
    for done in join_all(work.collect::<Vec<_>>()).await {
        done.unwrap();
    }
    // Nothing but records, one data file for each of the 128 transactions in them, and not a
    // conflict.
    let files = async || {
        let keys = world.keys("main").await;
        keys.iter().filter(|key| key.ends_with(".parquet")).count()
    };
    assert_eq!(files().await, 0);
    assert_eq!(db.metrics().conflicts_total(), 0);
    let fresh = world.open().await;
    fresh.publish().await.unwrap();
    assert_eq!(files().await, 128);
    for (n, id) in tables.into_iter().enumerate() {
        let expected = if n % 2 == 0 { 4 } else { 1 };
        assert_eq!(rows(&fresh, id).await.len(), expected);
    }
}
