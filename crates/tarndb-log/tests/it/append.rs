//! What one append comes to, fault by fault.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::memory::InMemory;
use tarndb_log::{After, Appended, LogDir, LogError};
use tarndb_storage::fault::{Fault, FaultPlan, FaultStore};
use tarndb_storage::{Context, Path, Store, StoreErrorKind, StoreOptions, open};

use crate::clock::paused_context;

const DEADLINE: Duration = Duration::from_secs(30);

fn faulty(plan: FaultPlan, context: Context) -> (LogDir, FaultStore) {
    let faults = FaultStore::new(Arc::new(InMemory::new()), plan, context.clone());
    let store = Store::new(Arc::new(faults.clone()), "fault://", context);
    (LogDir::new(store, Path::from("log")), faults)
}

async fn append(log: &LogDir, version: u64, text: &str) -> Result<Appended, LogError> {
    let mine = text.to_owned();
    let is_ours = move |found: &[u8]| found == mine.as_bytes();
    log.append(version, Bytes::from(text.to_owned()), &is_ours, DEADLINE)
        .await
}

#[tokio::test(start_paused = true)]
async fn an_undisturbed_append_is_one_request() {
    let (log, _) = faulty(FaultPlan::default(), paused_context(1));
    assert_eq!(append(&log, 0, "a").await.unwrap(), Appended::Ours);
    let counts = log.store().meter().counts();
    assert_eq!((counts.requests(), counts.put_if_absent), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_taken_version_is_told_with_its_content_and_what_is_behind_it() {
    let (log, _) = faulty(FaultPlan::default(), paused_context(1));
    append(&log, 0, "a").await.unwrap();
    let a = Bytes::from_static(b"a");
    for (next, after) in [
        (None, After::Nothing),
        (Some("c"), After::Entry(Bytes::from_static(b"c"))),
    ] {
        if let Some(text) = next {
            append(&log, 1, text).await.unwrap();
        }
        let before = log.store().meter().counts();
        let appended = append(&log, 0, "b").await.unwrap();
        assert_eq!(appended, Appended::Theirs(a.clone(), after));
        let counts = log.store().meter().counts() - before;
        assert_eq!(
            (counts.requests(), counts.put_if_absent, counts.get),
            (3, 1, 2)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_ends_in_our_entry_stored_once() {
    for fault in [
        Fault::ErrorBefore,
        Fault::ErrorAfter,
        Fault::LostAnswer,
        Fault::SelfConflict,
        Fault::PhantomConflict,
        Fault::LateEffect,
    ] {
        let (log, faults) = faulty(FaultPlan::default(), paused_context(1));
        faults.script([fault, fault]);
        assert_eq!(
            append(&log, 0, "a").await.unwrap(),
            Appended::Ours,
            "{fault:?}"
        );
        faults.settle().await;
        assert_eq!(log.read(0).await.unwrap(), Some(Bytes::from_static(b"a")));
        assert_eq!(log.list_after(None).await.unwrap(), vec![0]);
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_on_a_taken_version_ends_in_theirs() {
    for fault in [
        Fault::ErrorBefore,
        Fault::ErrorAfter,
        Fault::LostAnswer,
        Fault::SelfConflict,
    ] {
        let (log, faults) = faulty(FaultPlan::default(), paused_context(1));
        append(&log, 0, "a").await.unwrap();
        faults.script([fault, fault]);
        let appended = append(&log, 0, "b").await.unwrap();
        let Appended::Theirs(found, _) = appended else {
            panic!("{fault:?}: {appended:?}");
        };
        assert_eq!(found, Bytes::from_static(b"a"), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_well_ends_in_pending_at_the_deadline() {
    let plan = FaultPlan {
        error_before: 1.0,
        ..FaultPlan::default()
    };
    let (log, faults) = faulty(plan, paused_context(1));
    let error = append(&log, 4, "a").await.unwrap_err();
    let LogError::Pending {
        version: 4,
        waited,
        source: Some(_),
    } = &error
    else {
        panic!("{error:?}");
    };
    assert!(*waited >= DEADLINE && *waited < DEADLINE * 2, "{waited:?}");
    // Exponential pauses up to 2 s: tens of attempts of three requests in 30 s, not thousands.
    assert!(
        (30..240).contains(&faults.injected().error_before),
        "{:?}",
        faults.injected()
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_ends_in_pending_at_the_deadline() {
    let plan = FaultPlan {
        latency: Duration::from_secs(3_600),
        ..FaultPlan::default()
    };
    let (log, _) = faulty(plan, paused_context(1));
    let error = append(&log, 4, "a").await.unwrap_err();
    let LogError::Pending {
        waited,
        source: None,
        ..
    } = error
    else {
        panic!("{error:?}")
    };
    assert!(waited >= DEADLINE && waited < DEADLINE * 2, "{waited:?}");
}

/// A folder store whose log folder is a file, so that every create is refused.
fn refusing(context: Context) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("log"), b"a file").unwrap();
    let url = folder.path().to_str().unwrap();
    let store = open(url, &StoreOptions::default(), context).unwrap();
    (folder, store)
}

#[tokio::test]
async fn a_refusal_is_definite_and_told_at_once() {
    let (_folder, store) = refusing(Context::seeded(1));
    let log = LogDir::new(store, Path::from("log"));
    let error = append(&log, 0, "a").await.unwrap_err();
    let LogError::NotStored { version: 0, source } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(source.kind(), StoreErrorKind::Unavailable);
    assert_eq!(log.store().meter().counts().requests(), 1);
}

#[tokio::test]
async fn a_refusal_after_an_open_attempt_is_not_taken_for_the_outcome() {
    let context = Context::seeded(1);
    let (_folder, store) = refusing(context.clone());
    let faults = FaultStore::new(store.objects(), FaultPlan::default(), context.clone());
    faults.script([Fault::ErrorBefore]);
    let log = LogDir::new(
        Store::new(Arc::new(faults), "fault://", context),
        Path::from("log"),
    );
    let is_ours = |_: &[u8]| true;
    let deadline = Duration::from_millis(60);
    let error = log
        .append(0, Bytes::from_static(b"a"), &is_ours, deadline)
        .await
        .unwrap_err();
    assert!(matches!(error, LogError::Pending { .. }), "{error:?}");
}
