//! What a transaction does, sees and leaves behind.

use tarndb_db::{TxnOptions, TxnStatus};
use tarndb_txn::Operation;
use tarndb_types::{DbVersion, TxnId, TxnRef, Uuid};

use crate::support::*;

#[tokio::test]
async fn one_commit_changes_two_tables_at_once() {
    let world = World::new();
    let db = world.create().await;
    let (a, b) = (create_table(&db, "a").await, create_table(&db, "b").await);
    let mut txn = begin(&db).await;
    append(&mut txn, a, &[(1, 10)]).await;
    append(&mut txn, b, &[(2, 20)]).await;
    let before = db.snapshot().await.unwrap();
    let committed = txn.commit().await.unwrap();
    assert_eq!(committed.version, Some(DbVersion(3)));
    assert_eq!(committed.attempts, 1);

    for db in [&db, &world.open().await] {
        assert_eq!(rows(db, a).await, [(1, 10)]);
        assert_eq!(rows(db, b).await, [(2, 20)]);
    }
    assert_eq!(rows_at(&before, a).await, []);
    assert_eq!(rows_at(&before, b).await, []);
    assert_clean(&db).await;
}

#[tokio::test]
async fn a_dropped_transaction_leaves_nothing() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(1, 1)]).await;
    txn.create_schema("s").unwrap();
    drop(txn);
    assert_eq!(rows(&world.open().await, id).await, []);
    assert_eq!(db.snapshot().await.unwrap().version(), DbVersion(1));
}

#[tokio::test]
async fn reads_see_own_changes_and_nothing_newer() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1), (2, 2), (3, 3)]).await;
    let mut txn = begin(&db).await;
    insert(&db, id, &[(9, 9)]).await;
    delete(&mut txn, id, |row| row.0 == 1).await;
    append(&mut txn, id, &[(4, 4), (5, 5)]).await;
    update(&mut txn, id, |row| row.0 >= 3, |row| (row.0, row.1 * 10)).await;
    delete(&mut txn, id, |row| row.0 == 5).await;
    assert_eq!(rows_in(&txn, id).await, [(2, 2), (3, 30), (4, 40)]);
    txn.commit().await.unwrap();
    assert_eq!(rows(&db, id).await, [(2, 2), (3, 30), (4, 40), (9, 9)]);
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn deleting_all_rows_of_a_file_removes_it() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1), (2, 2)]).await;
    insert(&db, id, &[(3, 3)]).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 1).await;
    delete(&mut txn, id, |row| row.0 == 2).await;
    assert_eq!(txn.table(id).await.unwrap().files.len(), 1);
    let committed = txn.commit().await.unwrap();
    // No vector was needed, so the table stays readable for old readers.
    assert!(committed.notices.is_empty(), "{:?}", committed.notices);
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    assert_eq!(state.files.len(), 1);
    assert_eq!(rows(&world.open().await, id).await, [(3, 3)]);
}

#[tokio::test]
async fn the_first_deletion_vector_is_told_once() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1), (2, 2), (3, 3)]).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 1).await;
    let first = txn.commit().await.unwrap();
    assert_eq!(first.notices.len(), 1, "{:?}", first.notices);
    assert!(first.notices[0].contains("main.t"), "{:?}", first.notices);
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 2).await;
    assert!(txn.commit().await.unwrap().notices.is_empty());
    assert_eq!(rows(&world.open().await, id).await, [(3, 3)]);
}

#[tokio::test]
async fn nothing_to_commit_makes_no_record() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let before = world.keys("_tarndb").await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |_| true).await;
    txn.truncate(id).await.unwrap();
    append(&mut txn, id, &[]).await;
    assert!(txn.is_read_only());
    let committed = txn.commit().await.unwrap();
    assert_eq!((committed.version, committed.attempts), (None, 0));
    assert_eq!(world.keys("_tarndb").await, before);
}

