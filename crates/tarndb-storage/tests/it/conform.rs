//! Every store that can be built here runs the conformance suite.

use std::sync::Arc;

use object_store::memory::InMemory;
use tarndb_storage::fault::{FaultPlan, FaultStore};
use tarndb_storage::{Context, StoreOptions, conformance, open};

fn context() -> Context {
    Context::seeded(7)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_conforms() {
    conformance::all(&tarndb_storage::Store::memory(context())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_under_an_odd_prefix_conforms() {
    let url = "memory://conform/some prefix/%20/\u{e9}";
    let store = open(url, &StoreOptions::default(), context()).unwrap();
    conformance::all(&store).await;
    let beside = open("memory://conform", &StoreOptions::default(), context()).unwrap();
    let outside = beside
        .list_after(&tarndb_storage::Path::ROOT, None)
        .await
        .unwrap();
    assert!(
        outside
            .iter()
            .all(|info| info.key.as_ref().starts_with("some prefix/%20/\u{e9}/"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_durable_folder_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("new %20 \u{e9}/root");
    let store = open(root.to_str().unwrap(), &StoreOptions::default(), context()).unwrap();
    conformance::all(&store).await;
    let left = std::fs::read_dir(root.join("_tarndb/tmp")).unwrap().count();
    assert_eq!(left, 0, "temporary files left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_folder_without_durability_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions::default().with("durability", "none");
    let url = format!("file://{}", folder.path().display());
    conformance::all(&open(&url, &options, context()).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fault_store_without_faults_conforms() {
    let inner = Arc::new(InMemory::new());
    let faults = FaultStore::new(inner, FaultPlan::default(), context());
    let store = tarndb_storage::Store::new(Arc::new(faults.clone()), "fault://", context());
    conformance::all(&store).await;
    let injected = faults.injected();
    assert!(injected.none > 100, "{injected:?}");
    assert_eq!(
        injected.error_before + injected.error_after + injected.lost_answer,
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_handles_on_one_folder_have_one_winner() {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().to_str().unwrap();
    // Equal seeds: the names of temporary files must differ nevertheless, or be avoided.
    let handle = || open(url, &StoreOptions::default(), Context::seeded(7)).unwrap();
    let (one, two) = (handle(), handle());
    let mut created = 0;
    for number in 0..20 {
        let key = tarndb_storage::Path::from(format!("log/{number}"));
        let put = |store: tarndb_storage::Store| {
            let key = key.clone();
            tokio::spawn(async move { store.put_if_absent(&key, "x".into()).await.unwrap() })
        };
        let (a, b) = (put(one.clone()), put(two.clone()));
        for outcome in [a.await.unwrap(), b.await.unwrap()] {
            created += usize::from(matches!(outcome, tarndb_storage::PutOutcome::Created));
        }
    }
    assert_eq!(created, 20);
}
