//! A store that lies about what it did: acknowledged means present, once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tarndb_db::{Database, DbError, DbOptions, TxnStatus};
use tarndb_storage::Context;
use tarndb_storage::fault::{Fault, FaultPlan, FaultStore};
use tarndb_table::{Comparison, Predicate, Scalar};

use crate::support::*;

fn faulty(world: &World, plan: FaultPlan) -> (FaultStore, World) {
    let faults = FaultStore::new(Arc::clone(&world.objects), plan, Context::seeded(99));
    let faulty = World {
        objects: Arc::new(faults.clone()),
    };
    (faults, faulty)
}

#[tokio::test]
async fn each_kind_of_lie_about_the_record_is_seen_through() {
    let world = World::new();
    let id = create_table(&world.create().await, "t").await;
    let (faults, lying) = faulty(&world, FaultPlan::default());
    let db = lying.open().await;
    let kinds = [
        Fault::LostAnswer,
        Fault::ErrorAfter,
        Fault::ErrorBefore,
        Fault::SelfConflict,
        Fault::PhantomConflict,
    ];
    for (n, kind) in kinds.into_iter().enumerate() {
        let n = n as i64;
        let mut txn = begin(&db).await;
        append(&mut txn, id, &[(n, n)]).await;
        faults.script([kind]);
        let committed = txn.commit().await.unwrap();
        assert_eq!(committed.version.unwrap().0, 2 + n as u64, "{kind:?}");
        assert_eq!(
            rows(&world.open().await, id).await.len() as i64,
            n + 1,
            "{kind:?}"
        );
    }
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn acknowledged_commits_are_present_once_under_random_faults() {
    for seed in 0..6 {
        let world = World::new();
        let db = world.create().await;
        let id = create_table(&db, "t").await;
        let plan = FaultPlan {
            seed,
            error_after: 0.03,
            error_before: 0.03,
            lost_answer: 0.05,
            self_conflict: 0.1,
            phantom_conflict: 0.1,
            ..FaultPlan::default()
        };
        let (faults, lying) = faulty(&world, plan);
        faults.set_active(false);
        let writers = [lying.open().await, lying.open().await];
        faults.set_active(true);
        let (mut acknowledged, mut open) = (BTreeSet::new(), BTreeSet::new());
        for n in 0..40_i64 {
            let db = &writers[(n % 2) as usize];
            let attempt = async {
                let mut txn = db.begin(tarndb_db::TxnOptions::default()).await?;
                let batches = futures::stream::iter([Ok::<_, DbError>(batch(&[(n, n)]))]);
                txn.append(id, batches).await?;
                txn.commit().await
            };
            match attempt.await {
                Ok(_) => acknowledged.insert(n),
                // A read or an upload may fail openly; then nothing is promised either way.
                Err(_) => open.insert(n),
            };
        }
        let found: Vec<i64> = rows(&world.open().await, id)
            .await
            .iter()
            .map(|r| r.0)
            .collect();
        let once: BTreeSet<i64> = found.iter().copied().collect();
        assert_eq!(
            once.len(),
            found.len(),
            "seed {seed}: a commit was applied twice"
        );
        assert!(
            acknowledged.is_subset(&once),
            "seed {seed}: an acknowledged commit is lost"
        );
        assert!(
            once.iter()
                .all(|n| acknowledged.contains(n) || open.contains(n))
        );
        assert!(
            acknowledged.len() > 10,
            "seed {seed}: {faults:?}",
            faults = faults.injected()
        );
        assert_clean(&world.open().await).await;
    }
}

#[tokio::test]
async fn an_unreachable_store_leaves_the_outcome_pending_and_it_can_be_asked_for() {
    let world = World::new();
    let id = create_table(&world.create().await, "t").await;
    let plan = FaultPlan {
        error_before: 1.0,
        ..FaultPlan::default()
    };
    let (faults, lying) = faulty(&world, plan);
    faults.set_active(false);
    let options = DbOptions {
        commit_deadline: Duration::from_millis(50),
        ..manual()
    };
    let db = Database::open(lying.store(), options).await.unwrap();
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(1, 1)]).await;
    // The record gets there, then the line goes dead.
    faults.script([Fault::LostAnswer]);
    faults.set_active(true);
    let error = txn.commit().await.unwrap_err();
    let DbError::Pending { txn } = error else {
        panic!("{error}")
    };
    faults.set_active(false);
    assert!(matches!(
        db.lookup(txn).await.unwrap(),
        TxnStatus::Committed { .. }
    ));
    assert_eq!(rows(&db, id).await, [(1, 1)]);
}

