//! `RetryStore`: requests that end in time, and are repeated where that is safe.
//!
//! Invariant: a conditional write is sent once per call; what is repeated has the same effect
//! done once or many times (reads, listings, deletions, overwriting with the same bytes). No
//! request lasts longer than its policy says, whatever the store does: a read ends in an answer
//! or an error, a write in an answer or in doubt.
//! Does not: repeat what was answered (a refusal, an absence), parts of uploads, or what a
//! client below has repeated already for as long as the budget lasts.
//! Spec: docs/format/log.md, "What the store must do".

mod body;
mod transient;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{Either, select};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result, UploadPart,
};

use crate::context::Context;
use crate::meter::short_read;
use transient::{GaveUp, TimedOut, is_transient};

/// The first pause between attempts; each next one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time that an attempt gets beyond its own for each MiB that it sends or receives.
const PER_MIB: Duration = Duration::from_secs(1);
/// Names of a listing that are waited for together.
const PAGE: usize = 1000;
/// Deletions under way at the same time.
const DELETES_AT_ONCE: usize = 16;
/// Answers that are too short before an object is taken to be so.
const SHORT_MAX: u32 = 5;

/// How long requests may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How long one attempt may take until its answer, or the next part of it, is there; a
    /// second more for each MiB, and twice as long after each that was given up.
    pub attempt: Duration,
    /// How long an operation is repeated, pauses included; the last attempt may go on beyond it
    /// by its least time.
    pub budget: Duration,
}

impl RetryPolicy {
    /// For folders: a disk that is slow is still the only one, and what it is asked to write
    /// must be on it before anybody reads it back.
    pub fn of_folder() -> Self {
        Self {
            attempt: Duration::from_secs(60),
            budget: Duration::from_secs(120),
        }
    }

    /// For clouds: their client has limits of its own, and repeats; this one is beyond them.
    pub fn of_cloud() -> Self {
        Self {
            attempt: Duration::from_secs(150),
            budget: Duration::from_secs(60),
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(10),
            budget: Duration::from_secs(60),
        }
    }
}

/// An object store whose requests end in time.
#[derive(Clone)]
pub(crate) struct RetryStore {
    inner: Arc<dyn ObjectStore>,
    clock: Patience,
}

/// The policy and the clock that it is measured by.
#[derive(Clone, Debug)]
struct Patience {
    policy: RetryPolicy,
    context: Context,
}

/// The attempts at one operation so far.
struct Attempts<'a> {
    clock: &'a Patience,
    start: Duration,
    least: Duration,
    patience: Duration,
    pause: Duration,
    failed: u32,
    short: u32,
}

impl Patience {
    fn attempts(&self, bytes: u64) -> Attempts<'_> {
        Attempts {
            clock: self,
            start: self.context.monotonic(),
            least: self.allowance(bytes),
            patience: self.allowance(bytes),
            pause: PAUSE_FIRST,
            failed: 0,
            short: 0,
        }
    }

    fn allowance(&self, bytes: u64) -> Duration {
        let mib = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
        self.policy
            .attempt
            .saturating_add(PER_MIB.saturating_mul(mib))
    }

    /// `work`, which is given up after `limit`.
    async fn timed<T>(&self, limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
        let timer = self.context.sleep(limit);
        match select(std::pin::pin!(work), std::pin::pin!(timer)).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(TimedOut { after: limit }.into()),
        }
    }
}

impl Attempts<'_> {
    /// One attempt, within its time and that of the operation; each gets its least time.
    async fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let left = self.clock.policy.budget.saturating_sub(self.waited());
        let limit = self.patience.min(left.max(self.least));
        self.clock.timed(limit, work).await
    }

    fn waited(&self) -> Duration {
        let now = self.clock.context.monotonic();
        now.saturating_sub(self.start)
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// There is none: the error is final.
    async fn again(&mut self, error: Error) -> Result<()> {
        let kind = is_transient(&error);
        self.failed += 1;
        if kind == Some(transient::Kind::Short) {
            self.short += 1;
        }
        if kind.is_none() || self.short >= SHORT_MAX {
            return Err(error);
        }
        let context = &self.clock.context;
        let waited = self.waited();
        let pause = context.jittered(self.pause);
        if waited.saturating_add(pause) >= self.clock.policy.budget {
            let attempts = self.failed;
            return Err(GaveUp::new(attempts, waited, error).into());
        }
        tracing::debug!(%error, attempt = self.failed, "trying again");
        context.sleep(pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        if kind == Some(transient::Kind::TimedOut) {
            self.patience = self.patience.saturating_mul(2);
        }
        Ok(())
    }
}

impl RetryStore {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, policy: RetryPolicy, context: Context) -> Self {
        let clock = Patience { policy, context };
        Self { inner, clock }
    }

    /// Repeats `work` until it is answered, for as long as the budget lasts.
    async fn repeat<T, F>(&self, bytes: u64, work: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut attempts = self.clock.attempts(bytes);
        loop {
            match attempts.run(work()).await {
                Ok(value) => return Ok(value),
                Err(error) => attempts.again(error).await?,
            }
        }
    }

    /// One attempt, within its time.
    async fn once<T>(&self, bytes: u64, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.clock.timed(self.clock.allowance(bytes), work).await
    }

    /// A listing: all of it, so that a failed one can begin anew.
    fn listing<F>(&self, list: F) -> BoxStream<'static, Result<ObjectMeta>>
    where
        F: Fn(&dyn ObjectStore) -> BoxStream<'static, Result<ObjectMeta>> + Send + Sync + 'static,
    {
        let store = self.clone();
        let whole = async move {
            let mut attempts = store.clock.attempts(0);
            let all = loop {
                match gather(&attempts, list(&store.inner)).await {
                    Ok(all) => break all,
                    Err(error) => attempts.again(error).await?,
                }
            };
            Ok::<_, Error>(futures::stream::iter(all.into_iter().map(Ok)))
        };
        whole.into_stream().try_flatten().boxed()
    }
}

