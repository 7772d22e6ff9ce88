//! `Overlay`: what an open transaction did to one table, on top of the state that it read.
//!
//! Invariant: `state` always equals `base` with all recorded changes applied; every change is
//! kept relative to the base, so that it can be judged and encoded against any later head.
//! A file is in at most one of `adds`, `deletions`, `removes` and what is restored.
//! It does no IO.
//! Spec: docs/format/log.md, "Transactions".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tarndb_table::codec::{
    CloneSource, Commit, CommitStamp, MetadataChange, TableCodec, TableDefinition,
};
use tarndb_table::{
    DataFile, Deletion, Files, IdentityUse, RowPredicate, RowSet, RuleChange, TableError,
    TableState,
};
use tarndb_txn::{Operation, RowMap};
use tarndb_types::{DatabaseId, DbVersion, TableVersion, TimestampMs, TxnId, Uuid};

use super::Cloned;
use super::feed::{Feed, Image};
use super::merge::MergeCounts;
use super::restore::Restored;
use crate::record::RowMapNote;
use crate::upsert::KeysLooked;

/// The engine that table commits name.
pub(crate) const ENGINE: &str = concat!("TarnDB/", env!("CARGO_PKG_VERSION"));

/// Own changes of one table.
#[derive(Clone, Debug)]
pub(crate) struct Overlay {
    /// The state at the transaction's snapshot; `None` when the table was created here.
    pub(crate) base: Option<Arc<TableState>>,
    /// The definition when it was created here.
    pub(crate) create: Option<TableDefinition>,
    /// What it is a clone of, when it was created here as one.
    pub(crate) cloned: Option<Cloned>,
    /// What the transaction sees.
    pub(crate) state: Arc<TableState>,
    /// Own new files, without their deletions.
    pub(crate) adds: BTreeMap<String, Arc<DataFile>>,
    /// Rows deleted again in own new files.
    pub(crate) own_deletions: BTreeMap<String, Arc<RowSet>>,
    /// Rows newly deleted in files of the base.
    pub(crate) deletions: BTreeMap<String, Arc<RowSet>>,
    /// Files of the base that were rewritten (copy-on-write).
    pub(crate) removes: BTreeMap<String, Arc<DataFile>>,
    /// Files of the base whose rows were moved into `adds`, unchanged: then nothing else was done
    /// to the table.
    pub(crate) moved: Option<Moved>,
    /// All data of the base is replaced; whether the source read the table.
    pub(crate) overwrite: Option<bool>,
    /// The earlier version that replaces it, if one does.
    pub(crate) restored: Option<Restored>,
    /// Rows that match a predicate are replaced.
    pub(crate) overwritten: Option<OverwrittenRows>,
    /// Keys that upserts looked for.
    pub(crate) keys: Option<KeysLooked>,
    /// Those of `adds` of which every new row has its key in `keys` (or none).
    pub(crate) upserted: BTreeSet<String>,
    /// How rows were changed.
    pub(crate) feed: Feed,
    /// What merges did, for the history.
    pub(crate) merged: Option<MergeCounts>,
    /// The files that tell so, once the commit has written them.
    pub(crate) change_files: Vec<DataFile>,
    /// Application transactions set.
    pub(crate) app_txns: BTreeMap<String, i64>,
    /// Metadata changes in order.
    pub(crate) metadata: Vec<MetadataChange>,
    /// What was done, in order, without repetition.
    pub(crate) operations: Vec<Operation>,
}

/// What a rewrite moved.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    /// The files that it read, as the base has them.
    pub(crate) sources: BTreeMap<String, Arc<DataFile>>,
    /// Where their live rows are now, and how the record tells it; `None` without a map.
    pub(crate) row_map: Option<(Arc<RowMap>, RowMapNote)>,
    /// What the table's history tells.
    pub(crate) parameters: BTreeMap<String, String>,
}

/// The rows that an overwrite replaces.
#[derive(Clone, Debug)]
pub(crate) struct OverwrittenRows {
    /// One for each statement.
    pub(crate) predicates: Vec<Arc<dyn RowPredicate>>,
    pub(crate) source_read_target: bool,
}

impl OverwrittenRows {
    /// The predicates for people.
    pub(crate) fn text(&self) -> String {
        let texts = self.predicates.iter().map(ToString::to_string);
        texts.collect::<Vec<_>>().join(" OR ")
    }
}

