//! Which checkpoint and which commits make up a version of a log.
//!
//! Invariant: the commits of a [`Segment`] are exactly `checkpoint + 1 ..= version`, without a
//! gap, from 0 when there is no checkpoint; a checkpoint is complete and at most at `version`.
//! A compaction is chosen only for commits that are all there, so that these can replace it.
//! Does not: do IO, or guess over a gap.
//! Spec: Delta protocol, "Table features: reading"; docs/format/log.md, "Snapshots".

use std::collections::{BTreeMap, BTreeSet};

use object_store::path::Path;
use tarndb_storage::ObjectInfo;

use crate::name::FileName;

/// The form of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointName {
    /// One Parquet file.
    Classic,
    /// Several Parquet files that belong together.
    MultiPart {
        /// How many.
        parts: u32,
    },
    /// A JSON file with a unique name; may name sidecars.
    V2Json {
        /// Bare file name.
        name: String,
    },
    /// A Parquet file with a unique name; may name sidecars.
    V2Parquet {
        /// Bare file name.
        name: String,
    },
}

/// What to read for one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Version, form and files (parts in order) of the checkpoint to start from.
    pub checkpoint: Option<(u64, CheckpointName, Vec<Path>)>,
    /// Commits to replay on it, ascending and without gaps.
    pub commits: Vec<u64>,
    /// Ranges of `commits` that a file stands for, first and last version, ascending and apart.
    /// Whoever cannot use one reads its commits.
    pub compactions: Vec<(u64, u64)>,
    /// The version reached.
    pub version: u64,
    /// Whether the commit file of `version` itself is there; it holds the in-commit timestamp
    /// and is kept also when the checkpoint is at `version`.
    pub has_commit: bool,
    /// The version has a checksum file.
    pub has_checksum: bool,
}

/// Why a listing holds no readable version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// Neither commits nor checkpoints.
    #[error("no log found: dir={dir}")]
    NotFound {
        /// The folder that was listed.
        dir: String,
    },
    /// A commit is missing between others, or right after the checkpoint.
    #[error("gap in the log: missing version={missing}, newest={newest}, dir={dir}")]
    Gap {
        /// The first missing version.
        missing: u64,
        /// The newest version needed.
        newest: u64,
        /// The folder that was listed.
        dir: String,
    },
    /// No complete checkpoint, and the commits do not begin at 0.
    #[error(
        "the log begins at version {first} without a checkpoint to start from: dir={dir}; \
         the older part was removed or never copied"
    )]
    NoStart {
        /// The oldest commit there is.
        first: u64,
        /// The folder that was listed.
        dir: String,
    },
    /// The version asked for is older than what can still be read.
    #[error(
        "version no longer readable: target={target}, dir={dir}; \
         ask for version {oldest} or a newer one"
    )]
    TooOld {
        /// The version asked for.
        target: u64,
        /// The oldest version that can be read.
        oldest: u64,
        /// The folder that was listed.
        dir: String,
    },
    /// The version asked for does not exist yet.
    #[error("no such version: target={target}, newest={newest}, dir={dir}")]
    TooNew {
        /// The version asked for.
        target: u64,
        /// The newest version there is.
        newest: u64,
        /// The folder that was listed.
        dir: String,
    },
}

/// The files of a log folder by kind.
#[derive(Default)]
struct Listing {
    commits: BTreeSet<u64>,
    checkpoints: BTreeMap<u64, Candidates>,
    /// First and last version.
    compactions: BTreeSet<(u64, u64)>,
    checksums: BTreeSet<u64>,
}

/// Checkpoint files at one version.
#[derive(Default)]
struct Candidates {
    classic: Option<Path>,
    /// Number of parts -> part -> file.
    multi: BTreeMap<u32, BTreeMap<u32, Path>>,
    /// Greatest name wins.
    unique: BTreeMap<String, (CheckpointName, Path)>,
}

impl Candidates {
    /// The complete checkpoint to use: unique names before parts before classic, so that all
    /// readers of one listing choose alike.
    fn choose(&self) -> Option<(CheckpointName, Vec<Path>)> {
        if let Some((name, path)) = self.unique.values().next_back() {
            return Some((name.clone(), vec![path.clone()]));
        }
        let complete = |(count, parts): &(&u32, &BTreeMap<u32, Path>)| {
            u32::try_from(parts.len()).is_ok_and(|found| found == **count)
        };
        if let Some((count, parts)) = self.multi.iter().rev().find(complete) {
            let files = parts.values().cloned().collect();
            return Some((CheckpointName::MultiPart { parts: *count }, files));
        }
        self.classic
            .clone()
            .map(|path| (CheckpointName::Classic, vec![path]))
    }
}

