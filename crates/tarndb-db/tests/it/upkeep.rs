//! What a handle does for its tables by itself: after its own commits, and never in their way.

use std::time::Duration;

use tarndb_db::{Database, DbOptions, NewTable, PublishMode, UpkeepOptions};
use tarndb_types::TableId;

use crate::support::*;

fn joining() -> DbOptions {
    DbOptions {
        upkeep: UpkeepOptions {
            compact_files_min: Some(4),
            clean_log_after: None,
        },
        ..DbOptions::default()
    }
}

/// A table with sixteen versions of a row each, by a handle with these options that is closed.
async fn sixteen(options: DbOptions, table: NewTable) -> (World, TableId) {
    let world = World::new();
    let db = Database::create(world.store(), options).await.unwrap();
    let id = create(&db, table).await;
    for row in 0..16 {
        insert(&db, id, &[(row, row)]).await;
    }
    db.close().await.unwrap();
    (world, id)
}

async fn files(world: &World, id: TableId) -> usize {
    let db = world.open().await;
    let snapshot = db.snapshot().await.unwrap();
    let expected: Vec<Row> = (0..16).map(|row| (row, row)).collect();
    assert_eq!(rows(&db, id).await, expected);
    assert_clean(&db).await;
    snapshot.table(id).await.unwrap().files.len()
}

#[tokio::test]
async fn small_files_are_joined_before_the_handle_is_closed() {
    let (world, id) = sixteen(joining(), new_table("t")).await;
    assert_eq!(files(&world, id).await, 1);
    let db = world.open().await;
    let told = db
        .snapshot()
        .await
        .unwrap()
        .table_history(id, 1)
        .await
        .unwrap();
    assert_eq!(told[0].operation.as_deref(), Some("OPTIMIZE"));
    assert_eq!(told[0].metrics["numRemovedFiles"], "16");
}

#[tokio::test]
async fn it_is_off_by_default_and_switched_off_by_the_handle_or_the_table() {
    let plain = sixteen(DbOptions::default(), new_table("t")).await;
    let by_hand = DbOptions {
        publish: PublishMode::Manual,
        ..joining()
    };
    let by_hand = sixteen(by_hand, new_table("t")).await;
    let own = sixteen(joining(), table_with("t", "tarndb.autoCompact", "off")).await;
    let delta = table_with("t", "delta.autoOptimize.autoCompact", "false");
    let delta = sixteen(joining(), delta).await;
    for (world, id) in [plain, by_hand, own, delta] {
        assert_eq!(files(&world, id).await, 16);
    }
    let mut table = table_with("t", "delta.autoOptimize.autoCompact", "false");
    let key = "tarndb.autoCompact".to_owned();
    table.properties.insert(key, "true".to_owned());
    let (world, id) = sixteen(joining(), table).await;
    assert_eq!(files(&world, id).await, 1);
}

#[tokio::test]
async fn too_few_files_are_left_alone() {
    let mut options = joining();
    options.upkeep.compact_files_min = Some(17);
    let (world, id) = sixteen(options, new_table("t")).await;
    assert_eq!(files(&world, id).await, 16);
}

/// A file that was joined is of the next size and waits for others of that.
#[tokio::test]
async fn a_row_is_not_written_anew_with_every_file_that_comes() {
    let world = World::new();
    let db = Database::create(world.store(), joining()).await.unwrap();
    let id = create_table(&db, "t").await;
    let many: Vec<Row> = (0..400_000).map(|i| (i * 7_919 % 1_000_003, i)).collect();
    insert(&db, id, &many).await;
    let snapshot = db.snapshot().await.unwrap();
    let large = snapshot
        .table(id)
        .await
        .unwrap()
        .files
        .paths()
        .next()
        .unwrap();
    for row in 0..40 {
        insert(&db, id, &[(row, -1)]).await;
    }
    db.close().await.unwrap();
    let db = world.open().await;
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    assert!(
        state.files.contains_key(&large),
        "the large file was written anew"
    );
    assert!(state.files.len() < 20, "{}", state.files.len());
    assert_eq!(rows(&db, id).await.len(), 400_040);
}

/// What the upkeep does in the background never fails a statement of the handle.
#[tokio::test]
async fn deletions_go_on_beside_it() {
    let world = World::new();
    let db = Database::create(world.store(), joining()).await.unwrap();
    let id = create_table(&db, "t").await;
    for row in 0..64 {
        insert(&db, id, &[(row, row)]).await;
        if row % 2 == 1 {
            let mut txn = begin(&db).await;
            delete(&mut txn, id, |found| found.0 == row - 1).await;
            txn.commit().await.unwrap();
        }
    }
    db.close().await.unwrap();
    let expected: Vec<Row> = (0..64)
        .filter(|row| row % 2 == 1)
        .map(|row| (row, row))
        .collect();
    let db = world.open().await;
    assert_eq!(rows(&db, id).await, expected);
    assert_clean(&db).await;
}

#[tokio::test]
async fn the_log_is_cleaned_up_only_when_that_is_asked_for() {
    let mut options = joining();
    options.upkeep.clean_log_after = Some(Duration::from_secs(7 * 24 * 3600));
    let (world, id) = sixteen(options, new_table("t")).await;
    // Nothing is old enough.
    assert!(world.get(&record_key(1)).await.is_some());
    assert_eq!(files(&world, id).await, 1);
}
