//! Deleting and updating rows of a native table by their positions.
//!
//! Invariant: the rows named are live in the state that the handle holds, or nothing is done. A
//! file keeps its rows and gets a deletion vector where the table has these on; elsewhere, and
//! where the log does not say how many rows a file has, its other rows are copied.
//! Spec: docs/format/native.md, "A commit"; Delta PROTOCOL, "Deletion Vectors".

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_table::{
    DataFile, FileUpdate, RowSet, TableCodec as _, TableState, WrittenChange, parquet_row_count,
};
use tarndb_txn::Operation;

use super::commit::{Change, NativeCommit};
use super::conflict::Reads;
use super::error::NativeError;
use super::feed::has_feed;
use super::protocol::has_feature;
use super::table::NativeTable;
use crate::effects::deleted_rows;
use crate::error::DeltaError;
use crate::feature;
use crate::state::DeltaState;

/// A file some of whose rows go.
struct Shrinking {
    file: Arc<DataFile>,
    /// All deleted rows, earlier ones included.
    all: Arc<RowSet>,
}

impl NativeTable {
    /// Deletes rows by file and physical position, and adds what was written for them in the same
    /// commit: a deletion without new rows, an update with them. Rows that come as a plain
    /// [`Written`](tarndb_table::Written) are new ones; a [`Self::change_writer`] knows which
    /// rows they replace. `reads` says what was looked at to find the rows. A file that is named
    /// without rows goes when it has none. Commits nothing when there is nothing to do.
    ///
    /// # Errors
    /// `RowsNotLive`; `Conflict` when others changed what was read; as any commit.
    ///
    /// # Cost
    /// A ranged GET per file that has a vector already; one PUT for large new vectors; the files
    /// themselves where they are copied. With a change data feed, unless rows are only deleted
    /// by vectors: about two GETs per file with changed rows, one PUT per partition.
    pub async fn change_rows(
        &mut self,
        rows: BTreeMap<String, RowSet>,
        written: impl Into<WrittenChange>,
        reads: Reads,
    ) -> Result<Option<NativeCommit>, NativeError> {
        let written = written.into();
        for part in written.parts() {
            self.check_written(part)?;
        }
        check_replaced(&rows, &written)?;
        let state = Arc::clone(self.state()?);
        let mut change = Change::new(if written.is_empty() {
            Operation::Delete
        } else {
            Operation::Update
        });
        change.reads = reads;
        let copies = self.delete(&state, &rows, &mut change).await?;
        if has_feed(&state)? && (copies || !written.updated.files.is_empty()) {
            change.changes = self.tell_changes(&state, &rows, &written).await?;
        }
        change.add(written.inserted);
        change.add(written.updated);
        if change.adds.is_empty() && change.updates.is_empty() && change.removes.is_empty() {
            return Ok(None);
        }
        self.commit(change).await.map(Some)
    }

    /// Adds to `change` what deletes the rows; whether it copies files without them.
    async fn delete(
        &self,
        state: &TableState,
        rows: &BTreeMap<String, RowSet>,
        change: &mut Change,
    ) -> Result<bool, NativeError> {
        let vectors = writes_vectors(state)?;
        let (mut marked, mut copied) = (Vec::new(), Vec::new());
        for (path, rows) in rows {
            let (shrinking, total) = self.shrinking(state, path, rows).await?;
            if shrinking.all.len() == total {
                change.removes.push(shrinking.file);
            } else if rows.is_empty() {
                continue;
            } else if vectors && shrinking.file.num_records().is_some() {
                marked.push(shrinking);
            } else {
                copied.push(shrinking);
            }
        }
        change.vectors_since = Some(self.store.context().now().0).filter(|_| !marked.is_empty());
        let sets: Vec<_> = marked.iter().map(|file| Arc::clone(&file.all)).collect();
        let stored = self
            .codec
            .store_deletions(&self.store, &self.location, &sets)
            .await?;
        for (shrinking, vector) in marked.into_iter().zip(stored) {
            change.updates.push(FileUpdate {
                old: shrinking.file,
                new: Some(vector),
            });
        }
        if copied.is_empty() {
            return Ok(false);
        }
        let mut copier = self.copier(state)?;
        for shrinking in &copied {
            copier.copy(&shrinking.file, &shrinking.all).await?;
        }
        change.adds.extend(copier.finish().await?);
        let copied = copied.into_iter().map(|file| file.file);
        change.removes.extend(copied);
        Ok(true)
    }

    /// The file of `path` with `rows` gone, and how many rows it has in all.
    async fn shrinking(
        &self,
        state: &TableState,
        path: &str,
        rows: &RowSet,
    ) -> Result<(Shrinking, u64), NativeError> {
        let not_live = |rows: u64| {
            let file = path.to_owned();
            Err(NativeError::RowsNotLive { file, rows })
        };
        let Some(file) = state.files.get(path) else {
            return not_live(rows.len());
        };
        let deleted = deleted_rows(&self.store, &self.location, &file.deletion).await?;
        let total = match file.num_records() {
            Some(total) => total,
            None => parquet_row_count(&self.store, &self.location, &file).await?,
        };
        let within = match total.checked_sub(1) {
            Some(last) => rows.rank(last),
            None => 0,
        };
        let wrong = rows.intersection_len(&deleted) + (rows.len() - within);
        if wrong > 0 {
            return not_live(wrong);
        }
        let all = Arc::new(deleted.as_ref() | rows);
        Ok((Shrinking { file, all }, total))
    }
}

/// A row that has a new form goes, else there would be two with one id.
fn check_replaced(
    rows: &BTreeMap<String, RowSet>,
    written: &WrittenChange,
) -> Result<(), DeltaError> {
    for (path, replaced) in &written.replaced {
        let gone = rows
            .get(path)
            .map_or(0, |rows| rows.intersection_len(replaced));
        if gone < replaced.len() {
            return Err(DeltaError::IllegalCommit {
                rule: "a row that has a new form is deleted",
                detail: path.clone(),
            });
        }
    }
    Ok(())
}

/// Does the table want deletion vectors?
pub(super) fn writes_vectors(state: &TableState) -> Result<bool, DeltaError> {
    let on = state.properties.get("delta.enableDeletionVectors");
    let on = on.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let delta = DeltaState::of(state)?;
    Ok(on && has_feature(&delta.protocol, feature::DELETION_VECTORS))
}
