//! Definite outcomes: who asks learns what happened, and it stays so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tarndb_db::{Database, DbError, DbOptions, ErrorKind, TxnOptions, TxnOutcome, TxnStatus};
use tarndb_storage::Context;
use tarndb_storage::fault::{Fault, FaultPlan, FaultStore};
use tarndb_types::{DbVersion, TableId, TxnId, TxnRef, Uuid};

use crate::clock::{HandClock, store_of};
use crate::hook::{Call, HookStore, Reaction, When};
use crate::support::*;

/// A writer behind a store that the test controls, and a witness on the honest one.
struct Scene {
    world: World,
    hooks: HookStore,
    writer: Database,
    witness: Database,
    tables: [TableId; 2],
}

async fn scene(seed: u64) -> Scene {
    let world = World::new();
    let witness = world.create().await;
    let tables = [
        create_table(&witness, "a").await,
        create_table(&witness, "b").await,
    ];
    let clock = HandClock::right();
    let hooks = HookStore::new(&world.objects, &clock);
    let store = store_of(Arc::new(hooks.clone()), &clock, seed);
    let writer = Database::open(store, manual()).await.unwrap();
    Scene {
        world,
        hooks,
        writer,
        witness,
        tables,
    }
}

fn is_fence(call: &Call<'_>) -> bool {
    std::str::from_utf8(call.bytes).is_ok_and(|text| text.contains("\n{\"fence\":"))
}

fn is_put_of(call: &Call<'_>, when: When, version: u64) -> bool {
    call.when == when && call.key == record_key(version)
}

async fn fences(db: &Database) -> usize {
    let log = db.log(usize::MAX).await.unwrap();
    log.iter().filter(|e| e.operation == "FENCE").count()
}

/// A transaction over both tables.
async fn write_both(scene: &Scene, row: i64) -> tarndb_db::Transaction {
    let mut txn = begin(&scene.writer).await;
    for id in scene.tables {
        append(&mut txn, id, &[(row, row)]).await;
    }
    txn
}

async fn assert_rows(scene: &Scene, expected: &[Row]) {
    for db in [&scene.writer, &scene.witness, &scene.world.open().await] {
        for id in scene.tables {
            assert_eq!(rows(db, id).await, expected);
        }
    }
    assert_clean(&scene.world.open().await).await;
}

fn chosen(n: u128) -> TxnOptions {
    TxnOptions {
        id: Some(TxnId(Uuid::from_u128(n))),
        ..TxnOptions::default()
    }
}

#[tokio::test]
async fn bc_05_lost_acknowledgement_on_the_commit_put() {
    for tables in [1, 2] {
        for (n, injected) in [Fault::LostAnswer, Fault::PhantomConflict, Fault::LateEffect]
            .into_iter()
            .enumerate()
        {
            bc_05_answered(tables, injected, 100 + n as u64).await;
        }
        for stored in [true, false] {
            bc_05_unreachable(tables, stored).await;
        }
    }
}

/// The store answers again at once: the commit is acknowledged and there once.
async fn bc_05_answered(tables: usize, injected: Fault, seed: u64) {
    let world = World::new();
    let db = world.create().await;
    let ids = [create_table(&db, "a").await, create_table(&db, "b").await];
    let faults = FaultStore::new(
        Arc::clone(&world.objects),
        FaultPlan::default(),
        Context::seeded(seed),
    );
    let store = store_of(Arc::new(faults.clone()), &HandClock::right(), seed);
    let writer = Database::open(store, manual()).await.unwrap();
    let mut txn = begin(&writer).await;
    for id in &ids[..tables] {
        append(&mut txn, *id, &[(1, 1)]).await;
    }
    faults.script([injected]);
    let committed = txn.commit().await.unwrap();
    faults.settle().await;
    assert_eq!(committed.version, Some(DbVersion(3)), "{injected:?}");
    for id in &ids[..tables] {
        assert_eq!(rows(&db, *id).await, [(1, 1)], "{injected:?}");
    }
    assert_eq!(fences(&db).await, 0);
    assert_clean(&world.open().await).await;
}

