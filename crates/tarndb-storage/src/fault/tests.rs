//! Each fault does what it says, and a seed repeats a run.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode};

use super::{Fault, FaultCounts, FaultPlan, FaultStore};
use crate::context::Context;
use crate::options::StoreOptions;

fn faulty(plan: FaultPlan) -> (FaultStore, Arc<InMemory>) {
    let inner = Arc::new(InMemory::new());
    (
        FaultStore::new(Arc::clone(&inner) as _, plan, Context::seeded(1)),
        inner,
    )
}

async fn create(store: &FaultStore, key: &str) -> object_store::Result<()> {
    let key = Path::from(key);
    store
        .put_opts(
            &key,
            Bytes::from_static(b"x").into(),
            PutMode::Create.into(),
        )
        .await
        .map(|_| ())
}

#[tokio::test]
async fn each_scripted_fault_has_its_effect_and_its_answer() {
    for (fault, stored, exists) in [
        (Fault::ErrorBefore, false, false),
        (Fault::ErrorAfter, true, false),
        (Fault::LostAnswer, true, false),
        (Fault::SelfConflict, true, true),
        (Fault::PhantomConflict, false, true),
        (Fault::LateEffect, false, false),
    ] {
        let (store, inner) = faulty(FaultPlan::default());
        store.script([fault]);
        let error = create(&store, "k").await.unwrap_err();
        assert_eq!(
            matches!(error, Error::AlreadyExists { .. }),
            exists,
            "{fault:?}"
        );
        assert_eq!(
            inner.head(&Path::from("k")).await.is_ok(),
            stored,
            "{fault:?}"
        );
        store.settle().await;
        let late = fault == Fault::LateEffect;
        assert_eq!(
            inner.head(&Path::from("k")).await.is_ok(),
            stored || late,
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn a_late_effect_arrives_within_a_few_requests_and_never_overwrites() {
    let (store, inner) = faulty(FaultPlan::default());
    store.script([Fault::LateEffect]);
    create(&store, "late").await.unwrap_err();
    for _ in 0..6 {
        let _absent_or_not = store.head(&Path::from("other")).await;
    }
    assert!(inner.head(&Path::from("late")).await.is_ok());
    store.script([Fault::LateEffect]);
    create(&store, "taken").await.unwrap_err();
    inner
        .put(&Path::from("taken"), Bytes::from_static(b"theirs").into())
        .await
        .unwrap();
    store.settle().await;
    let kept = inner
        .get(&Path::from("taken"))
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap();
    assert_eq!(kept, Bytes::from_static(b"theirs"));
}

#[tokio::test]
async fn a_refusal_is_answered_also_under_a_fault() {
    let (store, _) = faulty(FaultPlan::default());
    create(&store, "k").await.unwrap();
    for fault in [Fault::ErrorAfter, Fault::LostAnswer, Fault::SelfConflict] {
        store.script([fault]);
        let error = create(&store, "k").await.unwrap_err();
        assert!(
            matches!(error, Error::AlreadyExists { .. }),
            "{fault:?} {error:?}"
        );
    }
}

async fn run(seed: u64) -> FaultCounts {
    let plan = FaultPlan {
        seed,
        error_before: 0.1,
        error_after: 0.1,
        lost_answer: 0.1,
        self_conflict: 0.1,
        phantom_conflict: 0.1,
        late_effect: 0.1,
        ..FaultPlan::default()
    };
    let (store, _) = faulty(plan);
    for number in 0..500 {
        let key = Path::from(format!("{number}"));
        let _any = create(&store, key.as_ref()).await;
        let _any = store.get(&key).await;
        let _any = store.list(None).try_collect::<Vec<_>>().await;
        let _any = store.delete(&key).await;
    }
    store.injected()
}

#[tokio::test]
async fn a_seed_repeats_a_run_and_every_fault_happens() {
    let counts = run(42).await;
    assert_eq!(counts, run(42).await);
    assert_ne!(counts, run(43).await);
    for count in [
        counts.none,
        counts.error_before,
        counts.error_after,
        counts.lost_answer,
        counts.self_conflict,
        counts.phantom_conflict,
        counts.late_effect,
    ] {
        assert!(count > 20, "{counts:?}");
    }
}

#[tokio::test]
async fn an_inactive_store_injects_nothing() {
    let (store, _) = faulty(FaultPlan {
        error_before: 1.0,
        ..FaultPlan::default()
    });
    create(&store, "a").await.unwrap_err();
    store.set_active(false);
    create(&store, "a").await.unwrap();
}

#[test]
fn options_make_a_plan() {
    let options = StoreOptions::default();
    assert_eq!(FaultPlan::from_options(&options).unwrap(), None);
    let options = options
        .with("fault.seed", "9")
        .with("fault.lost_answer", "0.25");
    let options = options
        .with("fault.latency_ms", "3")
        .with("durability", "none");
    let plan = FaultPlan::from_options(&options).unwrap().unwrap();
    assert_eq!(
        (plan.seed, plan.lost_answer, plan.latency.as_millis()),
        (9, 0.25, 3)
    );
    assert!(FaultPlan::from_options(&options.with("fault.lost_answer", "1.5")).is_err());
}
