//! Vacuum beside clones: what a clone needs is never deleted, whoever asks and whenever.
//!
//! BC-27: files that two tables share are kept.

use std::collections::BTreeSet;

use tarndb_db::{Database, DbError, TravelError, VacuumOptions, VacuumReport};
use tarndb_types::{TableId, TableVersion};

use crate::clones::{KINDS, clone, clone_in, version};
use crate::hook::{Call, Reaction, When};
use crate::support::*;
use crate::travel::ids_at;
use crate::vacuum::{DAY, Scene, options, vacuum};

async fn vacuum_only(db: &Database, id: TableId) -> VacuumReport {
    let options = VacuumOptions {
        tables: Some(BTreeSet::from([id])),
        ..VacuumOptions::default()
    };
    db.vacuum(&options, |_| {}).await.unwrap()
}

async fn drop_it(db: &Database, id: TableId) {
    let mut txn = begin(db).await;
    txn.drop_table(id).unwrap();
    txn.commit().await.unwrap();
}

async fn truncate(db: &Database, id: TableId) {
    let mut txn = begin(db).await;
    txn.truncate(id).await.unwrap();
    txn.commit().await.unwrap();
}

fn gone(report: &VacuumReport) -> Vec<String> {
    report.files().map(|file| file.key.to_string()).collect()
}

/// Two rows in two files.
async fn two_files(scene: &Scene) -> (Database, TableId) {
    let db = scene.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    insert(&db, id, &[(2, 2)]).await;
    db.publish().await.unwrap();
    (db, id)
}

#[tokio::test]
async fn bc_27_files_of_the_source_stay_while_any_retained_version_of_a_clone_needs_them() {
    let scene = Scene::new();
    let (db, id) = two_files(&scene).await;
    let copy = clone(&db, id, "c", true).await;
    let third = clone(&db, copy, "d", true).await;
    truncate(&db, id).await;
    db.publish().await.unwrap();
    scene.pass(DAY * 8);
    for report in [vacuum_only(&db, id).await, vacuum(&db).await] {
        assert_eq!(gone(&report), Vec::<String>::new());
    }
    let all = [(1, 1), (2, 2)];
    for (id, expected) in [(id, &[] as &[Row]), (copy, &all), (third, &all)] {
        assert_eq!(rows(&scene.open().await, id).await, expected);
    }
    // A version of the clone that is no longer its newest, but within the retention.
    drop_it(&db, third).await;
    truncate(&db, copy).await;
    db.publish().await.unwrap();
    scene.pass(DAY);
    assert_eq!(gone(&vacuum(&db).await), Vec::<String>::new());
    assert_eq!(ids_at(&db, copy, version(0)).await, [1, 2]);
    assert_clean(&scene.open().await).await;
    scene.pass(DAY * 8);
    let report = vacuum(&db).await;
    let data: Vec<String> = gone(&report);
    let data = data.iter().filter(|key| key.ends_with(".parquet"));
    assert_eq!(data.filter(|key| key.starts_with("main/t/part")).count(), 2);
    let error = clone_in(&mut begin(&db).await, copy, "x", true, Some(version(0))).await;
    let vacuumed = matches!(error, Err(DbError::Travel(TravelError::Vacuumed { .. })));
    assert!(vacuumed, "{error:?}");
    assert_clean(&scene.open().await).await;
}

#[tokio::test]
async fn a_dropped_source_goes_but_for_what_clones_need_and_then_the_rest() {
    let scene = Scene::new();
    let (db, id) = two_files(&scene).await;
    let copy = clone(&db, id, "c", true).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, copy, |row| row.0 == 1).await;
    txn.commit().await.unwrap();
    db.publish().await.unwrap();
    drop_it(&db, id).await;
    scene.pass(DAY * 8);
    vacuum(&db).await;
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    let kept = scene.world.keys("main/t").await;
    let data = kept.iter().filter(|key| key.contains("/part-")).count();
    assert!(data >= 1, "{kept:?}");
    let other = scene.open().await;
    assert_eq!(rows(&other, copy).await, [(2, 2)]);
    assert_clean(&other).await;
    // Again, by one who only knows the checkpoint.
    scene.pass(DAY * 8);
    vacuum(&other).await;
    assert_eq!(rows(&scene.open().await, copy).await, [(2, 2)]);
    drop_it(&other, copy).await;
    scene.pass(DAY * 8);
    vacuum(&other).await;
    for folder in ["main/t", "main/c"] {
        assert_eq!(scene.world.keys(folder).await, Vec::<String>::new());
    }
    assert_clean(&scene.open().await).await;
}

#[tokio::test]
async fn a_vacuum_of_the_clone_deletes_nothing_of_the_source() {
    for shallow in KINDS {
        let scene = Scene::new();
        let (db, id) = two_files(&scene).await;
        let copy = clone(&db, id, "c", shallow).await;
        db.publish().await.unwrap();
        truncate(&db, copy).await;
        drop_it(&db, copy).await;
        let sources = scene.world.keys("main/t").await;
        scene.pass(DAY * 8);
        vacuum_only(&db, copy).await;
        assert_eq!(scene.world.keys("main/t").await, sources);
        assert_eq!(scene.world.keys("main/c").await, Vec::<String>::new());
        assert_eq!(rows(&scene.open().await, id).await, [(1, 1), (2, 2)]);
        assert_clean(&scene.open().await).await;
    }
}

