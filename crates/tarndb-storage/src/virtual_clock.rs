//! `VirtualClock`: time that passes only when everybody waits.
//!
//! Invariant: while any task can run, time stands still; then it jumps to the next waiter. So
//! a run takes as long as its processor work, and repeats. It belongs to one single-threaded
//! runtime; work on other threads would be passed by.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use tarndb_types::TimestampMs;
use tokio::runtime::{Builder, Runtime};

use crate::context::Clock;

/// Where its wall clock starts, milliseconds since 1970 UTC.
const START_MS: i64 = 1_764_500_000_000;

/// A clock; clones are one.
#[derive(Clone, Default)]
pub struct VirtualClock {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    now: Duration,
    next_waiter: u64,
    waiters: BTreeMap<(Duration, u64), Waker>,
    ticker: Option<Waker>,
}

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VirtualClock")
            .field(&self.lock().now)
            .finish()
    }
}

impl VirtualClock {
    /// A runtime that moves this clock on whenever it has nothing to do.
    ///
    /// # Errors
    /// The system refuses what a runtime needs.
    pub fn runtime(&self) -> std::io::Result<Runtime> {
        let clock = self.clone();
        let runtime = Builder::new_current_thread()
            .on_thread_park(move || clock.advance())
            .build()?;
        runtime.spawn(Ticker(self.clone()));
        Ok(runtime)
    }

    /// Goes to the earliest waiter and wakes all of that moment, first come first served.
    fn advance(&self) {
        let mut due = Vec::new();
        let mut state = self.lock();
        let Some(((moment, _), _)) = state.waiters.first_key_value() else {
            return;
        };
        let moment = *moment;
        state.now = state.now.max(moment);
        while let Some(entry) = state.waiters.first_entry() {
            if entry.key().0 > moment {
                break;
            }
            due.push(entry.remove());
        }
        // A waiter may be one that nobody polls now, so that waking it does nothing: the
        // runtime must not go to sleep before all have had their turn.
        due.extend(state.ticker.take());
        drop(state);
        for waker in due {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> TimestampMs {
        let passed = i64::try_from(self.lock().now.as_millis()).unwrap_or(i64::MAX);
        TimestampMs(START_MS.saturating_add(passed))
    }

    fn monotonic(&self) -> Duration {
        self.lock().now
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(Sleep {
            until: self.lock().now.saturating_add(duration),
            clock: self.clone(),
            waiter: None,
        })
    }
}

/// Keeps the runtime awake after each step of time.
struct Ticker(VirtualClock);

impl Future for Ticker {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.lock().ticker = Some(context.waker().clone());
        Poll::Pending
    }
}

struct Sleep {
    clock: VirtualClock,
    until: Duration,
    waiter: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut state = clock.lock();
        if state.now >= self.until {
            return Poll::Ready(());
        }
        let waiter = *self.waiter.get_or_insert_with(|| {
            state.next_waiter += 1;
            state.next_waiter
        });
        let waker = context.waker().clone();
        state.waiters.insert((self.until, waiter), waker);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.clock.lock().waiters.remove(&(self.until, waiter));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Time goes on also when who it wakes is not listening.

    use std::sync::Arc;
    use std::time::Duration;

    use futures::StreamExt as _;

    use super::VirtualClock;
    use crate::context::Clock;

    #[test]
    fn waiters_that_nobody_polls_do_not_stop_the_time() {
        let clock = Arc::new(VirtualClock::default());
        let runtime = clock.runtime().unwrap();
        let sleeper = Arc::clone(&clock);
        let slept = runtime.block_on(async move {
            let waits = [1, 2, 3, 4].map(|seconds| sleeper.sleep(Duration::from_secs(seconds)));
            let mut stream = futures::stream::iter(waits).buffer_unordered(4);
            // The second and third wake a stream that is not polled meanwhile, twice.
            stream.next().await;
            sleeper.sleep(Duration::from_secs(10)).await;
            stream.next().await;
            sleeper.monotonic()
        });
        assert_eq!(slept, Duration::from_secs(11));
    }
}
