//! `Staged`: objects that are stored for a change which may still be given up.
//!
//! Invariant: an object is noted before its first byte is sent, and known to be still on its way
//! until the store has answered, also when nobody waits for the answer any more. So whoever
//! gives the change up can wait until nothing is on its way and then delete all of it.
//! Does not: delete anything, or know which changes were made good.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::path::Path;
use tokio::sync::Notify;

use crate::error::StoreError;
use crate::store::Store;

/// The objects of one change. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Staged {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// How many writes of each are under way.
    objects: Mutex<BTreeMap<Path, u32>>,
    settled: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Path, u32>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write that is under way.
struct Writing {
    staged: Staged,
    key: Path,
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(writes) = self.staged.shared.lock().get_mut(&self.key) {
            *writes = writes.saturating_sub(1);
        }
        self.staged.shared.settled.notify_waiters();
    }
}

impl Staged {
    /// Whether nothing was stored.
    pub fn is_empty(&self) -> bool {
        self.shared.lock().is_empty()
    }

    /// The objects, once no write of them is under way.
    pub async fn settled(&self) -> Vec<Path> {
        loop {
            let settled = self.shared.settled.notified();
            {
                let objects = self.shared.lock();
                if objects.values().all(|writes| *writes == 0) {
                    return objects.keys().cloned().collect();
                }
            }
            settled.await;
        }
    }

    fn begin(&self, key: &Path) -> Writing {
        *self.shared.lock().entry(key.clone()).or_default() += 1;
        Writing {
            staged: self.clone(),
            key: key.clone(),
        }
    }
}

impl Store {
    /// Carries out a write of `key`. Where what is stored is noted, the write goes on when the
    /// caller goes away: only then is it known when it has ended.
    ///
    /// # Errors
    /// Those of the write.
    pub async fn carry_out<T: Send + 'static>(
        &self,
        key: &Path,
        write: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Some(staged) = self.staged() else {
            return write.await;
        };
        let writing = staged.begin(key);
        let work = async move {
            let written = write.await;
            drop(writing);
            written
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return work.await;
        };
        match runtime.spawn(work).await {
            Ok(written) => written,
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            // The runtime ends, and the caller with it.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;
    use crate::context::Context;

    #[tokio::test]
    async fn a_write_whose_caller_went_away_is_waited_for() {
        let staged = Staged::default();
        let store = Store::memory(Context::seeded(1)).staging(staged.clone());
        let key = Path::from("a");
        let (go, wait) = oneshot::channel::<()>();
        let inner = store.clone();
        let at = key.clone();
        let write = store.carry_out(&key, async move {
            wait.await.unwrap();
            inner.put(&at, bytes::Bytes::from_static(b"x")).await
        });
        let mut write = Box::pin(write);
        assert!(write.as_mut().now_or_never().is_none());
        drop(write);
        assert!(!staged.is_empty());
        let mut settled = Box::pin(staged.settled());
        assert!(settled.as_mut().now_or_never().is_none());
        go.send(()).unwrap();
        assert_eq!(settled.await, std::slice::from_ref(&key));
        assert!(store.get(&key).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_store_that_notes_nothing_writes_at_once() {
        let store = Store::memory(Context::seeded(1));
        let done = store.carry_out(&Path::from("a"), async { Ok(7) }).await;
        assert_eq!(done.unwrap(), 7);
    }
}
