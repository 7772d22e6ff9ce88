//! What foreign readers find, and what foreign writers do.

use tarndb_db::{Database, DbError, DbOptions, ErrorKind, PublishMode};
use tarndb_types::{DbVersion, TableVersion};

use crate::support::*;

fn published_key(version: u64) -> String {
    format!("main/t/_delta_log/{version:020}.json")
}

#[tokio::test]
async fn published_bytes_are_those_of_the_record() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    assert_eq!(world.get(&published_key(0)).await, None);
    let report = db.publish().await.unwrap();
    assert_eq!(report.versions_written(), 2);
    assert_eq!(report.tables[0].published, TableVersion(1));
    for (record, version) in [(1, 0), (2, 1)] {
        let record = world.get(&record_key(record)).await.unwrap();
        let record = String::from_utf8(record.to_vec()).unwrap();
        let published = world.get(&published_key(version)).await.unwrap();
        let published = String::from_utf8(published.to_vec()).unwrap();
        assert!(published.ends_with('\n') && published.starts_with("{\"commitInfo\""));
        for line in published.lines() {
            assert!(record.contains(line), "{line}");
        }
    }
    // Again, by anyone: nothing to do.
    assert_eq!(db.publish().await.unwrap().versions_written(), 0);
    assert_eq!(
        world
            .open()
            .await
            .publish()
            .await
            .unwrap()
            .versions_written(),
        0
    );
    assert_clean(&db).await;
}

#[tokio::test]
async fn any_handle_goes_on_where_another_stopped() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    for n in 0..6 {
        insert(&db, id, &[(n, n)]).await;
        if n == 2 {
            db.publish().await.unwrap();
        }
    }
    drop(db);
    let other = world.open().await;
    let status = other.status().await.unwrap();
    assert_eq!(status.tables[0].published, Some(TableVersion(3)));
    assert_eq!(status.tables[0].unpublished(), 3);
    let report = other.publish().await.unwrap();
    assert_eq!(report.versions_written(), 3);
    assert_eq!(other.status().await.unwrap().tables[0].unpublished(), 0);
    assert_clean(&other).await;
}

#[tokio::test]
async fn async_publishing_is_flushed_by_close_and_sync_is_done_before_commit_returns() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let options = DbOptions::default();
    let background = Database::open(world.store(), options.clone())
        .await
        .unwrap();
    insert(&background, id, &[(1, 1)]).await;
    background.close().await.unwrap();
    assert!(world.get(&published_key(1)).await.is_some());
    let closed = background.snapshot().await.unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);

    let options = DbOptions {
        publish: PublishMode::Sync,
        ..options
    };
    let sync = Database::open(world.store(), options).await.unwrap();
    insert(&sync, id, &[(2, 2)]).await;
    assert!(world.get(&published_key(2)).await.is_some());
}

#[tokio::test]
async fn dropped_tables_are_still_published() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let mut txn = begin(&db).await;
    txn.drop_table(id).unwrap();
    txn.commit().await.unwrap();
    assert_eq!(
        world
            .open()
            .await
            .publish()
            .await
            .unwrap()
            .versions_written(),
        2
    );
    assert_clean(&db).await;
}

#[tokio::test]
async fn a_foreign_commit_makes_the_table_diverged_and_is_never_overwritten() {
    let world = World::new();
    let db = world.create().await;
    let (id, other_id) = (create_table(&db, "t").await, create_table(&db, "u").await);
    insert(&db, id, &[(1, 1)]).await;
    db.publish().await.unwrap();
    let foreign = "{\"commitInfo\":{\"operation\":\"FOREIGN\"}}\n";
    world.put(&published_key(2), foreign).await;
    // Committed all the same: the database log decides.
    insert(&db, id, &[(2, 2)]).await;
    insert(&db, other_id, &[(3, 3)]).await;
    let report = db.publish().await.unwrap();
    assert_eq!(report.diverged.len(), 1);
    assert_eq!(report.diverged[0].version, TableVersion(2));
    assert_eq!(report.versions_written(), 1, "the other table goes on");
    assert_eq!(world.get(&published_key(2)).await.unwrap(), foreign);
    assert_eq!(rows(&db, id).await, [(1, 1), (2, 2)]);

    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(4, 4)]).await;
    let error = txn.commit().await.unwrap_err();
    assert!(
        matches!(&error, DbError::Diverged { table, .. } if table == "main.t"),
        "{error}"
    );
    insert(&db, other_id, &[(5, 5)]).await;

    let fresh = world.open().await;
    let status = fresh.status().await.unwrap();
    assert_eq!(
        status.tables[0].diverged.as_ref().unwrap().version,
        TableVersion(2)
    );
    assert_eq!(status.tables[1].diverged, None);
    assert_eq!(
        kinds(&fresh.check(false, |_| {}).await.unwrap()),
        ["published.differs"]
    );
    // Reading goes on with what was committed.
    assert_eq!(rows(&fresh, id).await, [(1, 1), (2, 2)]);
}

