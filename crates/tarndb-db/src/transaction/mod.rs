//! `Transaction`: changes to any number of tables that become visible together or never.
//!
//! Invariant: reads see the snapshot with the transaction's own changes and nothing else.
//! Files are written at once under unique names and are invisible until a record names them;
//! dropping the transaction is the rollback, which deletes them. A failing call leaves the transaction as it was.
//! Spec: docs/format/log.md, "Transactions".

mod attach;
mod catalog;
mod clone;
mod data;
mod definition;
pub(crate) mod feed;
pub(crate) mod merge;
mod not_null;
pub(crate) mod overlay;
mod overwrite_where;
mod precondition;
mod reads;
pub(crate) mod restore;
mod restore_database;
mod rules;
pub(crate) mod tag;
pub(crate) mod undrop;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tarndb_storage::{Path, Store};
use tarndb_table::codec::TableCodec;
use tarndb_table::{Deletion, RowSet, TableState};
use tarndb_txn::{Isolation, Operation};
use tarndb_types::{DbVersion, TableId, TxnId, TxnRef};

pub use catalog::NewTable;
pub(crate) use clone::Cloned;
pub use clone::{CloneReport, CloneTable, NativeSource};
pub use merge::{MergeCounts, MergedFiles, MergedRows};
pub(crate) use overlay::Overlay;
pub use overwrite_where::OverwriteReport;
pub(crate) use precondition::Pin;
pub(crate) use reads::{ReadSet, TableRead};
pub use restore_database::DatabaseRestore;

use crate::catalog::{Catalog, TableEntry};
use crate::commit;
use crate::database::Inner;
use crate::error::DbError;
use crate::leftover::StagedFiles;
use crate::moment::Moment;
use crate::options::TxnOptions;
use crate::record::Action;
use crate::snapshot::Snapshot;

/// An open transaction.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) snapshot: Snapshot,
    pub(crate) id: TxnId,
    /// The caller chose the id, and may have committed under it before.
    pub(crate) chosen_id: bool,
    /// When it began; its snapshot was the newest shortly before.
    pub(crate) began: Moment,
    pub(crate) isolation: Isolation,
    /// The place that it has before the others of its handle.
    pub(crate) priority: Option<u64>,
    /// What must not have changed for the commit to succeed.
    pub(crate) pin: Option<Pin>,
    pub(crate) user_metadata: BTreeMap<String, Value>,
    pub(crate) changes: Changes,
    /// What it stored so far.
    pub(crate) staged: StagedFiles,
}

/// All that a transaction did so far; a mark is a copy of it.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    pub(crate) catalog: Catalog,
    pub(crate) actions: Vec<Action>,
    pub(crate) overlays: BTreeMap<TableId, Overlay>,
    pub(crate) reads: ReadSet,
    pub(crate) names_read: BTreeSet<(String, String)>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) notices: Vec<String>,
    /// The catalogs of versions that get tags.
    pub(crate) tagged: Vec<Catalog>,
    /// Bytes of new files that are held instead of stored, at most.
    pub(crate) held_bytes: usize,
}

/// A point to go back to within a transaction.
#[derive(Clone, Debug)]
pub struct Mark(Changes);

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The version that it made; `None` when there was nothing to commit.
    pub version: Option<DbVersion>,
    /// The transaction.
    pub txn: TxnRef,
    /// What the user should be told once.
    pub notices: Vec<String>,
    /// Records tried: 1 when nobody was in the way, 0 when there was nothing to commit.
    pub attempts: u32,
}

impl Transaction {
    pub(crate) fn new(snapshot: Snapshot, options: TxnOptions) -> Self {
        let context = snapshot.database().inner.context();
        let chosen_id = options.id.is_some();
        let id = options.id.unwrap_or_else(|| TxnId(context.uuid()));
        let changes = Changes {
            catalog: snapshot.catalog().clone(),
            actions: Vec::new(),
            overlays: BTreeMap::new(),
            reads: ReadSet::default(),
            names_read: BTreeSet::new(),
            operations: Vec::new(),
            notices: Vec::new(),
            tagged: Vec::new(),
            held_bytes: 0,
        };
        let pin = options.read_version.map(|version| Pin {
            version,
            read_before: true,
        });
        let (isolation, user_metadata) = (options.isolation, options.user_metadata);
        Self {
            began: Moment::now(snapshot.database().inner.context()),
            staged: StagedFiles::new(&snapshot.database().inner),
            snapshot,
            id,
            chosen_id,
            isolation,
            priority: None,
            pin,
            user_metadata,
            changes,
        }
    }

