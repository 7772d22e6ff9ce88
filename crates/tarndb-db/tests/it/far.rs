//! Databases in virtual time, over a store that is far away or misbehaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use tarndb_db::{Database, DbOptions};
use tarndb_storage::fault::{FaultPlan, FaultStore};
use tarndb_storage::{Context, RetryPolicy, SeededRandom, Store, VirtualClock};

use crate::support::*;

/// One store, one clock, and any number of handles.
pub(crate) struct Far {
    clock: VirtualClock,
    objects: Arc<dyn ObjectStore>,
    seeds: AtomicU64,
}

/// Runs a test in virtual time.
pub(crate) fn in_virtual_time<T>(seed: u64, test: impl AsyncFnOnce(&Far) -> T) -> T {
    let clock = VirtualClock::default();
    let runtime = clock.runtime().unwrap();
    let far = Far {
        clock,
        objects: Arc::new(InMemory::new()),
        seeds: AtomicU64::new(seed * 1_000),
    };
    runtime.block_on(test(&far))
}

impl Far {
    fn context(&self) -> Context {
        let seed = self.seeds.fetch_add(1, Ordering::SeqCst);
        let random = SeededRandom::new(seed);
        Context::new(Arc::new(self.clock.clone()), Arc::new(random))
    }

    /// A store with the faults of a plan, behind the retries of every store that is opened by
    /// its URL.
    pub(crate) fn store(&self, plan: FaultPlan) -> (FaultStore, Store) {
        let context = self.context();
        let faults = FaultStore::new(Arc::clone(&self.objects), plan, context.clone());
        let store = Store::new(Arc::new(faults.clone()), "memory://far", context);
        (faults, store.retrying(RetryPolicy::default()))
    }

    /// A store at a distance.
    pub(crate) fn at(&self, latency: Duration) -> Store {
        let plan = FaultPlan {
            latency,
            ..FaultPlan::default()
        };
        self.store(plan).1
    }

    pub(crate) async fn create(&self) -> Database {
        let store = self.at(Duration::ZERO);
        Database::create(store, manual()).await.unwrap()
    }

    /// A handle that is not at a distance and meets no faults.
    pub(crate) async fn open(&self) -> Database {
        self.open_at(Duration::ZERO).await
    }

    pub(crate) async fn open_at(&self, latency: Duration) -> Database {
        let options = DbOptions {
            background: false,
            ..manual()
        };
        Database::open(self.at(latency), options).await.unwrap()
    }

    pub(crate) fn now(&self) -> Duration {
        tarndb_storage::Clock::monotonic(&self.clock)
    }
}