/// The put times out and every following request fails too: the outcome is open, nothing is
/// deleted, and a later call with the same id tells.
async fn bc_05_unreachable(tables: usize, stored: bool) {
    let scene = scene(200).await;
    let ids = &scene.tables[..tables];
    let mut txn = scene.writer.begin(chosen(5)).await.unwrap();
    for id in ids {
        append(&mut txn, *id, &[(1, 1)]).await;
    }
    let written = scene.world.keys("main").await;
    scene.hooks.set(move |call| match call.when {
        When::AfterPut => Reaction::Fail,
        When::BeforePut if stored && call.key == record_key(3) && !is_fence(call) => Reaction::Pass,
        _ => Reaction::Fail,
    });
    let error = txn.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Pending, "{error}");
    let DbError::Pending { txn: reference } = error else {
        panic!("{error}")
    };
    // Asking does not help while the store is silent, and spoils nothing.
    let open = scene.writer.resolve(reference).await.unwrap_err();
    assert_eq!(open.kind(), ErrorKind::Pending, "{open}");
    scene.hooks.set(|_| Reaction::Pass);
    for key in written {
        assert!(scene.world.get(&key).await.is_some(), "{key} is gone");
    }
    let outcome = scene.witness.resolve(reference).await.unwrap();
    let (version, fence) = (DbVersion(3), DbVersion(3));
    assert_eq!(
        outcome,
        match stored {
            true => TxnOutcome::Committed { version },
            false => TxnOutcome::Aborted { fence },
        }
    );
    // The same call again: its answer is the truth, and nothing is done twice.
    for db in [&scene.writer, &scene.world.open().await] {
        let mut again = db.begin(chosen(5)).await.unwrap();
        for id in ids {
            append(&mut again, *id, &[(1, 1)]).await;
        }
        match again.commit().await {
            Ok(committed) => assert!(stored && committed.version == Some(version)),
            Err(DbError::Fenced { fence: at, .. }) => assert!(!stored && at == fence),
            Err(other) => panic!("{other}"),
        }
    }
    let expected: &[Row] = if stored { &[(1, 1)] } else { &[] };
    for id in ids {
        assert_eq!(rows(&scene.writer, *id).await, expected);
    }
    assert_clean(&scene.world.open().await).await;
}

