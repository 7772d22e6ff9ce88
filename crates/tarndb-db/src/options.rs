//! What a caller may choose when opening a database or beginning a transaction.
//!
//! Invariant: every default is safe; no option changes what is promised, only when work is done.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tarndb_table::HeldLimits;
use tarndb_txn::Isolation;
use tarndb_types::{DbVersion, TxnId};

use crate::upkeep::UpkeepOptions;

/// When committed table versions are written into the tables' own logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PublishMode {
    /// In the background, flushed by `Database::close`.
    #[default]
    Async,
    /// Before a commit returns.
    Sync,
    /// Only by `Database::publish`.
    Manual,
}

/// Options of a database handle.
#[derive(Clone, Debug)]
pub struct DbOptions {
    /// When to publish.
    pub publish: PublishMode,
    /// Records between two catalog checkpoints; 0 writes none.
    pub checkpoint_interval: u64,
    /// Published versions between two checkpoints of a table; 0 writes none.
    pub table_checkpoint_interval: u64,
    /// How long a commit whose outcome is unknown is pursued before it ends as pending.
    pub commit_deadline: Duration,
    /// A handle that has not seen the head for so long opens anew: the records after its
    /// version may have been cleaned up. At most a quarter of the smallest log retention.
    pub head_expiry: Duration,
    /// Records that a cleanup of the log leaves at least, whatever their age.
    pub log_records_min: u64,
    /// Entries whose record would exceed this many bytes are staged; at most 1 MiB.
    pub record_bytes_max: usize,
    /// Transactions that share a record at most, when several commit through this handle at the
    /// same time; 1 gives each a record of its own.
    pub group_txns_max: usize,
    /// Bytes of rows and keys that the source of an upsert may take in memory.
    pub upsert_bytes_max: usize,
    /// Bytes of data files that a commit looks into, per table and committed transaction in its
    /// way, to see whether rows added there have its keys or match its predicates. Above it that
    /// is taken for granted, and the commit fails with a retryable conflict.
    pub evidence_bytes_max: u64,
    /// Data files of up to so many bytes ride in the log record of their transaction instead of
    /// being stored by it; 0 stores all.
    pub inline_file_bytes_max: usize,
    /// Bytes of such files in one transaction at most.
    pub inline_bytes_max: usize,
    /// Bytes of changed rows (the columns that its predicates use) that the commit of a
    /// serializable transaction reads to see whether they are among the rows that it read. Above
    /// it that is taken for granted, and the commit fails with a retryable conflict.
    pub serializable_read_budget_bytes: u64,
    /// Table states kept in memory by this handle.
    pub cached_states_max: usize,
    /// What the handle does for its tables by itself, in the background.
    pub upkeep: UpkeepOptions,
    /// Whether an opened handle may write by itself (publish what it finds unpublished).
    pub background: bool,
}

impl Default for DbOptions {
    fn default() -> Self {
        Self {
            publish: PublishMode::Async,
            checkpoint_interval: 100,
            table_checkpoint_interval: 10,
            commit_deadline: Duration::from_secs(60),
            head_expiry: Duration::from_secs(15 * 60),
            log_records_min: 1000,
            record_bytes_max: crate::record::RECORD_BYTES_MAX,
            group_txns_max: 64,
            upsert_bytes_max: 256 << 20,
            evidence_bytes_max: 8 << 20,
            inline_file_bytes_max: 64 << 10,
            inline_bytes_max: 256 << 10,
            serializable_read_budget_bytes: 32 << 20,
            cached_states_max: 64,
            upkeep: UpkeepOptions::OFF,
            background: true,
        }
    }
}

impl DbOptions {
    /// The shortest time for which records are kept, and files without being forced: an hour
    /// unless [`Self::head_expiry`], its quarter, is changed.
    pub fn retention_min(&self) -> Duration {
        self.head_expiry.saturating_mul(4)
    }

    /// The same with another [`Self::head_expiry`], and with [`Self::log_records_min`] in
    /// proportion: what stands for minutes and days then stands for less. For tests; every
    /// process that uses the database must be given the same.
    #[must_use]
    pub fn with_head_expiry(self, head_expiry: Duration) -> Self {
        let share = head_expiry.as_secs_f64() / self.head_expiry.as_secs_f64();
        let records = (self.log_records_min as f64 * share) as u64;
        Self {
            head_expiry,
            log_records_min: records.max(1),
            ..self
        }
    }

    /// Which files a writer of this handle holds for the record.
    pub fn held_limits(&self) -> HeldLimits {
        HeldLimits {
            file_bytes_max: self.inline_file_bytes_max,
            total_bytes_max: self.inline_bytes_max,
        }
    }
}

/// Options of a transaction.
#[derive(Clone, Debug, Default)]
pub struct TxnOptions {
    /// Snapshot unless said otherwise.
    pub isolation: Isolation,
    /// The caller's own id, to ask for the outcome later; a retry with it commits once, within
    /// the retention of the log. Its commit reads the records back to the time that a version 7
    /// id begins with; with any other id all of them.
    pub id: Option<TxnId>,
    /// Kept in the record.
    pub user_metadata: BTreeMap<String, Value>,
    /// Begin at this version, which the caller has read before, and pin it: the commit fails
    /// with [`crate::DbError::ReadVersionChanged`] when anything was committed since that
    /// changed a table which the transaction writes or notes as read. `None`: what others
    /// commit meanwhile is in the way only where it conflicts.
    pub read_version: Option<DbVersion>,
    /// Begin at the newest version this handle knows, without asking the store. For
    /// statements that read nothing: their commit is then one PUT and no GET.
    pub cached_snapshot: bool,
}
