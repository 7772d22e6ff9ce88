//! Writes that take effect after some later requests.
//!
//! Invariant: each is carried out once, in the order it was put off, and what the store says
//! to it is nobody's answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutOptions, PutPayload};

/// What is done later.
#[derive(Debug)]
pub(super) enum Write {
    Put {
        location: Path,
        payload: PutPayload,
        opts: PutOptions,
    },
    Delete(Path),
}

#[derive(Debug, Default)]
pub(super) struct Later {
    waiting: Mutex<Vec<(u64, Write)>>,
}

impl Later {
    /// Puts a write off by so many requests.
    pub(super) fn put_off(&self, requests: u64, write: Write) {
        self.lock().push((requests, write));
    }

    /// A request came: carries out what has waited long enough.
    pub(super) async fn pass(&self, store: &Arc<dyn ObjectStore>) {
        let due = {
            let mut waiting = self.lock();
            for (left, _) in waiting.iter_mut() {
                *left = left.saturating_sub(1);
            }
            let (due, left) = waiting.drain(..).partition(|(left, _)| *left == 0);
            *waiting = left;
            due
        };
        carry_out(store, due).await;
    }

    /// Carries out everything now.
    pub(super) async fn settle(&self, store: &Arc<dyn ObjectStore>) {
        let due = std::mem::take(&mut *self.lock());
        carry_out(store, due).await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Write)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn carry_out(store: &Arc<dyn ObjectStore>, due: Vec<(u64, Write)>) {
    for (_, write) in due {
        match write {
            Write::Put {
                location,
                payload,
                opts,
            } => {
                let result = store.put_opts(&location, payload, opts).await;
                tracing::debug!(%location, stored = result.is_ok(), "late write");
            }
            Write::Delete(location) => {
                let result = store.delete(&location).await;
                tracing::debug!(%location, deleted = result.is_ok(), "late deletion");
            }
        }
    }
}
