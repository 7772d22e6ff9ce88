//! `DelayedStore`: an object store at a distance.
//!
//! Invariant: each request takes the latency, half of it before it has its effect and half
//! after, each half longer or shorter at random by up to the jitter; answers are the inner
//! store's. Without latency a request still lets others run.
//! Does not: limit how many requests are under way, or how many bytes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};
use tarndb_storage::Context;

/// A store and how far it is away.
#[derive(Clone)]
pub struct DelayedStore {
    inner: Arc<dyn ObjectStore>,
    distance: Distance,
}

#[derive(Clone)]
struct Distance {
    context: Context,
    half: Duration,
    jitter: f64,
}

impl Distance {
    async fn pass(&self) {
        if self.half.is_zero() {
            tokio::task::yield_now().await;
        } else {
            let random = (self.context.random_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let share = 1.0 + self.jitter * (2.0 * random - 1.0);
            self.context.sleep(self.half.mul_f64(share)).await;
        }
    }
}

impl DelayedStore {
    /// `inner` at a distance of `latency` for a question and its answer together, `jitter`
    /// being a share of it between 0 and 1.
    pub fn new(
        inner: Arc<dyn ObjectStore>,
        latency: Duration,
        jitter: f64,
        context: Context,
    ) -> Self {
        let distance = Distance {
            context,
            half: latency / 2,
            jitter: jitter.clamp(0.0, 1.0),
        };
        Self { inner, distance }
    }

    async fn ask<T>(&self, request: impl Future<Output = T> + Send) -> T {
        self.distance.pass().await;
        let answer = request.await;
        self.distance.pass().await;
        answer
    }

    fn listed(
        &self,
        stream: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let distance = self.distance.clone();
        let travel = async move {
            distance.pass().await;
            distance.pass().await;
            stream
        };
        travel.flatten_stream().boxed()
    }
}

impl fmt::Debug for DelayedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for DelayedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DelayedStore({}, {:?})",
            self.inner,
            self.distance.half * 2
        )
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for DelayedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.ask(self.inner.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let request = self.inner.put_multipart_opts(location, opts);
        let inner = self.ask(request).await?;
        let distance = self.distance.clone();
        Ok(Box::new(DelayedUpload { inner, distance }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.ask(self.inner.get_opts(location, options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.ask(self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let distance = self.distance.clone();
        let arriving = locations.then(move |location| {
            let distance = distance.clone();
            async move {
                distance.pass().await;
                distance.pass().await;
                location
            }
        });
        self.inner.delete_stream(arriving.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.ask(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.ask(self.inner.copy_opts(from, to, options)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.ask(self.inner.rename_opts(from, to, options)).await
    }
}

struct DelayedUpload {
    inner: Box<dyn MultipartUpload>,
    distance: Distance,
}

impl fmt::Debug for DelayedUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedUpload").finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for DelayedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, distance) = (self.inner.put_part(data), self.distance.clone());
        let request = async move {
            distance.pass().await;
            let answer = part.await;
            distance.pass().await;
            answer
        };
        request.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.distance.pass().await;
        let answer = self.inner.complete().await;
        self.distance.pass().await;
        answer
    }

    async fn abort(&mut self) -> Result<()> {
        self.distance.pass().await;
        self.inner.abort().await
    }
}
