//! A store in memory whose times are the test's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// The store; clones are one.
#[derive(Clone)]
pub(crate) struct Aged {
    inner: Arc<InMemory>,
    now_ms: Arc<AtomicI64>,
    times: Arc<Mutex<BTreeMap<Path, i64>>>,
    /// Deletions that succeed; the others fail.
    pub(crate) deletions: Arc<AtomicU64>,
}

impl Aged {
    pub(crate) fn new() -> Self {
        Self {
            inner: Arc::default(),
            now_ms: Arc::new(AtomicI64::new(1_800_000_000_000)),
            times: Arc::default(),
            deletions: Arc::new(AtomicU64::new(u64::MAX)),
        }
    }

    /// Time goes on.
    pub(crate) fn pass(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Says that an object was written `ms` ago.
    pub(crate) fn set_age(&self, key: &str, ms: i64) {
        let time = self.now_ms.load(Ordering::SeqCst) - ms;
        self.times.lock().unwrap().insert(Path::from(key), time);
    }

    fn note(&self, key: &Path) {
        let now = self.now_ms.fetch_add(1, Ordering::SeqCst);
        self.times.lock().unwrap().insert(key.clone(), now);
    }

    fn timed(&self, mut meta: ObjectMeta) -> ObjectMeta {
        if let Some(time) = self.times.lock().unwrap().get(&meta.location) {
            meta.last_modified = chrono::DateTime::from_timestamp_millis(*time).unwrap();
        }
        meta
    }
}

impl fmt::Debug for Aged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aged")
    }
}

impl fmt::Display for Aged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aged")
    }
}

#[async_trait]
impl ObjectStore for Aged {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let put = self.inner.put_opts(location, payload, opts).await?;
        self.note(location);
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.note(location);
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut result = self.inner.get_opts(location, options).await?;
        result.meta = self.timed(result.meta);
        Ok(result)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let left = Arc::clone(&self.deletions);
        let allowed = locations.map(move |location| {
            let location = location?;
            let counts = !location.as_ref().contains("clock");
            let take = |left: u64| left.checked_sub(u64::from(counts));
            match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
                Ok(_) => Ok(location),
                Err(_) => Err(Error::Generic {
                    store: "aged",
                    source: "killed".into(),
                }),
            }
        });
        self.inner.delete_stream(allowed.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let store = self.clone();
        let listed = self.inner.list(prefix);
        listed
            .map(move |meta| meta.map(|meta| store.timed(meta)))
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
