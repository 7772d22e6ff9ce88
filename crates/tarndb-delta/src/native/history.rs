//! The history of a table by path: what its commits say of themselves.
//!
//! Invariant: free-form words of other engines never fail it; a commit that says nothing is
//! listed with its version and time.
//! Spec: Delta PROTOCOL, "Commit Provenance Information".

use futures::{StreamExt, TryStreamExt};
use tarndb_storage::{Path, Store};
use tarndb_table::TableError;

use super::times::file_times;
use crate::action::{Action, CommitInfo, parse_commit};
use crate::error::DeltaError;
use crate::load::commit_key;
use crate::path;

const PARALLEL_READS: usize = 16;

/// One commit.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEntry {
    /// Its version.
    pub version: u64,
    /// When it was committed, ms since 1970 UTC: the in-commit timestamp, else the time of its
    /// file.
    pub timestamp_ms: i64,
    /// What it says of itself: operation, parameters, metrics and so on.
    pub info: CommitInfo,
}

/// The newest `limit` commits whose files are still there, newest first.
///
/// # Errors
/// `NotATable`; a commit that cannot be read.
///
/// # Cost
/// One LIST and one GET per commit.
pub async fn native_history(store: &Store, limit: usize) -> Result<Vec<HistoryEntry>, TableError> {
    Ok(history(store, limit).await?)
}

async fn history(store: &Store, limit: usize) -> Result<Vec<HistoryEntry>, DeltaError> {
    let log = path::log_dir(&Path::default());
    let commits = file_times(&store.list_after(&log, None).await?, &log);
    if commits.is_empty() {
        return Err(DeltaError::NotATable {
            location: log.to_string(),
        });
    }
    let newest = commits.into_iter().rev().take(limit);
    let entries = futures::stream::iter(newest)
        .map(|(version, time)| entry(store, &log, version, time))
        .buffered(PARALLEL_READS);
    entries.try_collect().await
}

async fn entry(
    store: &Store,
    log: &Path,
    version: u64,
    file_time: i64,
) -> Result<HistoryEntry, DeltaError> {
    let key = commit_key(log, version);
    let actions = parse_commit(&store.get_required(&key).await?, key.as_ref())?;
    let info = actions.into_iter().find_map(|action| match action {
        Action::CommitInfo(info) => Some(info),
        _ => None,
    });
    let info = info.unwrap_or_default();
    Ok(HistoryEntry {
        version,
        timestamp_ms: info.in_commit_timestamp.unwrap_or(file_time),
        info,
    })
}
