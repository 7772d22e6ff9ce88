//! Parquet files.
//!
//! Invariant: columns go by name; nanoseconds that microseconds cannot hold are refused where
//! the rows reach the table.

use arrow_schema::Schema as ArrowSchema;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::ddl::storable;
use crate::error::SqlError;
use crate::import::source::{BATCH_ROWS, Mapping, Reading, Source};
use crate::import::stream::Sink;

/// The columns of a file.
pub(super) fn infer(source: &Source) -> Result<ArrowSchema, SqlError> {
    Ok(storable(builder(source)?.schema()))
}

/// Reads a file into the columns of its table.
pub(super) fn read(source: &Source, reading: &Reading, sink: Sink<'_>) -> Result<(), SqlError> {
    let builder = builder(source)?;
    let total = builder.metadata().file_metadata().num_rows().max(1);
    let names = builder
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect::<Vec<_>>();
    let mapping = Mapping::by_name(source, reading, &names)?;
    let output = reading.schema.to_arrow();
    let reader = builder
        .with_batch_size(BATCH_ROWS)
        .build()
        .map_err(|error| source.failed(error.to_string()))?;
    let mut rows = 0_i64;
    for batch in reader {
        let batch = batch.map_err(|error| source.failed(error.to_string()))?;
        rows += i64::try_from(batch.num_rows()).unwrap_or(0);
        let share = u128::try_from(rows).unwrap_or(0) * u128::from(source.size_bytes);
        let read = share / u128::try_from(total).unwrap_or(1);
        source.note_read(u64::try_from(read).unwrap_or(u64::MAX));
        if !sink(mapping.arrange(&batch, &output)) {
            return Ok(());
        }
    }
    Ok(())
}

fn builder(source: &Source) -> Result<ParquetRecordBatchReaderBuilder<std::fs::File>, SqlError> {
    ParquetRecordBatchReaderBuilder::try_new(source.file()?)
        .map_err(|error| source.failed(error.to_string()))
}
