//! Which rows and columns of a file are read.
//!
//! Invariant: rows come in physical order, each wanted one once, with its position.
//! Does not: read anything before rows are taken, unless it is told to.
//! Spec: Delta PROTOCOL, "Reader Requirements for Deletion Vectors".

use std::ops::Range;
use std::panic::AssertUnwindSafe;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection};
use ::parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use ::parquet::file::metadata::ParquetMetaData;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use tarndb_storage::Store;

use super::ahead::Ahead;
use super::columns::Columns;
use super::open::{OpenedFile, read_error};
use super::reader::DataFileReader;
use super::{LiveRows, ReadOptions};
use crate::deletion_vector::RowSet;
use crate::error::TableError;
use crate::fragment::DataFile;
use crate::parquet::damage::panicked;
use crate::schema::Schema;

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

/// A file whose footer is known.
#[expect(missing_debug_implementations, reason = "of no use to a person")]
pub struct FileToRead {
    opened: OpenedFile,
    columns: Columns,
    key: Path,
}

/// Rows of a file that are about to be read.
#[expect(missing_debug_implementations, reason = "of no use to a person")]
pub struct Selected {
    key: Path,
    reader: DataFileReader,
    metadata: ArrowReaderMetadata,
    columns: Columns,
    mask: ProjectionMask,
    ranges: Vec<Range<u64>>,
    selection: Option<RowSelection>,
    bytes: u64,
    bytes_held: u64,
    options: ReadOptions,
}

impl FileToRead {
    /// Opens a file for the columns of `schema`; see [`super::read_file`].
    ///
    /// # Errors
    /// As [`super::read_file`].
    ///
    /// # Cost
    /// None when the footer is known to a handle of the store. Else one ranged GET, which brings
    /// all of a file up to 256 KiB; one more for a footer above 64 KiB of a larger file.
    pub async fn open(
        store: &Store,
        location: &Path,
        file: &DataFile,
        schema: &Schema,
        partition_columns: &[String],
    ) -> Result<Self, TableError> {
        let id = file.object_id(location)?;
        let key = id.key.clone();
        let opened = OpenedFile::open(store, id, schema.is_by_id()).await?;
        let columns = Columns::new(&opened, &key, file, schema, partition_columns)?;
        Ok(Self {
            opened,
            columns,
            key,
        })
    }

    /// Does the file have any of the columns?
    pub(crate) fn has_any_column(&self) -> bool {
        self.columns.reads_any()
    }

    /// The rows `wanted`; makes no request.
    ///
    /// # Errors
    /// [`TableError::DeletedRowBeyondFile`] for a row that the file does not have.
    pub fn select(self, wanted: Wanted<'_>, options: ReadOptions) -> Result<Selected, TableError> {
        let Self {
            opened,
            columns,
            key,
        } = self;
        let ranges = wanted.ranges(opened.rows(), &key)?;
        let mask = columns.projection(&opened);
        let footer = opened.metadata.metadata();
        let ahead = Ahead::of(footer, &mask, groups_of(footer, &ranges));
        let (bytes, bytes_held) = (ahead.bytes(), ahead.bytes_held());
        let selection = match wanted.is_all() {
            true => None,
            false => Some(row_selection(&ranges, opened.rows(), &key)?),
        };
        // By its page index the library leaves out pages without a wanted row.
        let by_page = selection.is_some() && footer.offset_index().is_some();
        let ahead = if by_page { Ahead::default() } else { ahead };
        Ok(Selected {
            key,
            reader: opened.reader.with_ahead(ahead),
            metadata: opened.metadata,
            columns,
            mask,
            ranges,
            selection,
            bytes,
            bytes_held,
            options,
        })
    }
}

impl Selected {
    /// Bytes that reading will take from the store: the columns asked for in all row groups
    /// that hold a wanted row.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of it that are in memory at the same time at most: a row group that is decoded and
    /// the next one.
    pub fn bytes_held(&self) -> u64 {
        self.bytes_held
    }

    /// Begins to fetch the first row group now, so that it is there when it is read.
    #[must_use]
    pub fn started(mut self) -> Self {
        self.reader.start();
        self
    }

    /// The rows, read as they are taken, each row group fetched while the one before is decoded.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn into_rows(self) -> Result<BoxStream<'static, Result<LiveRows, TableError>>, TableError> {
        let Self { key, columns, .. } = self;
        let mut builder =
            ParquetRecordBatchStreamBuilder::new_with_metadata(self.reader, self.metadata)
                .with_batch_size(self.options.batch_rows)
                .with_projection(self.mask);
        if let Some(selection) = self.selection {
            builder = builder.with_row_selection(selection);
        }
        let stream = builder.build().map_err(|error| read_error(&key, error))?;
        let mut positions = self.ranges.into_iter().flatten();
        // After a panic nothing more comes of the stream.
        let rows = AssertUnwindSafe(stream).catch_unwind().map(move |batch| {
            let batch = batch.unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
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
        Ok(rows.boxed())
    }
}

/// For each row group, whether it has a row of `ranges`, ascending.
fn groups_of(footer: &ParquetMetaData, ranges: &[Range<u64>]) -> Vec<bool> {
    let mut ranges = ranges.iter().peekable();
    let mut end = 0_u64;
    let groups = footer.row_groups().iter();
    let wanted = groups.map(|group| {
        let first = end;
        end += u64::try_from(group.num_rows()).unwrap_or(0);
        while ranges.next_if(|range| range.end <= first).is_some() {}
        ranges.peek().is_some_and(|range| range.start < end)
    });
    wanted.collect()
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
    pub(super) fn ranges(&self, rows: u64, key: &Path) -> Result<Vec<Range<u64>>, TableError> {
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
