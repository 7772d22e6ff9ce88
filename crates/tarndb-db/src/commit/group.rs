//! One round of the leader: several transactions, one record, one conditional put.
//!
//! Invariant: a transaction is answered by what the log holds and by nothing else. One that
//! meets another of the same record is left for the next round: only when the record is in the
//! log is there a conflict, and if it is not, there may be none. An error therefore ends only a
//! transaction with nothing before it in the record. While the version is in doubt, the same
//! bytes are sent and nobody in them is answered.
//! Spec: docs/format/log.md, "Group commit".

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tarndb_txn::Committed as Judged;
use tarndb_types::DbVersion;

use super::encode::{EncodedTxn, Encoder};
use super::outcome::{Put, put};
use super::queue::Job;
use super::tip::{Encoded, Tip};
use super::vectors::StoredVectors;
use super::{check_not_diverged, check_writable, earlier};
use crate::catalog::Catalog;
use crate::database::Inner;
use crate::error::{DbError, EarlierCommit};
use crate::publish;
use crate::transaction::Committed;

/// Transactions judged at the same time.
const JUDGED_AT_ONCE: usize = 16;

/// A record's transactions, in its order.
struct Group {
    tip: Tip,
    jobs: Vec<Job>,
    /// What they do, rebased onto those before.
    effects: Vec<Judged>,
    /// Jobs for the next round.
    left_over: Vec<Job>,
}

/// Commits as many of the jobs as fit into one record; gives back those for the next round.
pub(super) async fn commit(inner: &Arc<Inner>, jobs: Vec<Job>) -> Vec<Job> {
    let head = match fresh_head(inner).await {
        Ok(head) => head,
        Err(error) => return fail(jobs, error),
    };
    let mut group = Group {
        tip: Tip::new(Arc::clone(&head)),
        jobs: Vec::new(),
        effects: Vec::new(),
        left_over: Vec::new(),
    };
    for job in judge(jobs, &head).await {
        group.take(inner, job).await;
    }
    if group.jobs.is_empty() {
        return group.left_over;
    }
    group.put(inner).await
}

async fn fresh_head(inner: &Inner) -> Result<Arc<Catalog>, DbError> {
    if inner.head.age() > inner.options.head_expiry {
        inner.refresh().await?;
    }
    let head = inner.head.catalog();
    check_writable(&head)?;
    Ok(head)
}

/// Judges the jobs up to the head; what does not get through is answered.
async fn judge(jobs: Vec<Job>, head: &Arc<Catalog>) -> Vec<Job> {
    let judged = futures::stream::iter(jobs).map(|mut job| {
        let head = Arc::clone(head);
        async move {
            let found = job.resolver.catch_up(&head).await;
            (job, found)
        }
    });
    let mut judged = judged.buffered(JUDGED_AT_ONCE);
    let mut through = Vec::new();
    while let Some((mut job, found)) = judged.next().await {
        match found {
            Ok(None) => {
                if job.resolver.take_met_vacuum() {
                    job.vectors = StoredVectors::default();
                }
                through.push(job);
            }
            Ok(Some(version)) => {
                let txn = job.txn.id;
                let committed = earlier(&job.txn, EarlierCommit { txn, version });
                job.answer(Ok(committed));
            }
            Err(error) => job.answer(Err(error)),
        }
    }
    through
}

impl Group {
    /// Takes a job into the record, or leaves it for the next.
    async fn take(&mut self, inner: &Inner, mut job: Job) {
        match self.encode(inner, &mut job).await {
            Ok(Some(())) => self.jobs.push(job),
            Err(error) if self.jobs.is_empty() => job.answer(Err(error)),
            Ok(None) | Err(_) => {
                inner.metrics.note_deferred();
                self.left_over.push(job);
            }
        }
    }

    /// `None` when it must wait for the next record.
    async fn encode(&mut self, inner: &Inner, job: &mut Job) -> Result<Option<()>, DbError> {
        check_not_diverged(inner, &job.txn, self.tip.head())?;
        if self.jobs.iter().any(|other| other.txn.id == job.txn.id) {
            return Ok(None);
        }
        let Some(effects) = job.resolver.after(&self.effects) else {
            return Ok(None);
        };
        let encoder = Encoder::new(inner, &job.txn, &effects, &self.tip);
        let mut encoded = encoder.encode(&mut job.vectors).await?;
        if self.jobs.is_empty() {
            encoded.stage_large(inner).await?;
        } else if self.tip.bytes() + encoded.text.len() > inner.options.record_bytes_max {
            return Ok(None);
        }
        let (version, txn) = (self.tip.next_version(), job.txn.id);
        let catalog = self.tip.push(encoded)?.catalog;
        let effects = tarndb_txn::Effects { catalog, ..effects };
        self.effects.push(Judged {
            version,
            txn,
            effects,
            evidence: tarndb_txn::Evidence::none(),
        });
        Ok(Some(()))
    }

