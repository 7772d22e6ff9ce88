//! What ends a measurement.

use std::fmt::Debug;

use tarndb_db::{DbError, TransactError};
use tarndb_delta::NativeError;
use tarndb_storage::StoreError;
use tarndb_table::TableError;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An argument that cannot be used.
    #[error("argument {key}: {reason}")]
    Argument {
        /// Its name.
        key: String,
        /// What to write instead.
        reason: String,
    },
    /// The data does not fit what was acknowledged.
    #[error("wrong result: {what}: expected {expected}, found {found}")]
    Wrong {
        /// What was compared.
        what: &'static str,
        /// What was acknowledged.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The database.
    #[error(transparent)]
    Db(Box<DbError>),
    /// A table by path.
    #[error(transparent)]
    Native(Box<NativeError>),
    /// The store.
    #[error(transparent)]
    Store(Box<StoreError>),
    /// A data file.
    #[error(transparent)]
    Table(Box<TableError>),
    /// A batch that could not be built.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// Input, output or a runtime.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A task that died.
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
}

impl From<DbError> for BenchError {
    fn from(error: DbError) -> Self {
        Self::Db(Box::new(error))
    }
}

impl TransactError for BenchError {
    fn as_db_error(&self) -> Option<&DbError> {
        match self {
            Self::Db(error) => Some(error),
            _ => None,
        }
    }
}

impl From<TableError> for BenchError {
    fn from(error: TableError) -> Self {
        Self::Table(Box::new(error))
    }
}

impl From<NativeError> for BenchError {
    fn from(error: NativeError) -> Self {
        Self::Native(Box::new(error))
    }
}

impl From<StoreError> for BenchError {
    fn from(error: StoreError) -> Self {
        Self::Store(Box::new(error))
    }
}

/// Fails unless the two are equal.
pub(crate) fn expect_equal<T: PartialEq + Debug>(
    what: &'static str,
    expected: &T,
    found: &T,
) -> Result<(), BenchError> {
    if expected == found {
        return Ok(());
    }
    Err(BenchError::Wrong {
        what,
        expected: format!("{expected:?}"),
        found: format!("{found:?}"),
    })
}