#[tokio::test]
async fn a_rewind_forgets_what_came_after_the_mark() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(2, 2)]).await;
    let mark = txn.mark();
    delete(&mut txn, id, |_| true).await;
    let made = txn.create_table("main", new_table("u")).await.unwrap();
    append(&mut txn, made, &[(7, 7)]).await;
    txn.rewind(mark);
    assert!(txn.catalog().find("main", "u").is_none());
    assert_eq!(rows_in(&txn, id).await, [(1, 1), (2, 2)]);
    txn.commit().await.unwrap();
    assert_eq!(rows(&db, id).await, [(1, 1), (2, 2)]);
}

#[tokio::test]
async fn rows_that_are_not_live_are_refused_and_nothing_changes() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1), (2, 2)]).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 1).await;
    let file = txn.table(id).await.unwrap().files.paths().next().unwrap();
    for wrong in [0, 2, 1000] {
        let rows = [(file.clone(), [wrong].into_iter().collect())]
            .into_iter()
            .collect();
        let error = txn
            .delete_rows(id, rows, Operation::Delete)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("not live"), "{error}");
    }
    assert_eq!(rows_in(&txn, id).await, [(2, 2)]);
}

#[tokio::test]
async fn copy_on_write_rewrites_files_without_vectors() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, table_with("t", "tarndb.deletionVectors", "off")).await;
    insert(&db, id, &[(1, 1), (2, 2), (3, 3)]).await;
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(4, 4), (5, 5)]).await;
    update(
        &mut txn,
        id,
        |row| row.0 == 2 || row.0 == 4,
        |row| (row.0, 0),
    )
    .await;
    delete(&mut txn, id, |row| row.0 == 5).await;
    assert_eq!(rows_in(&txn, id).await, [(1, 1), (2, 0), (3, 3), (4, 0)]);
    assert!(txn.commit().await.unwrap().notices.is_empty());
    assert_eq!(rows(&db, id).await, [(1, 1), (2, 0), (3, 3), (4, 0)]);
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    assert!(state.files.values().all(|file| file.deletion.is_none()));
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn truncate_and_overwrite_replace_what_is_there_at_commit() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let mut txn = begin(&db).await;
    assert_eq!(txn.truncate(id).await.unwrap(), Some(1));
    append(&mut txn, id, &[(5, 5)]).await;
    insert(&db, id, &[(2, 2)]).await;
    txn.commit().await.unwrap();
    assert_eq!(rows(&db, id).await, [(5, 5)]);

    let mut txn = begin(&db).await;
    let mut writer = txn.writer(id).await.unwrap();
    writer.write(&batch(&[(6, 6)])).await.unwrap();
    let written = writer.finish().await.unwrap();
    txn.overwrite(id, written, false).await.unwrap();
    assert_eq!(rows_in(&txn, id).await, [(6, 6)]);
    txn.commit().await.unwrap();
    assert_eq!(rows(&world.open().await, id).await, [(6, 6)]);
}

#[tokio::test]
async fn a_chosen_id_commits_once() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let chosen = TxnId(Uuid::from_u128(7));
    let options = || TxnOptions {
        id: Some(chosen),
        ..TxnOptions::default()
    };

    // Both begin before either commits; the second goes through another handle.
    let other = world.open().await;
    let mut first = db.begin(options()).await.unwrap();
    let mut second = other.begin(options()).await.unwrap();
    append(&mut first, id, &[(1, 1)]).await;
    append(&mut second, id, &[(1, 1)]).await;
    let version = first.commit().await.unwrap().version;
    assert_eq!(second.commit().await.unwrap().version, version);

    // A retry that begins after the commit.
    let mut third = db.begin(options()).await.unwrap();
    append(&mut third, id, &[(1, 1)]).await;
    assert_eq!(third.commit().await.unwrap().version, version);
    assert_eq!(rows(&db, id).await, [(1, 1)]);
}

#[tokio::test]
async fn the_outcome_can_be_looked_up() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let mut txn = begin(&db).await;
    let reference = txn.reference();
    append(&mut txn, id, &[(1, 1)]).await;
    let other = world.open().await;
    let head = DbVersion(1);
    assert_eq!(
        other.lookup(reference).await.unwrap(),
        TxnStatus::NotCommitted { head }
    );
    txn.commit().await.unwrap();
    let version = DbVersion(2);
    assert_eq!(
        other.lookup(reference).await.unwrap(),
        TxnStatus::Committed { version }
    );
    let unknown = TxnRef {
        base: DbVersion(0),
        id: TxnId(Uuid::from_u128(1)),
    };
    let head = version;
    assert_eq!(
        other.lookup(unknown).await.unwrap(),
        TxnStatus::NotCommitted { head }
    );
}

