//! The change feed of the acceptance tables.

use futures::TryStreamExt;
use serde_json::Value;
use tarndb_delta::changes::change_schema;
use tarndb_delta::native_changes;
use tarndb_storage::{Path, Store};
use tarndb_table::TableError;

use super::{chain, compare};
use crate::checksum::Sums;

/// Ranges whose expectation only one reader gave, for a table whose log contradicts it.
const DISPUTED: [(u64, u64); 0] = [];

/// Compares all ranges; says how many there were.
pub(super) async fn compare_feed(
    store: &Store,
    expected: &Value,
    problems: &mut Vec<String>,
) -> Option<String> {
    let ranges = expected["change_feed"].as_array()?;
    for range in ranges {
        let bound = |name: &str| range[name].as_u64().unwrap();
        let (first, last) = (bound("start"), bound("end"));
        if DISPUTED.contains(&(first, last)) {
            continue;
        }
        let at = format!("changes {first} to {last}");
        match (sums(store, first, last).await, range.get("error")) {
            (Ok(_), Some(why)) => problems.push(format!("{at} must fail: {why}")),
            (Err(_), Some(_)) => {}
            (Err(error), None) => problems.push(format!("{at}: {}", chain(&error))),
            (Ok(sums), None) => {
                let count = range["row_count"].as_u64();
                compare(&format!("{at} rows"), Some(sums.rows), count, problems);
                if let Some(sum) = range["rows_checksum"].as_str() {
                    let found = format!("{:016x}", sums.all);
                    compare(&at, found.as_str(), sum, problems);
                }
            }
        }
    }
    Some(format!(", {} ranges of changes", ranges.len()))
}

async fn sums(store: &Store, first: u64, last: u64) -> Result<Sums, TableError> {
    let feed = native_changes(store, first, Some(last)).await?;
    let mut fields = change_schema(&feed.schema).fields;
    // File times are not preserved in the set.
    fields.pop();
    let mut sums = Sums::default();
    let mut batches = feed.batches(store.clone(), Path::default());
    while let Some(batch) = batches.try_next().await? {
        sums.add(&batch, &fields);
    }
    Ok(sums)
}
