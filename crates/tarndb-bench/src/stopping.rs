//! A store in which the process stops, as by SIGSTOP, right before or after the n-th write.
//!
//! Invariant: without `TARNDB_TEST_STOP_AT` it only counts. `n.begin` stops before the n-th object
//! is put or deleted, `n.end` after it.
//! Does not: stop in reads.
//! Spec: scripts/native_paused.py.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// The store.
#[derive(Clone)]
pub(crate) struct Stopping {
    inner: Arc<dyn ObjectStore>,
    writes: Arc<AtomicU64>,
    stop_at: Arc<str>,
}

impl Stopping {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self {
            inner,
            writes: Arc::default(),
            stop_at: std::env::var("TARNDB_TEST_STOP_AT")
                .unwrap_or_default()
                .into(),
        }
    }

    /// Objects put and deleted so far.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    fn begin(&self) -> u64 {
        let n = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        self.stop(n, "begin");
        n
    }

    fn stop(&self, n: u64, edge: &str) {
        if *self.stop_at != *format!("{n}.{edge}") {
            return;
        }
        let process = std::process::id().to_string();
        let stopped = std::process::Command::new("kill")
            .args(["-STOP", &process])
            .status();
        // One that cannot be stopped goes on, and its test fails.
        drop(stopped);
    }
}

impl fmt::Debug for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopping")
    }
}

impl fmt::Display for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopping")
    }
}

#[async_trait]
impl ObjectStore for Stopping {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let n = self.begin();
        let put = self.inner.put_opts(location, payload, opts).await;
        self.stop(n, "end");
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.begin();
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (store, ended) = (self.clone(), self.clone());
        // A stream is of one deletion; several run at the same time.
        let number = Arc::new(AtomicU64::new(0));
        let begun_as = Arc::clone(&number);
        let begun = locations.map(move |location| {
            begun_as.store(store.begin(), Ordering::SeqCst);
            location
        });
        let deleted = self.inner.delete_stream(begun.boxed());
        deleted
            .map(move |location| {
                ended.stop(number.load(Ordering::SeqCst), "end");
                location
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
