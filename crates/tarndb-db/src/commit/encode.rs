//! A transaction as it stands in the record right after the head.
//!
//! Invariant: everything is taken from the tip anew (the head, with what stands before it in
//! the same record): vectors are united with those live there, removals name the files live
//! there, metadata changes apply to the metadata there, and timestamps lie above everything
//! before.
//! Spec: docs/format/log.md, "Committing"; docs/conflicts.md, "Rebase".

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tarndb_delta::effects::{
    MODE_OVERWRITE, MODE_PARAMETER, PREDICATE_PARAMETER, SOURCE_READ_TARGET,
};
use tarndb_delta::feature::readers_locked_out;
use tarndb_table::codec::{Commit, CommitStamp, Entry, FileUpdate, TableCodec};
use tarndb_table::parquet::read::parquet_row_count;
use tarndb_table::{DataFile, Deletion, DvDescriptor, RowSet, Statistics, TableState};
use tarndb_txn::{Effects, Isolation, KeySet, Operation, Removal, TableEffects, Touched};
use tarndb_types::{TableId, TableVersion, TimestampMs};

use super::pending::{misfit, pending_metadata};
use super::restore;
use super::stage::encode_small;
use super::tip::Tip;
use super::vectors::{StoredVectors, Wanted};
use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;
use crate::record::{Action, EntryBody, Notes, RecordTxn, TableEntryAction, encode_txn};
use crate::transaction::overlay::ENGINE;
use crate::transaction::{Overlay, Transaction};

/// A transaction, ready to stand in a record.
#[derive(Debug)]
pub(crate) struct EncodedTxn {
    pub(crate) txn: RecordTxn,
    /// Its lines.
    pub(crate) text: String,
    /// The tables as it leaves them.
    pub(crate) states: Vec<(TableId, Arc<TableState>)>,
    pub(crate) notices: Vec<String>,
    tables: Vec<Arc<TableEntry>>,
}

impl EncodedTxn {
    /// Stages its largest entries until a record of it alone is small enough.
    ///
    /// # Cost
    /// 1 PUT per staged entry; none for a small transaction.
    pub(crate) async fn stage_large(&mut self, inner: &Inner) -> Result<(), DbError> {
        self.text = encode_small(inner, &mut self.txn, &self.tables).await?;
        Ok(())
    }
}

/// A changed table with what it looks like at the head.
struct Changed<'a> {
    table: Arc<TableEntry>,
    overlay: &'a Overlay,
    /// What the transaction does to it, rebased onto the head.
    effects: &'a TableEffects,
    head: Option<Arc<TableState>>,
}

/// What the commit of one table holds, relative to the head.
#[derive(Default)]
pub(super) struct FileChanges {
    pub(super) adds: Vec<DataFile>,
    updates: Vec<FileUpdate>,
    pub(super) removes: Vec<Arc<DataFile>>,
}

pub(crate) struct Encoder<'a> {
    inner: &'a Inner,
    txn: &'a Transaction,
    effects: &'a Effects,
    tip: &'a Tip,
}

impl<'a> Encoder<'a> {
    /// `effects`: those of `txn`, rebased onto `tip`.
    pub(crate) fn new(
        inner: &'a Inner,
        txn: &'a Transaction,
        effects: &'a Effects,
        tip: &'a Tip,
    ) -> Self {
        Self {
            inner,
            txn,
            effects,
            tip,
        }
    }

