//! A process that dies at any request of a clone leaves all of it or nothing, and the next one
//! can begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tarndb_db::Database;
use tarndb_types::TableId;
use tokio::sync::Notify;

use crate::clones::{KINDS, clone, clone_in};
use crate::hook::{Call, Reaction, When};
use crate::support::*;
use crate::vacuum::{DAY, Scene, options, vacuum};

/// Three files, one with deleted rows, and one more that rides in a record.
async fn source(db: &Database, inlining: &Database) -> TableId {
    let id = create_table(db, "t").await;
    insert(db, id, &(0..4000).map(|n| (n, 0)).collect::<Vec<_>>()).await;
    insert(db, id, &[(5000, 0)]).await;
    let mut txn = begin(db).await;
    delete(&mut txn, id, |row| row.0 * row.0 % 11 == 3).await;
    txn.commit().await.unwrap();
    db.publish().await.unwrap();
    insert(inlining, id, &[(6000, 0)]).await;
    id
}

/// Clones with a handle that dies at its request number `stop`; whether it came to its end.
async fn clone_until(scene: &Scene, id: TableId, shallow: bool, stop: usize) -> bool {
    let (hooks, db) = scene.hooked(options()).await;
    let mut txn = begin(&db).await;
    let (count, dead) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let died = Arc::clone(&dead);
    hooks.set(move |call: &Call<'_>| {
        if call.when == When::BeforeGet {
            return Reaction::Pass;
        }
        if count.fetch_add(1, Ordering::SeqCst) + 1 < stop {
            return Reaction::Pass;
        }
        dead.notify_one();
        Reaction::Run(Box::pin(std::future::pending()))
    });
    let work = async {
        clone_in(&mut txn, id, "c", shallow, None).await.unwrap();
        txn.commit().await.unwrap();
    };
    tokio::select! {
        biased;
        () = died.notified() => false,
        () = work => true,
    }
}

#[tokio::test]
async fn a_clone_killed_at_any_request_is_whole_or_not_there() {
    for shallow in KINDS {
        let mut stop = 1;
        loop {
            let scene = Scene::new();
            let db = scene.create().await;
            let inlining = scene.open_with(manual()).await;
            let id = source(&db, &inlining).await;
            let (before, sources) = (rows(&db, id).await, scene.world.keys("main/t").await);
            let ended = clone_until(&scene, id, shallow, stop).await;
            let case = format!("shallow={shallow} stop={stop}");

            let next = scene.open().await;
            let snapshot = next.snapshot().await.unwrap();
            let found = snapshot.catalog().find("main", "c").map(|table| table.id);
            assert!(found.is_some() || !ended, "{case}");
            let copy = match found {
                Some(copy) => copy,
                None => clone(&next, id, "c", shallow).await,
            };
            assert_eq!(rows(&next, copy).await, before, "{case}");
            assert_eq!(rows(&next, id).await, before, "{case}");
            assert_clean(&next).await;
            next.publish().await.unwrap();
            let kept = scene.world.keys("main/t").await;
            assert!(sources.iter().all(|key| kept.contains(key)), "{case}");
            scene.pass(DAY * 8);
            vacuum(&next).await;
            assert_eq!(rows(&scene.open().await, copy).await, before, "{case}");
            assert_clean(&scene.open().await).await;
            if ended {
                assert!(stop > 4, "{case}: too few requests to tell anything");
                break;
            }
            stop += 1;
        }
    }
}
