//! `TravelError`: why a table cannot be had as it was.
//!
//! Invariant: every case names the version or time asked for and what there is instead.

use tarndb_table::time_text;
use tarndb_types::{TableVersion, TimestampMs};
use thiserror::Error;

use crate::error::ErrorKind;

/// Why a table cannot be had as it was.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TravelError {
    /// A version above the newest that the snapshot has.
    #[error("table {table} has no version {wanted} yet; its newest is {newest}")]
    NotYet {
        /// Table.
        table: String,
        /// As asked for.
        wanted: TableVersion,
        /// The newest.
        newest: TableVersion,
    },
    /// A version whose commits are gone from the table's own log.
    #[error(
        "version {wanted} of table {table} was cleaned up; {}",
        instead(*oldest)
    )]
    CleanedUp {
        /// Table.
        table: String,
        /// As asked for.
        wanted: TableVersion,
        /// The oldest that is there, when one is.
        oldest: Option<TableVersion>,
    },
    /// A version whose files a vacuum may have deleted.
    #[error(
        "version {wanted} of table {table} cannot be read any more, a vacuum removed what only older versions need; {}",
        instead(*oldest)
    )]
    Vacuumed {
        /// Table.
        table: String,
        /// As asked for.
        wanted: TableVersion,
        /// The oldest that the vacuum left readable; `None`: no one below the newest.
        oldest: Option<TableVersion>,
    },
    /// A time before the oldest version that is there, or one that is yet to come.
    #[error(
        "table {table} has no version of {}; its versions are of {} to {}; ask for a time from the first on that is not yet to come",
        time_text(wanted.0), time_text(first.0), time_text(last.0)
    )]
    NoVersionAt {
        /// Table.
        table: String,
        /// As asked for.
        wanted: TimestampMs,
        /// Time of the oldest version that is there.
        first: TimestampMs,
        /// Time of the newest.
        last: TimestampMs,
    },
    /// A table that the transaction itself created.
    #[error(
        "table {table} was created by this transaction and has no earlier version; commit first"
    )]
    CreatedHere {
        /// Table.
        table: String,
    },
    /// A range of versions that ends before it begins.
    #[error("changes go from an older version to a newer one; swap them: from={from} to={to}")]
    Backwards {
        /// As asked for.
        from: TableVersion,
        /// As asked for.
        to: TableVersion,
    },
}

impl TravelError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Backwards { .. } => ErrorKind::Invalid,
            _ => ErrorKind::NotFound,
        }
    }
}

fn instead(oldest: Option<TableVersion>) -> String {
    oldest.map_or_else(
        || "no older version than the newest is there".to_owned(),
        |oldest| format!("ask for version {oldest} or a newer one"),
    )
}
