//! Vacuum of a native table.
//!
//! Invariant: every version that was current within the retention keeps its files: what was live
//! at the cutoff, and what any commit since added. Of the rest only files go that the store has
//! had for longer than the retention, and that the log knows as removed or a writer of ours
//! named; foreign files never.
//! Does not: know of other engines' writers that are stopped for longer than the retention
//! before they commit; writers of this build are told by a commit (`vacuum_mark`).
//! Spec: docs/format/native.md, "Vacuum"; Delta PROTOCOL, "vacuumProtocolCheck".

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_storage::{ObjectInfo, Path};
use tarndb_table::{Entry, OwnFile, References, data_key, own_file};
use tarndb_types::{TableVersion, TimestampMs};

use super::error::NativeError;
use super::table::NativeTable;
use super::times::file_times;
use crate::error::DeltaError;
use crate::load::load_own_log;
use crate::references;

/// `delta.deletedFileRetentionDuration` where a table does not say.
const RETENTION_MS: i64 = 7 * 24 * 3_600_000;
/// Below this a retention must be forced, whatever the table says.
const RETENTION_MIN_MS: i64 = 3_600_000;
/// Commits read, and files deleted, at the same time.
const PARALLEL: usize = 8;

/// What to vacuum.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeVacuum {
    /// In place of the table's `delta.deletedFileRetentionDuration` (7 days).
    pub retention: Option<Duration>,
    /// Allows less than the table's retention, or less than an hour.
    pub force: bool,
    /// Deletes nothing.
    pub dry_run: bool,
}

impl NativeTable {
    /// Deletes the files that no version within the retention needs, and gives them (in a dry
    /// run: gives what would go).
    ///
    /// # Errors
    /// A writer feature that this build does not know, by name; a retention that is too short;
    /// those of the store, after which a part may be gone. Running it again goes on.
    ///
    /// # Cost
    /// A LIST of the table, the state at the cutoff, a GET per commit since, a commit where files
    /// go that no commit names, and a DELETE per file.
    pub async fn vacuum(&mut self, options: &NativeVacuum) -> Result<Vec<ObjectInfo>, NativeError> {
        self.refresh().await?;
        let retention_ms = self.vacuum_retention_ms(options)?;
        let before = TimestampMs(self.store_time().await?.0.saturating_sub(retention_ms));
        let listing = self.store.list_after(&self.location, None).await?;
        let mut named = self.named(&listing, before).await?;
        let mut doomed = plan(&self.location, &named, &listing, before);
        let removed = self.keys(&named.removed);
        // A writer that sleeps may still have to commit a file that no commit names.
        if !options.dry_run && doomed.iter().any(|object| !removed.contains(&object.key)) {
            let seen = self.version()?.0;
            self.announce_vacuum(retention_ms).await?;
            for version in seen + 1..=self.version()?.0 {
                named.extend(self.commit_references(TableVersion(version)).await?);
            }
            doomed = plan(&self.location, &named, &listing, before);
        }
        if !options.dry_run {
            let keys: Vec<Path> = doomed.iter().map(|object| object.key.clone()).collect();
            let store = &self.store;
            futures::stream::iter(keys)
                .map(|key| async move { store.delete(&key).await.map_err(DeltaError::from) })
                .buffer_unordered(PARALLEL)
                .try_collect::<()>()
                .await?;
        }
        Ok(doomed)
    }

    fn keys(&self, files: &BTreeSet<String>) -> BTreeSet<Path> {
        keys(&self.location, files)
    }

    fn vacuum_retention_ms(&self, options: &NativeVacuum) -> Result<i64, NativeError> {
        let key = "delta.deletedFileRetentionDuration";
        let own_ms = self.retention_ms(None, key, RETENTION_MS)?;
        let asked_ms = self.retention_ms(options.retention, key, RETENTION_MS)?;
        let min_ms = own_ms.max(RETENTION_MIN_MS);
        if asked_ms < min_ms && !options.force {
            return Err(DeltaError::RetentionTooShort { asked_ms, min_ms }.into());
        }
        Ok(asked_ms)
    }

    /// What versions since the cutoff name.
    async fn named(
        &self,
        listing: &[ObjectInfo],
        before: TimestampMs,
    ) -> Result<References, NativeError> {
        let newest = self.state()?;
        let mut named = references::of_state(newest)?;
        let times = file_times(listing, self.log.dir());
        let current = times.iter().rev().find(|(_, time)| *time <= before.0);
        let first = times.first().map_or(newest.version.0, |(first, _)| *first);
        let oldest = match current {
            Some((version, _)) => load_own_log(&self.store, &self.location, Some(*version)).await?,
            // Everything that is left is young.
            None => self.oldest_readable(first).await?,
        };
        named.extend(references::of_state(&oldest)?);
        let versions = oldest.version.0 + 1..=newest.version.0;
        let mut commits = futures::stream::iter(versions)
            .map(|version| self.commit_references(TableVersion(version)))
            .buffered(PARALLEL);
        while let Some(commit) = commits.try_next().await? {
            named.extend(commit);
        }
        Ok(named)
    }

    /// The state at the oldest version from `first` on that can be read.
    async fn oldest_readable(&self, first: u64) -> Result<tarndb_table::TableState, NativeError> {
        let mut version = first;
        loop {
            match load_own_log(&self.store, &self.location, Some(version)).await {
                Ok(state) => return Ok(state),
                Err(DeltaError::Segment(_)) if version < self.state()?.version.0 => version += 1,
                Err(other) => return Err(other.into()),
            }
        }
    }

    async fn commit_references(&self, version: TableVersion) -> Result<References, NativeError> {
        let key = self.log.key(version.0);
        let bytes = self.store.get_required(&key).await?;
        let text = std::str::from_utf8(&bytes).map_err(|_| DeltaError::NotText {
            file: key.to_string(),
        })?;
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let entry = Entry {
            version,
            lines: lines.map(str::to_owned).collect(),
        };
        Ok(references::of_entry(&entry)?)
    }
}

/// Where files of the table are.
fn keys(location: &Path, files: &BTreeSet<String>) -> BTreeSet<Path> {
    let keys = files.iter().map(|file| data_key(location, file));
    keys.filter_map(Result::ok).collect()
}

/// The files of the listing that go; pure.
fn plan(
    location: &Path,
    named: &References,
    listing: &[ObjectInfo],
    before: TimestampMs,
) -> Vec<ObjectInfo> {
    let (live, removed) = (keys(location, &named.files), keys(location, &named.removed));
    let goes = |object: &&ObjectInfo| {
        let path = object.key.as_ref();
        let path = match location.as_ref() {
            "" => path,
            dir => path
                .strip_prefix(dir)
                .and_then(|path| path.strip_prefix('/'))
                .unwrap_or(path),
        };
        let own = matches!(
            own_file(path),
            Some(OwnFile::Data | OwnFile::ChangeData | OwnFile::DeletionVector)
        );
        let log = path.starts_with("_delta_log/");
        let known = own || removed.contains(&object.key);
        known && !log && !live.contains(&object.key) && object.last_modified < before
    };
    listing.iter().filter(goes).cloned().collect()
}
