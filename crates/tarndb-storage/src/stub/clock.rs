//! `HandClock`: time that stands still until a test, or a server that falls silent, lets it run.
//!
//! Invariant: a slow machine does not make a limit pass; only `run` does.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tarndb_types::TimestampMs;
use tokio::sync::watch;

use crate::context::{Clock, SystemClock};

/// Of what `run` is made.
const STEP: Duration = Duration::from_millis(500);
/// What a step takes in real time, so that whoever waits is seen to wait.
const STEP_REAL: Duration = Duration::from_micros(500);

/// The clock; clones are one. Its wall clock is the machine's.
#[derive(Clone, Debug)]
pub struct HandClock(Arc<watch::Sender<Duration>>);

impl Default for HandClock {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Duration::from_secs(1))))
    }
}

impl HandClock {
    /// Lets `length` pass, in steps of half a second, beside whoever waits; returns at once.
    pub fn run(&self, length: Duration) {
        let clock = Arc::clone(&self.0);
        tokio::spawn(async move {
            for _ in 0..length.as_millis() / STEP.as_millis() {
                clock.send_modify(|now| *now += STEP);
                SystemClock.sleep(STEP_REAL).await;
            }
        });
    }
}

impl Clock for HandClock {
    fn now(&self) -> TimestampMs {
        SystemClock.now()
    }

    fn monotonic(&self) -> Duration {
        *self.0.borrow()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut now = self.0.subscribe();
        let end = self.monotonic() + duration;
        async move { drop(now.wait_for(|now| *now >= end).await) }.boxed()
    }
}