    /// # Cost
    /// Nothing on a warm handle for small changes; at most 1 PUT per table for vectors that are
    /// not inline.
    pub(crate) async fn encode(self, vectors: &mut StoredVectors) -> Result<EncodedTxn, DbError> {
        let changed = self.changed().await?;
        let timestamp = self.timestamp(&changed);
        let mut actions = self.txn.changes.actions.clone();
        let mut states = Vec::new();
        let mut notices = Vec::new();
        for changed in &changed {
            let (entry, state) = self.encode_table(changed, timestamp, vectors).await?;
            notices.extend(raised_notice(changed, &state));
            states.push((changed.table.id, Arc::new(state)));
            actions.push(Action::Entry(TableEntryAction {
                format: changed.table.format.clone(),
                table: changed.table.id,
                version: entry.version,
                body: EntryBody::Inline(Arc::new(entry)),
                notes: notes(changed.overlay),
                files: inline_files(changed.overlay),
            }));
        }
        // A table's last entry comes before its end.
        actions.sort_by_key(|action| matches!(action, Action::DetachTable { .. }));
        let txn = self.record_txn(timestamp, actions);
        let tables: Vec<_> = changed
            .iter()
            .map(|changed| Arc::clone(&changed.table))
            .collect();
        Ok(EncodedTxn {
            text: encode_txn(&txn),
            txn,
            states,
            notices,
            tables,
        })
    }