#[tokio::test]
async fn checkpoints_are_written_when_due_and_used_afterwards() {
    let world = World::new();
    let options = DbOptions {
        publish: PublishMode::Sync,
        checkpoint_interval: 8,
        table_checkpoint_interval: 5,
        ..DbOptions::default()
    };
    let db = Database::create(world.store(), options).await.unwrap();
    let id = create_table(&db, "t").await;
    for n in 0..19 {
        insert(&db, id, &[(n, n)]).await;
    }
    let checkpoints = world.keys("_tarndb/checkpoints").await;
    assert_eq!(checkpoints.len(), 2, "{checkpoints:?}");
    let table = world.keys("main/t/_delta_log").await;
    let table: Vec<_> = table
        .iter()
        .filter(|key| key.contains("checkpoint."))
        .collect();
    assert_eq!(table.len(), 3, "{table:?}");
    assert!(
        world
            .get("main/t/_delta_log/_last_checkpoint")
            .await
            .is_some()
    );

    let fresh = world.open().await;
    assert_eq!(fresh.cached_snapshot().version(), DbVersion(20));
    assert_eq!(rows(&fresh, id).await.len(), 19);
    assert_clean(&fresh).await;
}

#[tokio::test]
async fn a_vanished_old_commit_is_tolerated_below_a_checkpoint() {
    let world = World::new();
    let options = DbOptions {
        publish: PublishMode::Sync,
        table_checkpoint_interval: 3,
        ..DbOptions::default()
    };
    let db = Database::create(world.store(), options).await.unwrap();
    let id = create_table(&db, "t").await;
    for n in 0..5 {
        insert(&db, id, &[(n, n)]).await;
    }
    db.checkpoint().await.unwrap();
    for version in 0..3 {
        world.delete(&published_key(version)).await;
    }
    let fresh = world.open().await;
    assert_eq!(rows(&fresh, id).await.len(), 5);
    assert_clean(&fresh).await;
    insert(&fresh, id, &[(9, 9)]).await;
    assert_eq!(fresh.publish().await.unwrap().versions_written(), 1);
    assert!(world.get(&published_key(1)).await.is_none());
}

#[tokio::test]
async fn the_newest_version_of_a_pass_gets_a_checksum_and_a_compaction_that_is_due() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, table_with("t", "tarndb.logCompactionInterval", "4")).await;
    for n in 1..=5 {
        insert(&db, id, &[(n, n)]).await;
    }
    db.publish().await.unwrap();
    let beside = async || {
        let keys = world.keys("main/t/_delta_log").await.into_iter();
        let names = keys.filter_map(|key| Some(key.rsplit_once('/')?.1.to_owned()));
        names
            .filter(|name| name.ends_with(".crc") || name.contains("compacted"))
            .collect::<Vec<_>>()
    };
    let compaction = "00000000000000000000.00000000000000000003.compacted.json";
    let checksum = "00000000000000000005.crc";
    assert_eq!(beside().await, [compaction, checksum]);
    let text = world.get(&format!("main/t/_delta_log/{checksum}")).await;
    let stated: serde_json::Value = serde_json::from_slice(&text.unwrap()).unwrap();
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    assert_eq!(stated["numFiles"], state.files.len());
    assert_eq!(stated["tableSizeBytes"], state.size_bytes());
    assert_eq!(stated["txnId"].as_str().map(str::len), Some(36));
    // Nothing new, nothing written; and who knows no state of the table writes no checksum.
    db.publish().await.unwrap();
    assert_eq!(beside().await.len(), 2);
    insert(&db, id, &[(6, 6)]).await;
    world.open().await.publish().await.unwrap();
    assert_eq!(beside().await.len(), 2);
    let fresh = world.open().await;
    assert_eq!(rows(&fresh, id).await.len(), 6);
    assert_clean(&fresh).await;
}
