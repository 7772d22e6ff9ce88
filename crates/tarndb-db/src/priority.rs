//! Priority for transactions that lost too often: the others of the handle wait for them.
//!
//! Invariant: in order of arrival per table, so that everybody's turn comes; a holder never
//! waits for a later one, so that two do not wait for each other; and nobody waits for a
//! holder beyond its time, so that a holder that hangs holds up nobody for long. It decides
//! who commits first and never whether a commit is right.
//! Spec: docs/guide/rust.md, "Retries".

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{Either, select};
use tarndb_storage::Context;
use tarndb_types::TableId;
use tokio::sync::Notify;

use crate::database::Inner;

/// The longest that anybody waits for others' priority.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Who is to be let through, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Priorities {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    tables: BTreeSet<TableId>,
    /// When its time is over, on the monotonic clock; `None` while it waits for its turn.
    until: Option<Duration>,
}

impl Entry {
    fn overlaps(&self, tables: &BTreeSet<TableId>) -> bool {
        !self.tables.is_disjoint(tables)
    }
}

impl Priorities {
    /// Waits while one with priority works on one of the tables.
    pub(crate) async fn give_way(
        &self,
        context: &Context,
        tables: &BTreeSet<TableId>,
        own: Option<u64>,
    ) {
        let blocks = |entry: &Entry, now: Duration| {
            let earlier = own.is_none_or(|own| entry.id < own);
            earlier && entry.overlaps(tables) && entry.until.is_some_and(|until| until > now)
        };
        self.wait_while(context, blocks).await;
    }

    /// Waits while an entry blocks, but not for ever.
    async fn wait_while(&self, context: &Context, blocks: impl Fn(&Entry, Duration) -> bool) {
        let mut timer = None;
        loop {
            let changed = Box::pin(self.changed.notified());
            let now = context.monotonic();
            if !self.lock().entries.iter().any(|entry| blocks(entry, now)) {
                return;
            }
            let left = timer
                .take()
                .unwrap_or_else(|| Box::pin(context.sleep(WAIT_MAX)));
            match select(changed, left).await {
                Either::Left(((), left)) => timer = Some(left),
                Either::Right(_) => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the order; given up when dropped.
#[derive(Debug)]
pub(crate) struct Priority {
    inner: Arc<Inner>,
    id: u64,
    tables: BTreeSet<TableId>,
}

impl Priority {
    /// Takes the next place for the tables and waits for its turn.
    pub(crate) async fn take(inner: &Arc<Inner>, tables: BTreeSet<TableId>) -> Self {
        let id = {
            let mut state = inner.priorities.lock();
            state.next += 1;
            let (id, tables, until) = (state.next, tables.clone(), None);
            state.entries.push(Entry { id, tables, until });
            id
        };
        let (inner, place) = (Arc::clone(inner), id);
        let priority = Self { inner, id, tables };
        let earlier = |entry: &Entry, now: Duration| {
            let over = entry.until.is_some_and(|until| until <= now);
            entry.id < place && !over && entry.overlaps(&priority.tables)
        };
        let inner = &priority.inner;
        inner.priorities.wait_while(inner.context(), earlier).await;
        priority
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether it is for all these tables.
    pub(crate) fn covers(&self, tables: &BTreeSet<TableId>) -> bool {
        tables.is_subset(&self.tables)
    }

    /// From now on for so long, the others wait.
    pub(crate) fn begin(&self, duration: Duration) {
        let until = self.inner.context().monotonic() + duration.min(WAIT_MAX);
        let mut state = self.inner.priorities.lock();
        if let Some(entry) = state.entries.iter_mut().find(|entry| entry.id == self.id) {
            entry.until = Some(until);
        }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        let mut state = self.inner.priorities.lock();
        state.entries.retain(|entry| entry.id != self.id);
        drop(state);
        self.inner.priorities.changed.notify_waiters();
    }
}
