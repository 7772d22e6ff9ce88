//! `NativeError`: how an operation on a table of its own log can end without a commit.
//!
//! Invariant: every case but `Pending` and `OutcomeExpired` means that nothing was committed.
//! Spec: docs/format/native.md, "Outcomes".

use std::time::Duration;

use tarndb_log::LogError;
use tarndb_storage::StoreError;
use tarndb_table::TableError;
use tarndb_types::TxnId;

use super::conflict::Conflict;
use super::convert::ConvertError;
use crate::error::DeltaError;

/// Why nothing was committed, or why that is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// Another writer committed first, and both cannot stand.
    #[error("another writer committed first, run the statement again ({0})")]
    Conflict(Conflict),
    /// A table that was to be created is there.
    #[error("the table exists already: location={location}")]
    Exists {
        /// Its store.
        location: String,
    },
    /// The store did not answer in time.
    #[error(
        "outcome not known yet, ask for it when the store answers again: transaction={txn}, \
         version={version}, waited={} ms",
        waited.as_millis()
    )]
    Pending {
        /// The transaction.
        txn: TxnId,
        /// The version that was tried.
        version: u64,
        /// How long the store was asked.
        waited: Duration,
        /// Its last answer, if it gave one.
        #[source]
        source: Option<Box<StoreError>>,
    },
    /// The writer slept while the log was cleaned up, and what it wrote may lie below that.
    #[error(
        "outcome not known: the log was cleaned up while this writer slept: transaction={txn}, \
         version={version}"
    )]
    OutcomeExpired {
        /// The transaction.
        txn: TxnId,
        /// The version that was written.
        version: u64,
    },
    /// Others kept winning until the time was up.
    #[error("other writers won every version for {} ms: nothing was committed", waited.as_millis())]
    Busy {
        /// For how long.
        waited: Duration,
    },
    /// Rows that are to be deleted are not live.
    #[error("rows to be deleted are not there (any more): file={file}, rows={rows}")]
    RowsNotLive {
        /// Path of the file.
        file: String,
        /// How many.
        rows: u64,
    },
    /// Rows that an overwrite of some partitions brings lie in another partition.
    #[error(
        "the new rows lie outside of what is replaced: partition={partition}; restrict the query \
         to the predicate"
    )]
    OutsideOfPredicate {
        /// Its values.
        partition: String,
    },
    /// A predicate that must be decided by partition values alone.
    #[error(
        "only partition columns can say what is replaced: column={column}; delete the rows and \
         insert the new ones"
    )]
    NotAPartitionColumn {
        /// The column.
        column: String,
    },
    /// A column that is to be NOT NULL has NULL in a row that is deleted but still in its file.
    #[error(
        "a deleted row has NULL in the column, and readers see the column before they see that \
         the row is deleted: column={column}; compact the table first"
    )]
    NullInDeletedRow {
        /// The column.
        column: String,
    },
    /// Files that an earlier version has are not in the store any more.
    #[error(
        "version {version} of the table cannot be restored, files of it are gone (a vacuum \
         deletes what only old versions need): files={count}, first={file}; restore a newer one"
    )]
    FilesGone {
        /// The version.
        version: u64,
        /// Path of one of them.
        file: String,
        /// How many.
        count: usize,
    },
    /// A folder of Parquet files that cannot be made a table.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// The source of the rows failed.
    #[error("the rows to be written could not be read")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The table's log.
    #[error(transparent)]
    Log(Box<LogError>),
    /// The table or the store.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl NativeError {
    /// Is running the statement again right, on the newer version?
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Conflict(conflict) => conflict.kind.is_retryable(),
            _ => false,
        }
    }

    /// Is there no table at all?
    pub fn is_no_table(&self) -> bool {
        let Self::Table(TableError::Format { source, .. }) = self else {
            return false;
        };
        let source = source.downcast_ref::<DeltaError>();
        matches!(source, Some(DeltaError::NotATable { .. }))
    }

    pub(super) fn from_log(txn: TxnId, error: LogError) -> Self {
        match error {
            LogError::Pending {
                version,
                waited,
                source,
            } => Self::Pending {
                txn,
                version,
                waited,
                source: source.map(Box::new),
            },
            LogError::NotStored { source, .. } | LogError::Store(source) => source.into(),
            other => Self::Log(Box::new(other)),
        }
    }
}

impl From<DeltaError> for NativeError {
    fn from(error: DeltaError) -> Self {
        Self::Table(error.into())
    }
}

impl From<StoreError> for NativeError {
    fn from(error: StoreError) -> Self {
        Self::Table(error.into())
    }
}
