//! A process that is stopped at any of its requests, for longer than anything is kept.
//!
//! While it is stopped, others commit, publish, write checkpoints, vacuum and clean up, days pass,
//! and they do it all again. Then it goes on. Nothing that was acknowledged is lost, nothing
//! comes back, and what is stored is sound.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use tarndb_db::{
    CompactOptions, Database, DbError, DbOptions, ErrorKind, LogCleanupOptions, VacuumOptions,
};
use tarndb_types::TableId;

use crate::cleanup::clean;
use crate::hook::{Call, Reaction};
use crate::support::*;
use crate::vacuum::{DAY, Scene, vacuum};

/// The row that the stopped process commits.
const OURS: Row = (1000, 1000);
/// More requests than any of the operations makes.
const REQUESTS_MAX: usize = 400;

type Work = fn(Database, TableId) -> BoxFuture<'static, Result<(), DbError>>;

fn options() -> DbOptions {
    DbOptions {
        log_records_min: 2,
        table_checkpoint_interval: 3,
        ..crate::vacuum::options()
    }
}

/// A database with something to do for everybody.
async fn prepare(scene: &Scene) -> (Database, TableId) {
    let db = scene.create_with(options()).await;
    let id = create_table(&db, "t").await;
    let gone = create_table(&db, "gone").await;
    for n in 0..6 {
        insert(&db, id, &[(n, n)]).await;
        insert(&db, gone, &[(n, n)]).await;
    }
    let mut txn = begin(&db).await;
    txn.drop_table(gone).unwrap();
    update(&mut txn, id, |row| row.0 == 1, |row| (row.0, row.1)).await;
    txn.commit().await.unwrap();
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    scene.pass(DAY * 9);
    insert(&db, id, &[(6, 6)]).await;
    insert(&db, id, &[(7, 7)]).await;
    (db, id)
}

/// What the others do: two rounds, the first of which leaves what the second removes.
async fn go_on(scene: &Scene, id: TableId) {
    let other = scene.open_with(options()).await;
    for round in 0..2 {
        insert(&other, id, &[(10 + round, 0)]).await;
        let all = CompactOptions {
            all: true,
            ..CompactOptions::default()
        };
        other.compact(id, &all).await.unwrap();
        insert(&other, id, &[(20 + round, 0)]).await;
        other.publish().await.unwrap();
        other.checkpoint().await.unwrap();
        scene.pass(DAY * 9);
        insert(&other, id, &[(30 + round, 0)]).await;
        insert(&other, id, &[(40 + round, 0)]).await;
        vacuum(&other).await;
        clean(&other).await;
    }
}

const BEFORE: i64 = 8;

fn expected(met: bool, ours: bool) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..BEFORE).map(|n| (n, n)).collect();
    if met {
        for tens in 1..=4 {
            rows.extend([(tens * 10, 0), (tens * 10 + 1, 0)]);
        }
    }
    if ours {
        rows.push(OURS);
    }
    rows.sort_unstable();
    rows
}

/// Stops `work` at its `nth` request; whether it has so many.
async fn stopped_at(name: &str, nth: usize, work: Work) -> bool {
    let scene = Scene::new();
    let (db, id) = prepare(&scene).await;
    let (hooks, stopped) = scene.hooked(options()).await;
    let met = Arc::new(AtomicBool::new(false));
    let (mut requests, noted, others) = (0, Arc::clone(&met), scene.clone());
    hooks.set(move |_: &Call<'_>| {
        requests += 1;
        if requests != nth {
            return Reaction::Pass;
        }
        noted.store(true, Ordering::SeqCst);
        let scene = others.clone();
        Reaction::Run(Box::pin(async move { go_on(&scene, id).await }))
    });
    let done = work(stopped, id).await;
    let met = met.load(Ordering::SeqCst);
    let mut committed = name == "commit" && done.is_ok();
    if let Err(DbError::OutcomeExpired { .. }) = &done {
        // The store's answer came when nothing was left that tells: either is possible, and
        // what everybody sees from now on counts.
        committed = rows(&db, id).await.contains(&OURS);
    }
    if let Err(error) = &done {
        let told = [
            ErrorKind::ConflictRetryable,
            ErrorKind::OutcomeExpired,
            ErrorKind::NotFound,
        ];
        // What was read a moment before may be gone: the next run succeeds.
        let fine = met && (told.contains(&error.kind()) || name != "commit");
        assert!(fine, "{name} {nth}: {error:?}");
    }
    let context = format!("{name} stopped at request {nth}, met={met}, {done:?}");
    for reader in [&db, &scene.open_with(options()).await] {
        let found = rows(reader, id).await;
        assert_eq!(found, expected(met, committed), "{context}");
    }
    let fresh = scene.open_with(options()).await;
    let report = fresh.check(true, |_| {}).await.unwrap();
    assert!(report.is_clean(), "{context}: {:#?}", report.findings);
    fresh.publish().await.unwrap();
    fresh.checkpoint().await.unwrap();
    scene.pass(DAY * 9);
    vacuum(&fresh).await;
    clean(&fresh).await;
    let last = scene.open_with(options()).await;
    assert_eq!(rows(&last, id).await, expected(met, committed), "{context}");
    let report = last.check(true, |_| {}).await.unwrap();
    assert!(report.is_clean(), "{context}: {:#?}", report.findings);
    met
}

async fn stopped_everywhere(name: &str, at_least: usize, work: Work) {
    for nth in 1..REQUESTS_MAX {
        if !stopped_at(name, nth, work).await {
            assert!(nth > at_least, "{name} made only {nth} requests");
            return;
        }
    }
    panic!("{name} makes too many requests");
}

#[tokio::test]
async fn a_commit_that_is_stopped_is_lost_to_nobody() {
    let work: Work = |db, id| {
        Box::pin(async move {
            let mut txn = db.begin(tarndb_db::TxnOptions::default()).await?;
            txn.append(id, once(batch(&[OURS]))).await?;
            txn.commit().await.map(|_| ())
        })
    };
    stopped_everywhere("commit", 2, work).await;
}

#[tokio::test]
async fn a_vacuum_that_is_stopped_deletes_nothing_that_is_needed() {
    let work: Work = |db, _| {
        Box::pin(async move {
            let report = db.vacuum(&VacuumOptions::default(), |_| {}).await?;
            assert!(report.version.is_some());
            Ok(())
        })
    };
    stopped_everywhere("vacuum", 20, work).await;
}

#[tokio::test]
async fn a_cleanup_that_is_stopped_removes_a_beginning() {
    let work: Work = |db, _| {
        Box::pin(async move {
            let cleaned = db.clean_log(&LogCleanupOptions::default(), |_| {}).await;
            cleaned.map(|_| ())
        })
    };
    stopped_everywhere("cleanup", 10, work).await;
}

#[tokio::test]
async fn a_publisher_that_is_stopped_brings_nothing_back() {
    let work: Work = |db, _| Box::pin(async move { db.publish().await.map(|_| ()) });
    stopped_everywhere("publish", 3, work).await;
}

#[tokio::test]
async fn a_checkpoint_that_is_stopped_says_nothing_wrong() {
    let work: Work = |db, _| Box::pin(async move { db.checkpoint().await.map(|_| ()) });
    stopped_everywhere("checkpoint", 3, work).await;
}
