//! `AttachError`: why a table cannot become one of the database, or stop being one.
//!
//! Invariant: every case names the table or its place, and the next step.

use thiserror::Error;

use crate::error::ErrorKind;

/// Why a table cannot be attached or detached.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachError {
    /// The root of the database, or a folder around it.
    #[error(
        "the place holds the database itself, name the folder of one table: url={url} root={root}"
    )]
    AroundRoot {
        /// As asked for.
        url: String,
        /// The database's.
        root: String,
    },
    /// A place that no table may have.
    #[error(
        "a table cannot lie there (a folder in the root whose name begins with _ or ., or one with a colon or backslash); move it: place={place}"
    )]
    BadPlace {
        /// The place.
        place: String,
    },
    /// The place of a table that the database has or had, or one in it or around it.
    #[error(
        "a table of this database has or had its place there, in it or around it: place={place} other={other}"
    )]
    PlaceTaken {
        /// As asked for.
        place: String,
        /// The other's.
        other: String,
    },
    /// The table's own log names the database, but the table is another one there: a copy, or the
    /// same by another URL.
    #[error(
        "the table says that it is one of this database, which has it elsewhere: it is a copy of that one, or the same by another path; copy its rows into a new table instead: place={place}"
    )]
    Copy {
        /// As asked for.
        place: String,
    },
    /// Nothing is there to attach.
    #[error("there is no Delta table (no commit in _delta_log): place={place}")]
    NotATable {
        /// As asked for.
        place: String,
    },
    /// Another process was first.
    #[error("the table was attached meanwhile: place={place}")]
    AttachedMeanwhile {
        /// As asked for.
        place: String,
    },
    /// The store does not tell whether the table is marked.
    #[error(
        "whether the table was marked as this database's is not known, the store did not answer; attach it again: place={place}"
    )]
    Pending {
        /// As asked for.
        place: String,
    },
    /// Others kept writing to the table.
    #[error("other writers won every version of the table, try again: place={place}")]
    Busy {
        /// As asked for.
        place: String,
    },
    /// Nobody would keep the files of a shallow clone once one of the two is not the database's.
    #[error(
        "table {table} shares files with {with}, of a shallow clone, so it stays: make a deep clone, drop the shallow one and vacuum, then detach"
    )]
    SharesFiles {
        /// Table.
        table: String,
        /// The clone, or the folders that the clone names files in.
        with: String,
    },
    /// Files outside of the database are not shared.
    #[error(
        "a shallow clone cannot name files outside of the database, where table {table} lies; make a deep one"
    )]
    ShallowOutside {
        /// The source.
        table: String,
    },
    /// An attached table is not dropped.
    #[error(
        "table {table} was there before the database, which does not delete it; give it back with DETACH TABLE"
    )]
    DropAttached {
        /// Table.
        table: String,
    },
}

impl AttachError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::AroundRoot { .. } | Self::BadPlace { .. } => ErrorKind::Invalid,
            Self::PlaceTaken { .. } | Self::AttachedMeanwhile { .. } => ErrorKind::AlreadyExists,
            Self::Copy { .. }
            | Self::DropAttached { .. }
            | Self::SharesFiles { .. }
            | Self::ShallowOutside { .. } => ErrorKind::Unsupported,
            Self::NotATable { .. } => ErrorKind::NotFound,
            Self::Pending { .. } => ErrorKind::Pending,
            Self::Busy { .. } => ErrorKind::ConflictRetryable,
        }
    }
}