#[tokio::test]
async fn a_pending_record_may_land_late_beside_the_next_commit_of_the_same_handle() {
    for lands_first in [true, false] {
        let world = World::new();
        let id = create_table(&world.create().await, "t").await;
        let plan = FaultPlan {
            error_before: 1.0,
            ..FaultPlan::default()
        };
        let (faults, lying) = faulty(&world, plan);
        faults.set_active(false);
        let options = DbOptions {
            commit_deadline: Duration::ZERO,
            ..manual()
        };
        let db = Database::open(lying.store(), options).await.unwrap();
        let mut txn = begin(&db).await;
        append(&mut txn, id, &[(1, 1)]).await;
        faults.set_active(true);
        faults.script([Fault::LateEffect]);
        let DbError::Pending { txn } = txn.commit().await.unwrap_err() else {
            panic!("the outcome is told, though nobody can know it");
        };
        faults.set_active(false);
        if lands_first {
            faults.settle().await;
        }
        let mut next = db
            .begin(tarndb_db::TxnOptions {
                cached_snapshot: true,
                ..Default::default()
            })
            .await
            .unwrap();
        append(&mut next, id, &[(2, 2)]).await;
        // A deadline of zero gives each commit one attempt, which an honest store answers.
        let next = next.commit().await.unwrap();
        faults.settle().await;
        let committed = matches!(db.lookup(txn).await.unwrap(), TxnStatus::Committed { .. });
        let expected: &[Row] = match committed {
            true => &[(1, 1), (2, 2)],
            false => &[(2, 2)],
        };
        assert!(!lands_first || (committed && next.attempts == 2));
        for db in [&db, &world.open().await] {
            assert_eq!(rows(db, id).await, expected);
        }
        assert_clean(&world.open().await).await;
    }
}

#[tokio::test]
async fn an_upsert_or_overwrite_that_fails_changes_nothing() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 10), (2, 20)]).await;
    let mut txn = begin(&db).await;
    let written = txn.append(id, once(batch(&[(3, 30)]))).await.unwrap();
    drop(txn);

    let plan = FaultPlan {
        error_before: 1.0,
        ..FaultPlan::default()
    };
    let (faults, lying) = faulty(&world, plan);
    faults.set_active(false);
    // Room for one small file, not for two: the second stores both.
    let options = DbOptions {
        inline_bytes_max: written.bytes as usize * 3 / 2,
        ..manual()
    };
    let db = Database::open(lying.store(), options).await.unwrap();
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(3, 30)]).await;
    let before = rows_in(&txn, id).await;
    assert_eq!(before.len(), 3);
    let two = Predicate::Compare {
        column: "id".to_owned(),
        op: Comparison::Equal,
        value: Scalar::Long(2),
    };

    faults.set_active(true);
    txn.upsert(id, &["id"], once(batch(&[(1, 11), (4, 40)])))
        .await
        .unwrap_err();
    txn.overwrite_where(id, &two, once(batch(&[(2, 21)])), false)
        .await
        .unwrap_err();
    faults.set_active(false);
    assert_eq!(rows_in(&txn, id).await, before);
    // And it can go on.
    txn.upsert(id, &["id"], once(batch(&[(1, 11), (4, 40)])))
        .await
        .unwrap();
    txn.overwrite_where(id, &two, once(batch(&[(2, 21)])), false)
        .await
        .unwrap();
    txn.commit().await.unwrap();
    let expected = [(1, 11), (2, 21), (3, 30), (4, 40)];
    assert_eq!(rows(&world.open().await, id).await, expected);
}
