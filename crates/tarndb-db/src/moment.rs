//! A moment on both clocks of a machine.
//!
//! Invariant: an age is the larger of what the two clocks say: the machine may have been
//! suspended, and wall clocks may be set. A moment is noted before the request whose answer it
//! dates, so that a pause in between counts.
//! Spec: docs/format/log.md, "Late writers".

use std::time::Duration;

use tarndb_storage::Context;
use tarndb_types::TimestampMs;

/// A moment; compare ages, not moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    monotonic: Duration,
    wall: TimestampMs,
}

impl Moment {
    pub(crate) fn now(context: &Context) -> Self {
        Self {
            monotonic: context.monotonic(),
            wall: context.now(),
        }
    }

    /// What the wall clock said.
    pub(crate) fn wall(self) -> TimestampMs {
        self.wall
    }

    /// The larger of what both clocks say.
    pub(crate) fn age(self, context: &Context) -> Duration {
        let now = Self::now(context);
        let wall = u64::try_from(now.wall.0.saturating_sub(self.wall.0)).unwrap_or(0);
        now.monotonic
            .saturating_sub(self.monotonic)
            .max(Duration::from_millis(wall))
    }

    /// The one that came later.
    pub(crate) fn later(self, other: Self) -> Self {
        if self.monotonic >= other.monotonic {
            self
        } else {
            other
        }
    }
}
