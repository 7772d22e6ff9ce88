//! Which files of a table's own log can go.
//!
//! Invariant: the version that is to stay readable, and every one above it, can be read from
//! what stays: a complete checkpoint at or below it, read back, and all commits from there on.
//! Commits go before checkpoints, ascending, so that a cleanup that stops anywhere leaves a log
//! that is missing a beginning and nothing else. Where there is no such checkpoint nothing goes.
//! Does not: delete anything, or make a checkpoint.
//! Spec: Delta PROTOCOL, "Metadata Cleanup", "Checkpoint Protection Table Feature";
//! docs/guide/maintenance.md, "Logs of tables".

use std::collections::BTreeMap;

use tarndb_log::{FileName, read_hint, select_segment};
use tarndb_storage::{ObjectInfo, Path, Store};
use tarndb_table::{LogPlan, LogRequest, TableState};
use tarndb_types::TableVersion;

use crate::checkpoint::read::read_checkpoint;
use crate::error::DeltaError;
use crate::path;
use crate::replay::Replay;

/// Property below whose version checkpoints may not go alone.
const PROTECTED_BELOW: &str = "delta.requireCheckpointProtectionBeforeVersion";

/// A checkpoint that was read back.
#[derive(Clone, Debug)]
struct Cut {
    version: u64,
    /// History below goes in one go up to here or not at all.
    protected_below: u64,
}

/// What of the log at `location` can go; see `TableCodec::plan_log_cleanup`.
pub(crate) async fn plan(
    store: &Store,
    location: &Path,
    request: LogRequest<'_>,
) -> Result<LogPlan, DeltaError> {
    let log = path::log_dir(location);
    let hint = read_hint(store, &log.clone().join("_last_checkpoint")).await;
    // Foreign clients begin at the hint, even one that is behind.
    let keep_from = hint.map_or(request.keep_from.0, |hint| hint.min(request.keep_from.0));
    let Some(cut) = verified(store, &log, &request, keep_from).await? else {
        return Ok(LogPlan::default());
    };
    let files = doomed(&log, &request, &cut);
    Ok(LogPlan {
        cut: Some(TableVersion(cut.version)),
        files,
    })
}

/// The newest checkpoint at or below `keep_from` that can be read.
async fn verified(
    store: &Store,
    log: &Path,
    request: &LogRequest<'_>,
    keep_from: u64,
) -> Result<Option<Cut>, DeltaError> {
    let mut listing = request.listing.to_vec();
    loop {
        // Only its choice of a checkpoint matters: the commits after it need not be there.
        let Ok(segment) = select_segment(&listing, log, Some(keep_from)) else {
            return Ok(None);
        };
        let Some((version, _, files)) = segment.checkpoint else {
            return Ok(None);
        };
        match read_back(store, log, &files, request.listing, version).await {
            Ok(_) => {
                return Ok(Some(Cut {
                    version,
                    protected_below: protected_below(request.properties),
                }));
            }
            Err(DeltaError::Store(error)) => return Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, %log, version, "a checkpoint cannot be read and holds back the cleanup");
                listing.retain(|object| !files.contains(&object.key));
            }
        }
    }
}

async fn read_back(
    store: &Store,
    log: &Path,
    files: &[Path],
    listing: &[ObjectInfo],
    version: u64,
) -> Result<TableState, DeltaError> {
    let mut replay = Replay::default();
    read_checkpoint(store, log, files, listing, &mut replay).await?;
    replay.finish(version, log.as_ref())
}

/// An unreadable number protects everything.
fn protected_below(properties: &BTreeMap<String, String>) -> u64 {
    let text = properties.get(PROTECTED_BELOW);
    text.map_or(0, |text| text.parse().unwrap_or(u64::MAX))
}

/// The files below the cut that are old enough, in the order in which they go.
fn doomed(log: &Path, request: &LogRequest<'_>, cut: &Cut) -> Vec<ObjectInfo> {
    let (mut commits, mut others, mut checkpoints) = (Vec::new(), Vec::new(), Vec::new());
    for object in request.listing {
        match FileName::parse(log, &object.key) {
            Some(FileName::Commit(version)) if version < cut.version => {
                commits.push((version, object));
            }
            Some(
                FileName::Classic(version)
                | FileName::MultiPart { version, .. }
                | FileName::V2Json { version, .. }
                | FileName::V2Parquet { version, .. },
            ) if version < cut.version => {
                checkpoints.push((version, object));
            }
            Some(FileName::Compaction { first, .. }) if first <= cut.version => {
                others.push((first, object));
            }
            Some(FileName::Checksum(version)) if version < cut.version => {
                others.push((version, object));
            }
            _ => {}
        }
    }
    let is_old = |object: &ObjectInfo| object.last_modified < request.before;
    for list in [&mut commits, &mut others, &mut checkpoints] {
        list.sort_by_key(|(version, _)| *version);
    }
    // A beginning and nothing else: what is too young keeps all that come after it.
    let young = commits.iter().find(|(_, object)| !is_old(object));
    let below = young.map_or(cut.version, |(version, _)| *version);
    if below < cut.protected_below.min(cut.version) || cut.version < cut.protected_below {
        return Vec::new();
    }
    let goes = |(version, object): &(u64, &ObjectInfo)| *version < below && is_old(object);
    let compaction_goes = |(first, object): &(u64, &ObjectInfo)| {
        let whole = below == cut.version;
        (*first < below || (whole && *first <= cut.version)) && is_old(object)
    };
    let (first, then, last) = (
        commits.into_iter().filter(goes),
        others.into_iter().filter(compaction_goes),
        checkpoints.into_iter().filter(goes),
    );
    let files = first.chain(then).chain(last);
    files.map(|(_, object)| object.clone()).collect()
}
