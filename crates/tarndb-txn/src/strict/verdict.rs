//! Verdict and conflict of the strict rules, as values.
//!
//! Invariant: a conflict names both operations, the committed version and transaction, the rule
//! and the point where the two meet; the reason alone says whether running again is right.
//! Does not know the table's name: the caller adds it.
//! Spec: docs/conflicts.md, "Verdicts", "Strict rules".

use std::fmt;

use tarndb_types::{TableVersion, Uuid};

use super::kind::LanceKind;
use super::operation::{FragmentSet, Generation, LanceOp};
use super::reason::Reason;
use super::rule::Rule;

/// A transaction committed since the version that ours read.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// The version it made.
    pub version: TableVersion,
    /// Its uuid, as it is stored.
    pub txn: String,
    /// What it did.
    pub op: LanceOp,
}

/// What the rules ask of the table itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// Rows have stable ids.
    pub stable_row_ids: bool,
    /// The fragment reuse index records tagged transitions.
    pub tagged_reuse: bool,
}

/// Can ours be committed after theirs?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it is.
    Compatible,
    /// After this work.
    Rebase(Vec<Work>),
    /// Not as it is, but running the operation again on the new version is right.
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
            Self::Rebase(_) => 1,
            Self::Retryable(_) => 2,
            Self::Incompatible(_) => 3,
        }
    }

    /// The conflict, when there is one.
    #[must_use]
    pub const fn conflict(&self) -> Option<&Conflict> {
        match self {
            Self::Compatible | Self::Rebase(_) => None,
            Self::Retryable(conflict) | Self::Incompatible(conflict) => Some(conflict),
        }
    }
}

/// What a rebase has to do besides building on the new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Write the union of the current deletion file and the rows affected; a fragment all of
    /// whose rows are deleted is removed.
    UniteVectors {
        /// The fragments.
        fragments: FragmentSet,
    },
    /// Take fragments out of the coverage of a segment that ours publishes.
    WithdrawCoverage {
        /// The segment.
        segment: Uuid,
        /// The fragments.
        fragments: FragmentSet,
    },
    /// Withdraw coverage of what was rewritten along the lineage of the tagged reuse index.
    WithdrawByLineage,
    /// Build the fragment reuse index (or its trim) again on the current entry.
    RebuildReuse,
    /// Publish, per shard, the higher generation.
    RaiseGenerations {
        /// Those committed.
        committed: Vec<Generation>,
    },
}

/// Why ours cannot be committed after theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What we wanted.
    pub ours: LanceKind,
    /// What they did.
    pub theirs: LanceKind,
    /// The version they made.
    pub version: TableVersion,
    /// Their transaction.
    pub txn: String,
    /// The rule that decided.
    pub rule: Rule,
    /// The point where the two meet.
    pub reason: Reason,
}

impl Conflict {
    /// Running the operation again on the new version is right.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        self.reason.is_retryable()
    }

    /// One sentence on what happened and one on what to do, with the table's name when the
    /// caller knows it.
    #[must_use]
    pub fn describe(&self, table_name: Option<&str>) -> String {
        let Self {
            ours,
            theirs,
            version,
            txn,
            reason,
            ..
        } = self;
        let table = table_name.map_or_else(String::new, |name| format!(" of {name}"));
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
