//! Cleaning up the log of a native table.
//!
//! Invariant: every version since the cutoff, and every one that the caller wants kept, can be
//! read from what stays: the log is cut at a checkpoint at or below them that was read back.
//! Where there is none at all, one is written first; where there is one above them only, nothing
//! goes. A cleanup that stops anywhere leaves a log without a beginning, and no holes.
//! Spec: Delta PROTOCOL, "Metadata Cleanup"; docs/format/native.md, "Cleaning up".

use std::time::Duration;

use tarndb_log::{FileName, select_segment};
use tarndb_storage::{ObjectInfo, StoreError};
use tarndb_table::LogRequest;
use tarndb_types::{TableVersion, TimestampMs};

use super::error::NativeError;
use super::table::NativeTable;
use super::times::file_times;
use crate::checkpoint::retention::duration_ms;
use crate::checkpoint::write::write_checkpoint;
use crate::error::DeltaError;
use crate::load::load_own_log;
use crate::log_cleanup;

/// `delta.logRetentionDuration` where a table does not say.
const RETENTION_MS: i64 = 30 * 24 * 3_600_000;

/// How much of the log goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeCleanup {
    /// In place of the table's `delta.logRetentionDuration` (30 days).
    pub retention: Option<Duration>,
    /// This version and all above stay readable, whatever their age.
    pub keep_from: Option<TableVersion>,
    /// Deletes nothing and writes no checkpoint.
    pub dry_run: bool,
}

/// What a cleanup did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeCleaned {
    /// The checkpoint that the log begins with; `None`: nothing could go.
    pub cut: Option<TableVersion>,
    /// The checkpoint that was written first (in a dry run: that would be), because there was
    /// none. A dry run then names no files.
    pub checkpoint: Option<TableVersion>,
    /// What went, or would go, in that order.
    pub files: Vec<ObjectInfo>,
}

impl NativeTable {
    /// Removes entries of the log that no version within the retention needs.
    ///
    /// # Errors
    /// A writer feature that this build does not know, by name; a retention property that cannot
    /// be read; those of the store, after which a part may be gone. Running it again goes on.
    ///
    /// # Cost
    /// A LIST, an object written and removed for the store's time, the checkpoint that the log is
    /// cut at, and a DELETE per file, one after the other.
    pub async fn clean_log(
        &mut self,
        options: &NativeCleanup,
    ) -> Result<NativeCleaned, NativeError> {
        self.refresh().await?;
        let retention_ms = self.retention_ms(
            options.retention,
            "delta.logRetentionDuration",
            RETENTION_MS,
        )?;
        let cutoff = TimestampMs(self.store_time().await?.0.saturating_sub(retention_ms));
        let mut listing = self.store.list_after(self.log.dir(), None).await?;
        let Some(keep_from) = self.oldest_kept(&listing, cutoff, options.keep_from) else {
            return Ok(NativeCleaned::default());
        };
        let mut cleaned = NativeCleaned::default();
        if self.has_no_checkpoint(&listing) {
            cleaned.checkpoint = Some(keep_from);
            if options.dry_run {
                return Ok(cleaned);
            }
            self.checkpoint_at(keep_from).await?;
            listing = self.store.list_after(self.log.dir(), None).await?;
        }
        let newest = std::sync::Arc::clone(self.state()?);
        let request = LogRequest {
            properties: &newest.properties,
            listing: &listing,
            keep_from,
            before: TimestampMs(cutoff.0.saturating_add(1)),
        };
        let plan = log_cleanup::plan(&self.store, &self.location, request).await?;
        if !options.dry_run {
            for file in &plan.files {
                self.store.delete(&file.key).await?;
            }
        }
        cleaned.cut = plan.cut;
        cleaned.files = plan.files;
        Ok(cleaned)
    }

    /// A retention in milliseconds: the caller's, else the table's, else the default.
    pub(super) fn retention_ms(
        &self,
        asked: Option<Duration>,
        key: &str,
        default_ms: i64,
    ) -> Result<i64, NativeError> {
        if let Some(asked) = asked {
            return Ok(i64::try_from(asked.as_millis()).unwrap_or(i64::MAX));
        }
        match self.state()?.properties.get(key) {
            None => Ok(default_ms),
            Some(text) => Ok(
                duration_ms(text).ok_or_else(|| DeltaError::UnreadableRetention {
                    key: key.to_owned(),
                    value: text.clone(),
                })?,
            ),
        }
    }

    /// The store's time, told by an object that no reader looks at.
    pub(super) async fn store_time(&self) -> Result<TimestampMs, NativeError> {
        let name = format!(".tarndb-clock-{}", self.store.context().uuid());
        let key = self.log.dir().clone().join(name);
        self.store.put(&key, bytes::Bytes::new()).await?;
        let info = self.store.head(&key).await?;
        self.store.delete(&key).await?;
        let missing = || StoreError::NotFound {
            key: key.to_string(),
        };
        Ok(info.ok_or_else(missing)?.last_modified)
    }

    /// The version that was current at the cutoff, or the one that the caller wants if it is
    /// older; `None` when the log does not reach back so far.
    fn oldest_kept(
        &self,
        listing: &[ObjectInfo],
        cutoff: TimestampMs,
        wanted: Option<TableVersion>,
    ) -> Option<TableVersion> {
        let times = file_times(listing, self.log.dir());
        let current = times.iter().rev().find(|(_, time)| *time <= cutoff.0);
        let current = TableVersion(current?.0);
        Some(wanted.map_or(current, |wanted| wanted.min(current)))
    }

    fn has_no_checkpoint(&self, listing: &[ObjectInfo]) -> bool {
        let is_checkpoint = |object: &ObjectInfo| {
            FileName::parse(self.log.dir(), &object.key).is_some_and(|name| name.is_checkpoint())
        };
        let any = listing.iter().any(is_checkpoint);
        !any && select_segment(listing, self.log.dir(), None).is_ok()
    }

    /// Writes the first checkpoint of the table.
    async fn checkpoint_at(&self, version: TableVersion) -> Result<(), NativeError> {
        let state = load_own_log(&self.store, &self.location, Some(version.0)).await?;
        super::table::check_write(&state)?;
        write_checkpoint(&self.store, &self.location, &state).await?;
        Ok(())
    }
}
