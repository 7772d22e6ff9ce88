//! Loading a table's state: the log segment, then what the database supplies.
//!
//! Invariant: nothing above the version asked for (or above what counts as published) is
//! read; where the database holds a copy of a commit, the copy is used; a checkpoint that
//! cannot be used is replaced by an older one or by the commits, or is an error.
//! Spec: docs/format/log.md, "Reading a table"; Delta PROTOCOL, "Requirements for Readers".

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use tarndb_log::{Segment, SegmentError, read_hint, select_segment};
use tarndb_storage::{ObjectInfo, Path, Store, StoreError};
use tarndb_table::{Entry, LoadRequest, TableState};

use crate::action::{Action, parse_commit, parse_lines};
use crate::bases::Bases;
use crate::checkpoint::read::read_checkpoint;
use crate::error::DeltaError;
use crate::path;
use crate::replay::Replay;

/// Commits fetched at the same time.
const PARALLEL_READS: usize = 16;
/// Listings taken when files vanish between listing and reading (cleanup by another client).
const LISTINGS_MAX: usize = 3;

/// The state that a database asks for.
///
/// # Errors
/// `TailGap` when published part and tail do not meet; everything reading can meet.
///
/// # Cost
/// One GET (hint), one LIST, two to three GETs for the checkpoint, one per commit after it.
pub(crate) async fn load(request: LoadRequest<'_>, bases: Bases) -> Result<TableState, DeltaError> {
    let log = path::log_dir(request.location);
    let replay = replay_with_tail(&request, &log).await?;
    let replay = replay.reaching(bases);
    replay.finish(request.target.0, log.as_ref())
}

/// As [`load`], for a table whose commits a catalog decides.
///
/// # Errors
/// As [`load`].
pub(crate) async fn load_by_catalog(request: LoadRequest<'_>) -> Result<TableState, DeltaError> {
    let log = path::log_dir(request.location);
    let replay = replay_with_tail(&request, &log).await?;
    replay.by_catalog().finish(request.target.0, log.as_ref())
}

async fn replay_with_tail(request: &LoadRequest<'_>, log: &Path) -> Result<Replay, DeltaError> {
    let tail: BTreeMap<u64, &Arc<Entry>> = request
        .tail
        .iter()
        .map(|entry| (entry.version.0, entry))
        .collect();
    let target = request.target.0;
    let (mut replay, from) = match request.published {
        None => (Replay::default(), 0),
        Some(published) => {
            let reader = LogReader {
                store: request.store,
                log,
                copies: &tail,
            };
            let reached = published.0.min(target);
            (reader.replay(Some(reached)).await?.0, reached + 1)
        }
    };
    for version in from..=target {
        let Some(entry) = tail.get(&version) else {
            let have = tail
                .keys()
                .next()
                .map_or_else(|| "nothing".to_owned(), u64::to_string);
            return Err(DeltaError::TailGap {
                wanted: version,
                have,
                log: log.to_string(),
            });
        };
        replay.commit(entry_actions(entry, log)?)?;
    }
    Ok(replay)
}

/// The state at `target`, or the newest, by the table's own log alone.
///
/// # Errors
/// See [`load`]; `NotATable`.
pub(crate) async fn load_own_log(
    store: &Store,
    location: &Path,
    target: Option<u64>,
) -> Result<TableState, DeltaError> {
    let log = path::log_dir(location);
    let reader = LogReader {
        store,
        log: &log,
        copies: &BTreeMap::new(),
    };
    let (replay, version) = reader.replay(target).await?;
    replay.finish(version, log.as_ref())
}

/// The actions of an entry of the database's log.
pub(crate) fn entry_actions(entry: &Entry, log: &Path) -> Result<Vec<Action>, DeltaError> {
    let file = format!(
        "{log}/{:020}.json (from the database's log)",
        entry.version.0
    );
    parse_lines(entry.lines.iter().map(String::as_str), &file)
}

/// Key of a commit.
pub(crate) fn commit_key(log: &Path, version: u64) -> Path {
    log.clone().join(format!("{version:020}.json"))
}

struct LogReader<'a> {
    store: &'a Store,
    log: &'a Path,
    /// Commits that the database holds; they win over files.
    copies: &'a BTreeMap<u64, &'a Arc<Entry>>,
}

