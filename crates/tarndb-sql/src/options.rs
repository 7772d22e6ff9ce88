//! What a caller may choose for a session.
//!
//! Invariant: every default is safe; a memory limit bounds the engine's pool and the writers
//! together.

use std::path::PathBuf;
use std::time::Duration;

use tarndb_storage::StoreOptions;
use tarndb_txn::Isolation;
use tarndb_types::Uuid;

/// Options of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Bytes that sorts, joins, aggregates and open files may hold together; `None`: no limit.
    pub memory_limit: Option<usize>,
    /// Where sorts spill to; `None`: the system's folder for temporary files.
    pub temp_dir: Option<PathBuf>,
    /// How long a statement may take; `None`: no limit. A commit on its way is waited for.
    pub statement_timeout: Option<Duration>,
    /// How long an autocommit statement is run again after retryable conflicts.
    pub retry_for: Duration,
    /// Id of the next transaction, chosen by the caller to ask for its outcome later.
    pub txn_id: Option<Uuid>,
    /// Isolation level where the statement says none.
    pub isolation: Isolation,
    /// Threads of one query; `None`: all cores.
    pub target_partitions: Option<usize>,
    /// Credentials and options of stores that statements name by URL.
    pub storage: StoreOptions,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            memory_limit: None,
            temp_dir: None,
            statement_timeout: None,
            retry_for: Duration::from_secs(120),
            txn_id: None,
            isolation: Isolation::Snapshot,
            target_partitions: None,
            storage: StoreOptions::default(),
        }
    }
}

/// The smallest limit that a session accepts.
const MEMORY_MIN: usize = 32 << 20;

impl SessionOptions {
    /// Bytes of the engine's memory pool.
    pub(crate) fn pool_bytes(&self) -> Option<usize> {
        self.memory_limit.map(|limit| limit.max(MEMORY_MIN) / 2)
    }

    /// Bytes that the open files of one writer may hold; `None`: the table's own default.
    pub(crate) fn writer_bytes(&self) -> Option<usize> {
        self.memory_limit.map(|limit| limit.max(MEMORY_MIN) / 4)
    }
}
