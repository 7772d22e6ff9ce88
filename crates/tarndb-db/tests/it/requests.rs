//! What things cost in requests: promised, so counted.

use tarndb_db::{Database, TxnOptions};

use crate::support::*;

#[tokio::test]
async fn a_warm_commit_is_one_record_and_nothing_else() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let meter = db.store().meter().clone();
    for n in 0..3 {
        let before = meter.counts();
        let options = TxnOptions {
            cached_snapshot: true,
            ..TxnOptions::default()
        };
        let mut txn = db.begin(options).await.unwrap();
        append(&mut txn, id, &[(n, n)]).await;
        txn.commit().await.unwrap();
        let cost = meter.counts() - before;
        assert_eq!((cost.put_if_absent, cost.requests()), (1, 1), "{cost}");
        // And three more to publish it, its data file, its version and the version's checksum,
        // after a look at the log.
        let before = meter.counts();
        db.publish().await.unwrap();
        let cost = meter.counts() - before;
        // The first publishing of a table also brings its version 0 and what came before.
        let expected = if n == 0 { 6 } else { 3 };
        assert_eq!(
            (cost.put_if_absent, cost.requests()),
            (expected, expected + 1),
            "{cost}"
        );
    }
}

fn warm() -> TxnOptions {
    TxnOptions {
        cached_snapshot: true,
        ..TxnOptions::default()
    }
}

#[tokio::test]
async fn two_tables_in_one_transaction_and_an_update_are_one_record_each() {
    let world = World::new();
    let db = world.create().await;
    let tables = [create_table(&db, "t").await, create_table(&db, "u").await];
    let meter = db.store().meter().clone();
    let before = meter.counts();
    let mut txn = db.begin(warm()).await.unwrap();
    for id in tables {
        append(&mut txn, id, &[(1, 1), (2, 2)]).await;
    }
    txn.commit().await.unwrap();
    let cost = meter.counts() - before;
    assert_eq!((cost.put_if_absent, cost.requests()), (1, 1), "{cost}");

    // The row's place is looked up in the file, which is at hand; the vector is in the record.
    let before = meter.counts();
    let mut txn = db.begin(warm()).await.unwrap();
    update(&mut txn, tables[0], |row| row.0 == 1, |row| (row.0, 9)).await;
    txn.commit().await.unwrap();
    let cost = meter.counts() - before;
    assert_eq!((cost.put_if_absent, cost.requests()), (1, 1), "{cost}");
}

#[tokio::test]
async fn rows_in_a_record_cost_nothing_beyond_the_record() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let other = world.open().await;
    insert(&db, id, &[(1, 1)]).await;
    let before = db.store().meter().counts();
    assert_eq!(rows_at(&db.cached_snapshot(), id).await, [(1, 1)]);
    assert_eq!((db.store().meter().counts() - before).requests(), 0);

    // The record, and that there is none after it.
    let before = other.store().meter().counts();
    assert_eq!(rows(&other, id).await, [(1, 1)]);
    let cost = other.store().meter().counts() - before;
    assert_eq!((cost.get, cost.requests()), (2, 2), "{cost}");
}

#[tokio::test]
async fn a_warm_refresh_is_one_get() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let meter = db.store().meter().clone();
    let before = meter.counts();
    let snapshot = db.snapshot().await.unwrap();
    snapshot.table(id).await.unwrap();
    let cost = meter.counts() - before;
    assert_eq!((cost.get, cost.requests()), (1, 1), "{cost}");

    // After k commits of others at most 2k, and no more to see the tables.
    let other = world.open().await;
    for (commits, requests) in [(1, 2), (2, 4), (4, 8), (20, 32)] {
        for n in 0..commits {
            insert(&other, id, &[(n, n)]).await;
        }
        let before = meter.counts();
        let snapshot = db.snapshot().await.unwrap();
        snapshot.table(id).await.unwrap();
        let cost = meter.counts() - before;
        assert_eq!((cost.get, cost.requests()), (requests, requests), "{cost}");
    }
}

#[tokio::test]
async fn a_read_only_commit_costs_nothing() {
    let world = World::new();
    let db = world.create().await;
    let txn = begin(&db).await;
    let before = db.store().meter().counts();
    txn.commit().await.unwrap();
    assert_eq!((db.store().meter().counts() - before).requests(), 0);
}

#[tokio::test]
async fn opening_takes_three_rounds_however_long_the_log_is() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    for n in 0..60 {
        insert(&db, id, &[(n, n)]).await;
    }
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    for tail in [0, 3, 9] {
        while db.cached_snapshot().version().0 < 61 + tail {
            insert(&db, id, &[(0, 0)]).await;
        }
        let store = world.store();
        let opened = Database::open(store.clone(), manual()).await.unwrap();
        let cost = store.meter().counts();
        // Hint; checkpoint and LIST; the tail in parallel, with the record after it.
        assert_eq!(cost.get, 3 + tail, "{cost}");
        assert_eq!((cost.list, cost.requests()), (1, 4 + tail), "{cost}");
        assert_eq!(
            opened.cached_snapshot().version(),
            db.cached_snapshot().version()
        );
    }
}