fn classify(listing: &[ObjectInfo], dir: &Path) -> Listing {
    let mut found = Listing::default();
    for object in listing {
        let Some(name) = FileName::parse(dir, &object.key) else {
            continue;
        };
        let path = object.key.clone();
        // An empty file is no checkpoint: its writer died, or its store shows it too early.
        let empty = object.size_bytes == 0;
        let checkpoints = &mut found.checkpoints;
        match name {
            FileName::Commit(version) => {
                found.commits.insert(version);
            }
            _ if empty => {}
            FileName::Compaction { first, last } => {
                found.compactions.insert((first, last));
            }
            FileName::Checksum(version) => {
                found.checksums.insert(version);
            }
            FileName::Classic(version) => {
                checkpoints.entry(version).or_default().classic = Some(path)
            }
            FileName::MultiPart {
                version,
                part,
                parts,
            } => {
                checkpoints
                    .entry(version)
                    .or_default()
                    .multi
                    .entry(parts)
                    .or_default()
                    .insert(part, path);
            }
            FileName::V2Json { version, name } => {
                let form = CheckpointName::V2Json { name: name.clone() };
                checkpoints
                    .entry(version)
                    .or_default()
                    .unique
                    .insert(name, (form, path));
            }
            FileName::V2Parquet { version, name } => {
                let form = CheckpointName::V2Parquet { name: name.clone() };
                checkpoints
                    .entry(version)
                    .or_default()
                    .unique
                    .insert(name, (form, path));
            }
        }
    }
    found
}

/// Chooses what to read for `target`, or for the newest version. The listing may be in any
/// order, begin anywhere, and hold other files.
///
/// # Errors
/// See [`SegmentError`]; a gap above the checkpoint is never skipped.
pub fn select_segment(
    listing: &[ObjectInfo],
    dir: &Path,
    target: Option<u64>,
) -> Result<Segment, SegmentError> {
    let found = classify(listing, dir);
    let limit = target.unwrap_or(u64::MAX);
    let checkpoint = found
        .checkpoints
        .range(..=limit)
        .rev()
        .find_map(|(version, at)| at.choose().map(|(name, files)| (*version, name, files)));
    let base = checkpoint.as_ref().map(|(version, _, _)| *version);
    let newest = found.commits.last().copied().max(newest_checkpoint(&found));
    let Some(newest) = newest else {
        return Err(SegmentError::NotFound {
            dir: dir.to_string(),
        });
    };
    let version = target.unwrap_or(newest);
    if version > newest {
        return Err(SegmentError::TooNew {
            target: version,
            newest,
            dir: dir.to_string(),
        });
    }
    let first_needed = base.map_or(0, |base| base.saturating_add(1));
    let commits = needed(&found.commits, first_needed, version);
    let complete = commits.len() as u64 == version.saturating_add(1).saturating_sub(first_needed);
    if !complete {
        return Err(explain(&found, base, target, version, &commits, dir));
    }
    let compactions = widest(&found.compactions, first_needed, version);
    Ok(Segment {
        checkpoint,
        commits,
        compactions,
        version,
        has_commit: found.commits.contains(&version),
        has_checksum: found.checksums.contains(&version),
    })
}

/// The widest compaction that begins at the first version needed and does not go beyond `last`,
/// then the widest that begins after it, and so on.
fn widest(compactions: &BTreeSet<(u64, u64)>, first: u64, last: u64) -> Vec<(u64, u64)> {
    let mut chosen = Vec::new();
    let mut next = first;
    while let Some((begin, _)) = compactions.range((next, 0)..).next() {
        let same = compactions.range((*begin, 0)..=(*begin, last));
        next = match same.last() {
            Some(range) => {
                chosen.push(*range);
                range.1.saturating_add(1)
            }
            None => begin.saturating_add(1),
        };
    }
    chosen
}

/// The newest version with a complete checkpoint.
fn newest_checkpoint(found: &Listing) -> Option<u64> {
    let newest_first = found.checkpoints.iter().rev();
    newest_first
        .filter(|(_, at)| at.choose().is_some())
        .map(|(version, _)| *version)
        .next()
}

/// The commits within `first ..= last`; none when the checkpoint is at `last` already.
fn needed(commits: &BTreeSet<u64>, first: u64, last: u64) -> Vec<u64> {
    if first > last {
        Vec::new()
    } else {
        commits.range(first..=last).copied().collect()
    }
}

/// Which error an incomplete run of commits is.
fn explain(
    found: &Listing,
    base: Option<u64>,
    target: Option<u64>,
    version: u64,
    commits: &[u64],
    dir: &Path,
) -> SegmentError {
    let dir = dir.to_string();
    if base.is_none() && commits.first() != Some(&0) {
        let first = found.commits.first().copied().unwrap_or(version);
        let oldest = found
            .checkpoints
            .iter()
            .find(|(_, at)| at.choose().is_some());
        return match (target, oldest) {
            (Some(target), Some((oldest, _))) => SegmentError::TooOld {
                target,
                oldest: *oldest,
                dir,
            },
            _ => SegmentError::NoStart { first, dir },
        };
    }
    let first = base.map_or(0, |base| base.saturating_add(1));
    let run = commits
        .iter()
        .zip(first..)
        .take_while(|(found, expected)| *found == expected);
    let missing = first.saturating_add(run.count() as u64);
    SegmentError::Gap {
        missing,
        newest: version,
        dir,
    }
}

#[cfg(test)]
mod tests;
