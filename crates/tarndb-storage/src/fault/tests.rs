//! Each fault does what it says, and a seed repeats a run.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode};

use super::{Fault, FaultCounts, FaultPlan, FaultStore, Operation};
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
        duplicate: 0.1,
        stall: 0.1,
        partial_read: 0.1,
        stale_list: 0.1,
        ..FaultPlan::default()
    };
    let (store, _) = faulty(plan);
    for number in 0..500 {
        let key = Path::from(format!("{number}"));
        let _any = create(&store, key.as_ref()).now_or_never();
        let _any = store.get(&key).now_or_never();
        let _any = store.list(None).try_collect::<Vec<_>>().now_or_never();
        let _any = store.delete(&key).now_or_never();
    }
    store.injected()
}

#[tokio::test]
async fn a_seed_repeats_a_run_and_every_fault_happens() {
    let counts = run(42).await;
    assert_eq!(counts, run(42).await);
    assert_ne!(counts, run(43).await);
    for fault in Fault::ALL {
        assert!(counts.of(fault) > 20, "{} of {counts}", fault.name());
    }
    assert_eq!(counts.none + counts.faults(), 2000);
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

#[test]
fn options_of_one_kind_of_request_come_before_general_ones() {
    let options = StoreOptions::default()
        .with("fault.error_before", "0.1")
        .with("fault.get.error_before", "0")
        .with("fault.put.lost_answer", "0.2");
    let plan = FaultPlan::from_options(&options).unwrap().unwrap();
    let chance = |operation, fault| plan.chance(operation, fault);
    assert_eq!(chance(Operation::Get, Fault::ErrorBefore), 0.0);
    assert_eq!(chance(Operation::List, Fault::ErrorBefore), 0.1);
    for operation in [Operation::Create, Operation::Put, Operation::Part] {
        assert_eq!(chance(operation, Fault::LostAnswer), 0.2);
    }
    assert_eq!(chance(Operation::Delete, Fault::LostAnswer), 0.0);
}

#[test]
fn options_that_are_not_understood_are_refused_with_what_there_is() {
    for (key, value, told) in [
        ("fault.lost_answers", "0.1", "lost_answer"),
        ("fault.lost_answer", "1.5", "from 0 to 1"),
        ("fault.lost_answer", "often", "from 0 to 1"),
        ("fault.lost_answer", "NaN", "from 0 to 1"),
        ("fault.latency_ms", "-1", "whole number"),
        ("fault.seed", "x", "whole number"),
        ("fault.post.stall", "0.1", "get, list, put and delete"),
        ("fault.get.lost_answer", "0.1", "cannot meet"),
        ("fault.put.lost", "0.1", "no such fault"),
    ] {
        let options = StoreOptions::default().with(key, value);
        let error = FaultPlan::from_options(&options).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(told), "{error}");
    }
    let options = StoreOptions::default()
        .with("fault.error_before", "0.6")
        .with("fault.put.lost_answer", "0.6");
    let error = FaultPlan::from_options(&options).unwrap_err().to_string();
    assert!(error.contains("above 1"), "{error}");
}

#[tokio::test]
async fn a_duplicate_is_answered_and_applied_again_later() {
    let (store, inner) = faulty(FaultPlan::default());
    let (mutable, once) = (Path::from("mutable"), Path::from("once"));
    store.script([Fault::Duplicate]);
    create(&store, "once").await.unwrap();
    store.script_for(Operation::Put, [Fault::Duplicate]);
    let old = Bytes::from_static(b"old");
    store.put(&mutable, old.clone().into()).await.unwrap();
    inner.put(&once, "theirs".into()).await.unwrap();
    inner.put(&mutable, "new".into()).await.unwrap();
    store.settle().await;
    let read = async |key: &Path| inner.get(key).await.unwrap().bytes().await.unwrap();
    // A create is refused the second time; what overwrites goes back in time.
    assert_eq!(read(&once).await, Bytes::from_static(b"theirs"));
    assert_eq!(read(&mutable).await, old);

    store.script_for(Operation::Delete, [Fault::Duplicate]);
    store.delete(&once).await.unwrap();
    inner.put(&once, "again".into()).await.unwrap();
    store.settle().await;
    assert!(inner.head(&once).await.is_err());
}

#[tokio::test]
async fn a_stall_has_no_answer_and_by_chance_an_effect() {
    let (store, inner) = faulty(FaultPlan::of(Fault::Stall, 1.0));
    for number in 0..20 {
        let name = number.to_string();
        assert!(create(&store, &name).now_or_never().is_none());
    }
    assert!(store.get(&Path::from("0")).now_or_never().is_none());
    let all = inner.list(None).try_collect::<Vec<_>>().await.unwrap();
    assert!((5..16).contains(&all.len()), "{} of 20", all.len());
}

#[tokio::test]
async fn a_partial_read_is_the_beginning_of_the_body() {
    let (store, inner) = faulty(FaultPlan::of(Fault::PartialRead, 1.0));
    let key = Path::from("k");
    let whole = Bytes::from_static(b"0123456789");
    inner.put(&key, whole.clone().into()).await.unwrap();
    let mut told = 0;
    for _ in 0..20 {
        let result = store.get(&key).await.unwrap();
        assert_eq!(result.range, 0..10);
        match result.bytes().await {
            Ok(part) => assert!(part.len() < 10 && whole.starts_with(&part), "{part:?}"),
            Err(_) => told += 1,
        }
        let parts = store.get_ranges(&key, &[0..2, 2..8]).await.unwrap();
        assert!(parts[0].len() == 2 && parts[1].len() < 6, "{parts:?}");
    }
    assert!((5..16).contains(&told), "{told} of 20");
    assert_eq!(store.head(&key).await.unwrap().size, 10);
}

#[tokio::test]
async fn a_stale_listing_lacks_the_last_names_only() {
    let (store, inner) = faulty(FaultPlan::of(Fault::StaleList, 1.0));
    for number in 0..9 {
        let key = Path::from(format!("{number}"));
        inner.put(&key, "x".into()).await.unwrap();
    }
    for _ in 0..20 {
        let listed = store.list(None).try_collect::<Vec<_>>().await.unwrap();
        assert!((6..9).contains(&listed.len()), "{listed:?}");
        assert!(listed.iter().all(|meta| meta.location.as_ref() < "8"));
    }
}

#[tokio::test]
async fn a_report_has_a_line_for_each_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("faults.jsonl");
    let plan = FaultPlan {
        report: Some(path.clone()),
        ..FaultPlan::of(Fault::ErrorBefore, 1.0)
    };
    // Two stores share the file.
    for _ in 0..2 {
        let inner = Arc::new(InMemory::new());
        let store = FaultStore::reporting(inner, plan.clone(), Context::seeded(1)).unwrap();
        create(&store, "some \"key\"").await.unwrap_err();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let line = r#"{"fault":"error_before","operation":"create","key":"some %22key%22"}"#;
    assert_eq!(text.lines().collect::<Vec<_>>(), [line, line]);
    let nowhere = FaultPlan {
        report: Some(folder.path().join("no/folder")),
        ..plan
    };
    let inner = Arc::new(InMemory::new());
    let refused = FaultStore::reporting(inner, nowhere, Context::seeded(1)).unwrap_err();
    assert!(refused.to_string().contains("fault.report"), "{refused}");
}
