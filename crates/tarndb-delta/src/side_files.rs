//! What is written beside a version once it stands: its checksum, and the compaction that it
//! makes due.
//!
//! Invariant: of published versions only; a failure costs readers some work, and is no failure
//! of a commit.
//! Does not: write checkpoints.
//! Spec: docs/format/delta.md, "Log compactions"; docs/format/native.md, "After a commit".

use std::collections::BTreeMap;

use tarndb_storage::{Path, Store};
use tarndb_table::TableState;

use crate::checksum::store_checksum;
use crate::compaction::write_compaction;
use crate::error::DeltaError;
use crate::path;

/// Commits that one compaction stands for; without it none are written.
pub(crate) const COMPACTION_INTERVAL: &str = "tarndb.logCompactionInterval";

/// Writes what is due beside `state`'s version, which is published; versions from `since` on
/// have not had their turn.
///
/// # Errors
/// The first failure, after all was tried.
///
/// # Cost
/// One PUT; with a compaction one PUT more, and a GET for each of its commits.
pub(crate) async fn write_side_files(
    store: &Store,
    location: &Path,
    state: &TableState,
    since: u64,
    txn_id: Option<&str>,
) -> Result<(), DeltaError> {
    let log = path::log_dir(location);
    let checksum = store_checksum(store, &log, state, txn_id).await;
    let compaction = match due(&state.properties, since, state.version.0) {
        Some((first, last)) => write_compaction(store, &log, first, last).await.map(|_| ()),
        None => Ok(()),
    };
    checksum.and(compaction)
}

/// The newest range that became complete between versions `since` and `last`.
fn due(properties: &BTreeMap<String, String>, since: u64, last: u64) -> Option<(u64, u64)> {
    let told = properties.get(COMPACTION_INTERVAL)?;
    let interval: u64 = told.trim().parse().ok().filter(|told| *told >= 2)?;
    let count = last.checked_add(1)?;
    let end = (count - count % interval).checked_sub(1)?;
    (end >= since).then(|| (end + 1 - interval, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_due_once_with_the_version_that_completes_it() {
        for (told, since, last, expected) in [
            (Some("10"), 9, 9, Some((0, 9))),
            (Some("10"), 8, 8, None),
            (Some("10"), 10, 10, None),
            (Some("10"), 19, 19, Some((10, 19))),
            // A pass of several versions: the newest range that it completed.
            (Some("10"), 5, 31, Some((20, 29))),
            (Some("10"), 30, 31, None),
            (Some(" 2 "), 0, 1, Some((0, 1))),
            (Some("2"), 0, 0, None),
            (Some("1"), 0, 9, None),
            (Some("x"), 0, 9, None),
            (Some("18446744073709551615"), 0, 9, None),
            (None, 0, 9, None),
        ] {
            let properties = told.map(|told| (COMPACTION_INTERVAL.to_owned(), told.to_owned()));
            let found = due(&properties.into_iter().collect(), since, last);
            assert_eq!(found, expected, "{told:?} {since} {last}");
        }
    }
}
