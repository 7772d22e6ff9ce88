//! Time travel by timestamp, where a table's commits state their times; the times of files are
//! not part of the set.

use tarndb_delta::{NativeTarget, open_native};
use tarndb_storage::Store;
use tarndb_table::TableState;

/// Compares what is found at the times of `states` with them; tells at how many.
pub(super) async fn compare_times(
    store: &Store,
    states: &[TableState],
    problems: &mut Vec<String>,
) -> Option<String> {
    let stated = |state: &TableState| {
        let on = state.properties.get("delta.enableInCommitTimestamps")?;
        let time = state.in_commit_timestamp?;
        (on == "true").then_some((state.version.0, time))
    };
    let times: Vec<(u64, i64)> = states.iter().filter_map(stated).collect();
    // A case has its times set by hand, against the protocol: which version a time means is open.
    if !times.is_sorted_by(|(_, earlier), (_, later)| earlier < later) {
        return Some(", times do not grow".to_owned());
    }
    for (version, time) in &times {
        let found = open_native(store, NativeTarget::Timestamp(*time)).await;
        match found.map(|state| state.version.0) {
            Ok(found) if found == *version => {}
            other => problems.push(format!("at {time}: {other:?}, not version {version}")),
        }
        // A moment before, it was not there yet.
        let before = open_native(store, NativeTarget::Timestamp(time - 1)).await;
        match before.map(|state| state.version.0) {
            Ok(found) if found < *version => {}
            Err(_) => {}
            Ok(found) => problems.push(format!("before {time}: version {found}")),
        }
    }
    (!times.is_empty()).then(|| format!(", times of {}", times.len()))
}
