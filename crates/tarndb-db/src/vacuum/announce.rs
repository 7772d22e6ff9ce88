//! The record that comes before anything is deleted.
//!
//! Invariant: horizon and time are those of before the record was put, so that what is deleted
//! later is at most what the record announces. The catalog that is kept is the one right at
//! the record, with all that is published known.
//! Spec: docs/format/log.md, "Vacuum".

use std::sync::Arc;

use tarndb_types::{DbVersion, TimestampMs};

use super::horizon::LogTimes;
use super::{VacuumOptions, time_before};
use crate::catalog::{Catalog, TableEntry};
use crate::commit;
use crate::database::Database;
use crate::error::DbError;
use crate::open;
use crate::options::TxnOptions;
use crate::publish;
use crate::record::{Action, VacuumAction};

/// A vacuum that transactions know of.
#[derive(Debug)]
pub(super) struct Announced {
    /// Its record; `None` for a dry run.
    pub(super) version: Option<DbVersion>,
    /// The oldest version that can be read.
    pub(super) oldest: DbVersion,
    /// The oldest version that must stay readable.
    pub(super) horizon: DbVersion,
    /// Younger files stay.
    pub(super) before: TimestampMs,
    /// The catalog at the record, or the newest.
    pub(super) newest: Arc<Catalog>,
}

/// Announces a vacuum, unless it is a dry run.
///
/// # Cost
/// 2 LISTs, a GET or LIST per table with unpublished versions, an object written and removed
/// for its time, and a commit.
pub(super) async fn announce(
    database: &Database,
    options: &VacuumOptions,
) -> Result<Announced, DbError> {
    let inner = &database.inner;
    let before = time_before(inner, options.retention).await?;
    let mut txn = database.begin(TxnOptions::default()).await?;
    commit::check_writable(txn.snapshot().catalog())?;
    let head = txn.snapshot().version();
    // Listed after the head was read, so that its record is among those listed.
    let times = LogTimes::load(&inner.store, &inner.log).await?;
    let known = times.oldest(head).zip(times.horizon(head, before));
    let (oldest, horizon) = known.ok_or_else(|| open::record_missing(&inner.log, head))?;
    publish::learn_published(inner).await?;
    let announced = |version, newest| Announced {
        version,
        oldest,
        horizon,
        before,
        newest,
    };
    if options.dry_run {
        return Ok(announced(None, inner.head.catalog()));
    }
    txn.changes.actions.push(Action::Vacuum(VacuumAction {
        horizon,
        before,
        tables: options.tables.clone(),
    }));
    let committed = txn.commit().await?;
    let version = committed.version.ok_or(DbError::Internal {
        what: "the announcement of a vacuum made no version",
    })?;
    let at_record = database.snapshot_at(version).await?;
    let mut newest = at_record.catalog().clone();
    newest.adopt_published(&inner.head.catalog());
    Ok(announced(Some(version), Arc::new(newest)))
}

impl Catalog {
    /// Whether a table that was dropped at or before a version goes with all its files: no tag
    /// keeps it.
    pub(crate) fn goes_at(&self, table: &TableEntry, version: DbVersion) -> bool {
        table.dropped.is_some_and(|dropped| dropped <= version) && !self.is_tagged(table)
    }
}