/// Rows to delete in one file, looked up and checked.
#[derive(Clone, Debug)]
pub(crate) struct FileDeletion {
    pub(crate) file: Arc<DataFile>,
    /// Newly deleted rows.
    pub(crate) rows: RowSet,
    /// Those of them that have no new form, in an operation of which others have.
    pub(crate) gone: RowSet,
    /// All deleted rows, the new ones included.
    pub(crate) all: Arc<RowSet>,
    /// Whether no row is left.
    pub(crate) emptied: bool,
}

impl Overlay {
    /// No change yet.
    pub(crate) fn of_base(base: Arc<TableState>) -> Self {
        Self {
            state: Arc::clone(&base),
            base: Some(base),
            create: None,
            cloned: None,
            adds: BTreeMap::new(),
            own_deletions: BTreeMap::new(),
            deletions: BTreeMap::new(),
            removes: BTreeMap::new(),
            moved: None,
            overwrite: None,
            restored: None,
            overwritten: None,
            keys: None,
            upserted: BTreeSet::new(),
            feed: Feed::default(),
            merged: None,
            change_files: Vec::new(),
            app_txns: BTreeMap::new(),
            metadata: Vec::new(),
            operations: Vec::new(),
        }
    }

    /// A table created here.
    pub(crate) fn created(
        codec: &dyn TableCodec,
        definition: TableDefinition,
    ) -> Result<Self, TableError> {
        let state = Arc::new(changed_state(codec, None, Some(&definition), &[])?);
        let mut overlay = Self::of_base(state);
        overlay.base = None;
        overlay.create = Some(definition);
        overlay.did(Operation::CreateTable);
        Ok(overlay)
    }

    /// A table created here as a clone, without its files.
    pub(crate) fn cloned(
        codec: &dyn TableCodec,
        definition: TableDefinition,
        source: CloneSource,
        cloned: Cloned,
    ) -> Result<Self, TableError> {
        let changes = vec![MetadataChange::CloneOf(source)];
        let state = Arc::new(changed_state(codec, None, Some(&definition), &changes)?);
        let mut overlay = Self::of_base(state);
        overlay.base = None;
        overlay.create = Some(definition);
        overlay.metadata = changes;
        overlay.cloned = Some(cloned);
        overlay.did(Operation::Clone);
        Ok(overlay)
    }

