//! Writers that were stopped for longer than the log is kept.
//!
//! The log is cleaned up by hand: its prefix below a checkpoint is removed, in order.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tarndb_db::{Database, DbError, DbOptions, ErrorKind, TxnOutcome};
use tarndb_types::{DbVersion, TableId, TxnId, TxnRef, Uuid};

use crate::clock::{HandClock, store_of};
use crate::hook::{Call, HookStore, Reaction, When};
use crate::support::*;

/// Longer than the tests keep the log.
const LONG: Duration = Duration::from_secs(60);

/// A retention of seconds: its quarter is what a writer may trust.
fn options() -> DbOptions {
    DbOptions {
        head_expiry: Duration::from_secs(2),
        ..manual()
    }
}

#[derive(Clone)]
struct Scene {
    world: World,
    clock: Arc<HandClock>,
    hooks: HookStore,
    /// The one that will be stopped.
    writer: Database,
    /// Goes on meanwhile.
    other: Database,
    id: TableId,
}

async fn scene(seed: u64) -> Scene {
    let world = World::new();
    let other = world.create().await;
    let id = create_table(&other, "t").await;
    insert(&other, id, &[(0, 0)]).await;
    let clock = HandClock::right();
    let hooks = HookStore::new(&world.objects, &clock);
    let store = store_of(Arc::new(hooks.clone()), &clock, seed);
    let writer = Database::open(store, options()).await.unwrap();
    Scene {
        world,
        clock,
        hooks,
        writer,
        other,
        id,
    }
}

impl Scene {
    /// Others commit, publish and clean up while the writer is stopped for long.
    async fn pass_by(&self) {
        for n in 10..14 {
            insert(&self.other, self.id, &[(n, n)]).await;
        }
        self.clean_up().await;
        self.clock.suspend(LONG);
    }

    /// Leaves record 0, a checkpoint of the head, its record and what comes after.
    async fn clean_up(&self) {
        self.other.publish().await.unwrap();
        let cut = self.other.checkpoint().await.unwrap().catalog;
        for version in 1..cut.0 {
            self.world.delete(&record_key(version)).await;
        }
    }

    /// Runs `work` at the first request that fits, and answers it with an error if `fails`.
    fn once(
        &self,
        fits: impl Fn(&Call<'_>) -> bool + Send + 'static,
        work: impl FnOnce(Scene) -> BoxFuture<'static, ()> + Send + 'static,
        fails: bool,
    ) {
        let scene = self.clone();
        let mut work = Some(work);
        self.hooks.set(move |call| {
            if !fits(call) {
                return Reaction::Pass;
            }
            match (work.take(), fails) {
                (None, _) => Reaction::Pass,
                (Some(work), false) => Reaction::Run(work(scene.clone())),
                (Some(work), true) => Reaction::RunAndFail(work(scene.clone())),
            }
        });
    }

    async fn assert_rows(&self, expected: &[Row]) {
        for db in [&self.writer, &self.other, &self.world.open().await] {
            assert_eq!(rows(db, self.id).await, expected);
        }
    }
}

fn record_put(when: When, version: u64) -> impl Fn(&Call<'_>) -> bool {
    move |call| call.when == when && call.key == record_key(version)
}

const OTHERS: [Row; 5] = [(0, 0), (10, 10), (11, 11), (12, 12), (13, 13)];

#[tokio::test]
async fn a_late_answer_is_believed_while_the_record_before_is_there() {
    let scene = scene(301).await;
    let mut txn = begin(&scene.writer).await;
    append(&mut txn, scene.id, &[(1, 1)]).await;
    let stop = |scene: Scene| -> BoxFuture<'static, ()> {
        Box::pin(async move {
            insert(&scene.other, scene.id, &[(2, 2)]).await;
            scene.clock.suspend(LONG);
        })
    };
    scene.once(record_put(When::AfterPut, 3), stop, false);
    let committed = txn.commit().await.unwrap();
    assert_eq!(committed.version, Some(DbVersion(3)));
    scene.assert_rows(&[(0, 0), (1, 1), (2, 2)]).await;
}

