//! A store whose times are the test's, beginning at a fixed moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tarndb_storage::hand_store::HandStore;
use tarndb_types::TimestampMs;

/// The store with its clock, which moves a millisecond with each write; clones are one.
#[derive(Clone)]
pub(crate) struct Aged {
    pub(crate) objects: HandStore,
    now_ms: Arc<AtomicI64>,
}

impl Aged {
    pub(crate) fn new() -> Self {
        let now_ms = Arc::new(AtomicI64::new(1_800_000_000_000));
        let clock = Arc::clone(&now_ms);
        Self {
            objects: HandStore::new(move || clock.fetch_add(1, Ordering::SeqCst)),
            now_ms,
        }
    }

    /// Time goes on.
    pub(crate) fn pass(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Says that an object was written `ms` ago.
    pub(crate) fn set_age(&self, key: &str, ms: i64) {
        let time = self.now_ms.load(Ordering::SeqCst) - ms;
        self.objects.set_time(key, TimestampMs(time));
    }
}
