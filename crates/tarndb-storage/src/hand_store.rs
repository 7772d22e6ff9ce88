//! A store in memory whose times are the test's, and which dies when the test says.
//!
//! Invariant: what a listing, a HEAD and a GET say of an object's time is what the test's clock
//! said when it was written, or what the test set. After its death every request fails, as it
//! does for a process that was killed; what was written before is there.
//! Does not: lose or alter anything that was written.
//! Spec: none.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tarndb_types::TimestampMs;

/// When a store dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// After so many requests; the next one is the first that fails, without any effect.
    Before(u64),
    /// After so many requests; the next one has its effect, and its answer is lost.
    After(u64),
    /// After so many deletions; only deletions fail, and those of objects named `clock` do not
    /// count.
    Deletions(u64),
}

#[derive(Debug, Default)]
struct State {
    times: BTreeMap<Path, i64>,
    death: Option<Death>,
}

/// What becomes of a request.
enum Fate {
    Answered,
    AnswerLost,
    Refused,
}

/// The store; clones are one.
#[derive(Clone)]
pub struct HandStore {
    inner: Arc<InMemory>,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    state: Arc<Mutex<State>>,
}

impl HandStore {
    /// An empty store; `now_ms` is asked at each write, milliseconds since 1970 UTC.
    pub fn new(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self {
            inner: Arc::default(),
            now_ms: Arc::new(now_ms),
            state: Arc::default(),
        }
    }

    /// Says when an object was written; `false` when nobody wrote it.
    pub fn set_time(&self, key: &str, time: TimestampMs) -> bool {
        let before = self.lock().times.insert(Path::from(key), time.0);
        before.is_some()
    }

    /// Says when the store dies; `None`: never, and a dead one lives again.
    pub fn die(&self, death: Option<Death>) {
        self.lock().death = death;
    }

    /// A copy of all objects, which lives.
    pub fn copy(&self) -> Self {
        let times = self.lock().times.clone();
        let state = State { times, death: None };
        Self {
            inner: Arc::new(self.inner.fork()),
            now_ms: Arc::clone(&self.now_ms),
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request.
    fn request(&self) -> Fate {
        let mut state = self.lock();
        match &mut state.death {
            None | Some(Death::Deletions(_)) => Fate::Answered,
            Some(Death::Before(0)) => Fate::Refused,
            Some(death @ Death::After(0)) => {
                *death = Death::Before(0);
                Fate::AnswerLost
            }
            Some(Death::Before(left) | Death::After(left)) => {
                *left -= 1;
                Fate::Answered
            }
        }
    }

    /// Carries out a request, unless the store is dead.
    async fn carry_out<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.request() {
            Fate::Answered => work.await,
            Fate::AnswerLost => {
                work.await?;
                Err(killed())
            }
            Fate::Refused => Err(killed()),
        }
    }

    fn note(&self, key: &Path) {
        let now = (self.now_ms)();
        self.lock().times.insert(key.clone(), now);
    }

    fn timed(&self, mut meta: ObjectMeta) -> ObjectMeta {
        let time = self.lock().times.get(&meta.location).copied();
        if let Some(time) = time.and_then(chrono::DateTime::from_timestamp_millis) {
            meta.last_modified = time;
        }
        meta
    }

    /// May this object be deleted?
    fn take_deletion(&self, location: &Path) -> bool {
        match &mut self.lock().death {
            Some(Death::Deletions(_)) if location.as_ref().contains("clock") => true,
            Some(Death::Deletions(0)) => false,
            Some(Death::Deletions(left)) => {
                *left -= 1;
                true
            }
            _ => true,
        }
    }
}

fn killed() -> Error {
    Error::Generic {
        store: "by hand",
        source: "killed".into(),
    }
}

impl fmt::Debug for HandStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandStore")
    }
}

impl fmt::Display for HandStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandStore")
    }
}

#[async_trait]
impl ObjectStore for HandStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let put = async {
            let put = self.inner.put_opts(location, payload, opts).await?;
            self.note(location);
            Ok(put)
        };
        self.carry_out(put).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.note(location);
        let begun = self.inner.put_multipart_opts(location, opts);
        self.carry_out(begun).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let got = self.inner.get_opts(location, options);
        let mut result = self.carry_out(got).await?;
        result.meta = self.timed(result.meta);
        Ok(result)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let allowed = locations.map(move |location| {
            let location = location?;
            match (store.request(), store.take_deletion(&location)) {
                (Fate::Answered, true) => Ok(location),
                _ => Err(killed()),
            }
        });
        self.inner.delete_stream(allowed.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if !matches!(self.request(), Fate::Answered) {
            return futures::stream::iter([Err(killed())]).boxed();
        }
        let store = self.clone();
        let listed = self.inner.list(prefix);
        listed
            .map(move |meta| meta.map(|meta| store.timed(meta)))
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.carry_out(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let copied = async {
            self.inner.copy_opts(from, to, options).await?;
            self.note(to);
            Ok(())
        };
        self.carry_out(copied).await
    }
}
