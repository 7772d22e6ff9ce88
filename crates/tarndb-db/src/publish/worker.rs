//! The background task of a handle.
//!
//! Invariant: at most one per handle; it holds no strong reference while it waits, so it ends
//! with the handle. When it dies with its runtime, the next wake-up starts another.
//! A wake-up is never lost and never queued twice: what is to do is read from the head.

use std::sync::{Arc, Weak};

use super::work;
use crate::database::Inner;
use crate::upkeep;

/// Wakes the task; starts it first when there is none yet.
pub(super) fn wake(inner: &Arc<Inner>) {
    let start = {
        let mut state = inner.publisher.lock();
        !std::mem::replace(&mut state.worker_started, true)
    };
    inner.publisher.wake.notify_one();
    if !start {
        return;
    }
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        // Without a runtime nothing runs in the background; `close` publishes.
        inner.publisher.lock().worker_started = false;
        return;
    };
    let (weak, notify) = (Arc::downgrade(inner), Arc::clone(&inner.publisher.wake));
    let running = Running(Weak::clone(&weak));
    runtime.spawn(run(weak, notify, running));
}

/// Makes room for a new task when this one ends, be it by a panic or with its runtime.
struct Running(Weak<Inner>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.publisher.lock().worker_started = false;
        }
    }
}

async fn run(inner: Weak<Inner>, wake: Arc<tokio::sync::Notify>, _running: Running) {
    loop {
        wake.notified().await;
        let Some(inner) = inner.upgrade() else {
            return;
        };
        if inner.check_open().is_err() {
            return;
        }
        let published = work(&inner).await;
        upkeep::start(&inner);
        let Err(error) = published else {
            continue;
        };
        // A handle that only reads may well be unable to write.
        if inner.publisher.lock().committed_any {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "publishing failed"
            );
        } else {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "publishing failed"
            );
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.publisher.wake_for_end();
    }
}

impl super::Publisher {
    fn wake_for_end(&self) {
        self.wake.notify_one();
    }
}
