//! Handles over time: clocks, background work, closing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tarndb_db::{Database, DbError, DbOptions, ErrorKind, PublishMode};
use tarndb_storage::Context;
use tarndb_table::{DataType, Field};
use tarndb_types::DbVersion;

use crate::clock::{HandClock, store_with};
use crate::support::*;

#[tokio::test]
async fn a_handle_that_did_not_see_the_head_for_long_opens_anew() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let clock = Arc::new(HandClock::default());
    clock
        .wall
        .store(db.cached_snapshot().timestamp().0, Ordering::SeqCst);
    let idle = Database::open(store_with(&world, &clock, 1001), manual())
        .await
        .unwrap();
    for (moved, minutes) in [(&clock.wall, 16), (&clock.monotonic, 32)] {
        insert(&db, id, &[(1, 1)]).await;
        db.publish().await.unwrap();
        db.checkpoint().await.unwrap();
        // What a cleanup of the log would leave: the record after the handle's is gone.
        let gone = record_key(idle.cached_snapshot().version().0 + 1);
        let record = world.get(&gone).await.unwrap();
        world.delete(&gone).await;
        moved.fetch_add(minutes * 60 * 1000, Ordering::SeqCst);
        let snapshot = idle.snapshot().await.unwrap();
        assert_eq!(snapshot.version(), db.cached_snapshot().version());
        world.put(&gone, record).await;
    }
}

#[tokio::test]
async fn timestamps_grow_even_when_the_clock_goes_back() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let clock = Arc::new(HandClock::default());
    let behind = Database::open(store_with(&world, &clock, 1002), manual())
        .await
        .unwrap();
    let before = behind.cached_snapshot().timestamp();
    insert(&behind, id, &[(1, 1)]).await;
    let snapshot = db.snapshot().await.unwrap();
    assert_eq!(snapshot.timestamp().0, before.0 + 1);
    let state = snapshot.table(id).await.unwrap();
    assert_eq!(state.in_commit_timestamp, Some(before.0 + 1));
}

#[tokio::test]
async fn a_clock_far_ahead_of_the_store_is_refused() {
    let world = World::new();
    let clock = Arc::new(HandClock::default());
    let now = Context::system().now().0;
    clock.wall.store(now + 6 * 60 * 1000, Ordering::SeqCst);
    let error = Database::create(store_with(&world, &clock, 1003), manual())
        .await
        .unwrap_err();
    assert!(matches!(error, DbError::ClockAhead { .. }), "{error}");
}

#[tokio::test]
async fn a_clock_that_runs_ahead_does_not_drag_the_database_along() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let clock = Arc::new(HandClock::default());
    let now = Context::system().now().0;
    clock.wall.store(now, Ordering::SeqCst);
    let ahead = Database::open(store_with(&world, &clock, 1004), manual())
        .await
        .unwrap();
    let counts = |db: &Database| db.store().meter().counts();
    // Ahead, but not by much: nothing is asked.
    clock.wall.fetch_add(4 * 60 * 1000, Ordering::SeqCst);
    let before = counts(&ahead);
    insert(&ahead, id, &[(1, 1)]).await;
    assert_eq!((counts(&ahead) - before).head, 0);
    clock.wall.fetch_add(7 * 60 * 1000, Ordering::SeqCst);
    let mut txn = begin(&ahead).await;
    append(&mut txn, id, &[(2, 2)]).await;
    let error = txn.commit().await.unwrap_err();
    assert!(matches!(error, DbError::ClockAhead { .. }), "{error}");
    assert_eq!(rows(&db, id).await, [(1, 1)]);
    let left = world.keys("_tarndb").await;
    assert!(left.iter().all(|key| !key.contains("clock")), "{left:?}");
}

