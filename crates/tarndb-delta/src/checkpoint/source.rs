//! The Parquet library's view of one checkpoint file.
//!
//! Invariant: every request is metered, and an error of the store keeps its own type inside
//! the library's, so that a store that does not answer is not taken for a damaged file.
//! Spec: none.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use tarndb_storage::{Path, Store, StoreError};
use tarndb_table::{check_footer, guarded};

use crate::error::DeltaError;

/// Bytes at the end of a larger file that usually hold its whole footer.
const FOOTER_BYTES: usize = 256 << 10;

/// One checkpoint file.
#[derive(Clone)]
pub(super) struct CheckpointSource {
    store: Store,
    key: Path,
    size_bytes: u64,
    whole: Option<Bytes>,
}

impl CheckpointSource {
    /// Opens a file; `size_bytes` as the listing says, if it is known. Up to `whole_bytes` it is
    /// fetched at once.
    ///
    /// # Cost
    /// One GET up to `whole_bytes`, else none yet; one HEAD more when the size is not known.
    pub(super) async fn open(
        store: &Store,
        key: &Path,
        size_bytes: Option<u64>,
        whole_bytes: u64,
    ) -> Result<Self> {
        let size_bytes = match size_bytes {
            Some(size) => size,
            None => match store.head(key).await.map_err(external)? {
                Some(info) => info.size_bytes,
                None => {
                    return Err(external(StoreError::NotFound {
                        key: key.to_string(),
                    }));
                }
            },
        };
        let mut source = Self {
            store: store.clone(),
            key: key.clone(),
            size_bytes,
            whole: None,
        };
        if size_bytes <= whole_bytes {
            let bytes = store.get_required(key).await.map_err(external)?;
            source.size_bytes = u64::try_from(bytes.len()).unwrap_or(0);
            source.whole = Some(bytes);
        }
        Ok(source)
    }
}

fn external(error: StoreError) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// What a failure of the Parquet library is: one of the store, or one of the file.
pub(super) fn failure(file: &Path, error: ParquetError) -> DeltaError {
    match error {
        ParquetError::External(source) => match source.downcast::<StoreError>() {
            Ok(error) => DeltaError::Store(*error),
            Err(source) => DeltaError::BadCheckpoint {
                file: file.to_string(),
                source,
            },
        },
        error => DeltaError::BadCheckpoint {
            file: file.to_string(),
            source: error.into(),
        },
    }
}

impl AsyncFileReader for CheckpointSource {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            let Some(whole) = &self.whole else {
                return self
                    .store
                    .get_range(&self.key, range)
                    .await
                    .map_err(external);
            };
            let bounds = (usize::try_from(range.start), usize::try_from(range.end));
            match bounds {
                (Ok(start), Ok(end)) if start <= end && end <= whole.len() => {
                    Ok(whole.slice(start..end))
                }
                _ => Err(ParquetError::EOF(
                    "a range beyond the end of the file".to_owned(),
                )),
            }
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        async move {
            if self.whole.is_some() {
                let mut parts = Vec::with_capacity(ranges.len());
                for range in ranges {
                    parts.push(self.get_bytes(range).await?);
                }
                return Ok(parts);
            }
            let got = self.store.objects().get_ranges(&self.key, &ranges).await;
            got.map_err(|error| external(StoreError::from_objects("read", &self.key, error)))
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
            let footer = guarded(reader.load_and_finish(&mut *self, size_bytes)).await?;
            check_footer(&footer, size_bytes)?;
            Ok(Arc::new(footer))
        }
        .boxed()
    }
}
