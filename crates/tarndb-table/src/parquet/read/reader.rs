//! The Parquet library's view of one data file.
//!
//! Invariant: every request is metered, and an error of the store keeps its own type inside the
//! library's. A footer that was read is kept with the store handle, so that the next reader of
//! the file asks for data only.
//! Does not: keep data beyond the row group that is read and the next one.
//! Spec: docs/performance.md, "Reading".

use std::ops::Range;
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::ArrowReaderOptions;
use ::parquet::arrow::async_reader::AsyncFileReader;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tarndb_storage::{ObjectId, Store, StoreError, WriteOnce};

use super::ahead::Ahead;
use crate::parquet::damage::{check_footer, guarded};

/// Bytes at the end of a file that usually hold its whole footer and its page index.
const FOOTER_BYTES: u64 = 64 << 10;

/// Files up to this size are fetched whole with their footer: four times the bytes of a footer
/// take less time than a second request.
const WHOLE_BYTES: u64 = 256 << 10;

/// A reader of one file.
#[derive(Debug)]
pub struct DataFileReader {
    object: WriteOnce,
    page_index: bool,
    /// Bytes that came with the footer, and where they begin.
    tail: Option<(u64, Bytes)>,
    ahead: Ahead,
}

impl DataFileReader {
    /// A reader; makes no request.
    pub fn new(store: &Store, id: ObjectId) -> Self {
        Self {
            object: store.write_once(id),
            page_index: false,
            tail: None,
            ahead: Ahead::default(),
        }
    }

    /// The same, whose footers come with the page index where the file has one.
    #[must_use]
    pub fn with_page_index(mut self) -> Self {
        self.page_index = true;
        self
    }

    /// The same, which fetches these row groups one ahead; see [`Ahead`].
    pub(super) fn with_ahead(mut self, ahead: Ahead) -> Self {
        self.ahead = ahead;
        self
    }

    /// Begins to fetch the first row group.
    pub(super) fn start(&mut self) {
        self.ahead.start(&self.object);
    }

    /// The footer, from memory or from the store.
    ///
    /// # Cost
    /// None for a footer that a handle of the store read before; else one request, and one more
    /// when footer or page index do not lie in the last 64 KiB of a file above 256 KiB.
    ///
    /// # Errors
    /// Damage; errors of the store as [`ParquetError::External`].
    pub async fn footer(&mut self) -> Result<Arc<ParquetMetaData>> {
        let derived = self.object.store().derived().clone();
        let id = self.object.id().clone();
        if let Some(known) = derived.get::<ParquetMetaData>(&id)
            && (!self.page_index || has_page_index(&known))
        {
            return Ok(known);
        }
        let footer = match derived.get::<ParquetMetaData>(&id) {
            Some(known) => known,
            None => self.load_footer().await?,
        };
        let footer = match self.page_index {
            true => self.add_page_index(footer).await,
            false => footer,
        };
        derived.put(id, Arc::clone(&footer), footer.memory_size());
        Ok(footer)
    }

    async fn load_footer(&mut self) -> Result<Arc<ParquetMetaData>> {
        let size_bytes = self.object.id().size_bytes;
        let start = match size_bytes <= WHOLE_BYTES {
            true => 0,
            false => size_bytes - FOOTER_BYTES,
        };
        if size_bytes > 0 {
            let tail = start..size_bytes;
            let mut got = self.object.get_ranges(&[tail]).await.map_err(external)?;
            self.tail = got.pop().map(|bytes| (start, bytes));
        }
        let hint = usize::try_from(FOOTER_BYTES.min(size_bytes)).ok();
        let reader = ParquetMetaDataReader::new().with_prefetch_hint(hint);
        let footer = guarded(reader.load_and_finish(self, size_bytes)).await?;
        check_footer(&footer, size_bytes)?;
        Ok(Arc::new(footer))
    }

    /// The footer with the page index. One that cannot be read is left out: nothing but speed
    /// depends on it, and whoever needs it will be told.
    async fn add_page_index(&mut self, footer: Arc<ParquetMetaData>) -> Arc<ParquetMetaData> {
        let mut reader = ParquetMetaDataReader::new_with_metadata(ParquetMetaData::clone(&footer))
            .with_page_index_policy(PageIndexPolicy::Optional);
        let loaded = guarded(reader.load_page_index(self)).await;
        match loaded.and_then(|()| reader.finish()) {
            Ok(with_index) => Arc::new(with_index),
            Err(error) => {
                tracing::debug!(%error, "a page index could not be read");
                footer
            }
        }
    }

    /// The bytes of a range that came with the footer.
    fn in_tail(&self, range: &Range<u64>) -> Option<Bytes> {
        let (start, bytes) = self.tail.as_ref()?;
        slice(*start, bytes, range)
    }

    async fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        let known: Option<Vec<Bytes>> = ranges.iter().map(|range| self.in_tail(range)).collect();
        if let Some(known) = known {
            return Ok(known);
        }
        if let Some(read) = self.ahead.take(&self.object, &ranges).await {
            return read.map_err(external);
        }
        self.object.get_ranges(&ranges).await.map_err(external)
    }
}

/// Whether there is nothing left to load of the page index.
fn has_page_index(footer: &ParquetMetaData) -> bool {
    footer.column_index().is_some() && footer.offset_index().is_some()
}

/// A range of bytes that begin at `start`, if they hold all of it.
pub(super) fn slice(start: u64, bytes: &Bytes, range: &Range<u64>) -> Option<Bytes> {
    let from = usize::try_from(range.start.checked_sub(start)?).ok()?;
    let to = usize::try_from(range.end.checked_sub(start)?).ok()?;
    (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
}

fn external(error: StoreError) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for DataFileReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            let mut bytes = self.read(vec![range]).await?;
            Ok(bytes.pop().unwrap_or_default())
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        self.read(ranges).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        let wants =
            |options: &ArrowReaderOptions| options.column_index_policy() != PageIndexPolicy::Skip;
        self.page_index |= options.is_some_and(wants);
        self.footer().boxed()
    }
}
