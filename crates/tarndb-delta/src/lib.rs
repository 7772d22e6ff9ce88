//! The Delta Lake format behind `TableCodec`: actions, replay, checkpoints, deletion vectors.
//!
//! Invariant: what another engine wrote is read by the rules of the format or refused by
//! name; what is written here other engines read. Does not: commit managed tables (that is
//! `tarndb-db`), know how data files are read and written (`tarndb-table`).
//! Spec: Delta PROTOCOL; docs/format/publishing.md.
//!
//! - [`action`]: the lines of a commit.
//! - [`schema_json`], [`column_mapping`], `stats_json`, `path`, `dv`: the parts of actions with a form of their own.
//! - `replay`, `load`, [`state`]: from actions to a table's state; `checkpoint`: both ways.
//! - [`feature`], `property`: what this build may read and write, and which properties it obeys.
//! - `encode`, [`effects`], [`codec`]: commits.
//! - `encode`, [`effects`], [`codec`]: commits of managed tables.
//! - `references`, `log_cleanup`: which files are needed, and which of the log can go.
//! - [`native`]: any Delta table by path.

pub mod action;
pub mod codec;
pub mod column_mapping;
pub mod effects;
pub mod error;
pub mod feature;
pub mod native;
pub mod schema_json;
pub mod state;

mod checkpoint;
mod dv;
mod encode;
mod load;
mod log_cleanup;
mod path;
mod property;
mod references;
mod replay;
mod stats_json;

pub use codec::DeltaCodec;
pub use error::DeltaError;
pub use native::{
    Compacted, Conflict, ConflictKind, NativeCommit, NativeError, NativeIsolation, NativeTable,
    NativeTarget, Reads, ReplacedPartitions, open_native,
};
pub use state::DeltaState;
