//! Ctrl-C.
//!
//! Invariant: the first press cancels the statement that runs (its future is dropped, so that
//! nothing of it becomes visible); a second press while it still runs ends the process.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::failure::code;

/// The statement was cancelled.
#[derive(Debug)]
pub(crate) struct Interrupted;

/// Watches for Ctrl-C from its creation on.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    presses: watch::Receiver<u64>,
    busy: Arc<AtomicBool>,
}

impl Interrupt {
    /// Starts watching; needs a running tokio runtime.
    pub(crate) fn watch() -> Self {
        let (sender, presses) = watch::channel(0);
        let busy = Arc::new(AtomicBool::new(false));
        let cancelling = Arc::clone(&busy);
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                // The flag is set by the first press and cleared when the statement has ended.
                if cancelling.swap(true, Ordering::SeqCst) {
                    std::process::exit(i32::from(code::INTERRUPTED));
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        Self { presses, busy }
    }

    /// Runs `work` until it is done or Ctrl-C is pressed.
    pub(crate) async fn guard<F: Future>(&self, work: F) -> Result<F::Output, Interrupted> {
        let mut presses = self.presses.clone();
        presses.mark_unchanged();
        self.busy.store(false, Ordering::SeqCst);
        let result = tokio::select! {
            biased;
            output = work => Ok(output),
            // The sender lives as long as the runtime; were it gone, nothing can be pressed.
            () = async { if presses.changed().await.is_err() { std::future::pending().await } } => {
                Err(Interrupted)
            }
        };
        self.busy.store(false, Ordering::SeqCst);
        result
    }
}
