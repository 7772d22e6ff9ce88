//! A store whose times are those of a clock that the test moves.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tarndb_storage::Clock as _;
use tarndb_storage::hand_store::HandStore;

use crate::clock::HandClock;

/// A store with the times of `clock`.
pub(crate) fn timed_by(clock: &Arc<HandClock>) -> HandStore {
    let clock = Arc::clone(clock);
    HandStore::new(move || clock.now().0)
}

/// Both clocks of everybody go on.
pub(crate) fn pass(clock: &HandClock, duration: Duration) {
    let ms = duration.as_millis() as i64;
    clock.wall.fetch_add(ms, Ordering::SeqCst);
    clock.monotonic.fetch_add(ms, Ordering::SeqCst);
}
