//! A store whose times are those of a clock that the test moves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tarndb_storage::Clock as _;
use tarndb_types::TimestampMs;

use crate::clock::HandClock;

/// The store; clones are one.
#[derive(Clone)]
pub(crate) struct TimedStore {
    inner: Arc<dyn ObjectStore>,
    clock: Arc<HandClock>,
    times: Arc<Mutex<BTreeMap<Path, i64>>>,
}

impl TimedStore {
    pub(crate) fn new(clock: &Arc<HandClock>) -> Self {
        Self {
            inner: Arc::new(InMemory::new()),
            clock: Arc::clone(clock),
            times: Arc::default(),
        }
    }

    fn note(&self, key: &Path) {
        let now = self.clock.now().0;
        self.times.lock().unwrap().insert(key.clone(), now);
    }

    /// Says that an object was written at another time.
    pub(crate) fn set_time(&self, key: &str, time: TimestampMs) {
        let mut times = self.times.lock().unwrap();
        assert!(times.insert(Path::from(key), time.0).is_some(), "{key}");
    }

    fn timed(&self, mut meta: ObjectMeta) -> ObjectMeta {
        if let Some(time) = self.times.lock().unwrap().get(&meta.location) {
            meta.last_modified = chrono_time(*time);
        }
        meta
    }
}

fn chrono_time(ms: i64) -> chrono::DateTime<chrono::Utc> {
    chrono::DateTime::from_timestamp_millis(ms).unwrap()
}

/// Both clocks of everybody go on.
pub(crate) fn pass(clock: &HandClock, duration: Duration) {
    let ms = duration.as_millis() as i64;
    clock.wall.fetch_add(ms, Ordering::SeqCst);
    clock.monotonic.fetch_add(ms, Ordering::SeqCst);
}

impl fmt::Debug for TimedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimedStore({:?})", self.inner)
    }
}

impl fmt::Display for TimedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimedStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for TimedStore {
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
        self.inner.delete_stream(locations)
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
        self.inner.copy_opts(from, to, options).await?;
        self.note(to);
        Ok(())
    }
}
