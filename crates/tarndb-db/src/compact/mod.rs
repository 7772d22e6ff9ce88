//! Compaction: few files of good size in place of many small ones and of files with many
//! deleted rows.
//!
//! Invariant: no row appears, disappears or changes; a concurrent DELETE, UPDATE or MERGE
//! neither fails because of it nor makes it fail. It commits as it goes, so what was done
//! before an error or a crash stays done.
//! Rows keep their order unless they are clustered; a clustering of very many rows keeps no row
//! map, and then a concurrent DELETE, UPDATE or MERGE of them runs again, or the clustering.
//! Spec: docs/guide/cli.md, "Compaction"; docs/guide/maintenance.md, "Clustering";
//! docs/conflicts.md, "Row maps".

pub mod cluster;
mod curve;
mod plan;
mod ranges;
mod rewrite;
pub(crate) mod row_map;
mod trail;

use std::collections::BTreeSet;
use std::sync::Arc;

use tarndb_table::{TableState, WriteOptions};
use tarndb_types::{DbVersion, TableId};

pub use cluster::{Clustering, RowSorter, SortedRows};
pub use rewrite::Rewritten;

use crate::check::Progress;
use crate::database::Database;
use crate::error::{DbError, ErrorKind};
use crate::options::TxnOptions;
use crate::snapshot::Snapshot;
use crate::transaction::{Committed, Transaction};
use cluster::Order;
use plan::{Bin, Limits, first_group, plan, plan_clustered};

/// Conflicts in a row after which files are left as they are. Only a table without deletion
/// vectors comes near it.
const CONFLICTS_MAX: u32 = 16;

/// What to compact.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactOptions {
    /// Size in bytes that files should have; `None`: the table's (`tarndb.targetFileSize`).
    pub target_file_bytes: Option<u64>,
    /// Small files that are worth being joined; at least 2.
    pub min_files: usize,
    /// Share of deleted rows from which a file is written anew by itself.
    pub max_deleted_fraction: f64,
    /// All files, whether they need it or not.
    pub all: bool,
    /// These files only, by their paths; `None`: of the whole table.
    pub only: Option<BTreeSet<String>>,
    /// Bytes that one transaction rewrites at most.
    pub group_bytes: u64,
    /// Files that one transaction rewrites at most.
    pub group_files: usize,
    /// Transactions that are committed at most.
    pub versions_max: usize,
    /// Runs of rows (24 bytes of memory each) of which a clustering keeps a row map at most.
    pub row_map_runs_max: usize,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self {
            target_file_bytes: None,
            min_files: 2,
            max_deleted_fraction: 0.1,
            all: false,
            only: None,
            group_bytes: 512 << 20,
            group_files: 4096,
            versions_max: usize::MAX,
            row_map_runs_max: 2 << 20,
        }
    }
}

/// What a compaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Files of the table before.
    pub files_before: u64,
    /// Files of the table afterwards, those of others included.
    pub files_after: u64,
    /// Bytes of the table before.
    pub bytes_before: u64,
    /// Bytes of the table afterwards.
    pub bytes_after: u64,
    /// Files that were replaced.
    pub files_rewritten: u64,
    /// Files in their place.
    pub files_written: u64,
    /// Bytes of the files that were replaced.
    pub bytes_rewritten: u64,
    /// Bytes of the files in their place.
    pub bytes_written: u64,
    /// Rows in these.
    pub rows_moved: u64,
    /// Deleted rows that the new files no longer hold.
    pub rows_dropped: u64,
    /// Database versions that were made, one per group of files.
    pub versions: Vec<DbVersion>,
    /// Groups whose row map travels in the record.
    pub row_maps_in_record: u64,
    /// Groups whose row map lies in a file of its own.
    pub row_maps_in_file: u64,
    /// Groups without a row map: whose rows went in more runs than one is kept for.
    pub row_maps_left_out: u64,
    /// Files that others rewrote or removed meanwhile.
    pub files_skipped: u64,
    /// Files left as they are because others kept changing them.
    pub files_given_up: u64,
    /// Groups that were rewritten again after a conflict.
    pub retries: u64,
    /// What the user should be told once.
    pub notices: Vec<String>,
}