#[tokio::test]
async fn a_record_put_in_the_past_is_no_commit_when_another_published_its_version() {
    let scene = scene(302).await;
    let mut txn = begin(&scene.writer).await;
    append(&mut txn, scene.id, &[(1, 1)]).await;
    scene.once(
        record_put(When::BeforePut, 3),
        |scene| Box::pin(async move { scene.pass_by().await }),
        false,
    );
    let error = txn.commit().await.unwrap_err();
    // Definite, so it may be run again.
    assert!(matches!(error, DbError::BaseExpired { .. }), "{error}");
    assert!(error.is_retryable());
    scene.assert_rows(&OTHERS).await;
    insert(&scene.writer, scene.id, &[(20, 20)]).await;
    let mut expected = OTHERS.to_vec();
    expected.push((20, 20));
    scene.assert_rows(&expected).await;
}

#[tokio::test]
async fn a_record_put_in_the_past_expires_when_nothing_tells_and_nothing_is_deleted() {
    let scene = scene(303).await;
    let mut txn = begin(&scene.writer).await;
    append(&mut txn, scene.id, &[(1, 1)]).await;
    let reference = txn.reference();
    scene.once(
        record_put(When::BeforePut, 3),
        |scene| {
            Box::pin(async move {
                scene.pass_by().await;
                // The table's own log was cleaned up too.
                for version in 0..5 {
                    let key = format!("main/t/_delta_log/{version:020}.json");
                    scene.world.delete(&key).await;
                }
            })
        },
        false,
    );
    let before = scene.world.keys("main/t/part").await;
    let error = txn.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeExpired, "{error}");
    let DbError::OutcomeExpired { txn } = error else {
        panic!("{error}")
    };
    assert_eq!(txn, reference);
    let after = scene.world.keys("main/t/part").await;
    assert!(before.iter().all(|key| after.contains(key)));
    // Whoever asks is told the same, though a record with that id lies in the past.
    assert!(scene.world.get(&record_key(3)).await.is_some());
    for db in [&scene.writer, &scene.world.open().await] {
        let error = db.resolve(reference).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeExpired, "{error}");
        let error = db.lookup(reference).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeExpired, "{error}");
        assert_eq!(db.snapshot().await.unwrap().version(), DbVersion(6));
    }
    // But who still has the records in memory knows that it is in none of them.
    let (told, fence) = (scene.other.resolve(reference).await.unwrap(), DbVersion(7));
    assert_eq!(told, TxnOutcome::Aborted { fence });
}

#[tokio::test]
async fn a_record_right_below_the_cut_is_not_taken_for_a_commit() {
    let scene = scene(304).await;
    let mut txn = begin(&scene.writer).await;
    append(&mut txn, scene.id, &[(1, 1)]).await;
    let reference = txn.reference();
    scene.once(
        record_put(When::BeforePut, 3),
        |scene| {
            Box::pin(async move {
                // Two records: the writer's will stand right below the one that is kept.
                for n in [10, 11] {
                    insert(&scene.other, scene.id, &[(n, n)]).await;
                }
                scene.clean_up().await;
                scene.clock.suspend(LONG);
            })
        },
        false,
    );
    let error = txn.commit().await.unwrap_err();
    assert!(matches!(error, DbError::BaseExpired { .. }), "{error}");
    let fresh = scene.world.open().await;
    let error = fresh.resolve(reference).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeExpired, "{error}");
    scene.assert_rows(&[(0, 0), (10, 10), (11, 11)]).await;
}

#[tokio::test]
async fn a_commit_whose_answer_outlived_the_log_is_told_by_the_published_version() {
    let scene = scene(305).await;
    let mut txn = begin(&scene.writer).await;
    append(&mut txn, scene.id, &[(1, 1)]).await;
    // The record is stored, but its answer is lost; it is read back when it was cleaned up.
    scene.once(
        record_put(When::AfterPut, 3),
        |scene| Box::pin(async move { scene.pass_by().await }),
        true,
    );
    let committed = txn.commit().await.unwrap();
    assert_eq!(committed.version, Some(DbVersion(3)));
    let mut expected = OTHERS.to_vec();
    expected.insert(1, (1, 1));
    scene.assert_rows(&expected).await;
    insert(&scene.writer, scene.id, &[(20, 20)]).await;
    expected.push((20, 20));
    scene.assert_rows(&expected).await;
}