    async fn changed(&self) -> Result<Vec<Changed<'a>>, DbError> {
        let mut changed = Vec::new();
        for (id, overlay) in self.txn.changes.changed_tables() {
            let effects = self.effects.tables.get(&id).ok_or(DbError::Internal {
                what: "a changed table without effects",
            })?;
            if overlay.base.is_none() {
                let table = Arc::clone(self.txn.entry(id)?);
                changed.push(Changed {
                    table,
                    overlay,
                    effects,
                    head: None,
                });
                continue;
            }
            // One that comes back is not live there yet.
            let table = self.tip.catalog().table_or_dropped(id);
            let table = table.ok_or(DbError::Internal {
                what: "a table that was judged live is not at the head",
            })?;
            let head = Some(self.tip.state(self.inner, table).await?);
            changed.push(Changed {
                table: Arc::clone(table),
                overlay,
                effects,
                head,
            });
        }
        Ok(changed)
    }

    fn timestamp(&self, changed: &[Changed<'_>]) -> TimestampMs {
        let tables = changed.iter().filter_map(|changed| changed.head.as_ref());
        let newest = tables
            .filter_map(|head| head.in_commit_timestamp)
            .max()
            .unwrap_or(0);
        let now = self.inner.context().now().0;
        TimestampMs(now.max(self.tip.timestamp().0 + 1).max(newest + 1))
    }

    fn record_txn(&self, timestamp: TimestampMs, actions: Vec<Action>) -> RecordTxn {
        RecordTxn {
            id: self.txn.id,
            read_version: self.txn.snapshot.version(),
            timestamp,
            isolation: self.txn.isolation.name().to_owned(),
            operation: match actions.as_slice() {
                [Action::Vacuum(_)] => crate::vacuum::OPERATION.to_owned(),
                _ => operation_name(&self.txn.changes.operations).to_owned(),
            },
            user_metadata: self.txn.user_metadata.clone(),
            actions,
        }
    }

    async fn encode_table(
        &self,
        changed: &Changed<'_>,
        timestamp: TimestampMs,
        vectors: &mut StoredVectors,
    ) -> Result<(Entry, TableState), DbError> {
        let Changed {
            table,
            overlay,
            head,
            ..
        } = changed;
        let name = table.display_name();
        let codec = self.inner.codec_of(table)?;
        let files = self.file_changes(changed, codec.as_ref(), vectors).await?;
        let head = head.as_deref();
        let metadata = pending_metadata(overlay, head);
        let commit = Commit {
            head,
            create: overlay.create.as_ref(),
            operation: overlay.operation().name(),
            parameters: parameters(overlay),
            metrics: match (&overlay.restored, head) {
                (Some(_), Some(head)) => restore::metrics(&files, head),
                _ => metrics(overlay, &files),
            },
            adds: &files.adds,
            updates: &files.updates,
            removes: &files.removes,
            changes: &overlay.change_files,
            app_txns: &overlay.app_txns,
            metadata: &metadata,
            restored: overlay
                .restored
                .as_ref()
                .map(|restored| restored.to.as_ref()),
            data_change: overlay.moved.is_none(),
            stamp: CommitStamp {
                txn: self.txn.id,
                timestamp,
                version: head.map_or(TableVersion::ZERO, |head| head.version.next()),
                read_version: overlay.base.as_ref().map(|base| base.version),
                database: self.tip.catalog().database(),
                db_version: self.tip.next_version(),
                engine: ENGINE,
                isolation: match self.txn.isolation {
                    Isolation::Snapshot => "SnapshotIsolation",
                    Isolation::Serializable => "Serializable",
                },
            },
        };
        let entry = codec
            .encode(&commit)
            .map_err(DbError::table(name.as_str()))?;
        let state = codec
            .apply(head, &entry)
            .map_err(DbError::table(name.as_str()))?;
        if let Some(column) = misfit(overlay, &state) {
            return Err(DbError::FilesOutdated {
                table: name,
                column,
            });
        }
        Ok((entry, state))
    }

    async fn file_changes(
        &self,
        changed: &Changed<'_>,
        codec: &dyn TableCodec,
        vectors: &mut StoredVectors,
    ) -> Result<FileChanges, DbError> {
        let mut changes = FileChanges::default();
        let mut wanted = Vec::new();
        let mut updated = Vec::new();
        let mut comes = Vec::new();
        if let Some(head) = &changed.head {
            if let Some(restored) = &changed.overlay.restored {
                let difference = restore::difference(changed.overlay, restored, head);
                changes.removes = difference.goes;
                comes = difference.comes;
            } else {
                changes.removes = removed_files(changed, head)?;
            }
            for (path, touched) in &changed.effects.deletions {
                let old = live_file(head, path)?;
                match self.united(changed, &old, touched).await? {
                    None => changes.updates.push(FileUpdate { old, new: None }),
                    Some(rows) => {
                        let rows = Arc::new(rows);
                        let (path, at_head) = (path.clone(), old.deletion.clone());
                        wanted.push(Wanted {
                            path,
                            at_head,
                            rows,
                        });
                        updated.push(old);
                    }
                }
            }
        }
        let (emptied, own): (BTreeMap<_, _>, BTreeMap<_, _>) = own_deletions(changed)
            .into_iter()
            .partition(|(path, rows)| {
                let file = changed.overlay.own_file(path);
                file.is_none_or(|file| file.num_records() == Some(rows.len()))
            });
        wanted.extend(own.iter().map(|(path, rows)| Wanted {
            path: (*path).clone(),
            at_head: Deletion::None,
            rows: Arc::clone(rows),
        }));
        let mut stored = vectors
            .store(self.inner, codec, &changed.table, &wanted)
            .await?
            .into_iter();
        for (old, new) in updated.into_iter().zip(stored.by_ref()) {
            let new = Some(new);
            changes.updates.push(FileUpdate { old, new });
        }
        let mut own: BTreeMap<&String, _> = own.into_keys().zip(stored).collect();
        let kept = changed.overlay.adds.values().chain(&comes);
        for file in kept.filter(|file| !emptied.contains_key(&file.path)) {
            changes.adds.push(own_file(file, own.remove(&file.path)));
        }
        Ok(changes)
    }

    /// All deleted rows of a file at the head, ours included; `None` when no row is left.
    async fn united(
        &self,
        changed: &Changed<'_>,
        old: &DataFile,
        ours: &Touched,
    ) -> Result<Option<RowSet>, DbError> {
        let Touched::Rows(rows) = ours else {
            return Err(DbError::Internal {
                what: "own deletions without their rows",
            });
        };
        let table = &changed.table;
        let deleted = self.inner.deleted_rows(table, &old.deletion).await?;
        let all = deleted.as_ref() | rows;
        let emptied = all.len() == self.row_count(table, old).await?;
        Ok((!emptied).then_some(all))
    }

    async fn row_count(&self, table: &TableEntry, file: &DataFile) -> Result<u64, DbError> {
        if let Some(rows) = file.num_records() {
            return Ok(rows);
        }
        let name = table.display_name();
        parquet_row_count(&self.inner.store, &table.location, file)
            .await
            .map_err(DbError::table(name))
    }
}

