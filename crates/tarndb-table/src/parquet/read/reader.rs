//! The Parquet library's view of one object of a `Store`.
//!
//! Invariant: every request is metered, and an error of the store keeps its own type inside the
//! library's.
//! Spec: none.

use std::ops::Range;
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::ArrowReaderOptions;
use ::parquet::arrow::async_reader::AsyncFileReader;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::path::Path;
use tarndb_storage::{Store, StoreError};

/// Bytes at the end of a file that usually hold its whole footer.
const FOOTER_BYTES: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct StoreReader {
    pub(super) store: Store,
    pub(super) key: Path,
    pub(super) size_bytes: u64,
}

impl StoreReader {
    fn failed(&self, error: object_store::Error) -> ParquetError {
        external(StoreError::from_objects("read", &self.key, error))
    }
}

fn external(error: StoreError) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for StoreReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            self.store
                .get_range(&self.key, range)
                .await
                .map_err(external)
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        async move {
            let bytes = self.store.objects().get_ranges(&self.key, &ranges).await;
            bytes.map_err(|error| self.failed(error))
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        async move {
            let size_bytes = self.size_bytes;
            let reader = ParquetMetaDataReader::new()
                .with_arrow_reader_options(options)
                .with_prefetch_hint(Some(FOOTER_BYTES));
            Ok(Arc::new(reader.load_and_finish(self, size_bytes).await?))
        }
        .boxed()
    }
}
