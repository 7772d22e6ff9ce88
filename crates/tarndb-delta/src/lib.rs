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
//! - `bases`: where the paths of a clone may lead.
//! - `checksum`, `compaction`, `side_files`: what stands beside commits and checkpoints.
//! - `references`, `log_cleanup`: which files are needed, and which of the log can go.
//! - [`changes`]: the change feed.
//! - [`native`]: any Delta table by path.

pub mod action;
pub mod changes;
pub mod codec;
pub mod column_mapping;
pub mod effects;
pub mod error;
pub mod feature;
pub mod native;
pub mod schema_json;
pub mod state;

mod bases;
mod checkpoint;
mod checksum;
mod clustering;
mod compaction;
mod dv;
mod encode;
mod load;
mod log_cleanup;
mod path;
mod property;
mod references;
mod replay;
mod side_files;
mod stats_json;
mod type_changes;

pub use bases::Bases;
pub use codec::DeltaCodec;
pub use encode::same_definition;
pub use error::DeltaError;
pub use native::{
    CatalogTail, Compacted, Conflict, ConflictKind, ConvertError, Converted, HistoryEntry,
    NativeCommit, NativeError, NativeIsolation, NativeTable, NativeTarget, RatifiedCommit,
    RatifiedContent, Reads, ReplacedPartitions, convert_to_delta, native_changes, native_history,
    open_native, open_with_tail,
};
pub use native::{Mark, Marked, mark_managed};
pub use native::{NativeCleaned, NativeCleanup, NativeVacuum};
pub use references::vector_file;
pub use state::DeltaState;
