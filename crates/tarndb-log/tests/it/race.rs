//! Many writers, one log, and a store that loses answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tarndb_log::{Appended, LogDir};
use tarndb_storage::fault::{FaultPlan, FaultStore};
use tarndb_storage::{Context, Path, Store, StoreOptions, open};

use crate::clock::paused_context;

const DEADLINE: Duration = Duration::from_secs(600);

/// What one writer was told: where its entries are, and whose it met.
#[derive(Default)]
struct Told {
    ours: Vec<(u64, Bytes)>,
    theirs: Vec<(u64, Bytes)>,
}

/// Appends `count` entries, each at the first version that is free.
async fn write(log: LogDir, writer: usize, count: usize) -> Told {
    let mut told = Told::default();
    let mut version = 0;
    for number in 0..count {
        let bytes = Bytes::from(format!("writer {writer} entry {number}"));
        loop {
            let mine = bytes.clone();
            let is_ours = move |found: &[u8]| found == mine;
            let appended = log
                .append(version, bytes.clone(), &is_ours, DEADLINE)
                .await
                .unwrap();
            version += 1;
            match appended {
                Appended::Ours => break told.ours.push((version - 1, bytes)),
                Appended::Theirs(found, _) => told.theirs.push((version - 1, found)),
            }
        }
    }
    told
}

/// Runs the writers, then compares what they were told with what is there.
async fn race(
    objects: Arc<dyn ObjectStore>,
    plan: FaultPlan,
    context: Context,
    writers: usize,
    count: usize,
) -> FaultStore {
    let faults = FaultStore::new(objects, plan, context.clone());
    let store = Store::new(Arc::new(faults.clone()), "fault://", context);
    let log = LogDir::new(store, Path::from("_tarndb/log"));
    let tasks: Vec<_> = (0..writers)
        .map(|writer| tokio::spawn(write(log.clone(), writer, count)))
        .collect();
    let mut told = Vec::new();
    for task in tasks {
        told.push(task.await.unwrap());
    }
    faults.set_active(false);
    faults.settle().await;
    let versions = log.list_after(None).await.unwrap();
    let total = u64::try_from(writers * count).unwrap();
    assert_eq!(
        versions,
        (0..total).collect::<Vec<_>>(),
        "a hole, or an entry stored twice"
    );
    let there: BTreeMap<u64, Bytes> = log.read_many(0..total).await.unwrap().into_iter().collect();
    let mut acknowledged: Vec<u64> = Vec::new();
    for (version, bytes) in told.iter().flat_map(|told| &told.ours) {
        assert_eq!(
            there[version], bytes,
            "acknowledged but another's: version={version}"
        );
        acknowledged.push(*version);
    }
    for (version, bytes) in told.iter().flat_map(|told| &told.theirs) {
        assert_eq!(
            there[version], bytes,
            "told of an entry that is not there: {version}"
        );
    }
    for (writer, told) in told.iter().enumerate() {
        let own = format!("writer {writer} ");
        let met_itself = told
            .theirs
            .iter()
            .find(|(_, found)| found.starts_with(own.as_bytes()));
        // Its own earlier entries lie below the versions that it tries.
        assert_eq!(
            met_itself, None,
            "writer {writer} took its own entry for another's"
        );
    }
    acknowledged.sort_unstable();
    assert_eq!(
        acknowledged, versions,
        "each entry is acknowledged exactly once"
    );
    faults
}

fn plan(seed: u64) -> FaultPlan {
    FaultPlan {
        seed,
        latency: Duration::from_millis(10),
        jitter: 1.0,
        error_before: 0.05,
        error_after: 0.05,
        lost_answer: 0.15,
        self_conflict: 0.1,
        phantom_conflict: 0.05,
        late_effect: 0.1,
        duplicate: 0.1,
        partial_read: 0.1,
        ..FaultPlan::default()
    }
}

#[tokio::test(start_paused = true)]
async fn thousands_of_appends_with_lost_answers_are_each_acknowledged_once() {
    for seed in 0..4 {
        let context = paused_context(seed);
        let faults = race(Arc::new(InMemory::new()), plan(seed), context, 6, 250).await;
        let injected = faults.injected();
        assert!(
            injected.lost_answer > 100 && injected.late_effect > 50,
            "{injected:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_durable_folder_with_lost_answers_acknowledges_each_append_once() {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().to_str().unwrap();
    let store = open(url, &StoreOptions::default(), Context::seeded(1)).unwrap();
    let plan = FaultPlan {
        latency: Duration::ZERO,
        ..plan(9)
    };
    race(store.objects(), plan, Context::seeded(2), 4, 40).await;
}
