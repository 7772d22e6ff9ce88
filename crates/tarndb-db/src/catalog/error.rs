//! `ObjectError`: why a view, a tag or a dropped table cannot be had or made.
//!
//! Invariant: every case names the object, and the next step where one is not obvious.

use tarndb_table::time_text;
use tarndb_types::{DbVersion, TimestampMs};
use thiserror::Error;

use crate::error::ErrorKind;

/// Why a view, a tag or a dropped table cannot be had or made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectError {
    /// A view that is not there.
    #[error("view {name} does not exist")]
    ViewNotFound {
        /// As asked for.
        name: String,
    },
    /// A tag that is not there.
    #[error("tag {name} does not exist")]
    TagNotFound {
        /// As asked for.
        name: String,
    },
    /// A tag that is there.
    #[error("tag {name} exists already (names that differ by case only are equal)")]
    TagExists {
        /// As asked for.
        name: String,
    },
    /// A version whose files a vacuum may have deleted.
    #[error(
        "database version {wanted} cannot be kept any more, a vacuum removed what only versions below {horizon} need"
    )]
    BelowHorizon {
        /// As asked for.
        wanted: DbVersion,
        /// The oldest version that stays readable.
        horizon: DbVersion,
    },
    /// A time before the oldest record that is there, or one that is yet to come.
    #[error("the database has no version of {}; {}", time_text(wanted.0), known(*first, *last))]
    NoVersionAt {
        /// As asked for.
        wanted: TimestampMs,
        /// Time of the oldest version found, when the time is before it.
        first: Option<TimestampMs>,
        /// Time of the newest.
        last: TimestampMs,
    },
    /// No dropped table of that name.
    #[error("no dropped table is called {name}")]
    NothingDropped {
        /// As asked for.
        name: String,
    },
    /// A dropped table whose files are gone.
    #[error("table {name} was dropped in version {dropped} and a vacuum removed its files")]
    Purged {
        /// The table.
        name: String,
        /// The version that dropped it.
        dropped: DbVersion,
    },
    /// A table that the open transaction dropped.
    #[error("table {name} was dropped by this transaction; ROLLBACK, or COMMIT first")]
    DroppedHere {
        /// The table.
        name: String,
    },
    /// A database that goes back in a transaction that changed something.
    #[error("the database goes back as a whole: the transaction has changed something already")]
    RestoreAfterChanges,
    /// A table that came to the database, or left it, with its own log.
    #[error("table {name} was {since} since that version, which no restore can undo; {next}")]
    Foreign {
        /// The table.
        name: String,
        /// What was done to it.
        since: &'static str,
        /// What to do.
        next: &'static str,
    },
}

fn known(first: Option<TimestampMs>, last: TimestampMs) -> String {
    match first {
        Some(first) => format!("the oldest that is there is of {}", time_text(first.0)),
        None => format!("the newest is of {}", time_text(last.0)),
    }
}

impl ObjectError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TagExists { .. } => ErrorKind::AlreadyExists,
            Self::RestoreAfterChanges | Self::DroppedHere { .. } | Self::Foreign { .. } => {
                ErrorKind::Invalid
            }
            _ => ErrorKind::NotFound,
        }
    }
}
