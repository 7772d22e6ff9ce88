//! Snapshots do not change, and old versions can be read.

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use tarndb_db::DbError;
use tarndb_table::parquet::read::read_file;
use tarndb_types::DbVersion;

use crate::support::*;

#[tokio::test]
async fn a_snapshot_is_stable_over_fifty_commits_also_half_read() {
    let world = World::new();
    let db = world.create().await;
    let (a, b) = (create_table(&db, "a").await, create_table(&db, "b").await);
    let many: Vec<Row> = (0..20_000).map(|n| (n, n)).collect();
    insert(&db, a, &many).await;
    insert(&db, b, &[(1, 1)]).await;
    let snapshot = db.snapshot().await.unwrap();

    let state = snapshot.table(a).await.unwrap();
    let location = snapshot.entry(a).unwrap().location.clone();
    let file = state.files.values().next().unwrap();
    let mut stream = read_file(db.store(), &location, &file, &state.schema, &[], None)
        .await
        .unwrap();
    let first = stream.try_next().await.unwrap().unwrap();
    assert!(first.num_rows() < many.len());

    let other = world.open().await;
    for n in 0..25 {
        for (db, id) in [(&db, a), (&other, b)] {
            let mut txn = begin(db).await;
            delete(&mut txn, id, |row| row.0 == n).await;
            append(&mut txn, id, &[(100_000 + n, n)]).await;
            txn.commit().await.unwrap();
        }
    }
    db.publish().await.unwrap();
    let rest: usize = stream
        .try_fold(0, |sum, batch| async move { Ok(sum + batch.num_rows()) })
        .await
        .unwrap();
    assert_eq!(first.num_rows() + rest, many.len());
    assert_eq!(rows_at(&snapshot, a).await, many);
    assert_eq!(rows_at(&snapshot, b).await, [(1, 1)]);
    assert_eq!(rows(&db, a).await.len(), many.len());
    assert_ne!(rows(&db, a).await, many);
}

#[tokio::test]
async fn every_old_version_reads_what_it_held() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let mut expected = BTreeMap::from([(1, Vec::new())]);
    for n in 1..=30 {
        let mut txn = begin(&db).await;
        append(&mut txn, id, &[(n, n), (-n, n)]).await;
        delete(&mut txn, id, |row| row.0 == n - 3).await;
        let version = txn.commit().await.unwrap().version.unwrap();
        expected.insert(version.0, rows(&db, id).await);
        if n % 7 == 0 {
            db.publish().await.unwrap();
            db.checkpoint().await.unwrap();
        }
    }
    // A cold handle without caches, and the warm one.
    for db in [&world.open().await, &db] {
        for (version, expected) in &expected {
            let snapshot = db.snapshot_at(DbVersion(*version)).await.unwrap();
            assert_eq!(&rows_at(&snapshot, id).await, expected, "version {version}");
        }
        let wanted = DbVersion(99);
        let error = db.snapshot_at(wanted).await.unwrap_err();
        assert!(matches!(
            error,
            DbError::VersionNotFound {
                newest: DbVersion(31),
                ..
            }
        ));
    }
}