impl Database {
    /// Compacts a table: joins small files, partition by partition, and writes files with many
    /// deleted rows anew. Nothing to do commits nothing.
    ///
    /// # Errors
    /// [`DbError::TableNotFound`]; [`DbError::TableDropped`], also when it is dropped meanwhile;
    /// what reading and writing can fail with. Conflicts are not among them. What was committed before stays.
    ///
    /// # Cost
    /// Per group of files about two GETs per input, a PUT per output and one for the commit.
    pub async fn compact(
        &self,
        table: TableId,
        options: &CompactOptions,
    ) -> Result<CompactReport, DbError> {
        let compaction = Compaction::begin(self, table, options, None).await?;
        compaction.run(&mut |_| {}).await
    }

    /// As [`Self::compact`], and tells how far it is: files looked at, of all that it will.
    ///
    /// # Errors
    /// As [`Self::compact`].
    pub async fn compact_with(
        &self,
        table: TableId,
        options: &CompactOptions,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<CompactReport, DbError> {
        let compaction = Compaction::begin(self, table, options, None).await?;
        compaction.run(progress).await
    }

    /// Writes files anew with their rows in the order of some columns.
    ///
    /// # Errors
    /// As [`Self::compact`]; a column that nothing can be clustered by; those of the sorter.
    ///
    /// # Cost
    /// As [`Self::compact`], in larger groups; with several columns these are read twice.
    pub async fn cluster(
        &self,
        table: TableId,
        options: &CompactOptions,
        clustering: &Clustering,
        sorter: &dyn RowSorter,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<CompactReport, DbError> {
        let order = Order {
            clustering,
            sorter,
            runs_max: options.row_map_runs_max,
        };
        let compaction = Compaction::begin(self, table, options, Some(order)).await?;
        let name = compaction.name()?;
        let checked = clustering.check(&compaction.state);
        checked.map_err(DbError::table(name))?;
        compaction.run(progress).await
    }

    /// Writes the first group of files anew that a compaction would, without committing;
    /// `None` when there is nothing to do.
    ///
    /// # Errors
    /// As [`Self::compact`].
    pub async fn rewrite(
        &self,
        table: TableId,
        options: &CompactOptions,
    ) -> Result<Option<Rewritten>, DbError> {
        let compaction = Compaction::begin(self, table, options, None).await?;
        let group = compaction.next_group()?;
        if group.is_empty() {
            return Ok(None);
        }
        compaction.rewrite(&group).await.map(Some)
    }

    /// Commits a rewrite, which any handle on the same database may have prepared.
    ///
    /// # Errors
    /// [`DbError::Conflict`] when another rewrite took the same files, or the rows of a table
    /// without deletion vectors changed: it is then to be planned again.
    pub async fn commit_rewrite(&self, rewritten: Rewritten) -> Result<Committed, DbError> {
        let base = self.snapshot_at(rewritten.base).await?;
        commit_from(base, rewritten).await
    }
}

/// A compaction under way.
struct Compaction<'a> {
    database: &'a Database,
    table: TableId,
    options: &'a CompactOptions,
    /// How rows are put in order, if they are.
    order: Option<Order<'a>>,
    snapshot: Snapshot,
    state: Arc<TableState>,
    /// Files that are still to be looked at. What comes later, own output included, waits for
    /// the next compaction: so this one ends.
    eligible: BTreeSet<String>,
    /// In a row.
    conflicts: u32,
    report: CompactReport,
}

impl<'a> Compaction<'a> {
    async fn begin(
        database: &'a Database,
        table: TableId,
        options: &'a CompactOptions,
        order: Option<Order<'a>>,
    ) -> Result<Self, DbError> {
        let snapshot = database.snapshot().await?;
        let state = snapshot.table(table).await?;
        Ok(Self {
            database,
            table,
            options,
            order,
            eligible: eligible(&state, options),
            conflicts: 0,
            report: CompactReport {
                files_before: state.files.len() as u64,
                bytes_before: state.size_bytes(),
                ..CompactReport::default()
            },
            snapshot,
            state,
        })
    }

