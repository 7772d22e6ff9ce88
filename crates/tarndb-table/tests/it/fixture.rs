//! What the tests of this crate share: a store, and tables written to it and read back.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::TryStreamExt;
use object_store::path::Path;
use tarndb_storage::{Context, Store};
use tarndb_table::{
    DataFile, DataType, Field, RowSet, Schema, TableError, TableWriter, WriteOptions, Written,
    conform_batch, read_file,
};

#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) store: Store,
    pub(crate) location: Path,
    pub(crate) schema: Arc<Schema>,
    pub(crate) partition_columns: Vec<String>,
}

impl Table {
    pub(crate) fn new(fields: Vec<Field>, partition_columns: &[&str]) -> Self {
        Self {
            store: Store::memory(Context::seeded(7)),
            location: Path::parse("tables/t%20x").unwrap(),
            schema: Arc::new(Schema::new(fields)),
            partition_columns: partition_columns.iter().map(|c| (*c).to_owned()).collect(),
        }
    }

    pub(crate) fn writer(&self, options: WriteOptions) -> TableWriter {
        let (store, location) = (self.store.clone(), self.location.clone());
        let (schema, columns) = (Arc::clone(&self.schema), self.partition_columns.clone());
        TableWriter::new(store, location, schema, columns, options)
    }

    pub(crate) async fn write(
        &self,
        batches: &[RecordBatch],
        options: WriteOptions,
    ) -> Result<Written, TableError> {
        let mut writer = self.writer(options);
        for batch in batches {
            writer.write(&conform_batch(batch, &self.schema)?).await?;
        }
        writer.finish().await
    }

    pub(crate) async fn read(
        &self,
        file: &DataFile,
        deleted: Option<&RowSet>,
    ) -> Result<Vec<RecordBatch>, TableError> {
        self.read_as(file, &self.schema, deleted).await
    }

    pub(crate) async fn read_as(
        &self,
        file: &DataFile,
        schema: &Schema,
        deleted: Option<&RowSet>,
    ) -> Result<Vec<RecordBatch>, TableError> {
        let (store, location) = (&self.store, &self.location);
        let rows = read_file(
            store,
            location,
            file,
            schema,
            &self.partition_columns,
            deleted,
        )
        .await?;
        rows.try_collect().await
    }

    /// All rows of all files, one line each, sorted.
    pub(crate) async fn lines(&self, written: &Written) -> Vec<String> {
        let mut lines = Vec::new();
        for file in &written.files {
            lines.extend(
                self.read(file, None)
                    .await
                    .unwrap()
                    .iter()
                    .flat_map(lines_of),
            );
        }
        lines.sort();
        lines
    }
}

pub(crate) fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

/// One line per row; NULL is told apart from the empty string.
pub(crate) fn lines_of(batch: &RecordBatch) -> Vec<String> {
    let options = arrow::util::display::FormatOptions::default().with_null("NULL");
    let formatters: Vec<_> = batch
        .columns()
        .iter()
        .map(|c| arrow::util::display::ArrayFormatter::try_new(c, &options).unwrap())
        .collect();
    let line = |row| {
        let cells: Vec<_> = formatters
            .iter()
            .map(|f| f.value(row).to_string())
            .collect();
        cells.join("|")
    };
    (0..batch.num_rows()).map(line).collect()
}

pub(crate) fn sorted_lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines: Vec<_> = batches.iter().flat_map(lines_of).collect();
    lines.sort();
    lines
}

pub(crate) fn batch(columns: Vec<(&str, arrow_array::ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}
