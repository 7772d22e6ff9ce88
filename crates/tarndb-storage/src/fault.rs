//! A store that misbehaves on purpose, from a seed.
//!
//! Invariant: every fault is one that a real store can show: the request had no effect, its
//! full effect, or its full effect later; what a read returns is never altered.
//! Does not: tear objects or reorder answered writes.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result, UploadPart,
};

use crate::context::{Context, Random, SeededRandom};
use crate::error::StoreError;
use crate::options::{StoreOptions, invalid};

/// One way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An error; nothing happened. Any request.
    ErrorBefore,
    /// An error; everything happened. Any request.
    ErrorAfter,
    /// A timeout; everything happened. Writes.
    LostAnswer,
    /// "Already exists" although this very request created the object, as a client is told
    /// that repeats by itself. Conditional creates.
    SelfConflict,
    /// "Already exists" although no object does (S3's answer 409). Conditional creates.
    PhantomConflict,
    /// A timeout; the request takes effect after some later requests. Conditional creates.
    LateEffect,
}

/// How often each fault happens: probabilities between 0 and 1, together at most 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Where the random numbers start.
    pub seed: u64,
    /// Each request waits up to this long first.
    pub latency: Duration,
    /// See [`Fault::ErrorBefore`].
    pub error_before: f64,
    /// See [`Fault::ErrorAfter`].
    pub error_after: f64,
    /// See [`Fault::LostAnswer`].
    pub lost_answer: f64,
    /// See [`Fault::SelfConflict`].
    pub self_conflict: f64,
    /// See [`Fault::PhantomConflict`].
    pub phantom_conflict: f64,
    /// See [`Fault::LateEffect`].
    pub late_effect: f64,
}

impl FaultPlan {
    /// The plan given by options `fault.seed`, `fault.latency_ms` and `fault.<fault>` (snake
    /// case); `None` when there are none.
    ///
    /// # Errors
    /// [`StoreError::InvalidOption`] for an unknown name or a value that is not a number.
    pub fn from_options(options: &StoreOptions) -> std::result::Result<Option<Self>, StoreError> {
        let mut plan = Self::default();
        let mut given = false;
        for (key, value) in options.fault() {
            given = true;
            let bad = || invalid(&format!("fault.{key}"), "not a number of the kind it takes");
            let chance = || match value.parse::<f64>() {
                Ok(chance) if (0.0..=1.0).contains(&chance) => Ok(chance),
                _ => Err(bad()),
            };
            match key {
                "seed" => plan.seed = value.parse().map_err(|_| bad())?,
                "latency_ms" => {
                    plan.latency = Duration::from_millis(value.parse().map_err(|_| bad())?);
                }
                "error_before" => plan.error_before = chance()?,
                "error_after" => plan.error_after = chance()?,
                "lost_answer" => plan.lost_answer = chance()?,
                "self_conflict" => plan.self_conflict = chance()?,
                "phantom_conflict" => plan.phantom_conflict = chance()?,
                "late_effect" => plan.late_effect = chance()?,
                _ => return Err(invalid(&format!("fault.{key}"), "no such fault")),
            }
        }
        Ok(given.then_some(plan))
    }
}

/// What was injected so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Requests that passed.
    pub none: u64,
    /// See [`Fault::ErrorBefore`].
    pub error_before: u64,
    /// See [`Fault::ErrorAfter`].
    pub error_after: u64,
    /// See [`Fault::LostAnswer`].
    pub lost_answer: u64,
    /// See [`Fault::SelfConflict`].
    pub self_conflict: u64,
    /// See [`Fault::PhantomConflict`].
    pub phantom_conflict: u64,
    /// See [`Fault::LateEffect`].
    pub late_effect: u64,
}

/// The error of an injected fault.
#[derive(Debug)]
pub struct Injected(pub Fault);

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "injected fault: {:?}", self.0)
    }
}

impl std::error::Error for Injected {}

/// Which faults a request can meet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    Read,
    Write,
    Create,
}

#[derive(Debug)]
struct LateWrite {
    requests_left: u64,
    location: Path,
    payload: PutPayload,
    opts: PutOptions,
}

