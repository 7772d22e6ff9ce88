//! Verdict and conflict: the answer of the algebra, as values.
//!
//! Invariant: verdicts form a total order by strictness, and ties between conflicts are broken
//! by their content, so the strictest of a set does not depend on the order of evaluation.
//! Does not know names: the caller adds the table's.
//! Spec: docs/conflicts.md, "Verdicts".

use std::fmt;

use tarndb_types::{DbVersion, TableId, TxnId};

use crate::operation::Operation;
use crate::reason::Reason;

/// Can ours be committed after theirs?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it is.
    Compatible,
    /// After it is encoded anew against the head: vectors united, metadata changes re-applied,
    /// an overwrite's removes taken anew.
    Rebase,
    /// Not as it is, but running the statements again on the new snapshot is right.
    Retryable(Conflict),
    /// No, and running it again by itself would hide something from the user.
    Incompatible(Conflict),
}

impl Verdict {
    /// 0 (compatible) to 3 (incompatible).
    #[must_use]
    pub const fn strictness(&self) -> u8 {
        match self {
            Self::Compatible => 0,
            Self::Rebase => 1,
            Self::Retryable(_) => 2,
            Self::Incompatible(_) => 3,
        }
    }

    /// The stricter of two; commutative and associative.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        match (self, other) {
            (Self::Incompatible(a), Self::Incompatible(b)) => Self::Incompatible(a.min(b)),
            (Self::Retryable(a), Self::Retryable(b)) => Self::Retryable(a.min(b)),
            (a, b) if a.strictness() >= b.strictness() => a,
            (_, b) => b,
        }
    }

    /// The conflict, when there is one.
    #[must_use]
    pub const fn conflict(&self) -> Option<&Conflict> {
        match self {
            Self::Compatible | Self::Rebase => None,
            Self::Retryable(conflict) | Self::Incompatible(conflict) => Some(conflict),
        }
    }
}

/// Why ours cannot be committed after theirs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The table at issue; `None` when it is a schema or a name.
    pub table: Option<TableId>,
    /// What we wanted.
    pub ours: Operation,
    /// What they did.
    pub theirs: Operation,
    /// The version of their record.
    pub version: DbVersion,
    /// Their transaction.
    pub txn: TxnId,
    /// The point where the two meet.
    pub reason: Reason,
}

impl Conflict {
    /// Running the statements again on the new snapshot is right.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        self.reason.is_retryable()
    }

    /// One sentence on what happened and one on what to do, with the table's name when the
    /// caller knows it.
    #[must_use]
    pub fn describe(&self, table_name: Option<&str>) -> String {
        let table = match (table_name, self.table) {
            (Some(name), _) => format!(" of {name}"),
            (None, Some(id)) => format!(" of table {id}"),
            (None, None) => String::new(),
        };
        let Self {
            ours,
            theirs,
            version,
            txn,
            reason,
            ..
        } = self;
        format!(
            "{ours}{table} conflicts with {theirs} committed in version {version} by \
             transaction {txn}: {reason}; {advice}",
            advice = reason.advice(),
        )
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(None))
    }
}

impl std::error::Error for Conflict {}

// Errors carry conflicts by value.
const _: () = assert!(size_of::<Conflict>() <= 128);
