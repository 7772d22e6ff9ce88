//! Vacuum, check and the change feed while others write, publish and vacuum.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tarndb_db::{Database, DbError, NewTable, TravelError};
use tarndb_types::{TableId, TableVersion};

use crate::hook::{Call, HookStore, Reaction, When};
use crate::support::*;
use crate::travel::changes;
use crate::vacuum::{self as scenes, DAY, Scene, options, vacuum};

fn with_feed() -> NewTable {
    NewTable {
        properties: BTreeMap::from([("delta.enableChangeDataFeed".to_owned(), "true".to_owned())]),
        ..new_table("t")
    }
}

/// Four versions of a table with a change feed and a checkpoint.
async fn four_ages(scene: &Scene) -> (Database, TableId) {
    let (db, id) = scenes::four_ages(scene, with_feed()).await;
    db.checkpoint().await.unwrap();
    (db, id)
}

/// Lets `work` happen once, in front of the first call that is `wanted`; whether it did.
fn once_before(
    hooks: &HookStore,
    wanted: impl Fn(&Call<'_>) -> bool + Send + 'static,
    work: impl Future<Output = ()> + Send + 'static,
) -> Arc<AtomicBool> {
    let did = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&did);
    let mut work = Some(Box::pin(work));
    hooks.set(move |call: &Call<'_>| match wanted(call) {
        true => match work.take() {
            Some(work) => {
                done.store(true, Ordering::SeqCst);
                Reaction::Run(work)
            }
            None => Reaction::Pass,
        },
        false => Reaction::Pass,
    });
    did
}

#[tokio::test]
async fn a_vacuum_counts_records_that_come_while_it_reads_the_end_of_the_log() {
    let scene = Scene::new();
    let (db, id) = four_ages(&scene).await;
    let next = record_key(db.snapshot().await.unwrap().version().0 + 1);
    let (hooks, vacuumer) = scene.hooked(options()).await;
    let other = scene.open().await;
    let did = once_before(
        &hooks,
        move |call| call.when == When::BeforeGet && call.key == next,
        async move { drop(insert(&other, id, &[(9, 9)]).await) },
    );
    vacuum(&vacuumer).await;
    assert!(did.load(Ordering::SeqCst));
    assert_eq!(rows(&scene.open().await, id).await, [(4, 4), (9, 9)]);
    assert_clean(&scene.open().await).await;
}

#[tokio::test]
async fn a_check_takes_versions_that_are_published_meanwhile_for_no_foreign_ones() {
    let scene = Scene::new();
    let (_, id) = four_ages(&scene).await;
    let (hooks, checker) = scene.hooked(options()).await;
    let other = scene.open().await;
    let did = once_before(
        &hooks,
        |call| call.when == When::BeforeList && call.key.starts_with("main/t"),
        async move {
            insert(&other, id, &[(9, 9)]).await;
            other.publish().await.unwrap();
        },
    );
    assert_clean(&checker).await;
    assert!(did.load(Ordering::SeqCst));
    // One that no record made is told.
    hooks.set(|_| Reaction::Pass);
    let key = format!("main/t/_delta_log/{:020}.json", 6);
    scene.world.put(&key, "{}\n".as_bytes()).await;
    let report = checker.check(true, |_| {}).await.unwrap();
    assert!(!report.is_clean());
}

#[tokio::test]
async fn changes_begin_one_version_after_the_oldest_that_a_vacuum_left() {
    let scene = Scene::new();
    let (db, id) = four_ages(&scene).await;
    assert_eq!(changes(&db, id, 3, Some(3)).await.len(), 2);
    vacuum(&db).await;
    for db in [&db, &scene.open().await] {
        let snapshot = db.snapshot().await.unwrap();
        let refused = snapshot.table_changes(id, TableVersion(3), None).await;
        match refused {
            Err(DbError::Travel(TravelError::Vacuumed { wanted, oldest, .. })) => {
                assert_eq!(wanted, TableVersion(3));
                assert_eq!(oldest, Some(TableVersion(4)));
            }
            other => panic!("{other:?}"),
        }
        let told = changes(db, id, 4, None).await;
        assert_eq!(told, ["4 delete 3", "4 insert 4"]);
    }
}

/// Whether a request is the one to stop at.
type At = fn(&Call<'_>) -> bool;

#[tokio::test]
async fn two_vacuums_at_once_both_come_to_their_end() {
    let points: [(&str, At); 4] = [
        ("put", |call| {
            call.when == When::BeforePut && call.key.starts_with("_tarndb/log/")
        }),
        ("announced", |call| {
            call.when == When::AfterPut && call.key.starts_with("_tarndb/log/")
        }),
        ("list", |call| {
            call.when == When::BeforeList && call.key.starts_with("main/t")
        }),
        ("delete", |call| {
            call.when == When::BeforeDelete && call.key.contains("main/t/part-")
        }),
    ];
    for (name, at) in points {
        let scene = Scene::new();
        let (_, id) = four_ages(&scene).await;
        scene.pass(30 * DAY);
        let (hooks, first) = scene.hooked(options()).await;
        let other = scene.open().await;
        let did = once_before(&hooks, at, async move { drop(vacuum(&other).await) });
        vacuum(&first).await;
        assert!(did.load(Ordering::SeqCst), "{name}");
        let db = scene.open().await;
        assert_eq!(rows(&db, id).await, [(4, 4)], "{name}");
        assert_clean(&db).await;
        assert_eq!(vacuum(&db).await.files().count(), 0, "{name}");
    }
}