#[tokio::test]
async fn the_clock_of_a_handle_is_compared_once_after_idle_times() {
    let world = World::new();
    let clock = Arc::new(HandClock::default());
    let past = Context::system().now().0 - 60 * 60 * 1000;
    clock.wall.store(past, Ordering::SeqCst);
    let db = Database::create(store_with(&world, &clock, 1005), manual())
        .await
        .unwrap();
    let id = create_table(&db, "t").await;
    let mut heads = Vec::new();
    for _ in 0..3 {
        clock.wall.fetch_add(10 * 60 * 1000, Ordering::SeqCst);
        clock.monotonic.fetch_add(10 * 60 * 1000, Ordering::SeqCst);
        let before = db.store().meter().counts();
        insert(&db, id, &[(1, 1)]).await;
        heads.push((db.store().meter().counts() - before).head);
    }
    assert_eq!(heads, [1, 0, 0]);
}

#[tokio::test]
async fn an_opened_handle_publishes_what_it_finds_in_the_background() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let opened = Database::open(world.store(), DbOptions::default())
        .await
        .unwrap();
    for _ in 0..10_000 {
        if world
            .get("main/t/_delta_log/00000000000000000001.json")
            .await
            .is_some()
        {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(
        world
            .get("main/t/_delta_log/00000000000000000001.json")
            .await
            .is_some()
    );
    opened.close().await.unwrap();
}

#[tokio::test]
async fn a_handle_without_background_work_writes_nothing_by_itself() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let before = world.keys("").await;
    let options = DbOptions {
        background: false,
        ..DbOptions::default()
    };
    let quiet = Database::open(world.store(), options.clone())
        .await
        .unwrap();
    rows(&quiet, id).await;
    quiet.close().await.unwrap();
    assert_eq!(world.keys("").await, before);
    // Its first commit brings everything along.
    let quiet = Database::open(world.store(), options).await.unwrap();
    insert(&quiet, id, &[(2, 2)]).await;
    quiet.close().await.unwrap();
    assert_eq!(
        world.open().await.status().await.unwrap().tables[0].unpublished(),
        0
    );
}

#[tokio::test]
async fn after_a_commit_only_own_versions_are_published() {
    let world = World::new();
    let db = world.create().await;
    let (a, b) = (create_table(&db, "a").await, create_table(&db, "b").await);
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    let options = DbOptions {
        publish: PublishMode::Sync,
        ..DbOptions::default()
    };
    let sync = Database::open(world.store(), options).await.unwrap();
    insert(&db, b, &[(1, 1)]).await;
    insert(&sync, a, &[(1, 1)]).await;
    let status = world.open().await.status().await.unwrap();
    let lag: Vec<_> = status
        .tables
        .iter()
        .map(|table| table.unpublished())
        .collect();
    assert_eq!(lag, [0, 1]);
}

#[tokio::test]
async fn a_log_that_cannot_be_opened_can_be_checked() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    for n in 0..4 {
        insert(&db, id, &[(n, n)]).await;
    }
    world.delete(&record_key(2)).await;
    let torn = world.get(&record_key(4)).await.unwrap();
    world
        .put(&record_key(4), torn.slice(..torn.len() / 2))
        .await;
    assert_eq!(
        world.try_open().await.unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    let report = Database::check_log(world.store(), |_| {}).await.unwrap();
    assert_eq!(kinds(&report), ["log.gap", "log.record"]);
    let places: Vec<_> = report
        .findings
        .iter()
        .map(|finding| finding.db_version)
        .collect();
    assert_eq!(places, [Some(DbVersion(2)), Some(DbVersion(4))]);
}

#[tokio::test]
async fn a_timestamp_without_zone_is_told_once() {
    let world = World::new();
    let db = world.create().await;
    let mut txn = begin(&db).await;
    let mut table = new_table("t");
    table
        .schema
        .fields
        .push(Field::new("at", DataType::TimestampNtz, true));
    txn.create_table("main", table).await.unwrap();
    let notices = txn.commit().await.unwrap().notices;
    assert!(
        matches!(notices.as_slice(), [one] if one.contains("timestampNtz")),
        "{notices:?}"
    );
}