    /// Whether there is nothing to commit for this table.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.create.is_none()
            && self.adds.is_empty()
            && self.deletions.is_empty()
            && self.removes.is_empty()
            && self.moved.is_none()
            && self.overwrite.is_none()
            && self.app_txns.is_empty()
            && self.metadata.is_empty()
    }

    /// Whether all it did is to remove the rows of a table that had none: alone, that is no
    /// change worth a record.
    pub(crate) fn only_emptied_nothing(&self) -> bool {
        let nothing = self.base.as_ref().is_some_and(|base| base.files.is_empty());
        nothing
            && self.overwrite.is_some()
            && self.restored.is_none()
            && self.adds.is_empty()
            && self.app_txns.is_empty()
            && self.metadata.is_empty()
    }

    pub(crate) fn did(&mut self, operation: Operation) {
        if self.operations.last() != Some(&operation) {
            self.operations.push(operation);
        }
    }

    /// The one name under which the change goes: an overwrite or creation counts before what
    /// it consists of; else the first that changed data.
    pub(crate) fn operation(&self) -> Operation {
        let strongest = [
            Operation::Clone,
            Operation::ReplaceTable,
            Operation::CreateTableAsSelect,
            Operation::CreateTable,
            Operation::Restore,
            Operation::Overwrite,
            Operation::Truncate,
            Operation::Upsert,
            Operation::Update,
            Operation::Delete,
            Operation::Append,
        ];
        let done = |wanted: &&Operation| self.operations.contains(*wanted);
        let first = self.operations.first().copied();
        strongest
            .iter()
            .find(done)
            .copied()
            .or(first)
            .unwrap_or(Operation::Append)
    }

    pub(crate) fn add_files(&mut self, files: Vec<DataFile>, operation: Operation) {
        if files.is_empty() {
            return;
        }
        let state = Arc::make_mut(&mut self.state);
        for file in files {
            let file = Arc::new(file);
            state.files.insert(Arc::clone(&file));
            self.adds.insert(file.path.clone(), file);
        }
        self.did(operation);
    }

    /// Adds the files of a clone, and the rows that are deleted in some of them beside what they
    /// say themselves.
    pub(crate) fn add_cloned(
        &mut self,
        files: Vec<DataFile>,
        deletions: BTreeMap<String, Arc<RowSet>>,
    ) {
        self.add_files(files, Operation::Clone);
        let state = Arc::make_mut(&mut self.state);
        for (path, rows) in &deletions {
            if let Some(file) = state.files.get(path) {
                let mut file = DataFile::clone(&file);
                file.deletion = Deletion::Loaded(Arc::clone(rows));
                state.files.insert(Arc::new(file));
            }
        }
        self.own_deletions.extend(deletions);
    }

    /// Adds the files of an upsert, with the keys that it looked for, if it did.
    pub(crate) fn add_upserted(
        &mut self,
        files: Vec<(DataFile, Image)>,
        looked: Option<KeysLooked>,
    ) {
        if let Some(looked) = looked {
            self.upserted
                .extend(files.iter().map(|(file, _)| file.path.clone()));
            match &mut self.keys {
                Some(keys) => keys.extend(looked),
                None => self.keys = Some(looked),
            }
        }
        self.add_images(files, Operation::Upsert);
    }

    /// Whether every row that was added has its key in `keys`.
    pub(crate) fn keys_cover_adds(&self) -> bool {
        self.adds.keys().all(|path| self.upserted.contains(path))
    }

    /// Notes that the rows that match a predicate were replaced.
    pub(crate) fn note_overwritten(&mut self, further: OverwrittenRows) {
        self.overwritten = Some(match self.overwritten.take() {
            None => further,
            Some(mut earlier) => {
                earlier.predicates.extend(further.predicates);
                earlier.source_read_target |= further.source_read_target;
                earlier
            }
        });
        self.did(Operation::Overwrite);
    }

    pub(crate) fn set_app_transaction(&mut self, app_id: &str, version: i64) {
        self.app_txns.insert(app_id.to_owned(), version);
        let state = Arc::make_mut(&mut self.state);
        state.app_txns.insert(app_id.to_owned(), version);
    }

    /// Deletes rows by vectors.
    pub(crate) fn delete_rows(&mut self, deletions: Vec<FileDeletion>, operation: Operation) {
        for deletion in deletions {
            let path = deletion.file.path.clone();
            let own = self.is_own(&path);
            self.note_deleted(&deletion, own, operation);
            let state = Arc::make_mut(&mut self.state);
            if deletion.emptied {
                state.files.remove(&path);
            } else {
                let mut file = DataFile::clone(&deletion.file);
                file.deletion = Deletion::Loaded(Arc::clone(&deletion.all));
                state.files.insert(Arc::new(file));
            }
            if !own {
                let rows = self.deletions.entry(path).or_default();
                *Arc::make_mut(rows) |= deletion.rows;
            } else if deletion.emptied {
                self.forget_own(&path);
            } else {
                self.own_deletions.insert(path, deletion.all);
            }
        }
        self.did(operation);
    }

    fn note_deleted(&mut self, deletion: &FileDeletion, own: bool, operation: Operation) {
        let path = &deletion.file.path;
        if deletion.gone.is_empty() {
            self.feed.note_deleted(path, own, &deletion.rows, operation);
            return;
        }
        let replaced = &deletion.rows - &deletion.gone;
        if !replaced.is_empty() {
            self.feed.note_deleted(path, own, &replaced, operation);
        }
        let delete = Operation::Delete;
        self.feed.note_deleted(path, own, &deletion.gone, delete);
    }

    /// Replaces files by rewritten ones (copy-on-write).
    pub(crate) fn rewrite_files(
        &mut self,
        old: &[FileDeletion],
        new: Vec<(DataFile, Image)>,
        operation: Operation,
    ) {
        // Rows carried along from files that were there count for no key.
        let plain = |file: &Arc<DataFile>| {
            self.adds.contains_key(&file.path) && !self.upserted.contains(&file.path)
        };
        if !old.iter().any(|deletion| plain(&deletion.file)) {
            self.upserted
                .extend(new.iter().map(|(file, _)| file.path.clone()));
        }
        for deletion @ FileDeletion { file, rows, .. } in old {
            let own = self.is_own(&file.path);
            self.note_deleted(deletion, own, operation);
            Arc::make_mut(&mut self.state).files.remove(&file.path);
            self.forget_own(&file.path);
            let base = self
                .base
                .as_ref()
                .and_then(|base| base.files.get(&file.path));
            if let Some(base) = base.filter(|_| !own) {
                // The whole file goes, and with it what was deleted in it before.
                if let Some(before) = self.deletions.remove(&file.path) {
                    self.feed.note_rewritten(&file.path, &before);
                }
                self.feed.note_rewritten(&file.path, rows);
                self.removes.insert(file.path.clone(), base);
            }
        }
        self.add_images(new, operation);
        self.did(operation);
    }

    /// Adds files with what their rows are.
    pub(crate) fn add_images(&mut self, files: Vec<(DataFile, Image)>, operation: Operation) {
        for (file, image) in &files {
            self.feed.note_file(&file.path, *image);
        }
        let files = files.into_iter().map(|(file, _)| file).collect();
        self.add_files(files, operation);
    }

    /// Replaces files by others that hold the same live rows. The overlay has no other change.
    pub(crate) fn move_rows(&mut self, moved: Moved, files: Vec<DataFile>) {
        let state = Arc::make_mut(&mut self.state);
        for path in moved.sources.keys() {
            state.files.remove(path);
        }
        self.moved = Some(moved);
        self.add_files(files, Operation::Rewrite);
        self.did(Operation::Rewrite);
    }

    /// Replaces all data; what that removes is decided at commit.
    pub(crate) fn overwrite(
        &mut self,
        files: Vec<DataFile>,
        source_read_target: bool,
        operation: Operation,
    ) {
        self.adds.clear();
        self.own_deletions.clear();
        self.deletions.clear();
        self.removes.clear();
        // All that is at the head goes, whatever was found before.
        if self.restored.take().is_some() {
            self.operations.retain(|done| *done != Operation::Restore);
        }
        self.overwritten = None;
        self.keys = None;
        self.merged = None;
        self.feed = Feed::default();
        Arc::make_mut(&mut self.state).files = Files::default();
        // Of an empty base too: others may append before the commit.
        if self.base.is_some() {
            self.overwrite = Some(source_read_target || self.overwrite == Some(true));
            self.did(operation);
        }
        self.add_files(files, operation);
    }

    /// Records a metadata change, after checking it against the base or the new table.
    pub(crate) fn change_metadata(
        &mut self,
        codec: &dyn TableCodec,
        change: MetadataChange,
        operation: Operation,
    ) -> Result<(), TableError> {
        self.apply_metadata(codec, change)?;
        self.did(operation);
        Ok(())
    }

    /// Moves the marks of identity columns, as part of whatever added the rows.
    pub(crate) fn take_identities(
        &mut self,
        codec: &dyn TableCodec,
        used: &[IdentityUse],
    ) -> Result<(), TableError> {
        used.iter().try_for_each(|used| {
            let (column, mark) = (used.column.clone(), used.after);
            let change = RuleChange::MoveIdentity { column, mark };
            self.apply_metadata(codec, MetadataChange::Rule(change))
        })
    }

    pub(super) fn apply_metadata(
        &mut self,
        codec: &dyn TableCodec,
        change: MetadataChange,
    ) -> Result<(), TableError> {
        let mut changes = self.metadata.clone();
        changes.push(change);
        let fresh = changed_state(codec, self.base.as_deref(), self.create.as_ref(), &changes)?;
        self.metadata = changes;
        let state = Arc::make_mut(&mut self.state);
        state.schema = fresh.schema;
        state.partition_columns = fresh.partition_columns;
        state.clustering_columns = fresh.clustering_columns;
        state.properties = fresh.properties;
        state.description = fresh.description;
        state.format = fresh.format;
        Ok(())
    }
}