#[derive(Debug)]
struct State {
    inner: Arc<dyn ObjectStore>,
    plan: FaultPlan,
    random: SeededRandom,
    context: Context,
    active: AtomicBool,
    counts: Mutex<FaultCounts>,
    script: Mutex<VecDeque<Fault>>,
    late: Mutex<Vec<LateWrite>>,
}

/// An object store wrapper that injects the faults of a [`FaultPlan`]. Clones share all state.
#[derive(Clone, Debug)]
pub struct FaultStore {
    state: Arc<State>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FaultStore {
    /// Wraps `inner`. Latency is slept with the clock of `context`.
    pub fn new(inner: Arc<dyn ObjectStore>, plan: FaultPlan, context: Context) -> Self {
        let state = State {
            inner,
            random: SeededRandom::new(plan.seed),
            plan,
            context,
            active: AtomicBool::new(true),
            counts: Mutex::default(),
            script: Mutex::default(),
            late: Mutex::default(),
        };
        Self {
            state: Arc::new(state),
        }
    }

    /// What was injected so far.
    pub fn injected(&self) -> FaultCounts {
        *lock(&self.state.counts)
    }

    /// Turns injection off or on again. Late effects are still carried out.
    pub fn set_active(&self, active: bool) {
        self.state.active.store(active, Ordering::SeqCst);
    }

    /// The next conditional creates meet these faults, in order, before the plan goes on.
    pub fn script(&self, faults: impl IntoIterator<Item = Fault>) {
        lock(&self.state.script).extend(faults);
    }

    /// Carries out every late effect now.
    pub async fn settle(&self) {
        let due = std::mem::take(&mut *lock(&self.state.late));
        self.state.carry_out(due).await;
    }
}

impl State {
    /// Waits, carries out what is due, and decides what happens to a request.
    async fn admit(&self, request: Request) -> Option<Fault> {
        if !self.plan.latency.is_zero() && self.active.load(Ordering::SeqCst) {
            self.context
                .sleep(self.plan.latency.mul_f64(self.chance()))
                .await;
        }
        let due = self.take_due();
        self.carry_out(due).await;
        let fault = self.draw(request);
        let mut counts = lock(&self.counts);
        let counter = match fault {
            None => &mut counts.none,
            Some(Fault::ErrorBefore) => &mut counts.error_before,
            Some(Fault::ErrorAfter) => &mut counts.error_after,
            Some(Fault::LostAnswer) => &mut counts.lost_answer,
            Some(Fault::SelfConflict) => &mut counts.self_conflict,
            Some(Fault::PhantomConflict) => &mut counts.phantom_conflict,
            Some(Fault::LateEffect) => &mut counts.late_effect,
        };
        *counter += 1;
        fault
    }

