//! When the commits of a table were written, by their files.
//!
//! Invariant: times grow with the versions, whatever clock made them.
//! Spec: Delta PROTOCOL, "In-Commit Timestamps" (tables without them).

use tarndb_log::FileName;
use tarndb_storage::{ObjectInfo, Path};

/// Versions and file times, each at least one millisecond after the one before.
pub(super) fn file_times(listing: &[ObjectInfo], log: &Path) -> Vec<(u64, i64)> {
    let mut last = i64::MIN;
    let mut times = Vec::new();
    for object in listing {
        if let Some(FileName::Commit(version)) = FileName::parse(log, &object.key) {
            last = object.last_modified.0.max(last.saturating_add(1));
            times.push((version, last));
        }
    }
    times
}
