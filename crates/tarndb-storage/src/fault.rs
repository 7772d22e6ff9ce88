//! A store that misbehaves on purpose, from a seed.
//!
//! Invariant: every fault is one that a real store or the way to it can show: the request had
//! no effect, its full effect, its full effect later, or twice; an answer is lost, cut off, or
//! does not know of the last writes yet. No byte of an answer is altered.
//! Does not: tear objects or reorder answered writes.
//! Spec: docs/guide/faults.md.

mod answer;
mod kind;
mod later;
mod plan;
mod report;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

pub use kind::{Fault, FaultCounts, Injected, Operation};
pub use plan::FaultPlan;

use crate::context::{Context, Random, SeededRandom};
use crate::error::StoreError;
use later::{Later, Write};
use report::Report;

/// Requests that come before a late write, at most.
const LATE_REQUESTS_MAX: u64 = 5;
/// Names that a stale listing does not know, at most.
const STALE_NAMES_MAX: u64 = 3;

#[derive(Debug)]
struct State {
    inner: Arc<dyn ObjectStore>,
    plan: FaultPlan,
    random: SeededRandom,
    context: Context,
    active: AtomicBool,
    counts: Mutex<FaultCounts>,
    script: Mutex<BTreeMap<Operation, VecDeque<Fault>>>,
    later: Later,
    report: Option<Report>,
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
    /// Wraps `inner`. Latency is slept with the clock of `context`. The plan's report is not
    /// written.
    pub fn new(inner: Arc<dyn ObjectStore>, plan: FaultPlan, context: Context) -> Self {
        Self::with(inner, plan, context, None)
    }

    /// The same, noting each fault in the plan's report.
    ///
    /// # Errors
    /// [`StoreError::InvalidOption`] when the report cannot be opened.
    pub fn reporting(
        inner: Arc<dyn ObjectStore>,
        plan: FaultPlan,
        context: Context,
    ) -> std::result::Result<Self, StoreError> {
        let report = plan.report.as_deref().map(Report::open).transpose()?;
        Ok(Self::with(inner, plan, context, report))
    }

    fn with(
        inner: Arc<dyn ObjectStore>,
        plan: FaultPlan,
        context: Context,
        report: Option<Report>,
    ) -> Self {
        let state = State {
            inner,
            random: SeededRandom::new(plan.seed),
            plan,
            context,
            active: AtomicBool::new(true),
            counts: Mutex::default(),
            script: Mutex::default(),
            later: Later::default(),
            report,
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
        self.script_for(Operation::Create, faults);
    }

    /// The same for any kind of request; a fault that it cannot meet is passed over.
    pub fn script_for(&self, operation: Operation, faults: impl IntoIterator<Item = Fault>) {
        let faults = faults.into_iter().filter(|fault| fault.can_meet(operation));
        lock(&self.state.script)
            .entry(operation)
            .or_default()
            .extend(faults);
    }

    /// Carries out every late effect now.
    pub async fn settle(&self) {
        self.state.later.settle(&self.state.inner).await;
    }
}

impl State {
    /// Waits, carries out what is due, and decides what happens to a request.
    async fn admit(&self, operation: Operation, key: &Path) -> Option<Fault> {
        if !self.plan.latency.is_zero() && self.active.load(Ordering::SeqCst) {
            let share = 1.0 + self.plan.jitter * (2.0 * self.chance() - 1.0);
            self.context.sleep(self.plan.latency.mul_f64(share)).await;
        }
        self.later.pass(&self.inner).await;
        let fault = self.draw(operation);
        lock(&self.counts).add(fault);
        if let Some(fault) = fault {
            tracing::debug!(fault = fault.name(), operation = operation.name(), %key, "injected");
            if let Some(report) = &self.report {
                report.note(fault, operation, key);
            }
        }
        fault
    }

