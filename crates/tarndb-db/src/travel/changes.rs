//! The rows that a range of versions of a table changed.
//!
//! Invariant: a range is answered whole or refused; the rules are those of the format's change
//! feed, which must have been on.
//! Spec: docs/format/delta.md, "Change feed".

use arrow_array::RecordBatch;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_delta::Bases;
use tarndb_delta::changes::{ChangeFeed, FeedPlanner, change_schema};
use tarndb_storage::{Path, Store};
use tarndb_table::{Schema, TableError, TableState};
use tarndb_types::{TableId, TableVersion};

use super::error::TravelError;
use super::log::{TableLog, told};
use super::{TableTarget, check_files_kept, state_at};
use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;
use crate::snapshot::Snapshot;

const PARALLEL_READS: usize = 16;

/// The changes of a range of versions.
#[derive(Debug)]
pub struct TableChanges {
    feed: ChangeFeed,
    store: Store,
    location: Path,
    table: String,
}

impl TableChanges {
    /// The columns of the table at the end of the range, then `_change_type`,
    /// `_commit_version` and `_commit_timestamp`.
    pub fn schema(&self) -> Schema {
        change_schema(&self.feed.schema)
    }

    /// The rows, versions in order; files are read as rows are asked for. Each call begins anew.
    ///
    /// # Errors
    /// In the stream: files that are gone, those of the store, damage.
    pub fn batches(&self) -> BoxStream<'static, Result<RecordBatch, DbError>> {
        let table = self.table.clone();
        let feed = self.feed.clone();
        let batches = feed.batches(self.store.clone(), self.location.clone());
        let batches = batches.map_err(move |error| DbError::table(table.as_str())(error));
        batches.boxed()
    }
}

impl Snapshot {
    /// The changes of versions `from` to `to`, both included (`None`: that of the snapshot).
    ///
    /// # Errors
    /// [`TravelError`] for versions that are not there; of the format, when the feed was off
    /// within the range or columns do not fit together. In the stream: files that are gone.
    ///
    /// # Cost
    /// That of the state before `from`, 1 LIST and a GET per version; the rows as read.
    pub async fn table_changes(
        &self,
        id: TableId,
        from: TableVersion,
        to: Option<TableVersion>,
    ) -> Result<TableChanges, DbError> {
        let entry = self.entry(id)?;
        let inner = &self.database().inner;
        let to = to.unwrap_or(entry.version);
        for wanted in [to, from] {
            self.table_version(id, TableTarget::Version(wanted)).await?;
        }
        if from > to {
            return Err(TravelError::Backwards { from, to }.into());
        }
        check_changes_kept(inner, entry, from).await?;
        let log = TableLog::load(inner, entry).await?;
        let failed = |source| DbError::table(entry.display_name())(TableError::from(source));
        let mut planner = match from.previous() {
            None => FeedPlanner::after(None),
            Some(before) => match state_at(inner, entry, before).await {
                Ok(state) => FeedPlanner::after(Some(TableState::clone(&state))),
                Err(DbError::Travel(TravelError::CleanedUp { .. })) => {
                    let first = state_at(inner, entry, from).await?;
                    FeedPlanner::at(TableState::clone(&first))
                }
                Err(error) => return Err(error),
            },
        };
        planner = planner.reaching(Bases::new(&entry.location, &entry.bases));
        let mut entries = futures::stream::iter((from.0..=to.0).map(TableVersion))
            .map(|version| log.entry(version))
            .buffered(PARALLEL_READS);
        while let Some(commit) = entries.try_next().await? {
            let time = told(&commit).map_err(failed)?.timestamp;
            planner.commit(&commit, time.0).map_err(failed)?;
        }
        let feed = planner.finish().map_err(failed)?;
        let feed = feed.ok_or(DbError::Internal {
            what: "a range of versions without a commit",
        })?;
        Ok(TableChanges {
            feed,
            store: inner.store.clone(),
            location: entry.location.clone(),
            table: entry.display_name(),
        })
    }
}

/// What a version removed is a file of the one before it.
async fn check_changes_kept(
    inner: &Inner,
    entry: &TableEntry,
    from: TableVersion,
) -> Result<(), DbError> {
    let Some(before) = from.previous() else {
        return check_files_kept(inner, entry, from).await;
    };
    match check_files_kept(inner, entry, before).await {
        Err(DbError::Travel(TravelError::Vacuumed { table, oldest, .. })) => {
            Err(DbError::Travel(TravelError::Vacuumed {
                table,
                wanted: from,
                oldest: oldest.map(TableVersion::next),
            }))
        }
        other => other,
    }
}
