//! The newest version that a handle knows, and how it moves forward.
//!
//! Invariant: it only moves forward, one record at a time or by opening anew; a reader gets a
//! catalog that never changes under it. Nothing here waits for the store with a lock held.
//! Spec: docs/format/log.md, "Refreshing".

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tarndb_storage::Context;
use tarndb_types::{DbVersion, TableId, TableVersion, TimestampMs};

use crate::catalog::Catalog;
use crate::error::DbError;
use crate::record::Record;

/// A moment on both clocks: the machine may sleep, and wall clocks may be set.
#[derive(Clone, Copy, Debug)]
struct Moment {
    monotonic: Duration,
    wall: TimestampMs,
}

impl Moment {
    fn now(context: &Context) -> Self {
        Self {
            monotonic: context.monotonic(),
            wall: context.now(),
        }
    }

    /// The larger of what both clocks say.
    fn age(self, context: &Context) -> Duration {
        let now = Self::now(context);
        let wall = u64::try_from(now.wall.0.saturating_sub(self.wall.0)).unwrap_or(0);
        now.monotonic
            .saturating_sub(self.monotonic)
            .max(Duration::from_millis(wall))
    }
}

#[derive(Debug)]
struct Inner {
    catalog: Arc<Catalog>,
    seen: Moment,
}

/// The head.
#[derive(Debug)]
pub(crate) struct Head {
    inner: Mutex<Inner>,
    context: Context,
}

impl Head {
    pub(crate) fn new(catalog: Catalog, context: Context) -> Self {
        let inner = Inner {
            catalog: Arc::new(catalog),
            seen: Moment::now(&context),
        };
        Self {
            inner: Mutex::new(inner),
            context,
        }
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.lock().catalog)
    }

    /// How long ago the store last confirmed the head.
    pub(crate) fn age(&self) -> Duration {
        self.lock().seen.age(&self.context)
    }

    /// The store said that there is nothing after `version`.
    pub(crate) fn confirm(&self, version: DbVersion) {
        let mut inner = self.lock();
        if inner.catalog.version() >= version {
            inner.seen = Moment::now(&self.context);
        }
    }

    /// Moves to the version that `record` makes; nothing happens when it is known already.
    pub(crate) fn absorb(&self, record: &Record) -> Result<Arc<Catalog>, DbError> {
        let mut inner = self.lock();
        if record.version > inner.catalog.version() {
            let version = record.version;
            let next = inner.catalog.apply(record);
            let next = next.map_err(|violation| DbError::Invariant { version, violation })?;
            inner.catalog = Arc::new(next);
            inner.seen = Moment::now(&self.context);
        }
        Ok(Arc::clone(&inner.catalog))
    }

    /// Moves to a catalog that was opened anew, unless it is older.
    pub(crate) fn replace(&self, mut catalog: Catalog) {
        let mut inner = self.lock();
        inner.seen = Moment::now(&self.context);
        if catalog.version() > inner.catalog.version() {
            catalog.adopt_published(&inner.catalog);
            inner.catalog = Arc::new(catalog);
        }
    }

    pub(crate) fn note_published(&self, id: TableId, version: TableVersion) {
        Arc::make_mut(&mut self.lock().catalog).note_published(id, version);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
