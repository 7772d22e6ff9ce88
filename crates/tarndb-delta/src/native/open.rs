//! Opening a Delta table by path, to read it.
//!
//! Invariant: protocol, schema and files are those of the version read.
//! Spec: Delta PROTOCOL, "Requirements for Readers"; in-commit timestamps for time travel.

use tarndb_storage::{Path, Store};
use tarndb_table::{TableError, TableState};

use super::times::file_times;
use crate::action::{Action, parse_commit};
use crate::error::DeltaError;
use crate::load::{commit_key, load_own_log};
use crate::path;

/// Which version of a table to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeTarget {
    /// The newest.
    Latest,
    /// This one.
    Version(u64),
    /// The newest not after this time, ms since 1970 UTC.
    Timestamp(i64),
}

/// Opens the Delta table at the root of `store`.
///
/// # Errors
/// Not a table, damage, an unknown reader feature (by name), a version or time that is not
/// there.
///
/// # Cost
/// One GET (hint), one LIST, the checkpoint and the commits after it; for a timestamp twice
/// that and a GET per step of a binary search.
pub async fn open_native(store: &Store, target: NativeTarget) -> Result<TableState, TableError> {
    let root = Path::default();
    let version = match target {
        NativeTarget::Latest => None,
        NativeTarget::Version(version) => Some(version),
        NativeTarget::Timestamp(at) => Some(version_at(store, &root, at).await?),
    };
    Ok(load_own_log(store, &root, version).await?)
}

/// The newest version not after `at`; a time that is yet to come has none.
pub(super) async fn version_at(store: &Store, location: &Path, at: i64) -> Result<u64, DeltaError> {
    let latest = load_own_log(store, location, None).await?;
    let log = path::log_dir(location);
    let listing = store.list_after(&log, None).await?;
    let commits = file_times(&listing, &log);
    let properties = &latest.properties;
    let number = |key: &str| {
        properties
            .get(key)
            .and_then(|text| text.parse::<i64>().ok())
    };
    let on = properties
        .get("delta.enableInCommitTimestamps")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let enabled_version = number("delta.inCommitTimestampEnablementVersion").unwrap_or(0);
    let enabled_at = number("delta.inCommitTimestampEnablementTimestamp").unwrap_or(i64::MIN);
    let by_own_time = |version: u64| i64::try_from(version).is_ok_and(|v| v >= enabled_version);

    let none = |first: i64, last: i64| DeltaError::NoVersionAt {
        wanted: at,
        first,
        last,
    };
    let now = store.context().now().0;
    if at > now {
        let last = latest
            .in_commit_timestamp
            .or(commits.last().map(|(_, time)| *time));
        return Err(none(enabled_at.max(0), last.unwrap_or(now)));
    }
    if on && at >= enabled_at {
        let versions: Vec<u64> = commits
            .iter()
            .map(|(version, _)| *version)
            .filter(|v| by_own_time(*v))
            .collect();
        if let Some(version) = search(store, &log, &versions, at).await? {
            return Ok(version);
        }
        let first = match versions.first() {
            Some(version) => in_commit_timestamp(store, &log, *version).await?,
            None => enabled_at,
        };
        return Err(none(first, latest.in_commit_timestamp.unwrap_or(first)));
    }
    let old = commits
        .iter()
        .filter(|(version, _)| !on || !by_own_time(*version));
    let old: Vec<(u64, i64)> = old.copied().collect();
    let found = old
        .iter()
        .rev()
        .find(|(_, time)| *time <= at)
        .map(|(version, _)| *version);
    let time = |entry: Option<&(u64, i64)>| entry.map_or(0, |(_, time)| *time);
    found.ok_or_else(|| none(time(old.first()), time(old.last())))
}

/// The last of `versions` whose in-commit timestamp is not after `at`.
async fn search(
    store: &Store,
    log: &Path,
    versions: &[u64],
    at: i64,
) -> Result<Option<u64>, DeltaError> {
    let (mut low, mut high) = (0, versions.len());
    while low < high {
        let middle = low.midpoint(high);
        let Some(version) = versions.get(middle) else {
            break;
        };
        if in_commit_timestamp(store, log, *version).await? <= at {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low
        .checked_sub(1)
        .and_then(|last| versions.get(last))
        .copied())
}

async fn in_commit_timestamp(store: &Store, log: &Path, version: u64) -> Result<i64, DeltaError> {
    let key = commit_key(log, version);
    let actions = parse_commit(&store.get_required(&key).await?, key.as_ref())?;
    let stated = actions.iter().find_map(|action| match action {
        Action::CommitInfo(info) => info.in_commit_timestamp,
        _ => None,
    });
    stated.ok_or_else(|| DeltaError::LyingCheckpoint {
        file: key.to_string(),
        reason: "the commit has no in-commit timestamp although the table has them on".to_owned(),
    })
}
