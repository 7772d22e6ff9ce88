//! Counts what a handle asks of its store, by kind of request.
//!
//! Invariant: every request goes through `MeteredStore`; a method that the trait gains does
//! not compile here until it is counted. Does not: change an answer, except that `get` names
//! the key that was asked for (a prefix wrapper below would name its own).

use std::fmt;
use std::ops::{Range, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result, UploadPart,
};

use crate::error::StoreError;
use crate::ranges::requests;

/// Requests and bytes, by kind. Subtract two of them to learn what happened between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Unconditional writes of whole objects.
    pub put: u64,
    /// Conditional creates.
    pub put_if_absent: u64,
    /// Reads of whole objects.
    pub get: u64,
    /// Reads of a range (neighbouring ranges asked together count once).
    pub get_range: u64,
    /// Requests for size and time only.
    pub head: u64,
    /// Listings (a remote store answers 1,000 names per page; pages are not seen here).
    pub list: u64,
    /// Deletions.
    pub delete: u64,
    /// Requests of multipart uploads: start, each part, complete, abort.
    pub multipart: u64,
    /// Copies and renames.
    pub copy: u64,
    /// Bytes asked for by successful reads.
    pub bytes_read: u64,
    /// Bytes handed over in writes, repeated attempts included.
    pub bytes_written: u64,
}

impl Counts {
    /// Requests of any kind.
    pub fn requests(&self) -> u64 {
        self.put
            + self.put_if_absent
            + self.get
            + self.get_range
            + self.head
            + self.list
            + self.delete
            + self.multipart
            + self.copy
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            put: self.put.saturating_sub(earlier.put),
            put_if_absent: self.put_if_absent.saturating_sub(earlier.put_if_absent),
            get: self.get.saturating_sub(earlier.get),
            get_range: self.get_range.saturating_sub(earlier.get_range),
            head: self.head.saturating_sub(earlier.head),
            list: self.list.saturating_sub(earlier.list),
            delete: self.delete.saturating_sub(earlier.delete),
            multipart: self.multipart.saturating_sub(earlier.multipart),
            copy: self.copy.saturating_sub(earlier.copy),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "requests={} put_if_absent={} put={} multipart={} get={} get_range={} head={} list={} \
             delete={} copy={} bytes_read={} bytes_written={}",
            self.requests(),
            self.put_if_absent,
            self.put,
            self.multipart,
            self.get,
            self.get_range,
            self.head,
            self.list,
            self.delete,
            self.copy,
            self.bytes_read,
            self.bytes_written,
        )
    }
}

#[derive(Debug, Default)]
struct Counters {
    put: AtomicU64,
    put_if_absent: AtomicU64,
    get: AtomicU64,
    get_range: AtomicU64,
    head: AtomicU64,
    list: AtomicU64,
    delete: AtomicU64,
    multipart: AtomicU64,
    copy: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

/// The counters of one handle. Cheap to clone; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    counters: Arc<Counters>,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn bytes_of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl Meter {
    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        Counts {
            put: read(&counters.put),
            put_if_absent: read(&counters.put_if_absent),
            get: read(&counters.get),
            get_range: read(&counters.get_range),
            head: read(&counters.head),
            list: read(&counters.list),
            delete: read(&counters.delete),
            multipart: read(&counters.multipart),
            copy: read(&counters.copy),
            bytes_read: read(&counters.bytes_read),
            bytes_written: read(&counters.bytes_written),
        }
    }
}

/// An object store whose requests are counted.
pub(crate) struct MeteredStore {
    inner: Arc<dyn ObjectStore>,
    meter: Meter,
}

impl MeteredStore {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, meter: Meter) -> Self {
        Self { inner, meter }
    }
}

impl fmt::Debug for MeteredStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MeteredStore({})", self.inner)
    }
}

impl fmt::Display for MeteredStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for MeteredStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let counters = &self.meter.counters;
        match opts.mode {
            PutMode::Create => add(&counters.put_if_absent, 1),
            PutMode::Overwrite | PutMode::Update(_) => add(&counters.put, 1),
        }
        add(&counters.bytes_written, bytes_of(payload.content_length()));
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        add(&self.meter.counters.multipart, 1);
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(MeteredUpload {
            inner,
            meter: self.meter.clone(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let counters = &self.meter.counters;
        let head = options.head;
        let wanted = match &options.range {
            Some(GetRange::Bounded(range)) if !head => Some(range.clone()),
            _ => None,
        };
        match (head, &options.range) {
            (true, _) => add(&counters.head, 1),
            (false, Some(_)) => add(&counters.get_range, 1),
            (false, None) => add(&counters.get, 1),
        }
        let mut result = self.inner.get_opts(location, options).await?;
        if !head {
            add(
                &counters.bytes_read,
                result.range.end.saturating_sub(result.range.start),
            );
        }
        if let Some(wanted) = wanted.filter(|wanted| *wanted != result.range) {
            let got = result.range.end.saturating_sub(result.range.start);
            return Err(short_read(location, &wanted, got));
        }
        result.meta.location = location.clone();
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        add(&self.meter.counters.get_range, coalesced(ranges));
        let parts = self.inner.get_ranges(location, ranges).await?;
        let total = parts.iter().map(|part| bytes_of(part.len())).sum();
        add(&self.meter.counters.bytes_read, total);
        for (wanted, part) in ranges.iter().zip(&parts) {
            if bytes_of(part.len()) != wanted.end.saturating_sub(wanted.start) {
                return Err(short_read(location, wanted, bytes_of(part.len())));
            }
        }
        Ok(parts)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let meter = self.meter.clone();
        let counted = locations.inspect(move |_| add(&meter.counters.delete, 1));
        self.inner.delete_stream(counted.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        add(&self.meter.counters.list, 1);
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        add(&self.meter.counters.list, 1);
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        add(&self.meter.counters.list, 1);
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        add(&self.meter.counters.copy, 1);
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        add(&self.meter.counters.copy, 1);
        self.inner.rename_opts(from, to, options).await
    }
}

/// Readers of data files take the bytes they asked for to be there: a truncated object must be
/// an error here, not an assertion there.
pub(crate) fn short_read(key: &Path, wanted: &Range<u64>, got: u64) -> object_store::Error {
    StoreError::ShortRead {
        key: key.to_string(),
        start: wanted.start,
        end: wanted.end,
        got,
    }
    .into_objects()
}

/// How many requests a remote store makes for `ranges`: near neighbours are fetched together.
fn coalesced(ranges: &[Range<u64>]) -> u64 {
    bytes_of(requests(ranges).len())
}

#[derive(Debug)]
struct MeteredUpload {
    inner: Box<dyn MultipartUpload>,
    meter: Meter,
}

#[async_trait]
impl MultipartUpload for MeteredUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        add(&self.meter.counters.multipart, 1);
        add(
            &self.meter.counters.bytes_written,
            bytes_of(data.content_length()),
        );
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        add(&self.meter.counters.multipart, 1);
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        add(&self.meter.counters.multipart, 1);
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests;
