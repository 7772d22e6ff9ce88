//! Running a transaction again after a conflict: when, how often, and after whom.
//!
//! Invariant: only what is retryable runs again, on a new snapshot: decided anew, never sent
//! again. Who has lost often waits less than who has just begun, and in the end has priority
//! over the others of its handle, so that nobody starves.
//! Spec: docs/guide/rust.md, "Retries".

use std::collections::BTreeSet;
use std::time::Duration;

use tarndb_types::TableId;

use crate::database::Database;
use crate::error::DbError;
use crate::options::TxnOptions;
use crate::priority::Priority;
use crate::transaction::{Committed, Transaction};

/// The first pause, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// Executions lost before one gets priority over the others of its handle.
const LOST_BEFORE_PRIORITY: u32 = 4;
/// How long priority lasts: so many times the longest execution so far, but not less than this.
const PRIORITY_EXECUTIONS: u32 = 4;
const PRIORITY_MIN: Duration = Duration::from_millis(250);

/// How long and how often a transaction is run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After so long a conflict is final.
    pub deadline: Duration,
    /// After so many executions a conflict is final.
    pub attempts_max: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(120),
            attempts_max: u32::MAX,
        }
    }
}

/// The executions of one transaction, one after the other.
#[derive(Debug)]
pub struct Retry {
    db: Database,
    policy: RetryPolicy,
    start: Duration,
    begun: Duration,
    longest: Duration,
    lost: u32,
    /// Tables in which it met the others.
    tables: BTreeSet<TableId>,
    priority: Option<Priority>,
}

impl Retry {
    /// Before the first execution.
    #[must_use]
    pub fn new(db: &Database, policy: RetryPolicy) -> Self {
        let now = db.inner.context().monotonic();
        Self {
            db: db.clone(),
            policy,
            start: now,
            begun: now,
            longest: Duration::ZERO,
            lost: 0,
            tables: BTreeSet::new(),
            priority: None,
        }
    }

    /// Executions that ended in a conflict.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Begins the transaction of the next execution.
    ///
    /// # Errors
    /// As [`Database::begin`].
    pub async fn begin(&mut self, options: TxnOptions) -> Result<Transaction, DbError> {
        self.begun = self.db.inner.context().monotonic();
        if let Some(priority) = &self.priority {
            priority.begin((self.longest * PRIORITY_EXECUTIONS).max(PRIORITY_MIN));
        }
        let mut txn = self.db.begin(options).await?;
        txn.priority = self.priority.as_ref().map(Priority::id);
        Ok(txn)
    }

    /// Waits before the next execution; false when there is none: the error is final.
    pub async fn again(&mut self, error: &DbError) -> bool {
        let table = error.conflict_table();
        self.again_if(error.is_retryable(), table, error).await
    }

    /// The same for a caller that knows better whether running again is right, and in which
    /// table it met another.
    pub async fn again_if(
        &mut self,
        retryable: bool,
        table: Option<TableId>,
        error: &(dyn std::error::Error + Sync),
    ) -> bool {
        let context = self.db.inner.context().clone();
        let now = context.monotonic();
        self.longest = self.longest.max(now.saturating_sub(self.begun));
        self.lost = self.lost.saturating_add(1);
        let waited = now.saturating_sub(self.start);
        if !retryable || waited >= self.policy.deadline || self.lost >= self.policy.attempts_max {
            return false;
        }
        tracing::debug!(lost = self.lost, %error, "running the transaction again");
        self.db.inner.metrics.note_reexecution();
        self.tables.extend(table);
        if self.lost >= LOST_BEFORE_PRIORITY && !self.tables.is_empty() {
            self.take_priority().await;
        } else {
            context
                .sleep(context.jittered(pause(self.lost, waited)))
                .await;
        }
        true
    }

    async fn take_priority(&mut self) {
        let covers = |priority: &Priority| priority.covers(&self.tables);
        if self.priority.as_ref().is_some_and(covers) {
            return;
        }
        // Given up before another is taken: nobody waits for a place while holding one.
        self.priority = None;
        let taken = Priority::take(&self.db.inner, self.tables.clone()).await;
        self.db.inner.metrics.note_priority();
        self.priority = Some(taken);
    }
}

/// Grows with what was lost, and shrinks again for whoever has waited long: across processes
/// the oldest waiter comes first.
fn pause(lost: u32, waited: Duration) -> Duration {
    let grown = PAUSE_FIRST.saturating_mul(1 << lost.min(10)).min(PAUSE_MAX);
    match waited.as_secs() {
        0..2 => grown,
        2..10 => grown / 4,
        _ => PAUSE_FIRST,
    }
}

/// An error of a transaction's work, which may be one of the database.
pub trait TransactError: From<DbError> {
    /// The database's error in it, which says whether running again is right.
    fn as_db_error(&self) -> Option<&DbError>;
}

impl TransactError for DbError {
    fn as_db_error(&self) -> Option<&DbError> {
        Some(self)
    }
}

impl TransactError for Box<dyn std::error::Error + Send + Sync> {
    fn as_db_error(&self) -> Option<&DbError> {
        self.downcast_ref()
    }
}

impl Database {
    /// Runs `work` with a transaction, which it gives back, and commits that; after a retryable conflict runs it again,
    /// in a new transaction on a new snapshot, as the policy says. What `work` does beside the
    /// transaction happens as often as it runs.
    ///
    /// # Errors
    /// What `work` gives, at once unless it is a retryable error of the database; the last
    /// conflict, when the policy allows no more; as [`Transaction::commit`].
    ///
    /// # Cost
    /// As [`Self::begin`] and [`Transaction::commit`], for each execution.
    pub async fn transact<T, E, F>(
        &self,
        options: TxnOptions,
        policy: RetryPolicy,
        mut work: impl FnMut(Transaction) -> F,
    ) -> Result<(T, Committed), E>
    where
        E: TransactError,
        F: Future<Output = Result<(Transaction, T), E>>,
    {
        let mut retry = Retry::new(self, policy);
        loop {
            let txn = retry.begin(options.clone()).await?;
            let error = match work(txn).await {
                Ok((txn, value)) => match txn.commit().await {
                    Ok(committed) => return Ok((value, committed)),
                    Err(error) => E::from(error),
                },
                Err(error) => error,
            };
            let again = match error.as_db_error() {
                Some(error) => retry.again(error).await,
                None => false,
            };
            if !again {
                return Err(error);
            }
        }
    }
}