/// Files that the transaction removes whole, as they are at the head.
fn removed_files(changed: &Changed<'_>, head: &TableState) -> Result<Vec<Arc<DataFile>>, DbError> {
    if changed.overlay.overwrite.is_some() {
        return Ok(head.files.values().collect());
    }
    let rewritten = changed.overlay.removes.keys();
    let mut removed: Vec<_> = rewritten
        .map(|path| live_file(head, path))
        .collect::<Result<_, _>>()?;
    // A moved file that is gone was emptied by others: their deletions are carried, and two
    // that move one file are never both let through.
    let moved = changed.effects.removes.iter();
    let moved = moved.filter(|(_, removal)| **removal == Removal::Moved);
    removed.extend(moved.filter_map(|(path, _)| head.files.get(path)));
    Ok(removed)
}

/// Deleted rows of own new files: those that the transaction deleted again, and those that
/// others deleted where a rewrite took them from.
fn own_deletions<'a>(changed: &Changed<'a>) -> BTreeMap<&'a String, Arc<RowSet>> {
    let mut deletions: BTreeMap<&String, Arc<RowSet>> = BTreeMap::new();
    for (path, rows) in &changed.overlay.own_deletions {
        deletions.insert(path, Arc::clone(rows));
    }
    for (path, rows) in &changed.effects.carried {
        *Arc::make_mut(deletions.entry(path).or_default()) |= rows;
    }
    deletions
}

/// An own new file with its vector. Its bounds are then those of more rows than are live.
fn own_file(file: &DataFile, vector: Option<DvDescriptor>) -> DataFile {
    let mut file = file.clone();
    if let Some(descriptor) = vector {
        file.deletion = Deletion::Stored(descriptor);
        file.stats = file.stats.map(|stats| {
            Arc::new(Statistics {
                tight_bounds: false,
                ..stats.as_ref().clone()
            })
        });
    }
    file
}

/// What the entry tells those who will judge it.
fn notes(overlay: &Overlay) -> Option<Arc<Notes>> {
    let told = overlay.keys.as_ref().filter(|keys| !keys.any);
    let keys =
        told.and_then(|keys| KeySet::of(keys.key.names(), &keys.hashes, overlay.keys_cover_adds()));
    let moved = overlay.moved.as_ref();
    let notes = Notes {
        row_map: moved.and_then(|moved| moved.row_map.as_ref().map(|(_, note)| note.clone())),
        keys,
    };
    (!notes.is_empty()).then(|| Arc::new(notes))
}

/// The bytes of the new files that are not stored: the record carries them.
fn inline_files(overlay: &Overlay) -> BTreeMap<String, Bytes> {
    let held = overlay.adds.iter().filter_map(|(path, file)| {
        let bytes = file.unstored()?.bytes().clone();
        Some((path.clone(), bytes))
    });
    held.collect()
}

/// The verdicts let nobody through whose file is gone; should one be, nothing is written.
fn live_file(head: &TableState, path: &str) -> Result<Arc<DataFile>, DbError> {
    let file = head.files.get(path);
    file.ok_or(DbError::Internal {
        what: "a file that was judged live is not at the head",
    })
}

/// What a reader of the table's history needs to know that its files do not show.
fn parameters(overlay: &Overlay) -> BTreeMap<String, String> {
    if let Some(restored) = &overlay.restored {
        return restore::parameters(restored);
    }
    if let Some(cloned) = &overlay.cloned {
        return cloned.parameters();
    }
    if let Some(moved) = &overlay.moved {
        return moved.parameters.clone();
    }
    let mut parameters = BTreeMap::new();
    let overwrites = overlay.overwrite.is_some() || overlay.overwritten.is_some();
    let mode = if overwrites { MODE_OVERWRITE } else { "Append" };
    if overwrites || !overlay.adds.is_empty() {
        parameters.insert(MODE_PARAMETER.to_owned(), mode.to_owned());
    }
    let mut reads_target = overlay.overwrite == Some(true);
    if overlay.overwrite.is_none()
        && let Some(rows) = &overlay.overwritten
    {
        parameters.insert(PREDICATE_PARAMETER.to_owned(), rows.text());
        reads_target = rows.source_read_target;
    }
    if reads_target {
        parameters.insert(SOURCE_READ_TARGET.to_owned(), "true".to_owned());
    }
    parameters
}

