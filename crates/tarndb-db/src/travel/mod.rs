//! Earlier versions of one table: which there are, what they held, what changed between them.
//!
//! Invariant: never above the snapshot's version of the table; a version is answered exactly or
//! refused with the reason (not there yet, cleaned up, vacuumed). Reads only.
//! Does not: go back to one (`transaction::restore` does).
//! Spec: docs/format/log.md, "Reading a table" and "Vacuum".
//!
//! - `log`: the versions that are there, each with its lines.
//! - `history`, `changes`: what they say of themselves, and the rows that they changed.

mod changes;
pub mod error;
pub mod history;
mod log;

use std::sync::Arc;

use tarndb_delta::DeltaError;
use tarndb_log::SegmentError;
use tarndb_table::{TableError, TableState};
use tarndb_types::{DbVersion, TableId, TableVersion, TimestampMs};

pub use changes::TableChanges;
use error::TravelError;
use log::TableLog;

use crate::catalog::{Catalog, TableEntry};
use crate::database::Inner;
use crate::error::DbError;
use crate::open;
use crate::snapshot::Snapshot;

/// Which version of a table is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableTarget {
    /// This one.
    Version(TableVersion),
    /// The newest not after this time.
    Timestamp(TimestampMs),
}

impl Snapshot {
    /// The version of a table that is meant.
    ///
    /// # Errors
    /// [`TravelError`]: a version or time that the snapshot does not have yet, or no longer.
    ///
    /// # Cost
    /// None for a version; for a time 1 LIST and a GET per step of a binary search.
    pub async fn table_version(
        &self,
        id: TableId,
        target: TableTarget,
    ) -> Result<TableVersion, DbError> {
        self.version_of(self.entry(id)?, target).await
    }

    /// The same of a table that may be dropped.
    pub(crate) async fn version_of(
        &self,
        entry: &Arc<TableEntry>,
        target: TableTarget,
    ) -> Result<TableVersion, DbError> {
        match target {
            TableTarget::Version(wanted) if wanted > entry.version => Err(TravelError::NotYet {
                table: entry.display_name(),
                wanted,
                newest: entry.version,
            }
            .into()),
            TableTarget::Version(wanted) => Ok(wanted),
            TableTarget::Timestamp(at) => {
                let now = self.database().inner.context().now();
                let log = TableLog::load(&self.database().inner, entry).await?;
                log.version_at(at, now).await
            }
        }
    }

    /// The state of a table as of an earlier version of it, for [`Self::scan`].
    ///
    /// # Errors
    /// As [`Self::table_version`]; a version whose commits were cleaned up, or files of which a
    /// vacuum may have deleted.
    ///
    /// # Cost
    /// That of [`Self::table_version`], and what the table's own log costs up to the version.
    pub async fn table_at(
        &self,
        id: TableId,
        target: TableTarget,
    ) -> Result<Arc<TableState>, DbError> {
        let version = self.table_version(id, target).await?;
        let entry = self.entry(id)?;
        let inner = &self.database().inner;
        check_files_kept(inner, entry, version).await?;
        state_at(inner, entry, version).await
    }
}

/// The state at a version that the table has, whatever became of its files.
pub(crate) async fn state_at(
    inner: &Inner,
    entry: &Arc<TableEntry>,
    version: TableVersion,
) -> Result<Arc<TableState>, DbError> {
    let mut earlier = TableEntry::clone(entry);
    earlier.version = version;
    let state = inner.table_state(&earlier).await;
    state.map_err(|error| match oldest_named(&error) {
        Some(oldest) => TravelError::CleanedUp {
            table: entry.display_name(),
            wanted: version,
            oldest: Some(oldest),
        }
        .into(),
        None => error,
    })
}

/// The oldest version that can be read, when the error is that an older one cannot.
fn oldest_named(error: &DbError) -> Option<TableVersion> {
    let DbError::Table { source, .. } = error else {
        return None;
    };
    let TableError::Format { source, .. } = source.as_ref() else {
        return None;
    };
    match source.downcast_ref() {
        Some(DeltaError::Segment(SegmentError::TooOld { oldest, .. })) => {
            Some(TableVersion(*oldest))
        }
        _ => None,
    }
}

/// No vacuum that this handle knows of may have deleted files of the version: those of every
/// version since the one at the vacuum's horizon stay.
pub(crate) async fn check_files_kept(
    inner: &Inner,
    entry: &TableEntry,
    version: TableVersion,
) -> Result<(), DbError> {
    check_kept_by(inner, &inner.head.catalog(), entry, version).await
}

/// The same for the vacuums that `head` shows.
pub(crate) async fn check_kept_by(
    inner: &Inner,
    head: &Catalog,
    entry: &TableEntry,
    version: TableVersion,
) -> Result<(), DbError> {
    let Some(newest) = head.table_or_dropped(entry.id) else {
        return Ok(());
    };
    let Some(horizon) = newest.vacuumed else {
        return Ok(());
    };
    if newest.version == version && !newest.is_purged() {
        return Ok(());
    }
    check_kept_since(inner, entry, version, horizon).await
}

/// The version is one that a vacuum with this horizon leaves readable.
pub(crate) async fn check_kept_since(
    inner: &Inner,
    entry: &TableEntry,
    version: TableVersion,
    horizon: DbVersion,
) -> Result<(), DbError> {
    let head = inner.head.catalog();
    let opened = open::load_at(&inner.store, &inner.log, horizon, head.version()).await;
    let at_horizon = opened.map(|opened| opened.catalog);
    let oldest = match at_horizon {
        Ok(catalog) => match (catalog.table(entry.id), catalog.table_or_dropped(entry.id)) {
            (Some(table), _) => Some(table.version),
            // Dropped by then.
            (None, Some(_)) => None,
            // Created later.
            (None, None) => return Ok(()),
        },
        Err(DbError::VersionNotFound { .. }) => None,
        Err(error) => return Err(error),
    };
    match oldest {
        Some(oldest) if version >= oldest => Ok(()),
        _ => Err(TravelError::Vacuumed {
            table: entry.display_name(),
            wanted: version,
            oldest,
        }
        .into()),
    }
}
