//! `Metrics`: what commits through a handle came to, counted since it was opened.
//!
//! Invariant: counting never waits and never fails; the counts carry no promise and nothing is
//! decided by them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tarndb_txn::Reason;

use crate::database::Database;

/// Counts of one handle since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Transactions committed; those without changes are not counted.
    pub commits: u64,
    /// Records put: several transactions that commit at the same time share one.
    pub records: u64,
    /// Transactions in the largest record.
    pub group_txns_max: u64,
    /// Records tried, `records` and `lost_puts` included.
    pub attempts: u64,
    /// Attempts that found another's record at their version.
    pub lost_puts: u64,
    /// Times that a transaction waited for the next record because one before it in the same
    /// record was in its way, or because the record was full.
    pub deferred: u64,
    /// Committed transactions that were met and after which ours was rebased.
    pub rebases: u64,
    /// Conflicts, by reason; each ended one execution of a transaction.
    pub conflicts: BTreeMap<&'static str, u64>,
    /// Transactions executed again after a conflict, by `transact` or a SQL session.
    pub reexecutions: u64,
    /// Times that a transaction that had lost often was let through before the others.
    pub priorities: u64,
    /// From the call of a commit to its answer, summed over the transactions committed.
    pub waited: Duration,
}

impl Metrics {
    /// All conflicts.
    #[must_use]
    pub fn conflicts_total(&self) -> u64 {
        self.conflicts.values().sum()
    }
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct MetricsCells {
    counts: Mutex<Metrics>,
}

impl MetricsCells {
    pub(crate) fn note_attempt(&self) {
        self.lock().attempts += 1;
    }

    pub(crate) fn note_lost_put(&self) {
        self.lock().lost_puts += 1;
    }

    pub(crate) fn note_record(&self, txns: usize) {
        let mut counts = self.lock();
        let txns = u64::try_from(txns).unwrap_or(u64::MAX);
        counts.records += 1;
        counts.commits += txns;
        counts.group_txns_max = counts.group_txns_max.max(txns);
    }

    pub(crate) fn note_waited(&self, waited: Duration) {
        let mut counts = self.lock();
        counts.waited = counts.waited.saturating_add(waited);
    }

    pub(crate) fn note_deferred(&self) {
        self.lock().deferred += 1;
    }

    pub(crate) fn note_rebase(&self) {
        self.lock().rebases += 1;
    }

    pub(crate) fn note_conflict(&self, reason: &Reason) {
        *self
            .lock()
            .conflicts
            .entry(reason_name(reason))
            .or_default() += 1;
    }

    pub(crate) fn note_reexecution(&self) {
        self.lock().reexecutions += 1;
    }

    pub(crate) fn note_priority(&self) {
        self.lock().priorities += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Metrics> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason's kind, as metrics count it.
const fn reason_name(reason: &Reason) -> &'static str {
    match reason {
        Reason::SameRows { .. } => "same rows",
        Reason::FilesDropped { .. } => "files dropped",
        Reason::SameFiles { .. } => "same files",
        Reason::FilesMoved { .. } | Reason::BothMoved { .. } => "files moved",
        Reason::Overwritten | Reason::OverwriteSource | Reason::OverwrittenMove => "overwritten",
        Reason::ReadChanged { .. } | Reason::NameChanged { .. } => "read changed",
        Reason::AppTxn { .. } => "application transaction",
        Reason::Dropped { .. }
        | Reason::Renamed
        | Reason::IdTaken
        | Reason::SchemaChanged { .. }
        | Reason::SchemaDropped { .. }
        | Reason::NameTaken { .. }
        | Reason::ViewChanged { .. }
        | Reason::TagChanged { .. }
        | Reason::SourceDetached { .. }
        | Reason::LocationTaken { .. } => "catalog",
        Reason::SchemaReplaced { .. }
        | Reason::RequiredColumn { .. }
        | Reason::IdentityTaken { .. }
        | Reason::ObeyedProperty { .. }
        | Reason::ObeyedFeature { .. }
        | Reason::Column { .. }
        | Reason::Comment { .. }
        | Reason::SchemasDiffer
        | Reason::Property { .. } => "metadata",
        _ => "other",
    }
}

impl Database {
    /// What commits through this handle and its clones came to since it was opened.
    ///
    /// # Cost
    /// No request.
    pub fn metrics(&self) -> Metrics {
        self.inner.metrics.lock().clone()
    }
}
