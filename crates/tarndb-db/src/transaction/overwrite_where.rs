//! Replacing the rows that match a predicate.
//!
//! Invariant: afterwards the rows that match are exactly those given; all others are as before.
//! Does not: replace all rows whatever they are; `overwrite` does.
//! Spec: docs/conflicts.md, "Overwrite with a predicate".

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use tarndb_table::{
    Predicate, RowPredicate, RowSet, Schema, TableError, TableState, Written, conform_batch,
    is_true, row_text,
};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use super::Transaction;
use super::overlay::OverwrittenRows;
use crate::error::DbError;
use crate::scan::{Scan, Scanned};

/// What an overwrite with a predicate did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverwriteReport {
    /// Rows that matched and are gone.
    pub removed: u64,
    /// Rows in their place.
    pub added: u64,
}

impl Transaction {
    /// Replaces the rows for which `predicate` is true by the rows given, for which it must be
    /// true too. Columns are taken by position. With `source_read_target` the rows were computed
    /// from the table itself: any change of its data before the commit is then a conflict.
    ///
    /// Others that add a matching row, or change one of those removed, before the commit are a
    /// retryable conflict.
    ///
    /// # Errors
    /// [`DbError::RowOutsidePredicate`] shows the first row that does not match; a predicate on
    /// columns that the table does not have; rows that do not fit. Nothing is changed then.
    ///
    /// # Cost
    /// Two GETs for each file that can hold matching rows (the predicate's columns are read);
    /// 1 PUT per file of about 128 MiB written.
    pub async fn overwrite_where<S, E>(
        &mut self,
        id: TableId,
        predicate: &Predicate,
        batches: S,
        source_read_target: bool,
    ) -> Result<OverwriteReport, DbError>
    where
        S: Stream<Item = Result<RecordBatch, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let name = self.entry(id)?.display_name();
        let state = self.table(id).await?;
        let columns = predicate.columns(&state.schema);
        columns.map_err(DbError::table(name.as_str()))?;
        let written = self.write_matching(id, &state, predicate, batches).await?;
        let predicate = Arc::new(predicate.clone());
        self.replace_where(id, predicate, written, source_read_target)
            .await
    }

    /// Replaces the rows for which `predicate` is true by rows that are written already, and of
    /// which the caller knows that it is true for them; else as [`Self::overwrite_where`].
    ///
    /// # Errors
    /// As [`Self::overwrite_where`].
    ///
    /// # Cost
    /// Two GETs for each file that can hold matching rows.
    pub async fn replace_where(
        &mut self,
        id: TableId,
        predicate: Arc<dyn RowPredicate>,
        written: Written,
        source_read_target: bool,
    ) -> Result<OverwriteReport, DbError> {
        let state = self.table(id).await?;
        let matching = self.matching_rows(id, &state, predicate.as_ref()).await?;
        let added = written.rows;
        self.make_room(id, &[&written]).await?;
        let removed = self.delete_rows(id, matching, Operation::Overwrite).await?;
        self.add_prepared(id, written, Operation::Overwrite).await?;
        let overwritten = OverwrittenRows {
            predicates: vec![predicate],
            source_read_target,
        };
        self.note_overwritten(id, overwritten).await?;
        Ok(OverwriteReport { removed, added })
    }

    async fn write_matching<S, E>(
        &self,
        id: TableId,
        state: &TableState,
        predicate: &Predicate,
        batches: S,
    ) -> Result<Written, DbError>
    where
        S: Stream<Item = Result<RecordBatch, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let name = self.entry(id)?.display_name();
        let error = |error: TableError| DbError::table(name.as_str())(error);
        let mut writer = self.writer(id).await?;
        let mut batches = std::pin::pin!(batches);
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(|error| DbError::Source(error.into()))?;
            let batch = conform_batch(&batch, &state.schema).map_err(error)?;
            let matches = predicate.evaluate(&batch, &state.schema).map_err(error)?;
            if let Some(row) = (0..batch.num_rows()).find(|row| !is_true(&matches, *row)) {
                return Err(DbError::RowOutsidePredicate {
                    table: name,
                    predicate: predicate.to_string(),
                    row: row_text(&batch, row, &state.schema),
                });
            }
            writer.write(&batch).await.map_err(error)?;
        }
        writer.finish().await.map_err(error)
    }

    /// Positions of the live rows for which the predicate is true, by file.
    pub(crate) async fn matching_rows(
        &self,
        id: TableId,
        state: &TableState,
        predicate: &dyn RowPredicate,
    ) -> Result<BTreeMap<String, RowSet>, DbError> {
        let entry = self.entry(id)?;
        let name = entry.display_name();
        let error = |error: TableError| DbError::table(name.as_str())(error);
        let columns = predicate.columns(&state.schema).map_err(error)?;
        // A file cannot be read without any column.
        let columns = match columns.fields.is_empty() {
            true => Schema::new(state.schema.fields.iter().take(1).cloned().collect()),
            false => columns,
        };
        let (schema, partitions) = (&state.schema, &state.partition_columns);
        let files = state.files.values();
        let files = files.filter(|file| predicate.may_match(file, schema, partitions));
        let files = files.collect();
        let scan = Scan {
            table: entry,
            columns: &columns,
            partition_columns: &state.partition_columns,
        };
        let mut scanned = self.inner().scan(scan, files);
        let mut found: BTreeMap<String, RowSet> = BTreeMap::new();
        while let Some(Scanned { file, mut rows }) = scanned.try_next().await? {
            while let Some(rows) = rows.try_next().await.map_err(error)? {
                let matches = predicate
                    .matches(&rows.batch, &state.schema)
                    .map_err(error)?;
                let positions = rows.positions.iter().enumerate();
                let matching = positions.filter(|(row, _)| is_true(&matches, *row));
                let positions: RowSet = matching.map(|(_, position)| *position).collect();
                if !positions.is_empty() {
                    *found.entry(file.path.clone()).or_default() |= positions;
                }
            }
        }
        Ok(found)
    }
}