impl LogReader<'_> {
    /// Replays the log up to `target` or its end; returns the version reached.
    async fn replay(&self, target: Option<u64>) -> Result<(Replay, u64), DeltaError> {
        let hint = read_hint(self.store, &self.log.clone().join("_last_checkpoint")).await;
        let mut from = hint.filter(|hint| target.is_none_or(|target| *hint <= target));
        for attempt in 1.. {
            let listing = self.list(from).await?;
            let outcome = self.replay_listing(listing, target).await;
            match outcome {
                Ok(done) => return Ok(done),
                Err(error) if attempt >= LISTINGS_MAX || !worth_another(&error, from) => {
                    return Err(error);
                }
                // The hint named what is not there or does not do, or files vanished.
                Err(error) => {
                    tracing::debug!(%error, log = %self.log, "reading the log again from its start");
                    from = None;
                }
            }
        }
        Err(DeltaError::NotATable {
            location: self.log.to_string(),
        })
    }

    async fn list(&self, from: Option<u64>) -> Result<Vec<ObjectInfo>, DeltaError> {
        let after = from.map(|version| self.log.clone().join(format!("{version:020}")));
        Ok(self.store.list_after(self.log, after.as_ref()).await?)
    }

    /// Tries the checkpoints of a listing from the newest down.
    async fn replay_listing(
        &self,
        mut listing: Vec<ObjectInfo>,
        target: Option<u64>,
    ) -> Result<(Replay, u64), DeltaError> {
        let mut first_error = None;
        loop {
            let segment = match select_segment(&listing, self.log, target) {
                Ok(segment) => segment,
                Err(source) => {
                    return Err(first_error.unwrap_or_else(|| self.segment_error(source)));
                }
            };
            let error = match self.replay_segment(&segment, &listing).await {
                Ok(replay) => return Ok((replay, segment.version)),
                Err(error) => error,
            };
            let Some((_, _, files)) = &segment.checkpoint else {
                return Err(first_error.unwrap_or(error));
            };
            if !is_checkpoint_fault(&error, files) {
                return Err(error);
            }
            tracing::warn!(%error, log = %self.log, "checkpoint not usable, trying an older one");
            listing.retain(|object| !files.contains(&object.key));
            first_error.get_or_insert(error);
        }
    }

    fn segment_error(&self, source: SegmentError) -> DeltaError {
        match source {
            SegmentError::NotFound { .. } => DeltaError::NotATable {
                location: self.log.to_string(),
            },
            source => DeltaError::Segment(source),
        }
    }

    async fn replay_segment(
        &self,
        segment: &Segment,
        listing: &[ObjectInfo],
    ) -> Result<Replay, DeltaError> {
        let mut replay = Replay::default();
        if let Some((_, _, files)) = &segment.checkpoint {
            read_checkpoint(self.store, self.log, files, listing, &mut replay).await?;
        }
        let mut commits = futures::stream::iter(segment.commits.iter().copied())
            .map(|version| self.commit(version))
            .buffered(PARALLEL_READS);
        while let Some(actions) = commits.try_next().await? {
            replay.commit(actions)?;
        }
        if segment.commits.is_empty() && segment.has_commit {
            // The commit at the checkpoint's own version holds its in-commit timestamp.
            replay.note_commit_info(&self.commit(segment.version).await?);
        }
        Ok(replay)
    }

    async fn commit(&self, version: u64) -> Result<Vec<Action>, DeltaError> {
        if let Some(entry) = self.copies.get(&version) {
            return entry_actions(entry, self.log);
        }
        let key = commit_key(self.log, version);
        let bytes = self.store.get_required(&key).await?;
        parse_commit(&bytes, key.as_ref())
    }
}

/// Is the fault one of the checkpoint itself, so that another may do?
fn is_checkpoint_fault(error: &DeltaError, files: &[Path]) -> bool {
    let named = |file: &str| files.iter().any(|path| path.as_ref() == file);
    match error {
        DeltaError::BadCheckpoint { .. } | DeltaError::LyingCheckpoint { .. } => true,
        DeltaError::MissingProtocol { file }
        | DeltaError::MissingMetadata { file }
        | DeltaError::NotText { file }
        | DeltaError::BadLine { file, .. } => named(file),
        DeltaError::Store(StoreError::NotFound { key }) => {
            named(key) || key.contains("/_sidecars/")
        }
        _ => false,
    }
}

/// May a new listing from the log's start give another answer?
fn worth_another(error: &DeltaError, from: Option<u64>) -> bool {
    match error {
        // A file of the listing vanished.
        DeltaError::Store(StoreError::NotFound { .. }) => true,
        DeltaError::Segment(_) | DeltaError::NotATable { .. } => from.is_some(),
        other => from.is_some() && is_checkpoint_fault(other, &[]),
    }
}