    /// What to keep to ask for the outcome later.
    pub fn reference(&self) -> TxnRef {
        TxnRef {
            base: self.snapshot.version(),
            id: self.id,
        }
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// The snapshot it reads, without its own changes.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Whether nothing was changed: the commit then costs nothing.
    pub fn is_read_only(&self) -> bool {
        self.changes.is_empty()
    }

    /// Schemas and tables, own changes included.
    pub fn catalog(&self) -> &Catalog {
        &self.changes.catalog
    }

    /// A table's catalog entry, own changes included.
    ///
    /// # Errors
    /// [`DbError::TableNotFound`].
    pub fn entry(&self, id: TableId) -> Result<&Arc<TableEntry>, DbError> {
        let not_found = || DbError::TableNotFound {
            name: self.any_name(id),
        };
        self.changes.catalog.table(id).ok_or_else(not_found)
    }

    /// The folder of a table's files.
    ///
    /// # Errors
    /// [`DbError::TableNotFound`].
    pub fn location(&self, id: TableId) -> Result<Path, DbError> {
        Ok(self.entry(id)?.location.clone())
    }

    /// The state of a table, own changes included: files with rows deleted here have
    /// [`Deletion::Loaded`].
    ///
    /// # Cost
    /// As [`Snapshot::table`].
    pub async fn table(&self, id: TableId) -> Result<Arc<TableState>, DbError> {
        let entry = self.entry(id)?;
        match self.changes.overlays.get(&id) {
            Some(overlay) => Ok(Arc::clone(&overlay.state)),
            None => self.inner().table_state(self.base_entry(entry)).await,
        }
    }

    /// The rows that a file's deletion deletes; cached.
    ///
    /// # Cost
    /// At most 1 ranged GET.
    pub async fn deleted_rows(
        &self,
        id: TableId,
        deletion: &Deletion,
    ) -> Result<Arc<RowSet>, DbError> {
        let entry = self.entry(id)?;
        self.inner().deleted_rows(entry, deletion).await
    }

    /// Remembers that a name was resolved, found or not; judged at commit when serializable.
    pub fn note_name_read(&mut self, schema: &str, table: &str) {
        self.changes
            .names_read
            .insert((schema.to_owned(), table.to_owned()));
    }

    /// What the user should be told about the changes so far.
    pub fn notices(&self) -> Vec<String> {
        self.changes.notices.clone()
    }

    /// The present point, for [`Self::rewind`].
    pub fn mark(&self) -> Mark {
        Mark(self.changes.clone())
    }

    /// Forgets all changes after the mark. What was read stays noted.
    pub fn rewind(&mut self, mark: Mark) {
        // What is noted only grows, so that the mark's is part of it.
        let reads = std::mem::take(&mut self.changes.reads);
        let names_read = std::mem::take(&mut self.changes.names_read);
        self.changes = mark.0;
        self.changes.reads = reads;
        self.changes.names_read.extend(names_read);
    }

    /// Commits, in one record with whatever else commits through the handle at that moment.
    ///
    /// # Errors
    /// [`DbError::Conflict`] when another transaction was first; [`DbError::Fenced`] when it was
    /// aborted because the store did not tell in time, or because somebody asked for its
    /// outcome; [`DbError::Pending`] when the store stopped answering and the outcome is open,
    /// [`DbError::OutcomeExpired`] when it cannot be told any more. After any other error
    /// nothing was committed.
    ///
    /// # Cancel safety
    /// A dropped call that was still waiting for its record is withdrawn; later it may or may
    /// not commit: ask by [`Self::reference`]. Others in its record are not affected.
    ///
    /// # Cost
    /// Nothing when nothing changed. Else 1 PUT on a warm handle that nobody is in the way of;
    /// 1 more for vectors too large to be inline, 1 for each entry that must be staged.
    pub async fn commit(self) -> Result<Committed, DbError> {
        let (tagged, inner) = (self.changes.tagged.clone(), Arc::clone(self.inner()));
        let committed = commit::commit(self).await?;
        tag::keep(&inner, &tagged).await;
        Ok(committed)
    }

    /// The store through which its own files are to be written: they are deleted when it is
    /// given up, so they must not be added to another transaction.
    pub fn store(&self) -> Store {
        self.staged.store(&self.inner().store)
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.snapshot.database().inner
    }

    pub(crate) fn codec(&self, id: TableId) -> Result<Arc<dyn TableCodec>, DbError> {
        self.inner().codec_of(self.entry(id)?)
    }

    /// The error of a transaction that the record at `fence` aborts.
    pub(crate) fn fenced(&self, fence: DbVersion) -> DbError {
        DbError::Fenced {
            txn: self.reference(),
            fence,
            chosen_id: self.chosen_id,
        }
    }

    /// The entry at the snapshot, which knows where the table's versions are.
    fn base_entry<'a>(&'a self, own: &'a Arc<TableEntry>) -> &'a Arc<TableEntry> {
        self.snapshot.catalog().table(own.id).unwrap_or(own)
    }

    fn any_name(&self, id: TableId) -> String {
        let known = self.snapshot.catalog().table_or_dropped(id);
        known.map_or_else(|| id.to_string(), |entry| entry.display_name())
    }
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        let changes =
            |overlay: &Overlay| !overlay.is_unchanged() && !overlay.only_emptied_nothing();
        self.actions.is_empty() && !self.overlays.values().any(changes)
    }

    /// Tables whose entry the commit has to write, in the order of their ids.
    pub(crate) fn changed_tables(&self) -> impl Iterator<Item = (TableId, &Overlay)> {
        self.overlays
            .iter()
            .filter(|(id, overlay)| !overlay.is_unchanged() && self.catalog.table(**id).is_some())
            .map(|(id, overlay)| (*id, overlay))
    }

    pub(crate) fn did(&mut self, operation: Operation) {
        if !self.operations.contains(&operation) {
            self.operations.push(operation);
        }
    }

    pub(crate) fn notice(&mut self, text: String) {
        if !self.notices.contains(&text) {
            self.notices.push(text);
        }
    }
}