/// The files of version 2 are live no more, but a version of the retention has them.
async fn replaced(scene: &Scene) -> (Database, TableId) {
    let (db, id) = two_files(scene).await;
    truncate(&db, id).await;
    insert(&db, id, &[(3, 3)]).await;
    db.publish().await.unwrap();
    (db, id)
}

#[tokio::test]
async fn a_clone_that_a_vacuum_overtakes_commits_only_what_the_vacuum_keeps() {
    for shallow in KINDS {
        // What is cloned, what is there afterwards.
        let cases: [(Option<u64>, &[Row]); 2] = [(None, &[(3, 3)]), (Some(2), &[(1, 1), (2, 2)])];
        for (target, expected) in cases {
            let scene = Scene::new();
            let (db, id) = replaced(&scene).await;
            let (hooks, cloner) = scene.hooked(options()).await;
            let mut txn = begin(&cloner).await;
            let target = target.map(version);
            let (copy, _) = clone_in(&mut txn, id, "c", shallow, target).await.unwrap();
            let at = record_key(txn.reference().base.next().0);
            let mut once = Some(scene.clone());
            hooks.set(move |call: &Call<'_>| {
                let is_put = call.when == When::BeforePut && call.key == at;
                match once.take_if(|_| is_put) {
                    None => Reaction::Pass,
                    Some(scene) => Reaction::Run(Box::pin(async move {
                        scene.pass(DAY * 8);
                        let vacuuming = scene.open().await;
                        let report = vacuum(&vacuuming).await;
                        assert!(report.files().count() >= 2);
                    })),
                }
            });
            let ended = txn.commit().await;
            if shallow && target.is_some() {
                let vacuumed = matches!(ended, Err(DbError::Travel(TravelError::Vacuumed { .. })));
                assert!(vacuumed, "{ended:?}");
            } else if shallow {
                ended.unwrap();
                assert_eq!(rows(&scene.open().await, copy).await, expected);
            } else {
                // Its own copies are older than the retention: it has to be made anew.
                let error = ended.unwrap_err();
                assert!(matches!(error, DbError::FilesVacuumed { .. }), "{error}");
            }
            assert_clean(&scene.open().await).await;
            drop(db);
        }
    }
}

#[tokio::test]
async fn a_clone_that_commits_between_the_announcement_and_the_deletions_keeps_its_rows() {
    for target in [None, Some(4), Some(3)] {
        let scene = Scene::new();
        let (db, id) = replaced(&scene).await;
        scene.pass(DAY * 8);
        insert(&db, id, &[(4, 4)]).await;
        let (hooks, vacuuming) = scene.hooked(options()).await;
        let mut once = Some(scene.clone());
        hooks.set(move |call: &Call<'_>| {
            match once.take_if(|_| call.when == When::BeforeDelete && call.key.contains("part-")) {
                None => Reaction::Pass,
                Some(scene) => Reaction::Run(Box::pin(async move {
                    let db = scene.open().await;
                    let mut txn = begin(&db).await;
                    let target = target.map(version);
                    let cloned = clone_in(&mut txn, id, "c", true, target).await;
                    match target {
                        // Below the horizon.
                        Some(target) if target == version(3) => {
                            cloned.unwrap_err();
                        }
                        _ => {
                            cloned.unwrap();
                            txn.commit().await.unwrap();
                        }
                    }
                })),
            }
        });
        let report = vacuum(&vacuuming).await;
        assert_eq!(gone(&report).len(), 2);
        let db = scene.open().await;
        let snapshot = db.snapshot().await.unwrap();
        let found = snapshot.catalog().find("main", "c").map(|table| table.id);
        assert_eq!(found.is_none(), target == Some(3));
        if let Some(copy) = found {
            let last: &[Row] = if target.is_none() {
                &[(3, 3), (4, 4)]
            } else {
                &[(3, 3)]
            };
            assert_eq!(rows(&db, copy).await, last);
        }
        // And the next vacuum knows of it.
        scene.pass(DAY * 8);
        vacuum(&db).await;
        if let Some(copy) = found {
            assert!(!rows(&scene.open().await, copy).await.is_empty());
        }
        assert_clean(&scene.open().await).await;
    }
}

#[tokio::test]
async fn a_vacuum_of_the_source_alone_ends_the_old_versions_of_the_clone_too() {
    let scene = Scene::new();
    let (db, id) = two_files(&scene).await;
    let copy = clone(&db, id, "c", true).await;
    truncate(&db, copy).await;
    truncate(&db, id).await;
    db.publish().await.unwrap();
    scene.pass(DAY * 8);
    assert_eq!(gone(&vacuum_only(&db, id).await).len(), 2);
    let snapshot = db.snapshot().await.unwrap();
    let error = snapshot.table_at(copy, version(0)).await.unwrap_err();
    let vacuumed = matches!(
        error,
        DbError::Travel(TravelError::Vacuumed {
            wanted: TableVersion(0),
            ..
        })
    );
    assert!(vacuumed, "{error}");
    assert_clean(&scene.open().await).await;
}
