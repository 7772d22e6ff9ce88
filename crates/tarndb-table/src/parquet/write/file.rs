//! One data file while it is written.
//!
//! Invariant: the name is unique and never reused; the statistics are those of exactly the rows
//! in the file.
//! Spec: Delta PROTOCOL, "Data Files".

use std::collections::BTreeMap;
use std::sync::Arc;

use ::parquet::arrow::arrow_writer::ArrowWriterOptions;
use ::parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use ::parquet::basic::{Compression, GzipLevel, Type as PhysicalType, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::schema::types::ColumnDescPtr;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use object_store::path::Path;
use tarndb_storage::Store;
use tarndb_types::TimestampMs;

use super::group::{PartitionColumn, PartitionKey};
use super::slice_bytes;
use crate::deletion_vector::Deletion;
use crate::error::TableError;
use crate::fragment::{DataFile, data_key};
use crate::parquet::upload::Upload;
use crate::parquet::write_options::{Codec, WriteOptions};
use crate::partition::{is_partition_column, partition_dir};
use crate::schema::mapping::stored_array;
use crate::schema::{DataType, Field, Schema};
use crate::stats::StatsCollector;

/// Raw bytes that are encoded between two looks at the size of the file.
const CHUNK_BYTES_MAX: u64 = 8 << 20;
const CHUNK_BYTES_MIN: u64 = 64 << 10;
/// Encoded bytes in a row group from which ending it early is no waste.
const FLUSH_BYTES_MIN: usize = 4 << 20;

/// What all files of one writer have in common.
#[derive(Debug)]
pub(super) struct FileLayout {
    store: Store,
    location: Path,
    schema: Arc<Schema>,
    /// The table's columns, then the hidden ones.
    table_arrow: SchemaRef,
    /// Columns that are in the files, by position in the table's schema.
    positions: Vec<usize>,
    /// Without the hidden columns, which have no statistics.
    file_schema: Schema,
    file_arrow: SchemaRef,
    /// Columns of the files that are not in the table's schema, behind the others.
    hidden: Vec<Field>,
    /// Folder below the table in which the files lie; empty for the table's own.
    folder: &'static str,
    options: WriteOptions,
}

impl FileLayout {
    pub(super) fn new(
        store: Store,
        location: Path,
        schema: Arc<Schema>,
        partition_columns: &[String],
        options: WriteOptions,
    ) -> Self {
        let in_file = |(_, field): &(usize, &Field)| {
            !is_partition_column(partition_columns, &field.name)
                && field.data_type != DataType::Void
        };
        let columns = || schema.fields.iter().enumerate().filter(in_file);
        let positions = columns().map(|(position, _)| position).collect();
        let file_schema = Schema::new(columns().map(|(_, field)| field.clone()).collect());
        let (table_arrow, file_arrow) = (schema.to_arrow(), file_schema.to_stored_arrow());
        Self {
            store,
            location,
            schema,
            table_arrow,
            positions,
            file_schema,
            file_arrow,
            hidden: Vec::new(),
            folder: "",
            options,
        }
    }

    /// Files have further columns, which are not in the table's schema.
    pub(super) fn with_hidden(mut self, fields: &[Field]) -> Self {
        let behind = |arrow: &SchemaRef| {
            let fields = fields.iter().map(|field| Arc::new(field.to_arrow()));
            let all = arrow.fields().iter().cloned().chain(fields);
            Arc::new(ArrowSchema::new(all.collect::<Vec<_>>()))
        };
        let first = self.table_arrow.fields().len();
        self.positions
            .extend((0..fields.len()).map(|at| first + at));
        self.table_arrow = behind(&self.table_arrow);
        self.file_arrow = behind(&self.file_arrow);
        self.hidden.extend_from_slice(fields);
        self
    }

    /// Files lie in a folder of the table.
    pub(super) fn with_folder(mut self, folder: &'static str) -> Self {
        self.folder = folder;
        self
    }

    /// The table's columns of a batch, and its hidden ones, where it comes with them.
    pub(super) fn without_hidden(
        &self,
        batch: &RecordBatch,
    ) -> Result<(RecordBatch, Vec<ArrayRef>), TableError> {
        let width = self.schema.fields.len();
        let hidden: Vec<_> = batch.columns().iter().skip(width).cloned().collect();
        if self.hidden.is_empty() || hidden.is_empty() {
            return Ok((batch.clone(), Vec::new()));
        }
        let own: Vec<usize> = (0..width).collect();
        let rows = batch.project(&own).map_err(|source| TableError::Arrow {
            context: "taking the table's columns",
            source,
        })?;
        Ok((rows, hidden))
    }

    /// Rows with the hidden columns behind them: NULL where there are none.
    pub(super) fn with_hidden_columns(
        &self,
        rows: RecordBatch,
        hidden: Vec<ArrayRef>,
    ) -> Result<RecordBatch, TableError> {
        if self.hidden.is_empty() {
            return Ok(rows);
        }
        let hidden = if hidden.is_empty() {
            let nulls =
                |field: &Field| new_null_array(&field.data_type.to_arrow(), rows.num_rows());
            self.hidden.iter().map(nulls).collect()
        } else {
            hidden
        };
        let given = rows.schema();
        let fields = self.hidden.iter().map(|field| Arc::new(field.to_arrow()));
        let fields: Vec<_> = given.fields().iter().cloned().chain(fields).collect();
        let columns = rows.columns().iter().cloned().chain(hidden).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let schema = Arc::new(ArrowSchema::new(fields));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(|source| {
            TableError::Arrow {
                context: "adding hidden columns",
                source,
            }
        })
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    pub(super) fn options(&self) -> &WriteOptions {
        &self.options
    }

    /// Refuses a batch that was not conformed, and a schema that no file can hold.
    pub(super) fn check(&self, batch: &RecordBatch) -> Result<(), TableError> {
        let expected = self.table_arrow.fields().len();
        if batch.num_columns() != expected {
            let given = batch.num_columns();
            return Err(TableError::ColumnCount { expected, given });
        }
        let columns = self.table_arrow.fields().iter().zip(batch.columns());
        for (field, array) in columns {
            if field.data_type() != array.data_type() {
                return Err(TableError::TypeMismatch {
                    column: field.name().clone(),
                    data_type: field.data_type().to_string(),
                    given: array.data_type().to_string(),
                });
            }
        }
        let unwritable =
            |data_type: &DataType| matches!(data_type, DataType::Void | DataType::Variant);
        let fields = &self.file_schema.fields;
        match fields.iter().find(|f| f.data_type.any(&unwritable)) {
            Some(field) => Err(TableError::UnsupportedType {
                column: field.name.clone(),
                data_type: field.data_type.to_string(),
                advice: "no file can hold a void inside of it, and this version writes no variant",
            }),
            None if self.file_schema.fields.is_empty() => Err(TableError::NoColumns),
            None => Ok(()),
        }
    }

    /// The columns of a batch that go into the file.
    pub(super) fn file_batch(&self, batch: &RecordBatch) -> Result<RecordBatch, TableError> {
        let failed = |source| TableError::Arrow {
            context: "selecting file columns",
            source,
        };
        let given = self
            .positions
            .iter()
            .filter_map(|p| batch.columns().get(*p));
        let fields = self.file_schema.fields.iter().chain(&self.hidden);
        let columns = given.zip(fields);
        let columns = columns.map(|(array, field)| stored_array(array, &field.data_type));
        let columns = columns.collect::<Result<_, _>>().map_err(failed)?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.file_arrow), columns, &options)
            .map_err(failed)
    }

    /// Rows of `piece` to encode before the size of the file is looked at again.
    pub(super) fn rows_at_once(&self, piece: &RecordBatch) -> usize {
        let row_group = self.options.row_group_bytes as u64 / 4;
        let chunk = (self.options.target_file_bytes / 8)
            .min(row_group)
            .clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        let chunk = usize::try_from(chunk).unwrap_or(usize::MAX);
        let row_bytes = (slice_bytes(piece) / piece.num_rows().max(1)).max(1);
        (chunk / row_bytes).max(1)
    }

    /// Begins a file of the partition `key`.
    pub(super) fn open(
        &self,
        columns: &[PartitionColumn],
        key: &PartitionKey,
    ) -> Result<OpenFile, TableError> {
        let names = || columns.iter().map(|column| column.field.stored_name());
        let id = self.store.context().uuid();
        let (dir, raw_dir) = if self.schema.is_mapped() || self.options.random_prefix_digits > 0 {
            let prefix = random_prefix(id, self.options.random_prefix_digits);
            (prefix.clone(), prefix)
        } else {
            let values: Vec<_> = names().zip(key.iter().map(Option::as_deref)).collect();
            partition_dir(&values)
        };
        let name = format!("part-{id}.parquet");
        let below = |dir: &str| {
            let parts = [self.folder, dir, &name];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            parts.collect::<Vec<_>>().join("/")
        };
        let path = below(&dir);
        let storage_key = data_key(&self.location, &path)?;
        let properties = self
            .properties()
            .map_err(|source| data_file(&path, source))?;
        let options = ArrowWriterOptions::new().with_properties(properties);
        let writer =
            ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&self.file_arrow), options);
        Ok(OpenFile {
            writer: writer.map_err(|source| data_file(&path, source))?,
            upload: Upload::new(self.store.clone(), storage_key),
            stats: StatsCollector::new(&self.file_schema, &self.options.indexed),
            raw_path: below(&raw_dir),
            path,
            partition_values: names()
                .map(str::to_owned)
                .zip(key.iter().cloned())
                .collect(),
        })
    }

    fn compression(&self) -> Compression {
        match self.options.codec {
            Codec::Zstd => {
                let level = ZstdLevel::try_new(self.options.zstd_level).unwrap_or_default();
                Compression::ZSTD(level)
            }
            Codec::Snappy => Compression::SNAPPY,
            Codec::Gzip => Compression::GZIP(GzipLevel::default()),
            Codec::Lz4Raw => Compression::LZ4_RAW,
            Codec::Uncompressed => Compression::UNCOMPRESSED,
        }
    }

    /// Floats get no statistics in the file: Parquet's leave NaN out, and engines to which NaN is
    /// the greatest value would skip row groups that hold one. Those in the log know NaN.
    fn properties(&self) -> Result<WriterProperties, ParquetError> {
        let leaves = ArrowSchemaConverter::new().convert(&self.file_arrow)?;
        let is_float = |leaf: &&ColumnDescPtr| {
            matches!(
                leaf.physical_type(),
                PhysicalType::FLOAT | PhysicalType::DOUBLE
            )
        };
        let floats = leaves.columns().iter().filter(is_float);
        let builder = floats.fold(WriterProperties::builder(), |builder, leaf| {
            builder.set_column_statistics_enabled(leaf.path().clone(), EnabledStatistics::None)
        });
        let builder = builder
            .set_created_by(concat!("tarndb ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(self.compression())
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_max_row_group_row_count(Some(self.options.row_group_rows))
            .set_max_row_group_bytes(Some(self.options.row_group_bytes));
        Ok(builder.build())
    }
}

/// Directory of a file of a table that maps its columns, whose names no path may tell, or that
/// asks for it: the last digits of the file's random id, two where none are asked for.
fn random_prefix(id: tarndb_types::Uuid, wanted: usize) -> String {
    let digits = id.simple().to_string();
    let wanted = if wanted == 0 {
        2
    } else {
        wanted.min(digits.len())
    };
    digits
        .get(digits.len() - wanted..)
        .unwrap_or("00")
        .to_owned()
}

fn data_file(path: &str, source: ParquetError) -> TableError {
    TableError::DataFile {
        path: path.to_owned(),
        source,
    }
}

/// A file under way.
pub(super) struct OpenFile {
    writer: ArrowWriter<Vec<u8>>,
    upload: Upload,
    stats: StatsCollector,
    path: String,
    raw_path: String,
    partition_values: BTreeMap<String, Option<String>>,
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl OpenFile {
    /// Size of the file if it ended here (approximately).
    pub(super) fn bytes(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.writer.memory_size() + self.upload.buffered_bytes()
    }

    pub(super) fn is_worth_flushing(&self) -> bool {
        self.writer.in_progress_size() >= FLUSH_BYTES_MIN
    }

    pub(super) async fn write(&mut self, rows: &RecordBatch) -> Result<(), TableError> {
        self.stats.update(rows);
        self.writer
            .write(rows)
            .map_err(|source| data_file(&self.path, source))?;
        self.push_encoded().await
    }

    /// Ends the row group, so that its bytes leave memory.
    pub(super) async fn flush(&mut self) -> Result<(), TableError> {
        self.writer
            .flush()
            .map_err(|source| data_file(&self.path, source))?;
        self.push_encoded().await
    }

    async fn push_encoded(&mut self) -> Result<(), TableError> {
        if self.writer.inner().is_empty() {
            return Ok(());
        }
        let encoded = std::mem::take(self.writer.inner_mut());
        Ok(self.upload.push(encoded).await?)
    }

    /// Completes the file; one of at most `held_bytes_max` bytes is held where that is possible.
    pub(super) async fn finish(
        mut self,
        now: TimestampMs,
        held_bytes_max: usize,
    ) -> Result<DataFile, TableError> {
        self.writer
            .finish()
            .map_err(|source| data_file(&self.path, source))?;
        self.push_encoded().await?;
        let (size_bytes, held) = self.upload.finish(held_bytes_max).await?;
        Ok(DataFile {
            size_bytes,
            held,
            beside: None,
            path: self.path,
            raw_path: self.raw_path,
            partition_values: self.partition_values,
            modification_time_ms: now.0,
            stats: Some(Arc::new(self.stats.finish())),
            raw_stats: None,
            deletion: Deletion::None,
            base_row_id: None,
            default_row_commit_version: None,
            tags: BTreeMap::new(),
            clustering_provider: None,
        })
    }

    pub(super) async fn abort(self) {
        self.upload.abort().await;
    }
}