#[tokio::test]
async fn the_log_tells_transactions_newest_first() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let options = TxnOptions {
        user_metadata: [("why".to_owned(), "test".into())].into_iter().collect(),
        ..TxnOptions::default()
    };
    let mut txn = db.begin(options).await.unwrap();
    append(&mut txn, id, &[(1, 1)]).await;
    txn.commit().await.unwrap();
    let log = db.log(10).await.unwrap();
    let told: Vec<_> = log
        .iter()
        .map(|e| (e.version.0, e.operation.as_str()))
        .collect();
    assert_eq!(
        told,
        [(2, "WRITE"), (1, "CREATE TABLE"), (0, "CREATE DATABASE")]
    );
    assert_eq!(log[0].user_metadata["why"], "test");
    assert_eq!(log[0].tables[0].name, "main.t");
    assert!(
        log.windows(2)
            .all(|pair| pair[0].timestamp > pair[1].timestamp)
    );
    assert_eq!(db.log(1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_large_commit_is_staged_and_published_from_there() {
    let world = World::new();
    let options = tarndb_db::DbOptions {
        record_bytes_max: 4000,
        ..manual()
    };
    let db = tarndb_db::Database::create(world.store(), options)
        .await
        .unwrap();
    let id = create_table(&db, "t").await;
    let mut txn = begin(&db).await;
    for n in 0..40 {
        append(&mut txn, id, &[(n, n)]).await;
    }
    txn.commit().await.unwrap();
    let staged = world.keys("main/t/_delta_log/_staged_commits").await;
    assert_eq!(staged.len(), 1);
    assert!(world.get(&record_key(2)).await.unwrap().len() < 4000);

    let other = world.open().await;
    assert_eq!(rows(&other, id).await.len(), 40);
    other.publish().await.unwrap();
    let published = world
        .get("main/t/_delta_log/00000000000000000001.json")
        .await
        .unwrap();
    assert_eq!(published, world.get(&staged[0]).await.unwrap());
    assert_clean(&other).await;

    // The staged file may go once the version is published.
    world.delete(&staged[0]).await;
    assert_eq!(rows(&world.open().await, id).await.len(), 40);
}

#[tokio::test]
async fn a_staged_entry_with_other_content_is_refused() {
    let world = World::new();
    let options = tarndb_db::DbOptions {
        record_bytes_max: 4000,
        ..manual()
    };
    let db = tarndb_db::Database::create(world.store(), options)
        .await
        .unwrap();
    let id = create_table(&db, "t").await;
    let mut txn = begin(&db).await;
    for n in 0..40 {
        append(&mut txn, id, &[(n, n)]).await;
    }
    txn.commit().await.unwrap();
    let key = world
        .keys("main/t/_delta_log/_staged_commits")
        .await
        .remove(0);
    let whole = world.get(&key).await.unwrap();
    let mut other = String::from_utf8(whole.to_vec()).unwrap();
    other = other.replacen("\"dataChange\":true", "\"dataChange\":null", 1);
    assert_eq!(other.len(), whole.len());
    for damage in [Some(other), None] {
        match damage {
            Some(bytes) => world.put(&key, bytes).await,
            None => world.delete(&key).await,
        }
        let fresh = world.open().await;
        let error = fresh.snapshot().await.unwrap().table(id).await.unwrap_err();
        assert!(
            matches!(error, tarndb_db::DbError::StagedDamaged { .. }),
            "{error}"
        );
        let report = fresh.check(false, |_| {}).await.unwrap();
        assert_eq!(kinds(&report), ["staged.damaged", "table.unreadable"]);
    }
    world.put(&key, whole).await;
    assert_clean(&world.open().await).await;
}
