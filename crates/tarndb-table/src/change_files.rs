//! `ChangeFiles`: the files of a change data feed, which say what happened to rows.
//!
//! Invariant: a row stands in them with the values that it had in the file it is copied from,
//! and one kind of change.
//! Does not: say which rows a commit must tell; whoever commits knows.
//! Spec: docs/format/delta.md, "Change data feed"; Delta PROTOCOL, "Add CDC File".

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema};
use futures::TryStreamExt as _;
use object_store::path::Path;
use tarndb_storage::Store;

use crate::error::TableError;
use crate::fragment::DataFile;
use crate::parquet::read::{ReadOptions, Wanted, open_file};
use crate::parquet::write::TableWriter;
use crate::parquet::write_options::WriteOptions;
use crate::schema::{DataType, Field};
use crate::state::TableState;

/// Column that says what happened to a row.
const CHANGE_TYPE: &str = "_change_type";
/// Folder of the files.
const FOLDER: &str = "_change_data";
/// A row that is new.
pub const INSERT: &str = "insert";
/// A row that is gone.
pub const DELETE: &str = "delete";
/// A row as it was before it got a new form.
pub const UPDATE_PREIMAGE: &str = "update_preimage";
/// The new form of a row.
pub const UPDATE_POSTIMAGE: &str = "update_postimage";

/// Writes the files of one commit.
#[derive(Debug)]
pub struct ChangeFiles<'a> {
    store: Store,
    location: Path,
    state: &'a TableState,
    writer: TableWriter,
}

impl<'a> ChangeFiles<'a> {
    /// For the table of `state` at `location`.
    ///
    /// # Errors
    /// A table property that cannot be obeyed.
    pub fn new(store: Store, location: Path, state: &'a TableState) -> Result<Self, TableError> {
        let hidden = Field::new(CHANGE_TYPE, DataType::String, false);
        let writer = TableWriter::new(
            store.clone(),
            location.clone(),
            Arc::clone(&state.schema),
            state.partition_columns.clone(),
            WriteOptions::of_table(state)?,
        );
        Ok(Self {
            store,
            location,
            state,
            writer: writer.with_hidden(&[hidden]).with_folder(FOLDER),
        })
    }

    /// Copies rows of a data file; `change` is what happened to the row at a position.
    ///
    /// # Errors
    /// Reading the file, storing the copies.
    ///
    /// # Cost
    /// About two GETs.
    pub async fn copy(
        &mut self,
        file: &DataFile,
        wanted: Wanted<'_>,
        change: impl Fn(u64) -> &'static str,
    ) -> Result<(), TableError> {
        let opened = open_file(
            &self.store,
            &self.location,
            file,
            &self.state.schema,
            &self.state.partition_columns,
            wanted,
            ReadOptions::default(),
        );
        let mut rows = opened.await?.rows;
        while let Some(rows) = rows.try_next().await? {
            let changes = rows.positions.iter().map(|position| change(*position));
            let changes: StringArray = changes.map(Some).collect();
            let batch = with_column(&rows.batch, Arc::new(changes))?;
            self.writer.write(&batch).await?;
        }
        Ok(())
    }

    /// Completes the files.
    ///
    /// # Errors
    /// As [`TableWriter::finish`].
    ///
    /// # Cost
    /// One PUT per partition.
    pub async fn finish(self) -> Result<Vec<DataFile>, TableError> {
        Ok(self.writer.finish().await?.files)
    }
}

fn with_column(batch: &RecordBatch, changes: ArrayRef) -> Result<RecordBatch, TableError> {
    let field = ArrowField::new(CHANGE_TYPE, changes.data_type().clone(), false);
    let given = batch.schema();
    let fields = given.fields().iter().cloned().chain([Arc::new(field)]);
    let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
    let columns = batch.columns().iter().cloned().chain([changes]).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(|source| {
        TableError::Arrow {
            context: "adding the kind of change",
            source,
        }
    })
}
