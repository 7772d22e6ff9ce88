//! The queue of a handle's commits: whoever comes while a record is being put shares the next.
//!
//! Invariant: at most one leader, a task of its own, so that a caller that gives up takes
//! nobody along. A job is answered once. While a job's record is under way (`sent`), only the
//! store tells its outcome: should the leader die with its runtime, the caller gets `Pending`;
//! a job that was never sent, or whose record lost, is handed in again.
//! A caller that gives up before its job is taken into a record withdraws it; later it may or
//! may not commit.
//! Spec: docs/format/log.md, "Group commit".

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::{Notify, oneshot};

use super::group;
use super::resolve::Resolver;
use super::turns;
use super::vectors::StoredVectors;
use crate::database::Inner;
use crate::error::DbError;
use crate::transaction::{Committed, Transaction};

/// How often a job whose leader died is handed in again.
const HAND_IN_MAX: u32 = 8;

type Answer = Result<Committed, DbError>;

/// A transaction on its way into the log.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) txn: Arc<Transaction>,
    pub(super) resolver: Resolver,
    pub(super) vectors: StoredVectors,
    /// Records tried.
    pub(super) attempts: u32,
    /// When it was handed in, on the monotonic clock.
    pub(super) since: Duration,
    sent: Arc<AtomicBool>,
    reply: oneshot::Sender<Answer>,
}

impl Job {
    /// Notes whether a record with it is under way.
    pub(super) fn set_sent(&self, sent: bool) {
        self.sent.store(sent, Ordering::SeqCst);
    }

    /// Whether nobody waits for the answer.
    pub(super) fn is_given_up(&self) -> bool {
        self.reply.is_closed()
    }

    /// Ends the job.
    pub(super) fn answer(self, answer: Answer) {
        // A caller that gave up asks by the transaction's reference.
        drop(self.reply.send(answer));
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct CommitQueue {
    state: Mutex<State>,
    settled: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Job>,
    leading: bool,
}

impl CommitQueue {
    /// Refuses what waits. Call it after closing the handle: what comes later is refused at
    /// once.
    pub(crate) fn refuse_waiting(&self) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for job in waiting {
            job.answer(Err(DbError::Closed));
        }
    }

    /// Waits until no commit is under way.
    pub(crate) async fn settled(&self) {
        loop {
            let settled = self.settled.notified();
            if !self.lock().leading {
                return;
            }
            settled.await;
        }
    }

    /// The next round: jobs left over from the last one first. `None` ends the leader.
    fn next_round(&self, mut left_over: Vec<Job>, txns_max: usize) -> Option<Vec<Job>> {
        let mut state = self.lock();
        let room = txns_max.max(1).saturating_sub(left_over.len());
        let count = room.min(state.waiting.len());
        left_over.extend(state.waiting.drain(..count));
        left_over.retain(|job| !job.is_given_up());
        if left_over.is_empty() && state.waiting.is_empty() {
            state.leading = false;
            return None;
        }
        Some(left_over)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Commits a transaction that is judged up to some head, together with whatever else is there.
pub(super) async fn commit(
    inner: &Arc<Inner>,
    txn: Arc<Transaction>,
    resolver: Resolver,
) -> Result<Committed, DbError> {
    let mut resolver = Some(resolver);
    for _ in 0..HAND_IN_MAX {
        let resolver = match resolver.take() {
            Some(resolver) => resolver,
            None => Resolver::new(&txn)?,
        };
        let (answer, sent, leader) = hand_in(inner, Arc::clone(&txn), resolver)?;
        if let Some(leader) = leader {
            // Without a runtime nothing runs beside its caller.
            leader.await;
        }
        match answer.await {
            Ok(answer) => return answer,
            Err(_) if sent.load(Ordering::SeqCst) => break,
            Err(_) => {}
        }
    }
    Err(DbError::Pending {
        txn: txn.reference(),
    })
}

/// What a caller waits for: the answer, whether a record is under way, and the leader when the
/// caller must run it.
type HandedIn = (
    oneshot::Receiver<Answer>,
    Arc<AtomicBool>,
    Option<BoxFuture<'static, ()>>,
);

fn hand_in(
    inner: &Arc<Inner>,
    txn: Arc<Transaction>,
    resolver: Resolver,
) -> Result<HandedIn, DbError> {
    let (reply, answer) = oneshot::channel();
    let sent = Arc::new(AtomicBool::new(false));
    let job = Job {
        txn,
        resolver,
        vectors: StoredVectors::default(),
        attempts: 0,
        since: inner.context().monotonic(),
        sent: Arc::clone(&sent),
        reply,
    };
    let start = {
        let mut state = inner.queue.lock();
        inner.check_open()?;
        state.waiting.push_back(job);
        !std::mem::replace(&mut state.leading, true)
    };
    let leader = start.then(|| lead(Leading(Some(Arc::clone(inner)))).boxed());
    let leader = match (leader, tokio::runtime::Handle::try_current()) {
        (Some(leader), Ok(runtime)) => {
            runtime.spawn(leader);
            None
        }
        (leader, _) => leader,
    };
    Ok((answer, sent, leader))
}

/// The leader's office: laid down when nothing is left, or when its task dies.
struct Leading(Option<Arc<Inner>>);

impl Drop for Leading {
    fn drop(&mut self) {
        let Some(inner) = self.0.take() else {
            return;
        };
        // The jobs' callers see their answers gone and hand them in again.
        let orphans = {
            let mut state = inner.queue.lock();
            state.leading = false;
            std::mem::take(&mut state.waiting)
        };
        drop(orphans);
        inner.queue.settled.notify_waiters();
    }
}

async fn lead(mut office: Leading) {
    let Some(inner) = office.0.clone() else {
        return;
    };
    let mut left_over: Vec<Job> = Vec::new();
    loop {
        // Who has lost goes on at once: those that won stand back for it.
        if left_over.iter().all(|job| job.attempts == 0) {
            turns::stand_back(&inner).await;
        }
        let txns_max = inner.options.group_txns_max;
        let Some(jobs) = inner.queue.next_round(left_over, txns_max) else {
            break;
        };
        left_over = group::commit(&inner, jobs).await;
    }
    office.0 = None;
    inner.queue.settled.notify_waiters();
}
