//! The change feed: which rows each commit inserted, deleted and updated.
//!
//! Invariant: a commit that names files of changes changed exactly the rows in them; otherwise
//! its changes are the rows of the files it added and removed and of the vectors it replaced. A
//! range over which the feed was off, or whose columns do not fit together, is refused.
//! Does not: find the commits (`native::changes` does, or a database).
//! Spec: Delta PROTOCOL, "Change Data Feed"; docs/format/delta.md, "Change feed".
//!
//! - [`plan`]: pure, from actions to what is to be read; `fit`: which schemas fit together.
//! - `read`: the rows.

mod fit;
mod plan;
mod read;

#[cfg(test)]
mod tests;

pub use plan::{ChangeFeed, ChangeKind, ChangeRead, FeedPlanner, VersionChanges};
pub use read::change_schema;

/// Column that says what happened to a row.
pub const CHANGE_TYPE: &str = "_change_type";
/// Column with the version of the commit.
pub const COMMIT_VERSION: &str = "_commit_version";
/// Column with the time of the commit.
pub const COMMIT_TIMESTAMP: &str = "_commit_timestamp";