fn metrics(overlay: &Overlay, files: &FileChanges) -> BTreeMap<String, String> {
    if overlay.moved.is_some() {
        return moved_metrics(files);
    }
    let rows_added: u64 = files.adds.iter().filter_map(DataFile::live_rows).sum();
    let rows_deleted: u64 = overlay.deletions.values().map(|rows| rows.len()).sum();
    let bytes_added: u64 = files.adds.iter().map(|file| file.size_bytes).sum();
    let emptied = files
        .updates
        .iter()
        .filter(|update| update.new.is_none())
        .count();
    let mut metrics = BTreeMap::new();
    let mut put = |key: &str, value: u64| metrics.insert(key.to_owned(), value.to_string());
    if !files.adds.is_empty() {
        put("numFiles", files.adds.len() as u64);
        put("numOutputRows", rows_added);
        put("numOutputBytes", bytes_added);
    }
    if !files.updates.is_empty() {
        put("numDeletedRows", rows_deleted);
    }
    if emptied > 0 || !files.removes.is_empty() {
        put("numRemovedFiles", (emptied + files.removes.len()) as u64);
    }
    if let Some(merged) = &overlay.merged
        && overlay.operation() == Operation::Upsert
    {
        if let Some(rows) = merged.source_rows {
            put("numSourceRows", rows);
        }
        put("numTargetRowsInserted", merged.inserted);
        put("numTargetRowsUpdated", merged.updated);
        put("numTargetRowsDeleted", merged.deleted);
        put("numTargetRowsCopied", merged.copied);
        put("numTargetFilesAdded", files.adds.len() as u64);
        put(
            "numTargetFilesRemoved",
            (emptied + files.removes.len()) as u64,
        );
        put("numTargetFilesScanned", merged.files_scanned);
        put("numTargetFilesSkipped", merged.files_skipped);
    }
    metrics
}

/// As other engines tell them of an OPTIMIZE.
fn moved_metrics(files: &FileChanges) -> BTreeMap<String, String> {
    let bytes = |files: &mut dyn Iterator<Item = &DataFile>| -> u64 {
        files.map(|file| file.size_bytes).sum()
    };
    let figures = [
        ("numAddedFiles", files.adds.len() as u64),
        ("numAddedBytes", bytes(&mut files.adds.iter())),
        ("numRemovedFiles", files.removes.len() as u64),
        (
            "numRemovedBytes",
            bytes(&mut files.removes.iter().map(Arc::as_ref)),
        ),
    ];
    let text = |(key, value): (&str, u64)| (key.to_owned(), value.to_string());
    figures.into_iter().map(text).collect()
}

/// What the record says that the user did.
fn operation_name(operations: &[Operation]) -> &'static str {
    match operations {
        [] => "TRANSACTION",
        [only] => only.name(),
        [Operation::RestoreDatabase, ..] => Operation::RestoreDatabase.name(),
        [Operation::DropView, Operation::CreateView] => Operation::CreateView.name(),
        [Operation::CreateTable, Operation::Append] => Operation::CreateTableAsSelect.name(),
        _ => "TRANSACTION",
    }
}

/// Told when the commit adds a feature that readers must know and the statements did not say so
/// already: from now on older readers cannot read the table.
fn raised_notice(changed: &Changed<'_>, after: &TableState) -> Option<String> {
    let head = changed.head.as_deref();
    readers_locked_out(head, after)?;
    let added = readers_locked_out(Some(&changed.overlay.state), after)?;
    let name = changed.table.display_name();
    Some(format!("table {name} has a new feature: {added}"))
}
