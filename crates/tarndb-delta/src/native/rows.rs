//! Deleting and updating rows of a native table by their positions.
//!
//! Invariant: the rows named are live in the state that the handle holds, or nothing is done. A
//! file keeps its rows and gets a deletion vector where the table has these on; elsewhere, and
//! where the log does not say how many rows a file has, its other rows are copied.
//! Spec: docs/format/native.md, "A commit"; Delta PROTOCOL, "Deletion Vectors".

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt as _;
use tarndb_table::{
    DataFile, FileUpdate, ReadOptions, RowSet, TableCodec as _, TableState, TableWriter, Written,
    parquet_row_count, read_file_rows,
};
use tarndb_txn::Operation;

use super::commit::{Change, NativeCommit};
use super::conflict::Reads;
use super::error::NativeError;
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
    /// Deletes rows by file and physical position, and adds written ones in the same commit: a
    /// deletion without new rows, an update with them. `reads` says what was looked at to find
    /// the rows. A file that is named without rows goes when it has none. Commits nothing when
    /// there is nothing to do.
    ///
    /// # Errors
    /// `RowsNotLive`; `Conflict` when others changed what was read; as any commit.
    ///
    /// # Cost
    /// A ranged GET per file that has a vector already; one PUT for large new vectors; the files
    /// themselves where they are copied.
    pub async fn change_rows(
        &mut self,
        rows: BTreeMap<String, RowSet>,
        written: Written,
        reads: Reads,
    ) -> Result<Option<NativeCommit>, NativeError> {
        self.check_written(&written)?;
        let state = Arc::clone(self.state()?);
        let mut change = Change::new(if written.files.is_empty() {
            Operation::Delete
        } else {
            Operation::Update
        });
        change.adds = written.files;
        change.reads = reads;
        let vectors = writes_vectors(&state)?;
        let (mut marked, mut copied) = (Vec::new(), Vec::new());
        for (path, rows) in rows {
            let (shrinking, total) = self.shrinking(&state, path, &rows).await?;
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
        if !copied.is_empty() {
            let mut writer = self.writer()?;
            for shrinking in &copied {
                self.copy(&state, &shrinking.file, &shrinking.all, &mut writer)
                    .await?;
            }
            change.adds.extend(writer.finish().await?.files);
            change
                .removes
                .extend(copied.into_iter().map(|file| file.file));
        }
        if change.adds.is_empty() && change.updates.is_empty() && change.removes.is_empty() {
            return Ok(None);
        }
        self.commit(change).await.map(Some)
    }

    /// The file of `path` with `rows` gone, and how many rows it has in all.
    async fn shrinking(
        &self,
        state: &TableState,
        path: String,
        rows: &RowSet,
    ) -> Result<(Shrinking, u64), NativeError> {
        let Some(file) = state.files.get(&path) else {
            let rows = rows.len();
            return Err(NativeError::RowsNotLive { file: path, rows });
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
            let rows = wrong;
            return Err(NativeError::RowsNotLive { file: path, rows });
        }
        let all = Arc::new(deleted.as_ref() | rows);
        Ok((Shrinking { file, all }, total))
    }

    /// Copies the rows of a file that are not in `deleted`.
    pub(super) async fn copy(
        &self,
        state: &TableState,
        file: &DataFile,
        deleted: &RowSet,
        writer: &mut TableWriter,
    ) -> Result<(), NativeError> {
        let rows = read_file_rows(
            &self.store,
            &self.location,
            file,
            &state.schema,
            &state.partition_columns,
            Some(deleted),
            ReadOptions::default(),
        );
        let mut rows = rows.await?;
        while let Some(rows) = rows.try_next().await? {
            writer.write(&rows.batch).await?;
        }
        Ok(())
    }
}

/// Does the table want deletion vectors?
pub(super) fn writes_vectors(state: &TableState) -> Result<bool, DeltaError> {
    let on = state.properties.get("delta.enableDeletionVectors");
    let on = on.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let delta = DeltaState::of(state)?;
    Ok(on && has_feature(&delta.protocol, feature::DELETION_VECTORS))
}
