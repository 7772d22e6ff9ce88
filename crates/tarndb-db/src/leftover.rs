//! What a change stored that was given up: files that no record will ever name.
//!
//! Invariant: a file goes only when the change that it was written for was never handed to the
//! log, or when the log's answer was a conflict, which is definite. Whatever else comes between
//! leaves the file to vacuum, as a crash does: nothing relies on its going.
//! Spec: docs/guide/maintenance.md, "What is cancelled".

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::select;
use tarndb_storage::{Staged, Store};

use crate::database::Inner;

/// Files deleted at the same time.
const DELETIONS_PARALLEL: usize = 8;
/// How long closing waits for them.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// The files of one change. They go when the last clone does, unless they are kept.
#[derive(Clone, Debug)]
pub(crate) struct StagedFiles(Arc<Guard>);

#[derive(Debug)]
struct Guard {
    inner: Weak<Inner>,
    staged: Staged,
    kept: AtomicBool,
}

impl StagedFiles {
    /// Of a new change.
    pub(crate) fn new(inner: &Arc<Inner>) -> Self {
        Self(Arc::new(Guard {
            inner: Arc::downgrade(inner),
            staged: Staged::default(),
            kept: AtomicBool::new(false),
        }))
    }

    /// The store, through which the files of the change are written.
    pub(crate) fn store(&self, store: &Store) -> Store {
        store.staging(self.0.staged.clone())
    }

    /// From now on a record may name them.
    pub(crate) fn keep(&self) {
        self.0.kept.store(true, Ordering::SeqCst);
    }

    /// No record names them, and none will.
    pub(crate) fn give_up(&self) {
        self.0.kept.store(false, Ordering::SeqCst);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.kept.load(Ordering::SeqCst) || self.staged.is_empty() {
            return;
        }
        let Some(inner) = self.inner.upgrade() else {
            return;
        };
        inner.leftovers.push(self.staged.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { sweep(&inner).await });
        }
    }
}

/// What waits to be deleted.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    waiting: Mutex<Vec<Staged>>,
    /// One sweep at a time, so that closing waits for that which is under way.
    turn: tokio::sync::Mutex<()>,
}

impl Leftovers {
    fn push(&self, staged: Staged) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(staged);
    }

    fn pop(&self) -> Option<Staged> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop()
    }
}

/// Deletes what was given up. What cannot be deleted now is left to vacuum.
async fn sweep(inner: &Inner) {
    let _turn = inner.leftovers.turn.lock().await;
    while let Some(staged) = inner.leftovers.pop() {
        let keys = staged.settled().await;
        let deletions = keys.into_iter().map(|key| async move {
            if let Err(error) = inner.store.delete(&key).await {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(%key, error, "a file that was given up is left to vacuum");
            }
        });
        let deletions = futures::stream::iter(deletions);
        deletions
            .buffer_unordered(DELETIONS_PARALLEL)
            .collect::<()>()
            .await;
    }
}

/// Before the handle is closed: waits until what was given up is gone, but not for long.
pub(crate) async fn finish(inner: &Inner) {
    let (work, timer) = (Box::pin(sweep(inner)), inner.context().sleep(CLOSE_MAX));
    select(work, Box::pin(timer)).await;
}