    fn chance(&self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from 1 to `max`.
    fn dice(&self, max: u64) -> u64 {
        1 + self.random.next_u64() % max
    }

    fn draw(&self, operation: Operation) -> Option<Fault> {
        if !self.active.load(Ordering::SeqCst) {
            return None;
        }
        let scripted = lock(&self.script)
            .get_mut(&operation)
            .and_then(VecDeque::pop_front);
        if scripted.is_some() {
            return scripted;
        }
        let mut left = self.chance();
        for fault in Fault::ALL {
            let chance = self.plan.chance(operation, fault);
            if left < chance {
                return Some(fault);
            }
            left -= chance;
        }
        None
    }

    /// Runs `work` as `fault` says.
    async fn around<T>(
        &self,
        fault: Option<Fault>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match fault {
            None | Some(Fault::Duplicate | Fault::PartialRead | Fault::StaleList) => work.await,
            Some(fault @ Fault::ErrorBefore) => Err(error(fault)),
            Some(Fault::Stall) => {
                if self.chance() < 0.5 {
                    let _never_told = work.await;
                }
                std::future::pending().await
            }
            Some(fault) => {
                // The request's own refusal stands: it was answered.
                work.await?;
                Err(error(fault))
            }
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
        let operation = match opts.mode {
            PutMode::Create => Operation::Create,
            PutMode::Overwrite | PutMode::Update(_) => Operation::Put,
        };
        let fault = state.admit(operation, location).await;
        let again = Write::Put {
            location: location.clone(),
            payload: payload.clone(),
            opts: opts.clone(),
        };
        match fault {
            Some(fault @ Fault::PhantomConflict) => Err(conflict(location, fault)),
            Some(fault @ Fault::SelfConflict) => {
                state.inner.put_opts(location, payload, opts).await?;
                Err(conflict(location, fault))
            }
            Some(fault @ Fault::LateEffect) => {
                state.later.put_off(state.dice(LATE_REQUESTS_MAX), again);
                Err(error(fault))
            }
            Some(Fault::Duplicate) => {
                let result = state.inner.put_opts(location, payload, opts).await?;
                state.later.put_off(state.dice(LATE_REQUESTS_MAX), again);
                Ok(result)
            }
            fault => {
                let put = state.inner.put_opts(location, payload, opts);
                state.around(fault, put).await
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let state = &self.state;
        let fault = state.admit(Operation::Part, location).await;
        let begin = state.inner.put_multipart_opts(location, opts);
        Ok(Box::new(FaultUpload {
            inner: state.around(fault, begin).await?,
            location: location.clone(),
            state: Arc::clone(state),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let state = &self.state;
        let operation = match options.head {
            true => Operation::Head,
            false => Operation::Get,
        };
        let fault = state.admit(operation, location).await;
        let result = state
            .around(fault, state.inner.get_opts(location, options))
            .await?;
        match fault {
            Some(Fault::PartialRead) => {
                answer::cut_body(result, state.chance(), state.chance() < 0.5).await
            }
            _ => Ok(result),
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let state = &self.state;
        let fault = state.admit(Operation::Get, location).await;
        let parts = state
            .around(fault, state.inner.get_ranges(location, ranges))
            .await?;
        match fault {
            Some(Fault::PartialRead) => Ok(answer::cut_ranges(parts, state.chance())),
            _ => Ok(parts),
        }
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
                let fault = state.admit(Operation::Delete, &location).await;
                state.around(fault, state.inner.delete(&location)).await?;
                if fault == Some(Fault::Duplicate) {
                    let again = Write::Delete(location.clone());
                    state.later.put_off(state.dice(LATE_REQUESTS_MAX), again);
                }
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.cloned();
        let place = prefix.clone().unwrap_or_default();
        self.listing(place, move |inner| inner.list(prefix.as_ref()))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (prefix, offset) = (prefix.cloned(), offset.clone());
        let place = prefix.clone().unwrap_or_default();
        self.listing(place, move |inner| {
            inner.list_with_offset(prefix.as_ref(), &offset)
        })
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let state = &self.state;
        let place = prefix.cloned().unwrap_or_default();
        let fault = state.admit(Operation::List, &place).await;
        let mut listed = state
            .around(fault, state.inner.list_with_delimiter(prefix))
            .await?;
        if fault == Some(Fault::StaleList) {
            listed.objects = answer::stale(listed.objects, state.stale_names());
        }
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let state = &self.state;
        let fault = state.admit(Operation::Part, to).await;
        let copy = state.inner.copy_opts(from, to, options);
        state.around(fault, copy).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let state = &self.state;
        let fault = state.admit(Operation::Part, to).await;
        let rename = state.inner.rename_opts(from, to, options);
        state.around(fault, rename).await
    }
}

impl State {
    fn stale_names(&self) -> usize {
        usize::try_from(self.dice(STALE_NAMES_MAX)).unwrap_or(1)
    }
}

impl FaultStore {
    /// A listing that fails at its start, or at its end, or does not know the last names, or is
    /// as it should be.
    fn listing<F>(&self, place: Path, list: F) -> BoxStream<'static, Result<ObjectMeta>>
    where
        F: FnOnce(&dyn ObjectStore) -> BoxStream<'static, Result<ObjectMeta>> + Send + 'static,
    {
        let state = Arc::clone(&self.state);
        let start = async move {
            let fault = state.admit(Operation::List, &place).await;
            match fault {
                Some(Fault::StaleList) => {
                    let listed: Vec<ObjectMeta> = list(&state.inner).try_collect().await?;
                    let known = answer::stale(listed, state.stale_names());
                    Ok(futures::stream::iter(known.into_iter().map(Ok)).boxed())
                }
                Some(fault @ Fault::ErrorAfter) => {
                    let end = futures::stream::iter([Err(error(fault))]);
                    Ok(list(&state.inner).chain(end).boxed())
                }
                fault => {
                    let listing = async { Ok(list(&state.inner)) };
                    state.around(fault, listing).await
                }
            }
        };
        start.into_stream().try_flatten().boxed()
    }
}

#[derive(Debug)]
struct FaultUpload {
    inner: Box<dyn MultipartUpload>,
    location: Path,
    state: Arc<State>,
}

#[async_trait]
impl MultipartUpload for FaultUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (state, part) = (Arc::clone(&self.state), self.inner.put_part(data));
        let location = self.location.clone();
        Box::pin(async move {
            let fault = state.admit(Operation::Part, &location).await;
            state.around(fault, part).await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let fault = self.state.admit(Operation::Part, &self.location).await;
        self.state.around(fault, self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        let fault = self.state.admit(Operation::Part, &self.location).await;
        self.state.around(fault, self.inner.abort()).await
    }
}

#[cfg(test)]
mod tests;
