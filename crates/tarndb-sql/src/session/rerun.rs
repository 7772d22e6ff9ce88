//! Running a statement again after a conflict.
//!
//! Invariant: only what committed nothing runs again, and not for longer than the session says.
//! Spec: docs/sql/transactions.md.

use tarndb_db::{ErrorKind, Retry, RetryPolicy, Transaction, TxnOptions};

use super::Session;
use crate::error::SqlError;

/// Runs statements again after conflicts, by the database's policy.
#[derive(Debug)]
pub(crate) struct Rerun {
    retry: Retry,
    /// Whether the statement is satisfied by what others created or dropped meanwhile.
    conditional: bool,
}

impl Rerun {
    pub(crate) fn new(session: &Session) -> Self {
        let policy = RetryPolicy {
            deadline: session.options.retry_for,
            ..RetryPolicy::default()
        };
        Self {
            retry: Retry::new(&session.db, policy),
            conditional: false,
        }
    }

    /// Says whether the statement is satisfied by what others created or dropped meanwhile.
    pub(super) fn set_conditional(&mut self, conditional: bool) {
        self.conditional = conditional;
    }

    /// Begins the transaction of the next run.
    pub(crate) async fn begin(&mut self, options: TxnOptions) -> Result<Transaction, SqlError> {
        Ok(self.retry.begin(options).await?)
    }

    /// Waits before the next run, or gives the error back when it is final.
    pub(crate) async fn after(&mut self, error: SqlError) -> Result<(), SqlError> {
        let again = error.is_retryable()
            || (self.conditional && error.kind() == ErrorKind::ConflictIncompatible);
        let table = match &error {
            SqlError::Db(error) => error.conflict_table(),
            _ => None,
        };
        if self.retry.again_if(again, table, &error).await {
            Ok(())
        } else {
            Err(error)
        }
    }
}
