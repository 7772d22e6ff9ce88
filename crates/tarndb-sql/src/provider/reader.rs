//! How the engine's scan reads a data file: with our reader, which knows footers, small files
//! and the cache on disk.
//!
//! Invariant: a footer is read once per handle of the database, whoever asks first.
//! Spec: docs/performance.md, "Reading".

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{ParquetFileMetrics, ParquetFileReaderFactory};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use tarndb_storage::{ObjectId, Store};
use tarndb_table::DataFileReader;

/// Makes readers of the files of one store.
#[derive(Debug)]
pub(crate) struct Readers(pub(crate) Store);

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let meta = &file.object_meta;
        let metrics = ParquetFileMetrics::new(partition_index, meta.location.as_ref(), metrics);
        let id = ObjectId {
            key: meta.location.clone(),
            size_bytes: meta.size,
            modified_ms: meta.last_modified.timestamp_millis(),
        };
        let reader = DataFileReader::new(&self.0, id).with_page_index();
        Ok(Box::new(Measured {
            reader,
            metrics,
            size_bytes: meta.size,
        }))
    }
}

/// A reader that counts for the engine's metrics.
struct Measured {
    reader: DataFileReader,
    metrics: ParquetFileMetrics,
    size_bytes: u64,
}

impl Measured {
    fn note(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.metrics.bytes_scanned.add(bytes);
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let size_bytes = usize::try_from(self.size_bytes).unwrap_or(usize::MAX);
        let ratio = &self.metrics.scan_efficiency_ratio;
        ratio.add_part(self.metrics.bytes_scanned.value());
        ratio.set_total(size_bytes);
    }
}

impl AsyncFileReader for Measured {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        self.note(range.end - range.start);
        self.reader.get_bytes(range)
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        self.note(ranges.iter().map(|range| range.end - range.start).sum());
        self.reader.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        self.reader.get_metadata(options)
    }
}
