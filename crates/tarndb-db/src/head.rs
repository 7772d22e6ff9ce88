//! The newest version that a handle knows, and how it moves forward.
//!
//! Invariant: it only moves forward, one record at a time or by opening anew; a reader gets a
//! catalog that never changes under it. `seen` is a moment at which the log held nothing after
//! the version; a record that is merely read does not make it later. Nothing here waits for the
//! store with a lock held.
//! Spec: docs/format/log.md, "Refreshing" and "Late writers".

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tarndb_storage::Context;
use tarndb_types::{DbVersion, TableId, TableVersion};

use crate::catalog::Catalog;
use crate::error::DbError;
use crate::moment::Moment;
use crate::record::Record;

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
    /// `seen`: noted before the log was listed.
    pub(crate) fn new(catalog: Catalog, seen: Moment, context: Context) -> Self {
        let inner = Inner {
            catalog: Arc::new(catalog),
            seen,
        };
        Self {
            inner: Mutex::new(inner),
            context,
        }
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.lock().catalog)
    }

    /// The head and when it was the newest version.
    pub(crate) fn current(&self) -> (Arc<Catalog>, Moment) {
        let inner = self.lock();
        (Arc::clone(&inner.catalog), inner.seen)
    }

    /// How long ago the store last confirmed the head.
    pub(crate) fn age(&self) -> Duration {
        self.lock().seen.age(&self.context)
    }

    /// There was nothing after `version` when the store was asked at `asked`.
    pub(crate) fn confirm(&self, version: DbVersion, asked: Moment) {
        let mut inner = self.lock();
        if inner.catalog.version() >= version {
            inner.seen = inner.seen.later(asked);
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
        }
        Ok(Arc::clone(&inner.catalog))
    }

    /// Moves to a catalog that was opened anew since `asked`, unless it is older.
    pub(crate) fn replace(&self, mut catalog: Catalog, asked: Moment) {
        let mut inner = self.lock();
        inner.seen = inner.seen.later(asked);
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