    fn chance(&self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn draw(&self, request: Request) -> Option<Fault> {
        if !self.active.load(Ordering::SeqCst) {
            return None;
        }
        if request == Request::Create
            && let Some(scripted) = lock(&self.script).pop_front()
        {
            return Some(scripted);
        }
        let plan = &self.plan;
        let write = request != Request::Read;
        let create = request == Request::Create;
        let table = [
            (true, plan.error_before, Fault::ErrorBefore),
            (true, plan.error_after, Fault::ErrorAfter),
            (write, plan.lost_answer, Fault::LostAnswer),
            (create, plan.self_conflict, Fault::SelfConflict),
            (create, plan.phantom_conflict, Fault::PhantomConflict),
            (create, plan.late_effect, Fault::LateEffect),
        ];
        let mut left = self.chance();
        for (_, chance, fault) in table.into_iter().filter(|(applies, _, _)| *applies) {
            if left < chance {
                return Some(fault);
            }
            left -= chance;
        }
        None
    }

    fn take_due(&self) -> Vec<LateWrite> {
        let mut late = lock(&self.late);
        for write in late.iter_mut() {
            write.requests_left = write.requests_left.saturating_sub(1);
        }
        let (due, waiting) = late.drain(..).partition(|write| write.requests_left == 0);
        *late = waiting;
        due
    }

    async fn carry_out(&self, due: Vec<LateWrite>) {
        for LateWrite {
            location,
            payload,
            opts,
            ..
        } in due
        {
            let result = self.inner.put_opts(&location, payload, opts).await;
            tracing::debug!(%location, stored = result.is_ok(), "late effect");
        }
    }
}

fn error(fault: Fault) -> Error {
    Error::Generic {
        store: "fault",
        source: Box::new(Injected(fault)),
    }
}

fn conflict(location: &Path, fault: Fault) -> Error {
    Error::AlreadyExists {
        path: location.to_string(),
        source: Box::new(Injected(fault)),
    }
}

/// Runs `work` as `fault` says.
async fn around<T>(fault: Option<Fault>, work: impl Future<Output = Result<T>>) -> Result<T> {
    match fault {
        None => work.await,
        Some(fault @ Fault::ErrorBefore) => Err(error(fault)),
        Some(fault) => {
            // The request's own refusal stands: it was answered.
            work.await?;
            Err(error(fault))
        }
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({})", self.state.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for FaultStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let state = &self.state;
        let create = opts.mode == PutMode::Create;
        let fault = state
            .admit(if create {
                Request::Create
            } else {
                Request::Write
            })
            .await;
        match fault {
            Some(fault @ Fault::PhantomConflict) => Err(conflict(location, fault)),
            Some(fault @ Fault::SelfConflict) => {
                state.inner.put_opts(location, payload, opts).await?;
                Err(conflict(location, fault))
            }
            Some(fault @ Fault::LateEffect) => {
                let requests_left = 1 + state.random.next_u64() % 5;
                let location = location.clone();
                lock(&state.late).push(LateWrite {
                    requests_left,
                    location,
                    payload,
                    opts,
                });
                Err(error(fault))
            }
            fault => around(fault, state.inner.put_opts(location, payload, opts)).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let fault = self.state.admit(Request::Write).await;
        let inner = around(fault, self.state.inner.put_multipart_opts(location, opts)).await?;
        Ok(Box::new(FaultUpload {
            inner,
            state: Arc::clone(&self.state),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let fault = self.state.admit(Request::Read).await;
        around(fault, self.state.inner.get_opts(location, options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let fault = self.state.admit(Request::Read).await;
        around(fault, self.state.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let state = Arc::clone(&self.state);
        let delete = move |location: Result<Path>| {
            let state = Arc::clone(&state);
            async move {
                let location = location?;
                let fault = state.admit(Request::Write).await;
                around(fault, state.inner.delete(&location)).await?;
                Ok(location)
            }
        };
        locations.then(delete).boxed()
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
        let fault = self.state.admit(Request::Read).await;
        around(fault, self.state.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let fault = self.state.admit(Request::Write).await;
        around(fault, self.state.inner.copy_opts(from, to, options)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let fault = self.state.admit(Request::Write).await;
        around(fault, self.state.inner.rename_opts(from, to, options)).await
    }
}

impl FaultStore {
    /// A listing that fails at its start, or at its end, or not at all.
    fn listing<F>(&self, list: F) -> BoxStream<'static, Result<ObjectMeta>>
    where
        F: FnOnce(&dyn ObjectStore) -> BoxStream<'static, Result<ObjectMeta>> + Send + 'static,
    {
        let state = Arc::clone(&self.state);
        let start = async move {
            let fault = state.admit(Request::Read).await;
            let tail = match fault {
                Some(fault @ Fault::ErrorBefore) => return Err(error(fault)),
                Some(fault) => vec![Err(error(fault))],
                None => Vec::new(),
            };
            Ok(list(&state.inner).chain(futures::stream::iter(tail)))
        };
        start.into_stream().try_flatten().boxed()
    }
}

#[derive(Debug)]
struct FaultUpload {
    inner: Box<dyn MultipartUpload>,
    state: Arc<State>,
}

#[async_trait]
impl MultipartUpload for FaultUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (state, part) = (Arc::clone(&self.state), self.inner.put_part(data));
        Box::pin(async move {
            let fault = state.admit(Request::Write).await;
            around(fault, part).await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let fault = self.state.admit(Request::Write).await;
        around(fault, self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        let fault = self.state.admit(Request::Write).await;
        around(fault, self.inner.abort()).await
    }
}

#[cfg(test)]
mod tests;
