//! Cleaning up the database log: what goes, and who notices.

use std::time::Duration;

use tarndb_db::{Database, DbError, DbOptions, ErrorKind, LogCleanupOptions, LogCleanupReport};
use tarndb_types::{DbVersion, TableId};

use crate::hook::{Call, Reaction, When};
use crate::support::*;
use crate::vacuum::{DAY, Scene};

fn options() -> DbOptions {
    DbOptions {
        log_records_min: 3,
        ..crate::vacuum::options()
    }
}

pub(crate) async fn clean(db: &Database) -> LogCleanupReport {
    db.clean_log(&LogCleanupOptions::default(), |_| {})
        .await
        .unwrap()
}

async fn records(scene: &Scene) -> Vec<u64> {
    let keys = scene.world.keys("_tarndb/log").await;
    let versions = keys.iter().filter_map(|key| key.get(12..32));
    versions.map(|digits| digits.parse().unwrap()).collect()
}

/// Records 0..=12, a checkpoint at 8, all published, nine days ago.
async fn twelve(scene: &Scene) -> (Database, TableId) {
    let db = scene.create_with(options()).await;
    let id = create_table(&db, "t").await;
    for n in 2..=12 {
        insert(&db, id, &[(n, n)]).await;
        if n == 8 {
            db.checkpoint().await.unwrap();
        }
    }
    scene.pass(DAY * 9);
    (db, id)
}

#[tokio::test]
async fn the_beginning_goes_below_an_old_checkpoint_and_all_that_need_it_are_told() {
    let scene = Scene::new();
    let (db, id) = twelve(&scene).await;
    let (_, idle) = scene.hooked(options()).await;
    let mut old = begin(&idle).await;
    append(&mut old, id, &[(99, 99)]).await;
    assert_eq!(
        clean(&db).await,
        LogCleanupReport::default(),
        "not published"
    );
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    let dry = LogCleanupOptions {
        dry_run: true,
        ..LogCleanupOptions::default()
    };
    let shown = db.clean_log(&dry, |_| {}).await.unwrap();
    assert_eq!(records(&scene).await.len(), 13);
    let report = clean(&db).await;
    assert_eq!(report, shown);
    assert_eq!(report.cut, Some(DbVersion(8)));
    assert_eq!((report.records, report.checkpoints), (7, 0));
    assert_eq!(records(&scene).await, [0, 8, 9, 10, 11, 12]);
    assert_eq!(clean(&db).await, LogCleanupReport::default());

    let expected: Vec<Row> = (2..=12).map(|n| (n, n)).collect();
    for reader in [&db, &idle, &scene.open().await] {
        assert_eq!(rows(reader, id).await, expected);
        let error = reader.snapshot_at(DbVersion(5)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    assert_clean(&scene.open().await).await;
    let fresh = scene.open().await;
    let gone = tarndb_types::TxnRef {
        base: DbVersion(3),
        id: tarndb_types::TxnId(old.reference().id.0),
    };
    let error = fresh.resolve(gone).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeExpired, "{error}");
    // Its base is still there.
    old.commit().await.unwrap();
}

#[tokio::test]
async fn a_transaction_whose_base_is_gone_runs_again() {
    let scene = Scene::new();
    let db = scene.create_with(options()).await;
    let id = create_table(&db, "t").await;
    let (_, late) = scene.hooked(options()).await;
    let mut txn = begin(&late).await;
    append(&mut txn, id, &[(99, 99)]).await;
    for n in 2..=12 {
        insert(&db, id, &[(n, n)]).await;
    }
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    for n in 13..=16 {
        insert(&db, id, &[(n, n)]).await;
    }
    db.publish().await.unwrap();
    scene.pass(DAY * 9);
    assert_eq!(clean(&db).await.cut, Some(DbVersion(12)));
    let error = txn.commit().await.unwrap_err();
    assert!(matches!(error, DbError::BaseExpired { .. }), "{error}");
    assert!(error.is_retryable());
    assert_eq!(rows(&late, id).await.len(), 15);
}

/// A handle that never idles, but was never told what others published.
#[tokio::test]
async fn a_reader_that_knows_nothing_of_publishing_learns_it_when_records_are_gone() {
    let scene = Scene::new();
    let db = scene.create_with(options()).await;
    let id = create_table(&db, "t").await;
    let other = create_table(&db, "other").await;
    let options = DbOptions {
        cached_states_max: 1,
        ..options()
    };
    let (_, reader) = scene.hooked(options).await;
    for n in 3..=10 {
        insert(&db, id, &[(n, n)]).await;
    }
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    for _ in 0..30 * 24 * 8 {
        scene.pass(Duration::from_secs(14 * 60));
        reader.snapshot().await.unwrap();
    }
    for n in 11..=14 {
        insert(&db, id, &[(n, n)]).await;
    }
    db.publish().await.unwrap();
    assert_eq!(clean(&db).await.cut, Some(DbVersion(10)));
    // Its 256 records in memory are gone too.
    for n in 0..300 {
        insert(&db, other, &[(n, n)]).await;
    }
    assert_eq!(rows(&reader, other).await.len(), 300);
    assert_eq!(rows(&reader, id).await.len(), 12);
    reader.publish().await.unwrap();
    reader.checkpoint().await.unwrap();
    assert_eq!(rows(&scene.open().await, id).await.len(), 12);
    assert_clean(&scene.open().await).await;
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_read_is_no_cut() {
    let scene = Scene::new();
    let (db, _) = twelve(&scene).await;
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    let key = format!("_tarndb/checkpoints/{:020}.json.zst", 8);
    let whole = scene.world.get(&key).await.unwrap();
    let time = scene.time_of(&key).await;
    scene.world.put(&key, whole.slice(..whole.len() / 2)).await;
    scene.timed.set_time(&key, time);
    assert_eq!(clean(&db).await, LogCleanupReport::default());
    assert_eq!(records(&scene).await.len(), 13);
}

#[tokio::test]
async fn killed_at_any_deletion_the_log_opens_and_the_next_cleanup_ends_it() {
    for nth in 0..9 {
        let scene = Scene::new();
        let (db, id) = twelve(&scene).await;
        db.publish().await.unwrap();
        db.checkpoint().await.unwrap();
        let (hooks, cleaner) = scene.hooked(options()).await;
        let mut seen = 0;
        hooks.set(move |call: &Call<'_>| {
            let counts = call.when == When::BeforeDelete && !call.key.contains("clock");
            seen += usize::from(counts);
            match counts && seen > nth {
                true => Reaction::Fail,
                false => Reaction::Pass,
            }
        });
        let options = LogCleanupOptions::default();
        let killed = cleaner.clean_log(&options, |_| {}).await;
        assert_eq!(killed.is_err(), nth < 7, "{nth}");
        drop(cleaner);
        let fresh = scene.open().await;
        assert_eq!(rows(&fresh, id).await.len(), 11);
        assert_clean(&fresh).await;
        clean(&db).await;
        assert_eq!(records(&scene).await, [0, 8, 9, 10, 11, 12]);
        assert_eq!(rows(&scene.open().await, id).await.len(), 11);
    }
}

#[tokio::test]
async fn records_are_kept_for_an_hour_at_least() {
    let scene = Scene::new();
    let db = scene.create_with(options()).await;
    let short = LogCleanupOptions {
        retention: Duration::from_secs(3599),
        ..LogCleanupOptions::default()
    };
    let error = db.clean_log(&short, |_| {}).await.unwrap_err();
    assert!(
        matches!(error, DbError::RetentionTooShort { min_s: 3600, .. }),
        "{error}"
    );
}
