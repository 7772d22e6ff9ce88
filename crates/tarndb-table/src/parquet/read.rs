//! Reading data files: live rows in the table's types.
//!
//! Invariant: rows come in physical order, each live row once and no deleted one; partition
//! values come from the log, whatever the file or its directory says.
//! Does not: filter, or prune row groups; the query engine's own scan does.
//! Spec: Delta PROTOCOL, "Data Files", "Reader Requirements for Deletion Vectors"; Parquet.

mod columns;
mod open;
mod reader;

use std::ops::Range;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::RowSelection;
use ::parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use arrow_array::RecordBatch;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use tarndb_storage::Store;

use crate::deletion_vector::RowSet;
use crate::error::TableError;
use crate::fragment::DataFile;
use crate::schema::Schema;
use crate::stats::{Statistics, StatsCollector};

use columns::Columns;
use open::{OpenedFile, read_error};

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

/// Which rows of a file are read.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// All.
    All,
    /// All but these.
    AllBut(&'a RowSet),
    /// These only.
    Only(&'a RowSet),
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
/// One GET for the footer, then about one ranged GET per row group.
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
/// One GET for the footer; about one ranged GET per row group once rows are taken.
pub async fn open_file(
    store: &Store,
    location: &Path,
    file: &DataFile,
    schema: &Schema,
    partition_columns: &[String],
    wanted: Wanted<'_>,
    options: ReadOptions,
) -> Result<Opened, TableError> {
    let key = file.key(location)?;
    let opened = OpenedFile::open(store, &key, Some(file.size_bytes)).await?;
    let columns = Columns::new(&opened, &key, file, schema, partition_columns)?;
    let ranges = wanted.ranges(opened.rows(), &key)?;
    let mask = columns.projection(&opened);
    let bytes = bytes_of(&opened, &mask, &ranges);
    let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(
        opened.reader.clone(),
        opened.metadata.clone(),
    )
    .with_batch_size(options.batch_rows)
    .with_projection(mask);
    if !wanted.is_all() {
        builder = builder.with_row_selection(row_selection(&ranges, opened.rows(), &key)?);
    }
    let stream = builder.build().map_err(|error| read_error(&key, error))?;
    let mut positions = ranges.into_iter().flatten();
    let rows = stream.map(move |batch| {
        let batch = batch.map_err(|error| read_error(&key, error))?;
        let positions: Vec<u64> = positions.by_ref().take(batch.num_rows()).collect();
        if positions.len() != batch.num_rows() {
            return Err(TableError::Internal {
                context: "counting the rows of a data file",
            });
        }
        Ok(LiveRows {
            batch: columns.assemble(&batch)?,
            positions,
        })
    });
    Ok(Opened {
        bytes,
        rows: rows.boxed(),
    })
}

/// Physical rows of the Parquet file at `key`, from its footer.
///
/// # Errors
/// As [`read_file`].
///
/// # Cost
/// One GET; one more when the footer is large, and a HEAD when `size_bytes` is not given.
pub async fn parquet_row_count(
    store: &Store,
    key: &Path,
    size_bytes: Option<u64>,
) -> Result<u64, TableError> {
    Ok(OpenedFile::open(store, key, size_bytes).await?.rows())
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
    indexed_columns: usize,
) -> Result<Statistics, TableError> {
    let fields = schema
        .file_fields(partition_columns)
        .into_iter()
        .cloned()
        .collect();
    let schema = Schema::new(fields);
    let mut collector = StatsCollector::new(&schema, indexed_columns);
    let mut rows = read_file(store, location, file, &schema, partition_columns, None).await?;
    while let Some(batch) = rows.next().await {
        collector.update(&batch?);
    }
    Ok(collector.finish())
}

impl Wanted<'_> {
    fn is_all(&self) -> bool {
        match self {
            Self::All => true,
            Self::AllBut(rows) => rows.is_empty(),
            Self::Only(_) => false,
        }
    }

    /// The wanted of `rows` rows as ascending ranges without gaps between neighbours.
    fn ranges(&self, rows: u64, key: &Path) -> Result<Vec<Range<u64>>, TableError> {
        let named = match self {
            Self::All => return Ok(std::iter::once(0..rows).filter(|_| rows > 0).collect()),
            Self::AllBut(named) | Self::Only(named) => *named,
        };
        if let Some(row) = named.max().filter(|row| *row >= rows) {
            return Err(TableError::DeletedRowBeyondFile {
                path: key.to_string(),
                row,
                rows,
            });
        }
        let (mut runs, mut gaps): (Vec<Range<u64>>, Vec<Range<u64>>) = Default::default();
        let mut next = 0;
        for row in named {
            match runs.last_mut().filter(|run| run.end == row) {
                Some(run) => run.end = row + 1,
                None => runs.push(row..row + 1),
            }
            if next < row {
                gaps.push(next..row);
            }
            next = row + 1;
        }
        if next < rows {
            gaps.push(next..rows);
        }
        Ok(match self {
            Self::Only(_) => runs,
            _ => gaps,
        })
    }
}

/// Stored bytes of the columns of `mask` in all row groups with a row of `ranges`, ascending.
fn bytes_of(opened: &OpenedFile, mask: &ProjectionMask, ranges: &[Range<u64>]) -> u64 {
    let mut ranges = ranges.iter().peekable();
    let (mut bytes, mut end) = (0_u64, 0_u64);
    for group in opened.metadata.metadata().row_groups() {
        let first = end;
        end += u64::try_from(group.num_rows()).unwrap_or(0);
        while ranges.next_if(|range| range.end <= first).is_some() {}
        if ranges.peek().is_some_and(|range| range.start < end) {
            let columns = group.columns().iter().enumerate();
            let read = columns.filter(|(leaf, _)| mask.leaf_included(*leaf));
            bytes += read
                .map(|(_, column)| u64::try_from(column.compressed_size()).unwrap_or(0))
                .sum::<u64>();
        }
    }
    bytes
}

fn row_selection(live: &[Range<u64>], rows: u64, key: &Path) -> Result<RowSelection, TableError> {
    let too_large = || TableError::Corrupt {
        path: key.to_string(),
        version: None,
        reason: format!("a data file cannot have so many rows: {rows}"),
    };
    let position = |row: u64| usize::try_from(row).map_err(|_| too_large());
    let ranges = live
        .iter()
        .map(|range| Ok(position(range.start)?..position(range.end)?));
    let ranges = ranges.collect::<Result<Vec<_>, TableError>>()?;
    Ok(RowSelection::from_consecutive_ranges(
        ranges.into_iter(),
        position(rows)?,
    ))
}

#[cfg(test)]
mod tests;