#[tokio::test]
async fn a_writer_that_is_late_before_its_put_reads_the_head_anew() {
    let scene = scene(306).await;
    let store = scene.writer.store().clone();
    let staging = DbOptions {
        record_bytes_max: 1,
        ..options()
    };
    let writer = Database::open(store, staging).await.unwrap();
    let mut txn = begin(&writer).await;
    append(&mut txn, scene.id, &[(1, 1)]).await;
    // Stopped while the entry is staged, after the head was read.
    scene.once(
        |call| call.when == When::BeforePut && call.key.contains("_staged_commits"),
        |scene| Box::pin(async move { scene.clock.suspend(LONG) }),
        false,
    );
    let before = writer.store().meter().counts();
    let committed = txn.commit().await.unwrap();
    assert_eq!(committed.version, Some(DbVersion(3)));
    let requests = writer.store().meter().counts() - before;
    assert!(
        requests.list >= 1,
        "the head was not read anew: {requests:?}"
    );
    scene.assert_rows(&[(0, 0), (1, 1)]).await;
}

#[tokio::test]
async fn a_reader_that_is_stopped_while_it_looks_for_the_next_record_looks_anew() {
    let scene = scene(307).await;
    scene.once(
        record_put(When::BeforeGet, 3),
        |scene| Box::pin(async move { scene.pass_by().await }),
        false,
    );
    assert_eq!(rows(&scene.writer, scene.id).await, OTHERS);
    scene.assert_rows(&OTHERS).await;
    // Nor is such a look taken for a fresh one by a commit.
    insert(&scene.writer, scene.id, &[(20, 20)]).await;
    let mut expected = OTHERS.to_vec();
    expected.push((20, 20));
    scene.assert_rows(&expected).await;
}

#[tokio::test]
async fn a_fence_put_in_the_past_is_no_answer() {
    for committed in [true, false] {
        let scene = scene(308).await;
        let reference = TxnRef {
            base: DbVersion(2),
            id: TxnId(Uuid::from_u128(77)),
        };
        scene.once(
            record_put(When::BeforePut, 3),
            move |scene| {
                Box::pin(async move {
                    insert(&scene.other, scene.id, &[(10, 10)]).await;
                    let options = tarndb_db::TxnOptions {
                        id: committed.then_some(reference.id),
                        ..Default::default()
                    };
                    let mut txn = scene.other.begin(options).await.unwrap();
                    append(&mut txn, scene.id, &[(11, 11)]).await;
                    txn.commit().await.unwrap();
                    scene.clean_up().await;
                    scene.clock.suspend(LONG);
                })
            },
            false,
        );
        let told = scene.writer.resolve(reference).await;
        // Its fence lies in the past, where nobody reads it.
        assert!(scene.world.get(&record_key(3)).await.is_some());
        match told {
            Ok(TxnOutcome::Committed { version }) => {
                assert!(committed && version == DbVersion(4));
            }
            Err(DbError::OutcomeExpired { .. }) => assert!(!committed),
            other => panic!("{other:?}"),
        }
        scene.assert_rows(&[(0, 0), (10, 10), (11, 11)]).await;
    }
}

#[tokio::test]
async fn a_transaction_that_outlived_the_log_is_not_judged_by_what_lies_in_the_past() {
    let scene = scene(309).await;
    let mut old = begin(&scene.writer).await;
    delete(&mut old, scene.id, |row| row.0 == 0).await;
    // Another writer is stopped as well, and leaves a record right above the old snapshot.
    let store = store_of(Arc::new(scene.hooks.clone()), &scene.clock, 310);
    let stray = Database::open(store, options()).await.unwrap();
    let mut late = begin(&stray).await;
    append(&mut late, scene.id, &[(1, 1)]).await;
    scene.once(
        record_put(When::BeforePut, 3),
        |scene| {
            Box::pin(async move {
                // The row that the old transaction deletes is deleted by another.
                let mut txn = begin(&scene.other).await;
                delete(&mut txn, scene.id, |row| row.0 == 0).await;
                txn.commit().await.unwrap();
                insert(&scene.other, scene.id, &[(11, 11)]).await;
                scene.clean_up().await;
                scene.clock.suspend(LONG);
            })
        },
        false,
    );
    let error = late.commit().await.unwrap_err();
    assert!(matches!(error, DbError::BaseExpired { .. }), "{error}");
    let error = old.commit().await.unwrap_err();
    assert!(matches!(error, DbError::BaseExpired { .. }), "{error}");
    scene.assert_rows(&[(11, 11)]).await;
}
