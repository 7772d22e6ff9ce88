//! `Authority`: who decides which commit of a table is the next one.
//!
//! Invariant: what only a database's tables have (the managed feature, the database's domain,
//! in-commit timestamps whether asked for or not) follows from this value alone.
//! Spec: docs/format/delta.md, "A commit"; docs/format/native.md, "A commit".

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authority {
    /// A database: its log ratifies, the table's own log follows.
    Database,
    /// The table's own log, side by side with other engines.
    OwnLog {
        /// Only adds, and nothing of the table was read.
        blind_append: bool,
    },
}

impl Authority {
    /// Is the table one that a database manages?
    pub(crate) fn is_database(self) -> bool {
        self == Self::Database
    }

    /// May `commitInfo` say that the commit is a blind append? What a transaction of a database
    /// read is not known to the encoder, and "not blind" is always safe.
    pub(crate) fn is_blind_append(self) -> bool {
        self == Self::OwnLog { blind_append: true }
    }
}
