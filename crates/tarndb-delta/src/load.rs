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
use crate::checksum::{Stated, read_checksum};
use crate::compaction::read_compaction;
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
/// One GET (hint), one LIST, two to three GETs for the checkpoint, one per commit after it (or
/// per compaction of several), one for the version's checksum if it has one.
pub(crate) async fn load(request: LoadRequest<'_>, bases: Bases) -> Result<TableState, DeltaError> {
    let log = path::log_dir(request.location);
    let replay = replay_with_tail(&request, &log, Checksums::Compared).await?;
    let replay = replay.reaching(bases);
    replay.finish(request.target.0, log.as_ref())
}

/// As [`load`], whatever checksums say.
///
/// # Errors
/// As [`load`].
pub(crate) async fn load_at_its_word(
    request: LoadRequest<'_>,
    bases: Bases,
) -> Result<TableState, DeltaError> {
    let log = path::log_dir(request.location);
    let replay = replay_with_tail(&request, &log, Checksums::Ignored).await?;
    let replay = replay.reaching(bases);
    replay.finish(request.target.0, log.as_ref())
}

/// As [`load`], for a table whose commits a catalog decides.
///
/// # Errors
/// As [`load`].
pub(crate) async fn load_by_catalog(request: LoadRequest<'_>) -> Result<TableState, DeltaError> {
    let log = path::log_dir(request.location);
    let replay = replay_with_tail(&request, &log, Checksums::Compared).await?;
    replay.by_catalog().finish(request.target.0, log.as_ref())
}

async fn replay_with_tail(
    request: &LoadRequest<'_>,
    log: &Path,
    checksums: Checksums,
) -> Result<Replay, DeltaError> {
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
                checksums,
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
        checksums: Checksums::Compared,
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

/// What is read for some commits.
#[derive(Clone, Copy, Debug)]
enum Step {
    Commit(u64),
    /// First and last version.
    Compacted(u64, u64),
}

/// What is made of a version's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksums {
    Compared,
    Ignored,
}

struct LogReader<'a> {
    store: &'a Store,
    log: &'a Path,
    /// Commits that the database holds; they win over files.
    copies: &'a BTreeMap<u64, &'a Arc<Entry>>,
    checksums: Checksums,
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
            let (replayed, stated) = futures::future::join(
                self.replay_segment(&segment, &listing),
                self.stated(&segment),
            )
            .await;
            let error = match replayed {
                Ok(replay) => {
                    let replay = self.confirmed(replay, stated, &segment).await;
                    return Ok((replay, segment.version));
                }
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
        let mut commits = futures::stream::iter(self.steps(segment))
            .map(|step| self.step(step))
            .buffered(PARALLEL_READS);
        while let Some(step) = commits.try_next().await? {
            for actions in step {
                replay.commit(actions)?;
            }
        }
        let compacted = segment.compactions.last().map(|(_, last)| *last);
        let ends_without_commit = segment.commits.is_empty() || compacted == Some(segment.version);
        if ends_without_commit && segment.has_commit {
            // The commit at that very version holds its in-commit timestamp.
            replay.note_commit_info(&self.commit(segment.version).await?);
        }
        Ok(replay)
    }

    /// The commits of a segment; where a compaction stands for some, it instead. The database's
    /// copies of commits win over it as over the commits themselves.
    fn steps(&self, segment: &Segment) -> Vec<Step> {
        let has_copy = |(first, last): &(u64, u64)| self.copies.range(*first..=*last).next();
        let compactions = segment.compactions.iter();
        let mut compactions = compactions.filter(|range| has_copy(range).is_none());
        let mut next = compactions.next();
        let mut steps = Vec::new();
        for version in segment.commits.iter().copied() {
            match next {
                Some((first, last)) if (*first..=*last).contains(&version) => {
                    if version == *last {
                        steps.push(Step::Compacted(*first, *last));
                        next = compactions.next();
                    }
                }
                _ => steps.push(Step::Commit(version)),
            }
        }
        steps
    }

    /// The actions of a step, commit by commit; a compaction that cannot be used is replaced by
    /// its commits.
    async fn step(&self, step: Step) -> Result<Vec<Vec<Action>>, DeltaError> {
        let (first, last) = match step {
            Step::Commit(version) => return Ok(vec![self.commit(version).await?]),
            Step::Compacted(first, last) => (first, last),
        };
        match read_compaction(self.store, self.log, first, last).await {
            Ok(actions) => Ok(vec![actions]),
            Err(error) => {
                tracing::warn!(%error, log = %self.log, "log compaction not usable, reading its commits");
                let commits = futures::stream::iter(first..=last)
                    .map(|version| self.commit(version))
                    .buffered(PARALLEL_READS);
                commits.try_collect().await
            }
        }
    }

    /// What the checksum file of the version says, if it has one.
    async fn stated(&self, segment: &Segment) -> Option<Stated> {
        match segment.has_checksum && self.checksums == Checksums::Compared {
            true => read_checksum(self.store, self.log, segment.version).await,
            false => None,
        }
    }

    /// The log as it was read, unless the version's checksum says something else and reading it
    /// without the checkpoint and the compactions fits: then that.
    async fn confirmed(&self, replay: Replay, stated: Option<Stated>, segment: &Segment) -> Replay {
        let Some(stated) = stated else {
            return replay;
        };
        let Some(difference) = stated.difference(&replay) else {
            return replay;
        };
        tracing::warn!(difference, log = %self.log, version = segment.version, "the version's checksum differs");
        if segment.checkpoint.is_none() && segment.compactions.is_empty() {
            return replay;
        }
        match self.replay_without(segment).await {
            Ok(other) if stated.difference(&other).is_none() => {
                tracing::warn!(log = %self.log, "a checkpoint or a compaction of the log is wrong, and left aside");
                other
            }
            Ok(_) => replay,
            Err(error) => {
                tracing::debug!(%error, "the log cannot be read without them");
                replay
            }
        }
    }

    /// The version of a segment without its checkpoint and without any compaction.
    async fn replay_without(&self, segment: &Segment) -> Result<Replay, DeltaError> {
        let mut listing = self.list(None).await?;
        let files = segment.checkpoint.as_ref().map(|(_, _, files)| files);
        listing.retain(|object| !files.is_some_and(|files| files.contains(&object.key)));
        let mut other = select_segment(&listing, self.log, Some(segment.version))
            .map_err(DeltaError::Segment)?;
        other.compactions.clear();
        self.replay_segment(&other, &listing).await
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
