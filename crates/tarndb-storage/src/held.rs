//! `Held`: objects that can be read before they are stored.
//!
//! Invariant: a held object has the bytes that are stored under its key later, so whether a
//! reader gets them from here or from the store makes no difference. Held objects are read
//! only: writes, listings and deletions go to the store and see nothing of them. What neither
//! a writer holds nor the origin knows is asked of the store.
//! Does not: count its reads; they are no requests.
//! Spec: docs/format/log.md, "Inline files".

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result,
};

use crate::error::StoreError;
use crate::meter::short_read;

/// Where the bytes of objects are that are not stored yet and that no writer holds.
#[async_trait]
pub trait Origin: Send + Sync + fmt::Debug {
    /// The bytes of `key`; `None` when the store is to be asked.
    ///
    /// # Errors
    /// The bytes are known to be elsewhere but could not be read.
    async fn find(&self, key: &Path) -> Result<Option<Bytes>, StoreError>;
}

/// What a store holds beyond what is stored. Clones are one.
#[derive(Clone, Debug)]
pub struct Held {
    shared: Arc<Shared>,
}

struct Shared {
    files: Mutex<BTreeMap<Path, HeldBytes>>,
    origin: Arc<dyn Origin>,
}

/// Bytes and whether they are stored too.
#[derive(Clone)]
struct HeldBytes {
    bytes: Bytes,
    stored: Arc<AtomicBool>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("files", &self.lock().len())
            .field("origin", &self.origin)
            .finish()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Path, HeldBytes>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    pub(crate) fn new(origin: Arc<dyn Origin>) -> Self {
        let files = Mutex::default();
        Self {
            shared: Arc::new(Shared { files, origin }),
        }
    }

    /// Makes `bytes` readable under `key`, which must be new and unique, until the last clone
    /// of the answer is gone.
    pub fn hold(&self, key: Path, bytes: Bytes) -> HeldFile {
        let held = HeldBytes {
            bytes,
            stored: Arc::default(),
        };
        self.shared.lock().insert(key.clone(), held.clone());
        HeldFile(Arc::new(Guard {
            key,
            held,
            shared: Arc::clone(&self.shared),
        }))
    }

    /// Notes that what a writer may hold under `key` is stored: nobody has to store it again.
    pub(crate) fn note_stored(&self, key: &Path) {
        if let Some(held) = self.shared.lock().get(key) {
            held.stored.store(true, Ordering::SeqCst);
        }
    }

    /// The bytes of `key`, when they are not to be asked of the store.
    pub(crate) async fn find(&self, key: &Path) -> Result<Option<Bytes>, StoreError> {
        let held = self.shared.lock().get(key).map(|held| held.bytes.clone());
        match held {
            Some(bytes) => Ok(Some(bytes)),
            None => self.shared.origin.find(key).await,
        }
    }
}

/// A new object that its writer holds in memory. Clones are one; with the last of them it is
/// gone, unless it was stored or somebody committed its bytes.
#[derive(Clone)]
pub struct HeldFile(Arc<Guard>);

struct Guard {
    key: Path,
    held: HeldBytes,
    shared: Arc<Shared>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.lock().remove(&self.key);
    }
}

impl HeldFile {
    /// Its key.
    pub fn key(&self) -> &Path {
        &self.0.key
    }

    /// All of it.
    pub fn bytes(&self) -> &Bytes {
        &self.0.held.bytes
    }

    /// Whether the store has it by now.
    pub fn is_stored(&self) -> bool {
        self.0.held.stored.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for HeldFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldFile")
            .field("key", self.key())
            .field("bytes", &self.bytes().len())
            .field("stored", &self.is_stored())
            .finish()
    }
}

impl PartialEq for HeldFile {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key() && self.bytes() == other.bytes()
    }
}

/// An object store whose reads look at what is held first.
#[derive(Debug)]
pub(crate) struct HeldStore {
    inner: Arc<dyn ObjectStore>,
    held: Held,
}

impl HeldStore {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, held: Held) -> Self {
        Self { inner, held }
    }

    async fn find(&self, key: &Path) -> Result<Option<Bytes>> {
        self.held.find(key).await.map_err(StoreError::into_objects)
    }
}

impl fmt::Display for HeldStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The answer of a store that has `bytes` under `key`.
fn answer(key: &Path, bytes: &Bytes, options: &GetOptions) -> Result<GetResult> {
    let size = bytes.len() as u64;
    let meta = ObjectMeta {
        location: key.clone(),
        last_modified: DateTime::UNIX_EPOCH,
        size,
        e_tag: None,
        version: None,
    };
    options.check_preconditions(&meta)?;
    let range = match &options.range {
        None => 0..size,
        Some(GetRange::Bounded(range)) => range.clone(),
        Some(GetRange::Offset(offset)) => *offset..size,
        Some(GetRange::Suffix(length)) => size.saturating_sub(*length)..size,
    };
    let part = slice(key, bytes, &range)?;
    let payload = futures::future::ready(Ok(part)).into_stream().boxed();
    Ok(GetResult {
        payload: GetResultPayload::Stream(payload),
        meta,
        range,
        attributes: Default::default(),
    })
}

fn slice(key: &Path, bytes: &Bytes, range: &Range<u64>) -> Result<Bytes> {
    let beyond = || {
        let got = (bytes.len() as u64).saturating_sub(range.start);
        short_read(key, range, got)
    };
    let start = usize::try_from(range.start).map_err(|_| beyond())?;
    let end = usize::try_from(range.end).map_err(|_| beyond())?;
    if start > end || end > bytes.len() {
        return Err(beyond());
    }
    Ok(bytes.slice(start..end))
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for HeldStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.find(location).await? {
            Some(bytes) => answer(location, &bytes, &options),
            None => self.inner.get_opts(location, options).await,
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.find(location).await? {
            Some(bytes) => ranges
                .iter()
                .map(|range| slice(location, &bytes, range))
                .collect(),
            None => self.inner.get_ranges(location, ranges).await,
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests;
