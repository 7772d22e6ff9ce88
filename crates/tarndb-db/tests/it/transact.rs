//! Running transactions again after conflicts: until it works, and everybody gets through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tarndb_db::{Database, DbError, ErrorKind, RetryPolicy, Transaction, TxnOptions};
use tarndb_storage::Context;
use tarndb_types::TableId;

use crate::groups::open_slow;
use crate::support::*;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

async fn bump(txn: &mut Transaction, id: TableId, row: i64) {
    let changed = update(txn, id, |found| found.0 == row, |row| (row.0, row.1 + 1)).await;
    assert_eq!(changed, 1);
}

async fn counters(rows: &[Row]) -> (World, Database, TableId) {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, rows).await;
    (world, db, id)
}

#[tokio::test]
async fn a_lost_update_runs_again_on_what_was_committed() {
    let (_, db, id) = counters(&[(0, 0)]).await;
    let mut runs = 0;
    let ((), committed) = db
        .transact(TxnOptions::default(), RetryPolicy::default(), |mut txn| {
            runs += 1;
            let (db, first) = (&db, runs == 1);
            async move {
                if first {
                    let mut other = begin(db).await;
                    bump(&mut other, id, 0).await;
                    other.commit().await?;
                }
                bump(&mut txn, id, 0).await;
                Ok::<_, DbError>((txn, ()))
            }
        })
        .await
        .unwrap();
    assert_eq!((runs, committed.attempts), (2, 1));
    assert_eq!(rows(&db, id).await, [(0, 2)]);
    assert_eq!(db.metrics().reexecutions, 1);
}

#[tokio::test]
async fn what_is_not_retryable_ends_at_once_and_nothing_is_committed() {
    let (_, db, id) = counters(&[(0, 0)]).await;
    let mut runs = 0;
    let error: AnyError = db
        .transact(TxnOptions::default(), RetryPolicy::default(), |mut txn| {
            runs += 1;
            async move {
                append(&mut txn, id, &[(1, 1)]).await;
                Err::<(Transaction, ()), AnyError>("no".into())
            }
        })
        .await
        .unwrap_err();
    assert_eq!((runs, error.to_string().as_str()), (1, "no"));
    assert_eq!(rows(&db, id).await, [(0, 0)]);
}

#[tokio::test]
async fn a_policy_ends_the_attempts() {
    let (_, db, id) = counters(&[(0, 0)]).await;
    let policy = RetryPolicy {
        attempts_max: 3,
        ..RetryPolicy::default()
    };
    let mut runs = 0;
    let result = db
        .transact(TxnOptions::default(), policy, |mut txn| {
            runs += 1;
            let db = &db;
            async move {
                bump(&mut txn, id, 0).await;
                let mut other = begin(db).await;
                bump(&mut other, id, 0).await;
                other.commit().await?;
                Ok::<_, DbError>((txn, ()))
            }
        })
        .await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::ConflictRetryable);
    assert_eq!(runs, 3);
    assert_eq!(rows(&db, id).await, [(0, 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_writer_gets_through_beside_eight_that_hammer_the_same_row() {
    let (world, _, id) = counters(&[(0, 0)]).await;
    let db = open_slow(&world).await;
    let done = Arc::new(AtomicBool::new(false));
    let hammered = Arc::new(AtomicU32::new(0));
    let hammers = (0..8).map(|_| {
        let (db, done, hammered) = (db.clone(), Arc::clone(&done), Arc::clone(&hammered));
        tokio::spawn(async move {
            while !done.load(Ordering::SeqCst) {
                let work = |mut txn: Transaction| async move {
                    bump(&mut txn, id, 0).await;
                    Ok::<_, DbError>((txn, ()))
                };
                let (options, policy) = (TxnOptions::default(), RetryPolicy::default());
                db.transact(options, policy, work).await.unwrap();
                hammered.fetch_add(1, Ordering::SeqCst);
            }
        })
    });
    let hammers: Vec<_> = hammers.collect();
    let mut runs = 0;
    for _ in 0..5 {
        let work = |mut txn: Transaction| {
            runs += 1;
            async move {
                bump(&mut txn, id, 0).await;
                // Long beside what the others do.
                Context::system().sleep(Duration::from_millis(500)).await;
                Ok::<_, DbError>((txn, ()))
            }
        };
        let (options, policy) = (TxnOptions::default(), RetryPolicy::default());
        db.transact(options, policy, work).await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    for hammer in hammers {
        hammer.await.unwrap();
    }
    let hammered = i64::from(hammered.load(Ordering::SeqCst));
    assert!(runs <= 5 * 6, "{runs} executions, {hammered} beside them");
    assert!(hammered > 8, "{hammered}");
    assert_eq!(rows(&world.open().await, id).await, [(0, hammered + 5)]);
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_priority_that_hangs_holds_up_the_others_for_a_while_only() {
    let (world, _, id) = counters(&[(0, 0), (1, 0)]).await;
    let db = open_slow(&world).await;
    let holder = {
        let db = db.clone();
        tokio::spawn(async move {
            let mut runs = 0;
            let work = |mut txn: Transaction| {
                runs += 1;
                let (db, hangs) = (db.clone(), runs > 4);
                async move {
                    bump(&mut txn, id, 0).await;
                    if hangs {
                        std::future::pending::<()>().await;
                    }
                    let mut other = begin(&db).await;
                    bump(&mut other, id, 0).await;
                    other.commit().await?;
                    Ok::<_, DbError>((txn, ()))
                }
            };
            let (options, policy) = (TxnOptions::default(), RetryPolicy::default());
            db.transact(options, policy, work).await
        })
    };
    while db.metrics().priorities == 0 {
        db.store().context().sleep(Duration::from_millis(10)).await;
    }
    let start = tokio::time::Instant::now();
    insert(&db, id, &[(2, 2)]).await;
    assert!(
        start.elapsed() < Duration::from_secs(11),
        "{:?}",
        start.elapsed()
    );
    holder.abort();
    assert!(holder.await.is_err());
    let start = tokio::time::Instant::now();
    insert(&db, id, &[(3, 3)]).await;
    assert!(start.elapsed() < Duration::from_secs(1));
}