    async fn run(
        mut self,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<CompactReport, DbError> {
        let total = self.eligible.len();
        loop {
            progress(Progress {
                stage: self.name()?,
                done: (total - self.eligible.len()) as u64,
                total: Some(total as u64),
            });
            let group = self.next_group()?;
            if group.is_empty() || self.report.versions.len() >= self.options.versions_max {
                break;
            }
            let rewritten = self.rewrite(&group).await?;
            let sources: Vec<String> = rewritten.sources.keys().cloned().collect();
            let committed = commit_from(self.snapshot.clone(), rewritten.clone()).await;
            self.refresh().await?;
            match committed {
                Ok(committed) => self.count(&rewritten, committed),
                Err(error) if is_conflict(&error) => {
                    tracing::debug!(%error, "files are rewritten again");
                    self.count_conflict(&sources);
                    continue;
                }
                Err(error) => return Err(error),
            }
            self.forget(&sources);
        }
        self.report.files_after = self.state.files.len() as u64;
        self.report.bytes_after = self.state.size_bytes();
        Ok(self.report)
    }

    /// Smaller after each conflict: what takes less time meets fewer others.
    fn next_group(&self) -> Result<Vec<Bin>, DbError> {
        let files = self.state.files.values();
        let files = files.filter(|file| self.eligible.contains(&file.path));
        let limits = Limits {
            bytes: self.options.group_bytes >> self.conflicts,
            files: self.options.group_files >> self.conflicts,
        };
        let (target, options) = (self.target_bytes()?, self.options);
        let bins = match &self.order {
            None => plan(files, target, options),
            Some(order) => {
                let marked = order.clustering.marks;
                plan_clustered(files, target, options, limits, marked)
            }
        };
        Ok(first_group(bins, limits))
    }

    fn name(&self) -> Result<String, DbError> {
        Ok(self.snapshot.entry(self.table)?.display_name())
    }

    fn target_bytes(&self) -> Result<u64, DbError> {
        if let Some(bytes) = self.options.target_file_bytes {
            return Ok(bytes);
        }
        let name = self.name()?;
        let options = WriteOptions::of_table(&self.state);
        Ok(options.map_err(DbError::table(name))?.target_file_bytes)
    }

    async fn rewrite(&self, group: &[Bin]) -> Result<Rewritten, DbError> {
        let target = self.target_bytes()?;
        rewrite::rewrite(&self.snapshot, self.table, group, target, self.order).await
    }

    async fn refresh(&mut self) -> Result<(), DbError> {
        self.snapshot = self.database.snapshot().await?;
        self.state = self.snapshot.table(self.table).await?;
        Ok(())
    }

    fn count(&mut self, rewritten: &Rewritten, committed: Committed) {
        self.conflicts = 0;
        let report = &mut self.report;
        report.files_rewritten += rewritten.sources.len() as u64;
        report.files_written += rewritten.files.len() as u64;
        let bytes = rewritten.sources.values().map(|file| file.size_bytes);
        report.bytes_rewritten += bytes.sum::<u64>();
        let bytes = rewritten.files.iter().map(|file| file.size_bytes);
        report.bytes_written += bytes.sum::<u64>();
        report.rows_moved += rewritten.rows;
        let dropped = rewritten.sources.values();
        report.rows_dropped += dropped.map(|file| file.deletion.cardinality()).sum::<u64>();
        report.versions.extend(committed.version);
        match rewritten.row_map() {
            None => report.row_maps_left_out += 1,
            Some(_) if rewritten.row_map_in_file() => report.row_maps_in_file += 1,
            Some(_) => report.row_maps_in_record += 1,
        }
        let notices = committed.notices.into_iter();
        let new: Vec<_> = notices.filter(|n| !report.notices.contains(n)).collect();
        report.notices.extend(new);
    }

    /// Files that are gone were rewritten or emptied by the others; the rest is planned again.
    fn count_conflict(&mut self, sources: &[String]) {
        self.conflicts += 1;
        let live = |path: &&String| self.state.files.contains_key(path);
        let (live, gone): (Vec<&String>, Vec<&String>) = sources.iter().partition(live);
        self.report.files_skipped += gone.len() as u64;
        if self.conflicts < CONFLICTS_MAX {
            self.report.retries += u64::from(!live.is_empty());
            return;
        }
        self.report.files_given_up += live.len() as u64;
        self.conflicts = 0;
        self.forget(sources);
    }

    fn forget(&mut self, paths: &[String]) {
        for path in paths {
            self.eligible.remove(path);
        }
    }
}

/// The files of the table that the options mean.
fn eligible(state: &TableState, options: &CompactOptions) -> BTreeSet<String> {
    let is_meant = |path: &String| options.only.as_ref().is_none_or(|only| only.contains(path));
    state.files.paths().filter(is_meant).collect()
}

fn is_conflict(error: &DbError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConflictRetryable | ErrorKind::ConflictIncompatible
    )
}

/// Commits a rewrite, judged from the version that it read.
async fn commit_from(base: Snapshot, rewritten: Rewritten) -> Result<Committed, DbError> {
    let mut txn = Transaction::new(base, TxnOptions::default());
    txn.move_rows(rewritten).await?;
    txn.commit().await
}