#[tokio::test]
async fn a_record_that_never_gets_there_is_fenced_and_the_transaction_runs_again() {
    let scene = scene(201).await;
    let txn = write_both(&scene, 1).await;
    let reference = txn.reference();
    // "Try again", for ever; the small fence gets through.
    scene
        .hooks
        .set(|call| match is_put_of(call, When::BeforePut, 3) {
            true if !is_fence(call) => Reaction::Refuse,
            _ => Reaction::Pass,
        });
    let error = txn.commit().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let DbError::Fenced { fence, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(fence, DbVersion(3));
    for db in [&scene.writer, &scene.witness] {
        let told = db.lookup(reference).await.unwrap();
        assert_eq!(told, TxnStatus::Aborted { fence });
        let resolved = db.resolve(reference).await.unwrap();
        assert_eq!(resolved, TxnOutcome::Aborted { fence });
    }
    assert_rows(&scene, &[]).await;
    let again = write_both(&scene, 1).await.commit().await.unwrap();
    assert_eq!(again.version, Some(DbVersion(4)));
    assert_rows(&scene, &[(1, 1)]).await;
    assert_eq!(fences(&scene.witness).await, 1);
}

#[tokio::test]
async fn a_record_that_arrives_before_its_fence_is_committed() {
    let scene = scene(202).await;
    let txn = write_both(&scene, 1).await;
    let objects = Arc::clone(&scene.world.objects);
    let mut sent = None;
    scene.hooks.set(move |call| {
        if !is_put_of(call, When::BeforePut, 3) {
            return Reaction::Pass;
        }
        if !is_fence(call) {
            sent = Some(bytes::Bytes::copy_from_slice(call.bytes));
            return Reaction::Fail;
        }
        // The request that timed out takes effect now.
        let (objects, late) = (Arc::clone(&objects), sent.take());
        Reaction::Run(Box::pin(async move {
            let world = World { objects };
            if let Some(late) = late {
                world.put(&record_key(3), late).await;
            }
        }))
    });
    let committed = txn.commit().await.unwrap();
    assert_eq!(committed.version, Some(DbVersion(3)));
    assert_eq!((committed.attempts, committed.notices), (1, Vec::new()));
    assert_rows(&scene, &[(1, 1)]).await;
    assert_eq!(fences(&scene.witness).await, 0);
}

#[tokio::test]
async fn a_fence_whose_own_answer_is_lost_still_aborts() {
    for answer_lost in [When::AfterPut, When::BeforePut] {
        let scene = scene(203).await;
        let txn = write_both(&scene, 1).await;
        let mut lost = 0;
        scene.hooks.set(move |call| {
            if is_put_of(call, When::BeforePut, 3) && !is_fence(call) {
                return Reaction::Fail;
            }
            if is_put_of(call, answer_lost, 3) && is_fence(call) && lost < 2 {
                lost += 1;
                return Reaction::Fail;
            }
            Reaction::Pass
        });
        let error = txn.commit().await.unwrap_err();
        assert!(matches!(error, DbError::Fenced { .. }), "{error}");
        assert_rows(&scene, &[]).await;
        assert_eq!(fences(&scene.witness).await, 1);
    }
}

#[tokio::test]
async fn who_loses_the_fence_to_a_stranger_judges_and_goes_on() {
    let scene = scene(204).await;
    let txn = write_both(&scene, 1).await;
    let (witness, [a, _]) = (scene.witness.clone(), scene.tables);
    let mut done = false;
    scene.hooks.set(move |call| {
        if done || !is_put_of(call, When::BeforePut, 3) {
            return Reaction::Pass;
        }
        if !is_fence(call) {
            return Reaction::Fail;
        }
        done = true;
        let witness = witness.clone();
        Reaction::Run(Box::pin(async move {
            insert(&witness, a, &[(2, 2)]).await;
        }))
    });
    let committed = txn.commit().await.unwrap();
    assert_eq!(committed.version, Some(DbVersion(4)));
    let [a, b] = scene.tables;
    assert_eq!(rows(&scene.witness, a).await, [(1, 1), (2, 2)]);
    assert_eq!(rows(&scene.witness, b).await, [(1, 1)]);
    assert_eq!(fences(&scene.witness).await, 0);
}

#[tokio::test]
async fn two_processes_that_fence_at_once_tell_the_same() {
    let scene = scene(205).await;
    let txn = write_both(&scene, 1).await;
    let reference = txn.reference();
    let witness = scene.witness.clone();
    let mut first = true;
    scene.hooks.set(move |call| {
        if !std::mem::take(&mut first) || !is_fence(call) {
            return Reaction::Pass;
        }
        let witness = witness.clone();
        Reaction::Run(Box::pin(async move {
            let told = witness.resolve(reference).await.unwrap();
            let fence = DbVersion(3);
            assert_eq!(told, TxnOutcome::Aborted { fence });
        }))
    });
    let told = scene.writer.resolve(reference).await.unwrap();
    let fence = DbVersion(3);
    assert_eq!(told, TxnOutcome::Aborted { fence });
    scene.hooks.set(|_| Reaction::Pass);
    // The transaction itself was only waiting to commit.
    let error = txn.commit().await.unwrap_err();
    assert!(matches!(error, DbError::Fenced { .. }), "{error}");
    assert_eq!(fences(&scene.witness).await, 1);
    assert_rows(&scene, &[]).await;
}

#[tokio::test]
async fn a_writer_finds_its_fence_wherever_it_is() {
    // Right at the version that it tries, or below others that came after.
    for later in [0, 3] {
        let scene = scene(206).await;
        let txn = write_both(&scene, 1).await;
        let reference = txn.reference();
        let (witness, [a, _]) = (scene.witness.clone(), scene.tables);
        let mut first = true;
        scene.hooks.set(move |call| {
            if !is_put_of(call, When::BeforePut, 3) || !std::mem::take(&mut first) {
                return Reaction::Pass;
            }
            let witness = witness.clone();
            Reaction::Run(Box::pin(async move {
                witness.resolve(reference).await.unwrap();
                for n in 0..later {
                    insert(&witness, a, &[(10 + n, 0)]).await;
                }
            }))
        });
        let error = txn.commit().await.unwrap_err();
        let DbError::Fenced { fence, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(fence, DbVersion(3));
        assert_eq!(rows(&scene.witness, scene.tables[1]).await, []);
        assert_clean(&scene.world.open().await).await;
    }
}

#[tokio::test]
async fn a_chosen_id_that_was_fenced_is_of_no_use_any_more() {
    let scene = scene(207).await;
    let [a, _] = scene.tables;
    let reference = TxnRef {
        base: DbVersion(0),
        id: TxnId(Uuid::from_u128(9)),
    };
    let told = scene.witness.resolve(reference).await.unwrap();
    let fence = DbVersion(3);
    assert_eq!(told, TxnOutcome::Aborted { fence });
    insert(&scene.witness, a, &[(1, 1)]).await;
    scene.witness.checkpoint().await.unwrap();
    for db in [&scene.witness, &scene.writer, &scene.world.open().await] {
        let mut txn = db.begin(chosen(9)).await.unwrap();
        append(&mut txn, a, &[(2, 2)]).await;
        let error = txn.commit().await.unwrap_err();
        // Not one that is to be run again as it is.
        assert_eq!(error.kind(), ErrorKind::ConflictIncompatible);
        assert!(error.to_string().contains("another id"), "{error}");
    }
    assert_eq!(rows(&scene.witness, a).await, [(1, 1)]);
}

#[tokio::test]
async fn what_committed_is_not_fenced_and_asking_again_writes_nothing() {
    let scene = scene(208).await;
    let txn = write_both(&scene, 1).await;
    let reference = txn.reference();
    let version = txn.commit().await.unwrap().version.unwrap();
    let unknown = TxnRef {
        base: version,
        id: TxnId(Uuid::from_u128(3)),
    };
    for _ in 0..2 {
        let told = scene.witness.resolve(reference).await.unwrap();
        assert_eq!(told, TxnOutcome::Committed { version });
        let told = scene.witness.resolve(unknown).await.unwrap();
        let fence = version.next();
        assert_eq!(told, TxnOutcome::Aborted { fence });
    }
    assert_eq!(fences(&scene.witness).await, 1);
    let beyond = TxnRef {
        base: DbVersion(99),
        ..unknown
    };
    let error = scene.witness.resolve(beyond).await.unwrap_err();
    assert!(matches!(error, DbError::VersionNotFound { .. }), "{error}");
}

#[tokio::test]
async fn a_deadline_ends_a_silent_commit_in_time() {
    let scene = scene(209).await;
    let clock = HandClock::right();
    let options = DbOptions {
        commit_deadline: Duration::from_secs(20),
        ..manual()
    };
    let hooks = HookStore::new(&scene.world.objects, &clock);
    let store = store_of(Arc::new(hooks.clone()), &clock, 210);
    let db = Database::open(store, options).await.unwrap();
    let mut txn = begin(&db).await;
    append(&mut txn, scene.tables[0], &[(1, 1)]).await;
    let fences_sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&fences_sent);
    hooks.set(move |call| {
        if call.when == When::BeforePut && is_fence(call) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Reaction::Fail
    });
    let before = clock.monotonic.load(Ordering::SeqCst);
    let error = txn.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Pending);
    let waited = clock.monotonic.load(Ordering::SeqCst) - before;
    assert!((15_000..=25_000).contains(&waited), "{waited}");
    assert!(fences_sent.load(Ordering::SeqCst) > 2);
}

