//! Going back to an earlier version of a table.
//!
//! Invariant: the transaction then sees the rows and the definition of that version and nothing
//! of what it did to the table before. Files of the version are named again, never written; a
//! file that is live as it was is left alone. What goes and comes is decided at commit.
//! Does not: bring back what must never go back (`tarndb-delta`, `encode/restore`), or read a row.
//! Spec: docs/format/log.md, "Restoring a table"; docs/guide/sql.md, "Restoring a table".

use std::sync::Arc;

use tarndb_delta::same_definition;
use tarndb_table::codec::{Earlier, MetadataChange, TableCodec};
use tarndb_table::{DataFile, Difference, Files, RestoreReport, TableError, TableState};
use tarndb_txn::Operation;
use tarndb_types::{DbVersion, TableId, TimestampMs};

use super::overlay::changed_state;
use super::{Overlay, Transaction};
use crate::error::DbError;
use crate::travel::error::TravelError;
use crate::travel::{TableTarget, check_files_kept, state_at};

/// The version to which a transaction takes a table back.
#[derive(Clone, Debug)]
pub(crate) struct Restored {
    /// The table as it was.
    pub(crate) to: Arc<TableState>,
    /// When the caller named a time.
    pub(crate) at: Option<TimestampMs>,
    /// The database version that it belongs to, which a tag may keep.
    pub(crate) tagged: Option<DbVersion>,
    /// Its files, without those that the transaction emptied or rewrote since.
    pub(crate) files: Files,
}

/// Which version a table goes back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) target: TableTarget,
    /// The database version that it belongs to, which a tag may keep.
    pub(super) tagged: Option<DbVersion>,
}

/// An earlier version that was read.
struct Found {
    to: Arc<TableState>,
    at: Option<TimestampMs>,
    tagged: Option<DbVersion>,
}

impl Transaction {
    /// Takes a table back to an earlier version of it: its rows, columns, partitioning,
    /// properties and comment. Features of the table format, marks of identity columns and of
    /// row ids, and application transactions stay as they are. It is a new version; where the
    /// table is as it was already, there is none. Others' additions and deletions before the
    /// commit go as well; other changes of theirs are a conflict. The report is of what the
    /// transaction sees, the history of the table tells what its commit did.
    ///
    /// # Errors
    /// [`TravelError`]: a version or time that the snapshot does not have (yet, or any more), or
    /// that a vacuum took files of. A table that takes no removals. At commit too, for a vacuum
    /// that was committed meanwhile.
    ///
    /// # Cost
    /// That of [`Snapshot::table_at`](crate::Snapshot::table_at); no data file is read.
    pub async fn restore_table(
        &mut self,
        id: TableId,
        target: TableTarget,
    ) -> Result<RestoreReport, DbError> {
        let tagged = None;
        self.restore_from(id, Source { target, tagged }).await
    }

    /// The same, of a version that a tag may keep.
    pub(super) async fn restore_from(
        &mut self,
        id: TableId,
        Source { target, tagged }: Source,
    ) -> Result<RestoreReport, DbError> {
        let name = self.entry(id)?.display_name();
        let Some(entry) = self.snapshot.catalog().table_or_dropped(id) else {
            return Err(TravelError::CreatedHere { table: name }.into());
        };
        let entry = Arc::clone(entry);
        let inner = Arc::clone(self.inner());
        let version = self.snapshot.version_of(&entry, target).await?;
        let head = inner.head.catalog();
        if !tagged.is_some_and(|version| head.is_version_tagged(version)) {
            check_files_kept(&inner, &entry, version).await?;
        }
        let to = state_at(&inner, &entry, version).await?;
        let base = inner.table_state(&entry).await?;
        let report = RestoreReport::of(&to, &Difference::of(&base.files, &to.files));
        let at = match target {
            TableTarget::Version(_) => None,
            TableTarget::Timestamp(at) => Some(at),
        };
        let codec = self.codec(id)?;
        let overlay = self.overlay(id).await?;
        let before = Arc::clone(&overlay.state);
        let restored = overlay.restore(codec.as_ref(), base, Found { to, at, tagged });
        if restored.map_err(DbError::table(name))? {
            let after = Arc::clone(&self.overlay(id).await?.state);
            self.notice_readers(id, Some(&before), &after)?;
            self.changes.did(Operation::Restore);
        }
        Ok(report)
    }
}

impl Overlay {
    /// Replaces all that was done by the earlier version; whether that is any change.
    fn restore(
        &mut self,
        codec: &dyn TableCodec,
        base: Arc<TableState>,
        Found { to, at, tagged }: Found,
    ) -> Result<bool, TableError> {
        let mut fresh = Self::of_base(Arc::clone(&base));
        for (app_id, version) in &self.app_txns {
            fresh.set_app_transaction(app_id, *version);
        }
        let change = MetadataChange::Restore(Earlier(Arc::clone(&to)));
        let defined = changed_state(codec, Some(&base), None, std::slice::from_ref(&change))?;
        let same = same_definition(&base, &defined).map_err(TableError::from)?;
        let difference = Difference::of(&base.files, &to.files);
        if same && difference.is_empty() {
            *self = fresh;
            return Ok(false);
        }
        if !same {
            fresh.apply_metadata(codec, change)?;
        }
        Arc::make_mut(&mut fresh.state).files = to.files.clone();
        fresh.overwrite = Some(false);
        let files = to.files.clone();
        fresh.restored = Some(Restored {
            to,
            at,
            tagged,
            files,
        });
        fresh.did(Operation::Restore);
        *self = fresh;
        Ok(true)
    }

    /// Whether the transaction itself adds the file, newly or again.
    pub(super) fn is_own(&self, path: &str) -> bool {
        self.adds.contains_key(path) || self.restored_file(path).is_some()
    }

    /// A file of the version restored, as it was there.
    pub(crate) fn restored_file(&self, path: &str) -> Option<Arc<DataFile>> {
        self.restored.as_ref()?.files.get(path)
    }

    /// A file that the transaction adds, without what it deleted in it.
    pub(crate) fn own_file(&self, path: &str) -> Option<Arc<DataFile>> {
        self.adds
            .get(path)
            .cloned()
            .or_else(|| self.restored_file(path))
    }

    /// The file is not added after all.
    pub(super) fn forget_own(&mut self, path: &str) {
        self.adds.remove(path);
        self.own_deletions.remove(path);
        if let Some(restored) = &mut self.restored {
            restored.files.remove(path);
        }
    }
}
