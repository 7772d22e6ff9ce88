//! Copying rows of a native table into new files.
//!
//! Invariant: a row keeps its values, and where the table tracks rows its id and the version
//! that last changed it.
//! Spec: docs/format/delta.md, "Row tracking".

use std::sync::Arc;

use futures::TryStreamExt as _;
use tarndb_storage::{Path, Store};
use tarndb_table::{
    DataFile, ReadOptions, RowIdColumns, RowSet, Schema, TableState, TableWriter, WriteOptions,
    read_file_rows,
};

use super::error::NativeError;
use super::table::NativeTable;

/// Copies rows.
pub(super) struct Copier {
    store: Store,
    location: Path,
    ids: Option<RowIdColumns>,
    /// What is read: the table's columns, and those of the ids.
    columns: Arc<Schema>,
    partition_columns: Vec<String>,
    writer: TableWriter,
}

impl NativeTable {
    /// Copies rows of the table in this state.
    pub(super) fn copier(&self, state: &TableState) -> Result<Copier, NativeError> {
        let writer = self.writer_with(state, WriteOptions::of_table(state)?);
        let ids = RowIdColumns::of(&state.properties);
        let (columns, writer) = match &ids {
            Some(ids) => (
                Arc::new(ids.added_to(&state.schema)),
                writer.with_hidden(&ids.fields()),
            ),
            None => (Arc::clone(&state.schema), writer),
        };
        Ok(Copier {
            store: self.store.clone(),
            location: self.location.clone(),
            ids,
            columns,
            partition_columns: state.partition_columns.clone(),
            writer,
        })
    }
}

impl Copier {
    /// Copies the rows of a file that are not in `deleted`.
    pub(super) async fn copy(
        &mut self,
        file: &DataFile,
        deleted: &RowSet,
    ) -> Result<(), NativeError> {
        let rows = read_file_rows(
            &self.store,
            &self.location,
            file,
            &self.columns,
            &self.partition_columns,
            Some(deleted),
            ReadOptions::default(),
        );
        let mut rows = rows.await?;
        while let Some(rows) = rows.try_next().await? {
            let batch = match &self.ids {
                Some(ids) => ids.resolved(file, &rows)?,
                None => rows.batch,
            };
            self.writer.write(&batch).await?;
        }
        Ok(())
    }

    pub(super) async fn finish(self) -> Result<Vec<DataFile>, NativeError> {
        Ok(self.writer.finish().await?.files)
    }
}