#[tokio::test]
async fn a_fenced_transaction_that_commits_all_the_same_is_found_by_check() {
    let scene = scene(211).await;
    let reference = TxnRef {
        base: DbVersion(2),
        id: TxnId(Uuid::from_u128(6)),
    };
    scene.witness.resolve(reference).await.unwrap();
    insert(&scene.witness, scene.tables[0], &[(1, 1)]).await;
    // A build that does not know fences would have written it under that id.
    let bytes = scene.world.get(&record_key(4)).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let id = scene.witness.log(1).await.unwrap()[0].txn.to_string();
    let forged = text.replace(&id, &reference.id.to_string());
    scene.world.put(&record_key(4), forged).await;
    let fresh = scene.world.open().await;
    let report = fresh.check(false, |_| {}).await.unwrap();
    assert_eq!(kinds(&report), ["log.invariant"], "{:?}", report.findings);
    // The fence came first.
    let fence = DbVersion(3);
    let told = fresh.resolve(reference).await.unwrap();
    assert_eq!(told, TxnOutcome::Aborted { fence });
}

/// `log` shows the version that a transaction made beside its id; whoever takes it, or any later
/// one, for the base asks below the record that is looked for.
#[tokio::test]
async fn a_base_at_or_above_the_commit_does_not_hide_it() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    for chosen in [None, Some(TxnId(Uuid::from_u128(7 << 100)))] {
        let options = TxnOptions {
            id: chosen,
            ..TxnOptions::default()
        };
        let mut txn = db.begin(options).await.unwrap();
        append(&mut txn, id, &[(1, 1)]).await;
        let committed = txn.commit().await.unwrap();
        let version = committed.version.unwrap();
        for n in 0..3 {
            insert(&db, id, &[(n, n)]).await;
        }
        db.checkpoint().await.unwrap();
        for base in (0..version.0 + 4).map(DbVersion) {
            // What this process remembers must not help.
            let other = world.open().await;
            let reference = TxnRef {
                base,
                id: committed.txn.id,
            };
            let told = other.lookup(reference).await.unwrap();
            assert_eq!(told, TxnStatus::Committed { version }, "{reference}");
            let told = other.resolve(reference).await.unwrap();
            assert_eq!(told, TxnOutcome::Committed { version }, "{reference}");
        }
    }
    assert_eq!(fences(&world.open().await).await, 0);
}
