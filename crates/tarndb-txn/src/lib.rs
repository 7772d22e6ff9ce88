//! Conflict algebra: what two concurrent transactions mean for each other.
//!
//! A transaction is summarised as [`Effects`]. [`judge`] compares the effects of one that
//! wants to commit (*ours*) with one that was committed since its snapshot (*theirs*) and
//! answers with a [`Verdict`]. The decision is a table, [`matrix`], from which the verdict,
//! the tests and `docs/conflicts.md` are derived.
//!
//! Invariant: a pure function of its arguments; no store, clock, format or engine. Where a
//! verdict needs data that the caller has not decoded, [`rows_needed`] and [`questions`] say
//! which.
//! Does not: retry, re-encode or commit; that is `tarndb-db`.
//! Spec: docs/conflicts.md.

pub mod aspect;
pub mod effects;
pub mod evidence;
pub mod key_set;
pub mod matrix;
pub mod operation;
pub mod property;
pub mod reason;
pub mod row_map;
pub mod rows;
pub mod rule;
pub mod strict;
pub mod verdict;

mod decide;
mod judge;
mod needs;
mod rebase;

pub use effects::{
    CatalogEffect, Committed, ConfigEffect, Effects, OverwriteKind, Read, SchemaEffect,
    TableEffects,
};
pub use evidence::{Answer, Evidence, Question};
pub use judge::{judge, judge_by};
pub use key_set::KeySet;
pub use needs::{questions, row_map_needed, rows_needed};
pub use operation::{Isolation, Operation};
pub use property::writer_obeys;
pub use reason::Reason;
pub use rebase::rebase;
pub use row_map::{Carried, RowMap, Run, Source, Target};
pub use rows::{FileRows, FileSample, Removal, RowSample, RowSet, Touched};
pub use verdict::{Conflict, Verdict};
