//! Our clock beside the store's: one that runs ahead would drag all later commits along.
//!
//! Invariant: a record whose timestamp leaps past its predecessor's is put only when the
//! store's own time was seen to agree, once for a handle whose clocks have not been set since.
//! Spec: docs/format/log.md, "Timestamps".

use std::sync::{Mutex, PoisonError};

use tarndb_storage::{Context, Store};
use tarndb_types::TimestampMs;

use crate::error::DbError;
use crate::layout;

/// How far a writer's clock may be ahead of the store's.
const AHEAD_MAX_MS: i64 = 5 * 60 * 1000;

/// What a handle knows of its clock.
#[derive(Debug, Default)]
pub(crate) struct ClockCheck {
    /// By how much the wall clock differed from the monotonic one when it was last compared.
    compared: Mutex<Option<i64>>,
}

impl ClockCheck {
    /// Checks the clock before a commit at `timestamp` on top of one at `previous`.
    ///
    /// # Errors
    /// [`DbError::ClockAhead`]; nothing was committed.
    ///
    /// # Cost
    /// Nothing, but for the first commit of a handle to a database that was idle for more than
    /// five minutes: a PUT, a HEAD and a DELETE.
    pub(crate) async fn before_commit(
        &self,
        store: &Store,
        previous: TimestampMs,
        timestamp: TimestampMs,
    ) -> Result<(), DbError> {
        if timestamp.0.saturating_sub(previous.0) <= AHEAD_MAX_MS {
            return Ok(());
        }
        let apart = wall_minus_monotonic(store.context());
        let compared = *self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if compared.is_some_and(|before| before.abs_diff(apart) <= AHEAD_MAX_MS.unsigned_abs()) {
            return Ok(());
        }
        if let Some(theirs) = store_time(store).await? {
            check_ahead(store.context(), theirs)?;
        }
        *self.compared.lock().unwrap_or_else(PoisonError::into_inner) = Some(apart);
        Ok(())
    }
}

/// Refuses a clock that is more than five minutes ahead of `theirs`, the store's time of a
/// moment ago.
pub(crate) fn check_ahead(context: &Context, theirs: TimestampMs) -> Result<(), DbError> {
    // Store times have whole seconds, which makes ours look ahead by up to one.
    let ahead_ms = context.now().0.saturating_sub(theirs.0);
    if ahead_ms > AHEAD_MAX_MS {
        Err(DbError::ClockAhead { ahead_ms })
    } else {
        Ok(())
    }
}

/// The store's time, told by an object written for it: one that is there already may be old.
pub(crate) async fn store_time(store: &Store) -> Result<Option<TimestampMs>, DbError> {
    let id = store.context().uuid();
    let key = layout::own_dir().join(format!("clock-{id}"));
    store.put(&key, bytes::Bytes::new()).await?;
    let info = store.head(&key).await?;
    if let Err(error) = store.delete(&key).await {
        // Small, uniquely named, and never looked at again.
        tracing::debug!(%key, %error, "clock object not removed");
    }
    Ok(info.map(|info| info.last_modified))
}

fn wall_minus_monotonic(context: &Context) -> i64 {
    let monotonic = i64::try_from(context.monotonic().as_millis()).unwrap_or(i64::MAX);
    context.now().0.saturating_sub(monotonic)
}
