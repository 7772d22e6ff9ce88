//! Which files of a table are so many and so small that joining them pays off.
//!
//! Invariant: pure. Only files of about one size are joined, so that a row is written anew once
//! for each size it passes through, and not with every file that comes; what was joined is of
//! the next size. A table that says no is left alone.
//! Spec: docs/guide/maintenance.md, "By itself".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tarndb_table::{DataFile, TableState};

/// Property of a table: `false` leaves its small files alone.
pub const AUTO_COMPACT_PROPERTY: &str = "tarndb.autoCompact";
/// The same as Delta calls it.
const DELTA_AUTO_COMPACT: &str = "delta.autoOptimize.autoCompact";

/// Each size is so many times the one below.
const SIZE_STEP: u64 = 8;
/// Bytes of the smallest size: below it all files are equal.
const SIZE_FIRST: u64 = 64 << 10;

/// Files that are to be joined: of each partition those of a size of which there are at least
/// `files_min`. Empty when nothing is due.
pub(super) fn due(state: &TableState, target_bytes: u64, files_min: usize) -> BTreeSet<String> {
    if is_switched_off(state) || state.files.len() < files_min {
        return BTreeSet::new();
    }
    let clustered = !state.clustering_columns.is_empty();
    let mut sizes: BTreeMap<(Arc<str>, u32), Vec<String>> = BTreeMap::new();
    for file in state.files.values() {
        // Joining a clustered file with others would undo the clustering.
        let kept = clustered && file.clustering_provider.is_some();
        if file.size_bytes >= target_bytes / SIZE_STEP || kept {
            continue;
        }
        let key = (partition(&file), size(file.size_bytes));
        sizes.entry(key).or_default().push(file.path.clone());
    }
    let due = sizes.into_values().filter(|files| files.len() >= files_min);
    due.flatten().collect()
}

fn is_switched_off(state: &TableState) -> bool {
    let is_no = |key: &str| {
        let setting = state.properties.get(key)?;
        Some(["false", "off"].contains(&setting.trim().to_lowercase().as_str()))
    };
    is_no(AUTO_COMPACT_PROPERTY)
        .or_else(|| is_no(DELTA_AUTO_COMPACT))
        .unwrap_or(false)
}

/// A name for the partition, unique among those of the table.
fn partition(file: &DataFile) -> Arc<str> {
    format!("{:?}", file.partition_values).into()
}

fn size(bytes: u64) -> u32 {
    (bytes / SIZE_FIRST).max(1).ilog(SIZE_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_steps_of_eight() {
        let sizes = [0, 1, (512 << 10) - 1, 512 << 10, 4 << 20, 32 << 20].map(size);
        assert_eq!(sizes, [0, 0, 0, 1, 2, 3]);
    }
}
