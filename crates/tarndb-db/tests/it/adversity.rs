//! One id used twice, calls dropped half-way, runtimes that end, handles far behind.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context as Task, Poll, Waker};

use tarndb_db::{Database, DbOptions, PublishMode, TxnOptions};
use tarndb_types::{TableId, TxnId, Uuid};

use crate::support::*;

async fn begin_as(db: &Database, id: u128) -> tarndb_db::Transaction {
    let options = TxnOptions {
        id: Some(TxnId(Uuid::from_u128(id))),
        ..TxnOptions::default()
    };
    db.begin(options).await.unwrap()
}

#[tokio::test]
async fn one_id_committed_by_two_handles_at_once_counts_once_for_both() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    let mut first = begin_as(&db, 7).await;
    let mut second = begin_as(&other, 7).await;
    append(&mut first, id, &[(1, 1)]).await;
    append(&mut second, id, &[(2, 2), (3, 3)]).await;
    let first = first.commit().await.unwrap();
    let second = second.commit().await.unwrap();
    assert_eq!(first.version, second.version);
    // What the loser wrote is nowhere, in its own eyes too.
    for db in [&db, &other, &world.open().await] {
        assert_eq!(rows(db, id).await, [(1, 1)]);
    }
    insert(&other, id, &[(4, 4)]).await;
    assert_eq!(rows(&db, id).await, [(1, 1), (4, 4)]);
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn an_id_below_a_checkpoint_is_found_again() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let time = uuid_time(&db);
    for (n, chosen) in [(1, 7_u128), (2, time << 80 | 0x7 << 76 | 2 << 62 | 9)] {
        let mut txn = begin_as(&db, chosen).await;
        append(&mut txn, id, &[(n, n)]).await;
        let version = txn.commit().await.unwrap().version;
        insert(&db, id, &[(n * 10, 0)]).await;
        db.publish().await.unwrap();
        db.checkpoint().await.unwrap();
        // A client that was killed and starts again knows nothing but the id it chose.
        let again = world.open().await;
        let mut txn = begin_as(&again, chosen).await;
        append(&mut txn, id, &[(n, n)]).await;
        let committed = txn.commit().await.unwrap();
        assert_eq!((committed.version, committed.attempts), (version, 0));
        let bare = Uuid::from_u128(chosen).to_string().parse().unwrap();
        let status = world.open().await.lookup(bare).await.unwrap();
        let version = version.unwrap();
        assert_eq!(status, tarndb_db::TxnStatus::Committed { version });
    }
    assert_eq!(rows(&db, id).await, [(1, 1), (2, 2), (10, 0), (20, 0)]);
}

/// Milliseconds since 1970, as a time-ordered id begins with them.
fn uuid_time(db: &Database) -> u128 {
    db.store().context().now().0 as u128
}

/// Polls a future so often and drops it.
async fn give_up_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let ready = std::future::poll_fn(|task| match future.as_mut().poll(task) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(value) = ready.await {
            return Some(value);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[tokio::test]
async fn a_commit_dropped_anywhere_leaves_a_handle_that_works() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let context = tarndb_storage::Context::system();
        let options = tarndb_storage::StoreOptions::default();
        tarndb_storage::open(folder.path().to_str().unwrap(), &options, context).unwrap()
    };
    let options = DbOptions {
        publish: PublishMode::Sync,
        ..DbOptions::default()
    };
    let db = Database::create(open(), options).await.unwrap();
    let id = create_table(&db, "t").await;
    let mut expected = Vec::new();
    for n in 0..40 {
        let mut txn = begin(&db).await;
        append(&mut txn, id, &[(n, 0)]).await;
        let reference = txn.reference();
        drop(give_up_after(n as usize, txn.commit()).await);
        insert(&db, id, &[(n, 1)]).await;
        expected.push((n, 1));
        if let tarndb_db::TxnStatus::Committed { .. } = db.lookup(reference).await.unwrap() {
            expected.push((n, 0));
        }
    }
    expected.sort();
    assert_eq!(rows(&db, id).await, expected);
    db.close().await.unwrap();
    let fresh = Database::open(open(), manual()).await.unwrap();
    assert_eq!(rows(&fresh, id).await, expected);
    let status = fresh.status().await.unwrap();
    assert!(status.tables.iter().all(|table| table.unpublished() == 0));
    assert_clean(&fresh).await;
}

async fn published(world: &World, version: u64) -> bool {
    let key = format!("main/t/_delta_log/{version:020}.json");
    for _ in 0..10_000 {
        if world.get(&key).await.is_some() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[test]
fn background_work_goes_on_in_another_runtime_when_its_own_has_ended() {
    let world = World::new();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };
    let options = DbOptions {
        publish: PublishMode::Async,
        ..DbOptions::default()
    };
    let (db, id): (Database, TableId) = runtime().block_on(async {
        let db = Database::create(world.store(), options).await.unwrap();
        let id = create_table(&db, "t").await;
        assert!(published(&world, 0).await);
        (db, id)
    });
    runtime().block_on(async {
        insert(&db, id, &[(1, 1)]).await;
        assert!(published(&world, 1).await);
    });
}

#[tokio::test]
async fn a_transaction_hundreds_of_records_behind_is_judged_and_rebased() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    let all: Vec<Row> = (0..320).map(|n| (n, 0)).collect();
    insert(&db, id, &all).await;
    let (mut kept, mut lost) = (begin(&other).await, begin(&other).await);
    delete(&mut kept, id, |row| row.0 == 300).await;
    delete(&mut lost, id, |row| row.0 == 5).await;
    for n in 0..290 {
        let mut txn = begin(&db).await;
        delete(&mut txn, id, |row| row.0 == n).await;
        txn.commit().await.unwrap();
    }
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    kept.commit().await.unwrap();
    assert_conflict(lost.commit().await, true);
    let left: Vec<Row> = all[290..]
        .iter()
        .copied()
        .filter(|row| row.0 != 300)
        .collect();
    assert_eq!(rows(&other, id).await, left);
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn both_of_two_concurrent_closes_wait_for_publishing() {
    let world = World::new();
    let options = DbOptions {
        publish: PublishMode::Async,
        ..DbOptions::default()
    };
    drop(world.create().await);
    let db = Database::open(world.store(), options).await.unwrap();
    create_table(&db, "t").await;
    let slow = db.clone();
    let mut first = Box::pin(slow.close());
    // The first has begun; the second must not say that all is done before it is.
    let waker = Waker::noop();
    let begun = first.as_mut().poll(&mut Task::from_waker(waker));
    db.close().await.unwrap();
    assert!(
        world
            .get("main/t/_delta_log/00000000000000000000.json")
            .await
            .is_some()
    );
    drop(begun);
}