    /// Puts the record and answers everybody in it, unless another's is there.
    async fn put(mut self, inner: &Arc<Inner>) -> Vec<Job> {
        let encoded = match self.tip.seal(inner) {
            Ok(encoded) => encoded,
            Err(error) => return self.one_by_one(inner, error).await,
        };
        if let Err(error) = self.check_clock(inner, &encoded).await {
            fail(self.jobs, error);
            return self.left_over;
        }
        for job in &mut self.jobs {
            job.attempts += 1;
            job.set_sent(true);
        }
        inner.metrics.note_attempt();
        let deadline = self.deadline(inner);
        let begun = inner.context().monotonic();
        match put(inner, &encoded, deadline).await {
            Ok(Put::Committed) => {
                let now = inner.context().monotonic();
                inner.turns.note_committed(encoded.version, begun, now);
                self.acknowledge(inner, encoded.version);
                self.left_over
            }
            Ok(Put::Lost { is_fresh }) => self.lost(inner, is_fresh).await,
            Ok(Put::Ended(end)) => {
                for job in self.jobs {
                    let error = end.error(encoded.version, job.txn.reference());
                    job.answer(Err(error));
                }
                self.left_over
            }
            Err(error) => {
                fail(self.jobs, error);
                self.left_over
            }
        }
    }

    /// The record would not replay: whoever is at fault is found by being alone in one.
    async fn one_by_one(self, inner: &Arc<Inner>, error: DbError) -> Vec<Job> {
        let mut jobs = self.jobs;
        if jobs.len() <= 1 {
            fail(jobs, error);
            return self.left_over;
        }
        let mut left_over = jobs.split_off(1);
        left_over.extend(self.left_over);
        let mut first = Box::pin(commit(inner, jobs)).await;
        first.append(&mut left_over);
        first
    }

    async fn check_clock(&self, inner: &Inner, encoded: &Encoded) -> Result<(), DbError> {
        let before = self.tip.head().timestamp();
        let checked = inner
            .clock
            .before_commit(&inner.store, before, encoded.timestamp);
        checked.await
    }

    /// How long the record is pursued: what is left to the transaction that waits longest, but
    /// a quarter of the whole time at least. So those behind a store that does not answer are
    /// told soon after their own time is over.
    fn deadline(&self, inner: &Inner) -> Duration {
        let whole = inner.options.commit_deadline;
        let now = inner.context().monotonic();
        let waited = self.jobs.iter().map(|job| now.saturating_sub(job.since));
        let left = whole.saturating_sub(waited.max().unwrap_or_default());
        left.max(whole / 4)
    }

    fn acknowledge(&mut self, inner: &Arc<Inner>, version: DbVersion) {
        let tip = std::mem::replace(&mut self.tip, Tip::new(inner.head.catalog()));
        let jobs = std::mem::take(&mut self.jobs);
        inner.metrics.note_record(jobs.len());
        let txns = tip.into_txns();
        // Everybody's changes are noted before anybody can act on them.
        for encoded in &txns {
            note_committed(inner, version, encoded);
        }
        publish::wake(inner);
        let now = inner.context().monotonic();
        for (job, encoded) in jobs.into_iter().zip(txns) {
            inner.metrics.note_waited(now.saturating_sub(job.since));
            let mut notices = job.txn.notices();
            notices.extend(encoded.notices);
            let committed = Committed {
                version: Some(version),
                txn: job.txn.reference(),
                notices,
                attempts: job.attempts,
            };
            job.answer(Ok(committed));
        }
    }

    /// All jobs again, on top of the record that was first.
    async fn lost(self, inner: &Inner, is_fresh: bool) -> Vec<Job> {
        inner.metrics.note_lost_put();
        for job in &self.jobs {
            job.set_sent(false);
        }
        let jobs: Vec<Job> = self.jobs.into_iter().chain(self.left_over).collect();
        if is_fresh {
            return jobs;
        }
        // An attempt on an older head is lost before it begins.
        match inner.refresh().await {
            Ok(()) => jobs,
            Err(error) => fail(jobs, error),
        }
    }
}

fn note_committed(inner: &Inner, version: DbVersion, encoded: &EncodedTxn) {
    let entries = encoded
        .states
        .iter()
        .map(|(id, state)| (*id, state.version));
    publish::note_commit(inner, version, entries);
    for (table, state) in &encoded.states {
        inner.caches.put_state(*table, Arc::clone(state));
    }
}

/// Answers all jobs with one error.
fn fail(jobs: Vec<Job>, error: DbError) -> Vec<Job> {
    let mut jobs = jobs;
    match (jobs.pop(), jobs.is_empty()) {
        (Some(only), true) => only.answer(Err(error)),
        (last, _) => {
            let error = Arc::new(error);
            for job in jobs.into_iter().chain(last) {
                let error = error.share(job.txn.reference());
                job.answer(Err(error));
            }
        }
    }
    Vec::new()
}
