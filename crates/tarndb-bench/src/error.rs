//! What ends a measurement.

use std::fmt::Debug;

use tarndb_db::DbError;
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
    Db(#[from] DbError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A data file.
    #[error(transparent)]
    Table(#[from] TableError),
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
