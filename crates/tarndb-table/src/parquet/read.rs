//! Reading data files: live rows in the table's types.
//!
//! Invariant: rows come in physical order, each live row once and no deleted one; partition
//! values come from the log, whatever the file or its directory says.
//! Does not: filter, or prune row groups; the query engine's own scan does.
//! Spec: Delta PROTOCOL, "Data Files", "Reader Requirements for Deletion Vectors"; Parquet.

mod ahead;
mod columns;
mod open;
mod reader;
mod select;

use arrow_array::RecordBatch;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use tarndb_storage::Store;

use crate::deletion_vector::RowSet;
use crate::error::TableError;
use crate::fragment::DataFile;
use crate::schema::Schema;
use crate::stats::{Indexed, Statistics, StatsCollector};

use open::OpenedFile;

pub use open::without_int96;

pub use reader::DataFileReader;
pub use select::{FileToRead, Selected, Wanted};

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// Rows per batch at most.
    pub batch_rows: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { batch_rows: 8192 }
    }
}

/// Live rows of a file with their physical positions.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveRows {
    /// The rows.
    pub batch: RecordBatch,
    /// Position of each in the file, counted before any deletion; ascending.
    pub positions: Vec<u64>,
}

/// A file that was opened, none of whose rows are read yet.
#[expect(missing_debug_implementations, reason = "a stream of rows has none")]
pub struct Opened {
    /// Bytes that reading will take from the store: the columns asked for in all row groups
    /// that hold a wanted row.
    pub bytes: u64,
    /// The rows, read as they are taken.
    pub rows: BoxStream<'static, Result<LiveRows, TableError>>,
}

/// Live rows of a file as batches of `schema`, in the file's order.
///
/// `schema` is the table's or a selection of its columns; `deleted` holds the rows to leave
/// out. Columns come by name (exact first, then ignoring case); those the file lacks are NULL
/// (and then nullable in the batches), further ones are ignored, narrower types are widened.
///
/// # Errors
/// [`TableError::FileMissing`], [`TableError::DataFile`], [`TableError::DataFileType`],
/// [`TableError::DataFileValue`], [`TableError::DeletedRowBeyondFile`], malformed partition
/// values, errors of the store.
///
/// # Cost
/// That of [`FileToRead::open`], then about one ranged GET per row group.
pub async fn read_file(
    store: &Store,
    location: &Path,
    file: &DataFile,
    schema: &Schema,
    partition_columns: &[String],
    deleted: Option<&RowSet>,
) -> Result<BoxStream<'static, Result<RecordBatch, TableError>>, TableError> {
    let options = ReadOptions::default();
    let rows = read_file_rows(
        store,
        location,
        file,
        schema,
        partition_columns,
        deleted,
        options,
    )
    .await?;
    Ok(rows.map(|rows| rows.map(|rows| rows.batch)).boxed())
}

/// As [`read_file`], with the position of each row.
///
/// # Errors
/// As [`read_file`].
pub async fn read_file_rows(
    store: &Store,
    location: &Path,
    file: &DataFile,
    schema: &Schema,
    partition_columns: &[String],
    deleted: Option<&RowSet>,
    options: ReadOptions,
) -> Result<BoxStream<'static, Result<LiveRows, TableError>>, TableError> {
    let wanted = deleted.map_or(Wanted::All, Wanted::AllBut);
    let opened = open_file(
        store,
        location,
        file,
        schema,
        partition_columns,
        wanted,
        options,
    );
    Ok(opened.await?.rows)
}

/// As [`read_file_rows`] for the rows `wanted`; stops before the first of them is read, so that
/// a caller can see what that would cost.
///
/// # Errors
/// As [`read_file`]; [`TableError::DeletedRowBeyondFile`] for a wanted row beyond the file.
///
/// # Cost
/// That of [`FileToRead::open`]; about one ranged GET per row group once rows are taken.
pub async fn open_file(
    store: &Store,
    location: &Path,
    file: &DataFile,
    schema: &Schema,
    partition_columns: &[String],
    wanted: Wanted<'_>,
    options: ReadOptions,
) -> Result<Opened, TableError> {
    let opened = FileToRead::open(store, location, file, schema, partition_columns).await?;
    let selected = opened.select(wanted, options)?;
    Ok(Opened {
        bytes: selected.bytes(),
        rows: selected.into_rows()?,
    })
}

/// Physical rows of a data file, from its footer.
///
/// # Errors
/// As [`read_file`].
///
/// # Cost
/// That of [`FileToRead::open`].
pub async fn parquet_row_count(
    store: &Store,
    location: &Path,
    file: &DataFile,
) -> Result<u64, TableError> {
    Ok(OpenedFile::open(store, file.object_id(location)?, false)
        .await?
        .rows())
}

/// Statistics of all physical rows of a file (deleted ones included), computed from its data as
/// a writer would, for comparison with those in the log.
///
/// # Errors
/// As [`read_file`].
///
/// # Cost
/// Reads the whole file.
pub async fn file_statistics(
    store: &Store,
    location: &Path,
    file: &DataFile,
    schema: &Schema,
    partition_columns: &[String],
    indexed: &Indexed,
) -> Result<Statistics, TableError> {
    let fields = schema
        .file_fields(partition_columns)
        .into_iter()
        .cloned()
        .collect();
    let schema = Schema::new(fields);
    let mut collector = StatsCollector::new(&schema, indexed);
    let mut rows = read_file(store, location, file, &schema, partition_columns, None).await?;
    while let Some(batch) = rows.next().await {
        collector.update(&batch?);
    }
    Ok(collector.finish())
}

#[cfg(test)]
mod tests;
