//! Ctrl-C.
//!
//! Invariant: the first press cancels the work that is guarded, also when it comes between two
//! pieces of work (futures are dropped, so that nothing of a statement becomes visible); a
//! second press, before the first was forgotten, ends the process.

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
    /// Presses that were not forgotten are the unseen changes of this receiver.
    presses: watch::Receiver<u64>,
    pressed: Arc<AtomicBool>,
}

impl Interrupt {
    /// Starts watching; needs a running tokio runtime.
    pub(crate) fn watch() -> Self {
        let (sender, presses) = watch::channel(0);
        let pressed = Arc::new(AtomicBool::new(false));
        let known = Arc::clone(&pressed);
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if known.swap(true, Ordering::SeqCst) {
                    std::process::exit(i32::from(code::INTERRUPTED));
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        Self { presses, pressed }
    }

    /// Forgets what was pressed: the next work is another one.
    pub(crate) fn forget(&mut self) {
        self.presses.mark_unchanged();
        self.pressed.store(false, Ordering::SeqCst);
    }

    /// The same watch for the work after a cancelled one: goes on although Ctrl-C was pressed,
    /// and a further press ends the process.
    pub(crate) fn after_cancelling(&self) -> Self {
        let mut later = self.clone();
        later.presses.mark_unchanged();
        later
    }

    /// Runs `work` until it is done or Ctrl-C is pressed; does not begin when it was pressed
    /// already.
    pub(crate) async fn guard<F: Future>(&self, work: F) -> Result<F::Output, Interrupted> {
        let mut presses = self.presses.clone();
        if presses.has_changed().unwrap_or(false) {
            return Err(Interrupted);
        }
        // The sender lives as long as the runtime; were it gone, nothing can be pressed.
        let press = async {
            if presses.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            // Work that is done counts, also when the press came in the same moment.
            biased;
            output = work => Ok(output),
            () = press => Err(Interrupted),
        }
    }
}
