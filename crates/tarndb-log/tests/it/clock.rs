//! The clock of a paused tokio runtime: waiting takes no time, and no order depends on it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tarndb_storage::{Clock, Context, SeededRandom};
use tarndb_types::TimestampMs;

#[derive(Debug)]
struct PausedClock {
    start: tokio::time::Instant,
}

impl Clock for PausedClock {
    fn now(&self) -> TimestampMs {
        TimestampMs(1_764_500_000_000 + self.start.elapsed().as_millis() as i64)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Must be called within a runtime whose time is paused.
pub(crate) fn paused_context(seed: u64) -> Context {
    let clock = PausedClock {
        start: tokio::time::Instant::now(),
    };
    Context::new(Arc::new(clock), Arc::new(SeededRandom::new(seed)))
}
