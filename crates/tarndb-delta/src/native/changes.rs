//! The change feed of a table by path.
//!
//! Invariant: a range is answered whole or refused; commits that are gone are told.
//! Spec: Delta PROTOCOL, "Change Data Feed"; docs/format/delta.md, "Change feed".

use futures::{StreamExt, TryStreamExt};
use tarndb_log::SegmentError;
use tarndb_storage::{Path, Store};
use tarndb_table::{Entry, TableError, TableState};
use tarndb_types::TableVersion;

use super::times::file_times;
use crate::changes::{ChangeFeed, FeedPlanner};
use crate::error::DeltaError;
use crate::load::{commit_key, load_own_log};
use crate::path;

const PARALLEL_READS: usize = 16;

/// The changes of versions `first` to `last` (both included; the newest when `None`) of the
/// table at the root of `store`.
///
/// # Errors
/// `ChangeFeedOff` when the feed was off at a version of the range, `ChangeFeedSchema` when
/// columns were dropped, renamed or changed within it, `ChangeRange` for versions that are not
/// there; everything reading can meet.
///
/// # Cost
/// That of opening the table at `first - 1`, a LIST, and one GET per commit of the range.
pub async fn native_changes(
    store: &Store,
    first: u64,
    last: Option<u64>,
) -> Result<ChangeFeed, TableError> {
    Ok(changes(store, first, last).await?)
}

async fn changes(store: &Store, first: u64, last: Option<u64>) -> Result<ChangeFeed, DeltaError> {
    let root = Path::default();
    let log = path::log_dir(&root);
    let times = file_times(&store.list_after(&log, None).await?, &log);
    let newest = load_own_log(store, &root, None).await?.version.0;
    let last = last.unwrap_or(newest);
    let range = DeltaError::ChangeRange {
        first,
        last,
        newest,
    };
    if first > last || last > newest {
        return Err(range);
    }
    let planner = match first.checked_sub(1) {
        None => FeedPlanner::after(None),
        Some(before) => begin(store, &root, before).await?,
    };
    let commits = futures::stream::iter(first..=last)
        .map(|version| read_commit(store, &log, version))
        .buffered(PARALLEL_READS);
    let plan = commits.try_fold(planner, |mut planner, entry| {
        let listed = times
            .iter()
            .find(|(version, _)| *version == entry.version.0);
        let time = listed.map_or(0, |(_, time)| *time);
        let planned = planner.commit(&entry, time).map(|()| planner);
        futures::future::ready(planned)
    });
    plan.await?.finish()?.ok_or(range)
}

/// From the state at `before` if it is still there, else from the one after.
async fn begin(store: &Store, root: &Path, before: u64) -> Result<FeedPlanner, DeltaError> {
    let gone = |error: &DeltaError| {
        matches!(
            error,
            DeltaError::Segment(SegmentError::TooOld { .. }) | DeltaError::NotATable { .. }
        )
    };
    let state: Result<TableState, DeltaError> = load_own_log(store, root, Some(before)).await;
    match state {
        Ok(state) => Ok(FeedPlanner::after(Some(state))),
        Err(error) if gone(&error) => {
            let first = load_own_log(store, root, Some(before + 1)).await?;
            Ok(FeedPlanner::at(first))
        }
        Err(error) => Err(error),
    }
}

async fn read_commit(store: &Store, log: &Path, version: u64) -> Result<Entry, DeltaError> {
    let key = commit_key(log, version);
    let bytes = store.get_required(&key).await?;
    let text = std::str::from_utf8(&bytes).map_err(|_| DeltaError::NotText {
        file: key.to_string(),
    })?;
    Ok(Entry {
        version: TableVersion(version),
        lines: text.lines().map(str::to_owned).collect(),
    })
}
