//! Many writers on one table.

use crate::support::*;

const WRITERS: i64 = 8;
const UPDATES: i64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_of_different_rows_of_one_file_all_succeed() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let all: Vec<Row> = (0..WRITERS).map(|n| (n, 0)).collect();
    insert(&db, id, &all).await;
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        // Half of them share a handle, half have their own.
        let db = if writer % 2 == 0 {
            db.clone()
        } else {
            world.open().await
        };
        tasks.push(tokio::spawn(async move {
            for _ in 0..UPDATES {
                let mut txn = begin(&db).await;
                let bump = |row: Row| (row.0, row.1 + 1);
                assert_eq!(update(&mut txn, id, |row| row.0 == writer, bump).await, 1);
                txn.commit().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let expected: Vec<Row> = (0..WRITERS).map(|n| (n, UPDATES)).collect();
    assert_eq!(rows(&db, id).await, expected);
    db.publish().await.unwrap();
    assert_clean(&world.open().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn increments_of_one_counter_are_all_kept_with_retries() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(0, 0)]).await;
    let mut tasks = Vec::new();
    for writer in 0..4 {
        let db = if writer % 2 == 0 {
            db.clone()
        } else {
            world.open().await
        };
        tasks.push(tokio::spawn(async move {
            for _ in 0..UPDATES {
                update_retrying(&db, id, |_| true, |row| (row.0, row.1 + 1)).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(rows(&db, id).await, [(0, 4 * UPDATES)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn transfers_between_two_tables_conserve_the_sum() {
    let world = World::new();
    let db = world.create().await;
    let (a, b) = (create_table(&db, "a").await, create_table(&db, "b").await);
    insert(&db, a, &[(0, 100), (1, 100)]).await;
    insert(&db, b, &[(0, 100), (1, 100)]).await;
    let mut tasks = Vec::new();
    for writer in 0..4_i64 {
        let db = world.open().await;
        tasks.push(tokio::spawn(async move {
            let key = writer % 2;
            for amount in 1..8 {
                loop {
                    let mut txn = begin(&db).await;
                    update(
                        &mut txn,
                        a,
                        |row| row.0 == key,
                        |row| (row.0, row.1 - amount),
                    )
                    .await;
                    update(
                        &mut txn,
                        b,
                        |row| row.0 == key,
                        |row| (row.0, row.1 + amount),
                    )
                    .await;
                    match txn.commit().await {
                        Ok(_) => break,
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                }
            }
        }));
    }
    let sum = |rows: Vec<Row>| rows.iter().map(|row| row.1).sum::<i64>();
    let reader = world.open().await;
    while tasks.iter().any(|task| !task.is_finished()) {
        let snapshot = reader.snapshot().await.unwrap();
        let total = sum(rows_at(&snapshot, a).await) + sum(rows_at(&snapshot, b).await);
        assert_eq!(total, 400, "at version {}", snapshot.version());
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(sum(rows(&db, b).await) - 200, 4 * (1..8).sum::<i64>());
}
