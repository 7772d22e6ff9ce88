//! A file to import: its format, its bytes, and how its rows become a table's columns.
//!
//! Invariant: the format follows from the name; bytes read are counted as they are stored.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Field, Schema as ArrowSchema, SchemaRef};
use flate2::read::MultiGzDecoder;
use tarndb_table::Schema;

use crate::error::{SqlError, translate::translate};
use crate::name::{Spelling, near, same};

/// Rows of one batch.
pub(super) const BATCH_ROWS: usize = 8192;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// CSV.
    Csv,
    /// JSON, one object per line.
    Json,
    /// Parquet.
    Parquet,
}

/// A file to import.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) format: Format,
    pub(super) size_bytes: u64,
    compressed: bool,
    tabs: bool,
    read: Arc<AtomicU64>,
}

/// How to read the files of one table.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) schema: Arc<Schema>,
    pub(super) table: String,
    pub(super) null_text: Option<String>,
    pub(super) delimiter: u8,
    pub(super) header: bool,
    /// The columns of CSV files in their order; none: by the header, else by position.
    pub(super) columns: Vec<String>,
}

impl Source {
    /// Looks at a file; its name tells the format that was not said.
    pub(super) fn open(path: &PathBuf, said: Option<Format>) -> Result<Self, SqlError> {
        let failed = |reason: String| SqlError::File {
            path: path.display().to_string(),
            reason,
        };
        let name = path.to_string_lossy().to_lowercase();
        let compressed = name.ends_with(".gz");
        let plain = name.trim_end_matches(".gz");
        let format = match plain.rsplit('.').next() {
            Some("csv" | "tsv" | "txt") => Format::Csv,
            Some("json" | "ndjson" | "jsonl") => Format::Json,
            Some("parquet") if !compressed => Format::Parquet,
            _ if said.is_some() => Format::Csv,
            _ => {
                return Err(failed(
                    "the name tells no format: files end in .csv, .tsv, .json, .ndjson (each \
                     also with .gz) or .parquet"
                        .to_owned(),
                ));
            }
        };
        let format = said.unwrap_or(format);
        let metadata = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
        if metadata.is_dir() {
            return Err(failed("is a folder".to_owned()));
        }
        Ok(Self {
            path: path.clone(),
            format,
            size_bytes: metadata.len(),
            compressed,
            tabs: plain.ends_with(".tsv"),
            read: Arc::default(),
        })
    }

    /// The character between values.
    pub(super) fn delimiter(&self, default: u8) -> u8 {
        if self.tabs && default == b',' {
            b'\t'
        } else {
            default
        }
    }

    /// Its bytes, decompressed.
    pub(super) fn bytes(&self) -> Result<Box<dyn Read + Send>, SqlError> {
        self.read.store(0, Ordering::Relaxed);
        let file = self.file()?;
        let counted = Counted {
            inner: file,
            read: Arc::clone(&self.read),
        };
        let buffered = BufReader::with_capacity(1 << 18, counted);
        Ok(if self.compressed {
            Box::new(BufReader::with_capacity(
                1 << 18,
                MultiGzDecoder::new(buffered),
            ))
        } else {
            Box::new(buffered)
        })
    }

    /// The file itself.
    pub(super) fn file(&self) -> Result<File, SqlError> {
        File::open(&self.path).map_err(|error| self.failed(error.to_string()))
    }

    /// Stored bytes read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Notes bytes that were read past [`Self::bytes`].
    pub(super) fn note_read(&self, bytes: u64) {
        self.read
            .store(bytes.min(self.size_bytes), Ordering::Relaxed);
    }

    /// The path as shown.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// An error of the file as a whole.
    pub(super) fn failed(&self, reason: impl Into<String>) -> SqlError {
        SqlError::File {
            path: self.name(),
            reason: reason.into(),
        }
    }
}

struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read
            .fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
        Ok(count)
    }
}

/// For each column of the table, where its values are in the file.
#[derive(Clone, Debug)]
pub(super) struct Mapping(Vec<Option<usize>>);

impl Mapping {
    /// By name, case ignored. A column of the file that the table lacks is an error, as is a
    /// NOT NULL column of the table that the file lacks.
    pub(super) fn by_name(
        source: &Source,
        reading: &Reading,
        names: &[String],
    ) -> Result<Self, SqlError> {
        for (index, name) in names.iter().enumerate() {
            if reading.schema.field(name).is_none() {
                let known = reading.schema.fields.iter().map(|f| f.name.as_str());
                return Err(SqlError::UnknownColumn {
                    name: format!("{name} (of {})", source.name()),
                    table: Some(reading.table.clone()),
                    near: near(name, known),
                });
            }
            if names.iter().take(index).any(|earlier| same(earlier, name)) {
                return Err(source.failed(format!("has the column {name} twice")));
            }
        }
        let places = reading.schema.fields.iter().map(|field| {
            match names.iter().position(|name| same(name, &field.name)) {
                None if !field.nullable => Err(SqlError::MissingNotNull {
                    table: reading.table.clone(),
                    column: field.name.clone(),
                }),
                place => Ok(place),
            }
        });
        places.collect::<Result<Vec<_>, _>>().map(Self)
    }

    /// By position.
    pub(super) fn by_position(
        source: &Source,
        reading: &Reading,
        width: usize,
    ) -> Result<Self, SqlError> {
        let expected = reading.schema.fields.len();
        if width != expected {
            return Err(source.failed(format!(
                "has {width} columns where table {} has {expected}; without a header columns \
                 go by position",
                reading.table
            )));
        }
        Ok(Self((0..width).map(Some).collect()))
    }

    /// Place in the file of a column of the table.
    pub(super) fn place(&self, column: usize) -> Option<usize> {
        self.0.get(column).copied().flatten()
    }

    /// The batch in the table's order, NULL where the file has no such column.
    pub(super) fn arrange(
        &self,
        batch: &RecordBatch,
        output: &SchemaRef,
    ) -> Result<RecordBatch, SqlError> {
        let columns = output
            .fields()
            .iter()
            .enumerate()
            .map(|(column, field)| {
                let found = self
                    .place(column)
                    .and_then(|place| batch.columns().get(place));
                found
                    .cloned()
                    .unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()))
            })
            .collect();
        batch_of(output, columns, batch.num_rows())
    }
}

/// A batch of columns whose types may differ from `output`'s; they are cast where they reach
/// the table.
pub(super) fn batch_of(
    output: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, SqlError> {
    let fields = output
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true));
    let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|error| translate(error.into(), &Spelling::default()))
}