/// The state after a table is created or changed.
pub(super) fn changed_state(
    codec: &dyn TableCodec,
    base: Option<&TableState>,
    create: Option<&TableDefinition>,
    changes: &[MetadataChange],
) -> Result<TableState, TableError> {
    let commit = preview(base, create, changes);
    codec.apply(base, &codec.encode(&commit)?)
}

/// For commits that are never written.
static NO_APP_TXNS: BTreeMap<String, i64> = BTreeMap::new();

/// A commit that is never written: it shows what the codec makes of a definition or a change.
fn preview<'a>(
    head: Option<&'a TableState>,
    create: Option<&'a TableDefinition>,
    metadata: &'a [MetadataChange],
) -> Commit<'a> {
    let version = head.map_or(TableVersion::ZERO, |head| head.version.next());
    let timestamp = head
        .and_then(|head| head.in_commit_timestamp)
        .map_or(0, |last| last + 1);
    Commit {
        head,
        create,
        operation: Operation::UpdateConfig.name(),
        parameters: BTreeMap::new(),
        metrics: BTreeMap::new(),
        adds: &[],
        updates: &[],
        removes: &[],
        changes: &[],
        app_txns: &NO_APP_TXNS,
        metadata,
        restored: None,
        data_change: true,
        stamp: CommitStamp {
            txn: TxnId(Uuid::nil()),
            timestamp: TimestampMs(timestamp),
            version,
            read_version: head.map(|head| head.version),
            database: DatabaseId(Uuid::nil()),
            db_version: DbVersion::ZERO,
            engine: ENGINE,
            isolation: "SnapshotIsolation",
        },
    }
}
