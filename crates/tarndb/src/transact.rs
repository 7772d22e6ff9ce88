//! `Database::transact`: a transaction that runs again after a conflict.
//!
//! Invariant: each run is a new transaction on a new snapshot; nothing of a run that met a
//! conflict is visible to anybody.

use std::error::Error as _;

use tarndb_db::{Committed, DbError, Retry, RetryPolicy, TxnOptions};

use crate::database::Database;
use crate::error::{Error, Result};
use crate::transaction::Transaction;

/// An error of a transaction's work, which may be one of this crate.
pub trait TransactError: From<Error> {
    /// This crate's error in it, which says whether running again is right.
    fn as_error(&self) -> Option<&Error>;
}

impl TransactError for Error {
    fn as_error(&self) -> Option<&Error> {
        Some(self)
    }
}

impl TransactError for Box<dyn std::error::Error + Send + Sync> {
    fn as_error(&self) -> Option<&Error> {
        self.downcast_ref()
    }
}

impl Database {
    /// Runs `work` with a transaction, which it gives back, and commits that; after a retryable conflict runs it again,
    /// on what is committed by then. A transaction that loses again and again gets priority
    /// over the others of this handle. What `work` does beside the transaction happens as
    /// often as it runs.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> tarndb::Result<()> {
    /// # let db = tarndb::Database::create("memory://transact").await?;
    /// # let mut session = db.session()?;
    /// session.run("CREATE TABLE visits (day BIGINT)").await?;
    /// let batches = session.query("SELECT CAST(1 AS BIGINT) AS day").await?;
    /// let rows = db
    ///     .transact(|mut txn| async {
    ///         let rows = txn.append("visits", batches.clone()).await?;
    ///         Ok::<_, tarndb::Error>((txn, rows))
    ///     })
    ///     .await?;
    /// assert_eq!(rows, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `work` gives, at once unless it is a retryable
    /// [`Conflict`](crate::ErrorKind::Conflict); the last conflict after two minutes;
    /// [`Pending`](crate::ErrorKind::Pending) when the store does not answer.
    ///
    /// # Cost
    /// As [`Self::begin`] and [`Transaction::commit`], for each run.
    pub async fn transact<T, E, F>(&self, work: impl FnMut(Transaction) -> F) -> Result<T, E>
    where
        E: TransactError,
        F: Future<Output = Result<(Transaction, T), E>>,
    {
        let (options, policy) = (TxnOptions::default(), RetryPolicy::default());
        let (value, _) = self.transact_with(options, policy, work).await?;
        Ok(value)
    }

    /// As [`Self::transact`], with an isolation level, an id or user metadata, and with bounds
    /// of time and number of runs; tells the commit too.
    pub async fn transact_with<T, E, F>(
        &self,
        options: TxnOptions,
        policy: RetryPolicy,
        mut work: impl FnMut(Transaction) -> F,
    ) -> Result<(T, Committed), E>
    where
        E: TransactError,
        F: Future<Output = Result<(Transaction, T), E>>,
    {
        let mut retry = Retry::new(self.inner(), policy);
        loop {
            let begun = retry.begin(options.clone()).await.map_err(Error::from)?;
            let error = match work(Transaction::new(begun)).await {
                Ok((txn, value)) => match txn.commit().await {
                    Ok(committed) => return Ok((value, committed)),
                    Err(error) => E::from(error),
                },
                Err(error) => error,
            };
            let again = match error.as_error() {
                Some(known) => {
                    let table = known.source().and_then(conflict_table);
                    retry.again_if(known.is_retryable(), table, known).await
                }
                None => false,
            };
            if !again {
                return Err(error);
            }
        }
    }
}

fn conflict_table(source: &(dyn std::error::Error + 'static)) -> Option<tarndb_types::TableId> {
    source.downcast_ref::<DbError>()?.conflict_table()
}