/// A whole listing; each page of it within the time of an attempt.
async fn gather(
    attempts: &Attempts<'_>,
    listing: BoxStream<'static, Result<ObjectMeta>>,
) -> Result<Vec<ObjectMeta>> {
    let mut pages = listing.ready_chunks(PAGE);
    let mut all = Vec::new();
    while let Some(page) = attempts.run(async { Ok(pages.next().await) }).await? {
        for meta in page {
            all.push(meta?);
        }
    }
    Ok(all)
}

impl fmt::Debug for RetryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RetryStore({})", self.inner)
    }
}

impl fmt::Display for RetryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

fn bytes_of(payload: &PutPayload) -> u64 {
    u64::try_from(payload.content_length()).unwrap_or(u64::MAX)
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for RetryStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let bytes = bytes_of(&payload);
        match opts.mode {
            PutMode::Create | PutMode::Update(_) => {
                let put = self.inner.put_opts(location, payload, opts);
                self.once(bytes, put).await
            }
            PutMode::Overwrite => {
                let put = || self.inner.put_opts(location, payload.clone(), opts.clone());
                self.repeat(bytes, put).await
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begin = || self.inner.put_multipart_opts(location, opts.clone());
        Ok(Box::new(TimedUpload {
            inner: self.repeat(0, begin).await?,
            clock: self.clock.clone(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let get = || self.inner.get_opts(location, options.clone());
        let result = self.repeat(0, get).await?;
        Ok(match options.head {
            true => result,
            false => body::patient(self, location, &options, result),
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let length = |range: &Range<u64>| range.end.saturating_sub(range.start);
        let get = || async {
            let parts = self.inner.get_ranges(location, ranges).await?;
            for (range, part) in ranges.iter().zip(&parts) {
                let got = u64::try_from(part.len()).unwrap_or(u64::MAX);
                if got < length(range) {
                    return Err(short_read(location, range, got));
                }
            }
            Ok(parts)
        };
        self.repeat(ranges.iter().map(length).sum(), get).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let delete = move |location: Result<Path>| {
            let store = store.clone();
            async move {
                let location = location?;
                store.repeat(0, || store.inner.delete(&location)).await?;
                Ok(location)
            }
        };
        locations.map(delete).buffered(DELETES_AT_ONCE).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.cloned();
        self.listing(move |inner| inner.list(prefix.as_ref()))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (prefix, offset) = (prefix.cloned(), offset.clone());
        self.listing(move |inner| inner.list_with_offset(prefix.as_ref(), &offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.repeat(0, || self.inner.list_with_delimiter(prefix))
            .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        match options.mode {
            CopyMode::Create => self.once(0, self.inner.copy_opts(from, to, options)).await,
            CopyMode::Overwrite => {
                let copy = || self.inner.copy_opts(from, to, options.clone());
                self.repeat(0, copy).await
            }
        }
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.once(0, self.inner.rename_opts(from, to, options))
            .await
    }
}

/// An upload whose requests end in time. None is repeated: which part is which is decided
/// when it is given to the store.
#[derive(Debug)]
struct TimedUpload {
    inner: Box<dyn MultipartUpload>,
    clock: Patience,
}

#[async_trait]
impl MultipartUpload for TimedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let limit = self.clock.allowance(bytes_of(&data));
        let (clock, part) = (self.clock.clone(), self.inner.put_part(data));
        async move { clock.timed(limit, part).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let policy = self.clock.policy;
        let limit = policy.budget.max(policy.attempt);
        self.clock.timed(limit, self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        let limit = self.clock.policy.attempt;
        self.clock.timed(limit, self.inner.abort()).await
    }
}

#[cfg(test)]
mod tests;
