//! Strict rules: what two concurrent transactions of a native Lance table mean for each other.
//!
//! Other Lance writers take part in such a table, so the rules are those of the Lance
//! specification's code, not ours: a transaction is summarised as a [`LanceOp`], and [`judge`]
//! compares the one that wants to commit (*ours*) with one committed since the version it read
//! (*theirs*). The decision is a table, [`matrix::STRICT`], whose cells name rules; verdicts,
//! tests and `docs/conflicts.md` are derived from it.
//!
//! Invariant: a pure function of its arguments; no store, clock or format. Where a verdict needs
//! deletion vectors that the caller has not decoded, [`rows_needed`] names the fragments.
//! Does not: read manifests, write the merged files, commit.
//! Spec: docs/conflicts.md, "Strict rules".

pub mod config;
pub mod index;
pub mod keys;
pub mod kind;
pub mod matrix;
pub mod operation;
pub mod reason;
pub mod rule;
pub mod sample;
pub mod verdict;

mod decide;
mod judge;

pub use config::{ConfigChange, MetadataChange};
pub use index::{IndexChange, RemovedSegment, RowDomain, Segment};
pub use judge::{judge, judge_by, rows_needed};
pub use keys::{KeyFilter, KeySet};
pub use kind::LanceKind;
pub use operation::{
    Base, Coverage, DeletedRows, FieldId, FieldSet, FileList, FragmentId, FragmentSet, Generation,
    KeptFragment, LanceOp, Remap, Rewrite, RowChange, SchemaChange, Targets, Update, UpdateMode,
};
pub use reason::Reason;
pub use rule::Rule;
pub use verdict::{Committed, Conflict, TableFacts, Verdict, Work};
