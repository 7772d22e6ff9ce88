//! The changes of a MERGE, made in one step.
//!
//! Invariant: rows that go, rows that get a new form and new rows are one change of the table,
//! also where files are rewritten; nothing is changed when it fails. Keys that the merge found
//! missing are noted with it, so that nobody else adds them in the meantime unseen.
//! Does not: find the rows, or write files.
//! Spec: docs/conflicts.md, "Keys"; docs/sql/merge.md, "Concurrent merges".

use std::collections::BTreeMap;

use tarndb_table::{RowSet, WrittenChange};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use super::Transaction;
use super::feed::images;
use crate::error::DbError;
use crate::upsert::MergeKeys;

/// What one MERGE changes.
#[derive(Debug, Default)]
pub struct MergedRows {
    /// Rows that go, those with a new form included, by the path of their file.
    pub rows: BTreeMap<String, RowSet>,
    /// Those of them that have no new form.
    pub gone: BTreeMap<String, RowSet>,
    /// The new forms and the new rows.
    pub written: WrittenChange,
    /// The keys of all rows that were written and of those looked for in vain; `None` when the
    /// statement inserts nothing.
    pub keys: Option<MergeKeys>,
    /// For the history.
    pub counts: MergeCounts,
}

/// Figures of a MERGE, as other engines name them in the history of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Rows of the source, when they were counted.
    pub source_rows: Option<u64>,
    /// New rows.
    pub inserted: u64,
    /// Rows with a new form.
    pub updated: u64,
    /// Rows without one.
    pub deleted: u64,
    /// Rows that moved to another file unchanged; none with deletion vectors.
    pub copied: u64,
    /// Files of the table that were looked into.
    pub files_scanned: u64,
    /// Files that could hold no match by their statistics.
    pub files_skipped: u64,
}

impl MergeCounts {
    fn add(&mut self, further: Self) {
        self.source_rows = self
            .source_rows
            .zip(further.source_rows)
            .map(|(known, more)| known + more);
        self.inserted += further.inserted;
        self.updated += further.updated;
        self.deleted += further.deleted;
        self.copied += further.copied;
        self.files_scanned += further.files_scanned;
        self.files_skipped += further.files_skipped;
    }
}

/// Files of a table that a MERGE changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergedFiles {
    /// New files.
    pub added: u64,
    /// Files that are gone.
    pub removed: u64,
    /// Rows that moved to another file unchanged.
    pub copied: u64,
}

impl Transaction {
    /// Makes the changes of a MERGE.
    ///
    /// # Errors
    /// As [`Self::delete_rows`]; files that do not fit the table any more. Nothing is changed
    /// then.
    ///
    /// # Cost
    /// As [`Self::delete_rows`].
    pub async fn merge_rows(
        &mut self,
        id: TableId,
        merged: MergedRows,
    ) -> Result<MergedFiles, DbError> {
        let MergedRows {
            rows,
            gone,
            written,
            keys,
            mut counts,
        } = merged;
        self.make_room(id, &written.parts()).await?;
        let before = self.table(id).await?;
        let touched: Vec<String> = rows.keys().cloned().collect();
        let changed: u64 = rows.values().map(RowSet::len).sum();
        self.delete_rows_of(id, rows, gone, Operation::Upsert)
            .await?;
        let after = self.table(id).await?;
        let mut files = MergedFiles {
            added: written
                .parts()
                .iter()
                .map(|part| part.files.len() as u64)
                .sum(),
            ..MergedFiles::default()
        };
        files.removed = touched
            .iter()
            .filter(|path| before.files.get(path).is_some() && after.files.get(path).is_none())
            .count() as u64;
        if !before.deletion_vectors_enabled() {
            let live = touched
                .iter()
                .filter_map(|path| before.files.get(path)?.live_rows());
            files.copied = live.sum::<u64>().saturating_sub(changed);
            let rewritten = after.files.len() + usize::try_from(files.removed).unwrap_or(0);
            files.added += rewritten.saturating_sub(before.files.len()) as u64;
        }
        counts.copied = files.copied;
        self.notice_written(id, written.empty_string_as_null())?;
        for part in written.parts() {
            self.take_identities(id, part).await?;
        }
        let new = images(written);
        let looked = keys.map(MergeKeys::into_looked);
        let overlay = self.overlay(id).await?;
        overlay.add_upserted(new, looked);
        match &mut overlay.merged {
            Some(known) => known.add(counts),
            None => overlay.merged = Some(counts),
        }
        self.changes.did(Operation::Upsert);
        Ok(files)
    }
}
