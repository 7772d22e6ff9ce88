//! Data and metadata changes of a transaction.
//!
//! Invariant: rows named for deletion are live in what the transaction sees; a call first
//! prepares everything that can fail and then changes the overlay.
//! Spec: docs/format/log.md, "Transactions"; docs/conflicts.md, "Copy-on-write".

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use tarndb_table::codec::MetadataChange;
use tarndb_table::parquet::read::parquet_row_count;
use tarndb_table::{
    DataFile, Deletion, NewColumn, RowIdColumns, RowSet, TableError, TableState, TableWriter,
    WriteOptions, Written, WrittenChange, conform_batch, store_held,
};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use super::feed::{Image, images};
use super::overlay::{FileDeletion, Moved, OverwrittenRows};
use super::{Overlay, Transaction};
use crate::compact::Rewritten;
use crate::error::DbError;
use crate::scan::{Scan, Scanned};
use crate::upsert::KeysLooked;

/// Deletion vectors fetched at the same time.
const VECTORS_AHEAD: usize = 16;

impl Transaction {
    /// Appends rows: writes them as data files now, visible to others at commit. Columns are
    /// taken by position.
    ///
    /// # Errors
    /// Rows that do not fit the table, or an error of the stream itself.
    pub async fn append<S, E>(&mut self, id: TableId, batches: S) -> Result<Written, DbError>
    where
        S: Stream<Item = Result<RecordBatch, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let name = self.entry(id)?.display_name();
        let schema = Arc::clone(&self.table(id).await?.schema);
        let mut writer = self.writer(id).await?;
        let mut batches = std::pin::pin!(batches);
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(|error| DbError::Source(error.into()))?;
            let batch = conform_batch(&batch, &schema).map_err(DbError::table(name.as_str()))?;
            writer
                .write(&batch)
                .await
                .map_err(DbError::table(name.as_str()))?;
        }
        let written = writer.finish().await.map_err(DbError::table(name))?;
        self.add_files(id, written.clone(), Operation::Append)
            .await?;
        Ok(written)
    }

    /// A writer for callers that drive the writing themselves; hand what it returns to
    /// [`Self::add_files`] or [`Self::overwrite`]. Rows bring all columns and are checked by the
    /// table's rules as they are now.
    ///
    /// # Errors
    /// A table property that cannot be obeyed, a rule that cannot be evaluated.
    pub async fn writer(&self, id: TableId) -> Result<TableWriter, DbError> {
        self.ruled_writer(id, None).await
    }

    /// A writer of rows that are in the table already, which no rule is asked about again.
    pub(super) fn writer_for(
        &self,
        id: TableId,
        state: &TableState,
    ) -> Result<TableWriter, DbError> {
        let entry = self.entry(id)?;
        let options =
            WriteOptions::of_table(state).map_err(DbError::table(entry.display_name()))?;
        Ok(TableWriter::new(
            self.inner().store.clone(),
            entry.location.clone(),
            Arc::clone(&state.schema),
            state.partition_columns.clone(),
            options,
        )
        .with_held(self.inner().options.held_limits()))
    }

    /// Adds written files.
    pub async fn add_files(
        &mut self,
        id: TableId,
        written: Written,
        operation: Operation,
    ) -> Result<(), DbError> {
        self.make_room(id, &[&written]).await?;
        self.add_prepared(id, written, operation).await
    }

    /// All that can fail or be given up when written files are added. A call that deletes rows
    /// for them comes here first, so that it never ends between the two.
    pub(crate) async fn make_room(
        &mut self,
        id: TableId,
        written: &[&Written],
    ) -> Result<(), DbError> {
        for part in written {
            self.check_written(id, part).await?;
        }
        let files: Vec<&DataFile> = written.iter().flat_map(|part| &part.files).collect();
        self.overlay(id).await?;
        self.bound_held(&files).await
    }

    /// Adds files after [`Self::make_room`].
    pub(super) async fn add_prepared(
        &mut self,
        id: TableId,
        written: Written,
        operation: Operation,
    ) -> Result<(), DbError> {
        self.notice_written(id, written.empty_string_as_null)?;
        self.take_identities(id, &written).await?;
        let image = match operation {
            Operation::Update => Image::Updated,
            _ => Image::Inserted,
        };
        let files = written.files.into_iter().map(|file| (file, image));
        self.overlay(id)
            .await?
            .add_images(files.collect(), operation);
        self.changes.did(operation);
        Ok(())
    }

    /// Adds the files of an upsert after [`Self::make_room`].
    pub(crate) async fn add_upserted(
        &mut self,
        id: TableId,
        written: WrittenChange,
        looked: KeysLooked,
    ) -> Result<(), DbError> {
        self.notice_written(id, written.empty_string_as_null())?;
        for part in written.parts() {
            self.take_identities(id, part).await?;
        }
        let files = images(written);
        self.overlay(id).await?.add_upserted(files, Some(looked));
        self.changes.did(Operation::Upsert);
        Ok(())
    }

    /// Deletes rows and adds what a [`ChangeWriter`](tarndb_table::ChangeWriter) wrote for them; how
    /// many rows were deleted.
    ///
    /// # Errors
    /// As [`Self::delete_rows`].
    pub async fn replace_rows(
        &mut self,
        id: TableId,
        rows: BTreeMap<String, RowSet>,
        written: WrittenChange,
        operation: Operation,
    ) -> Result<u64, DbError> {
        self.make_room(id, &written.parts()).await?;
        let count = self.delete_rows(id, rows, operation).await?;
        self.notice_written(id, written.empty_string_as_null())?;
        for part in written.parts() {
            self.take_identities(id, part).await?;
        }
        let files = images(written);
        self.overlay(id).await?.add_images(files, operation);
        self.changes.did(operation);
        Ok(count)
    }

    /// The keys that upserts of a table looked for so far.
    pub(crate) fn keys_looked(&self, id: TableId) -> Option<&KeysLooked> {
        self.changes.overlays.get(&id)?.keys.as_ref()
    }

    pub(super) async fn note_overwritten(
        &mut self,
        id: TableId,
        overwritten: OverwrittenRows,
    ) -> Result<(), DbError> {
        self.overlay(id).await?.note_overwritten(overwritten);
        self.changes.did(Operation::Overwrite);
        Ok(())
    }

    /// Deletes rows by their physical positions, which must all be live in what the transaction
    /// sees, and returns how many. By deletion vectors, or by rewriting the files when the table
    /// has them off. A file that is named without rows goes with them when it has none.
    ///
    /// # Cost
    /// A ranged GET for each stored vector not yet cached; the files themselves only when they
    /// are rewritten.
    ///
    /// # Errors
    /// [`DbError::RowsNotLive`]; nothing is changed then.
    pub async fn delete_rows(
        &mut self,
        id: TableId,
        rows: BTreeMap<String, RowSet>,
        operation: Operation,
    ) -> Result<u64, DbError> {
        self.delete_rows_of(id, rows, BTreeMap::new(), operation)
            .await
    }

    /// The same; `gone` are those of the rows that have no new form, where others have one.
    pub(super) async fn delete_rows_of(
        &mut self,
        id: TableId,
        rows: BTreeMap<String, RowSet>,
        mut gone: BTreeMap<String, RowSet>,
        operation: Operation,
    ) -> Result<u64, DbError> {
        let count = rows.values().map(RowSet::len).sum();
        if count == 0 {
            return Ok(0);
        }
        let state = self.table(id).await?;
        // Boxed, so that the compiler sees that they can be sent.
        let deletions: Vec<_> = rows
            .into_iter()
            .map(|(path, rows)| {
                let gone = gone.remove(&path).unwrap_or_default();
                self.file_deletion(id, &state, path, rows, gone).boxed()
            })
            .collect();
        let deletions = futures::stream::iter(deletions).buffered(VECTORS_AHEAD);
        let mut deletions: Vec<FileDeletion> = deletions.try_collect().await?;
        deletions.retain(|deletion| deletion.emptied || !deletion.rows.is_empty());
        if state.deletion_vectors_enabled() {
            self.overlay(id).await?.delete_rows(deletions, operation);
        } else {
            let rewritten = self.rewrite(id, &state, &deletions).await?;
            let new: Vec<&DataFile> = rewritten.iter().map(|(file, _)| file).collect();
            self.bound_held(&new).await?;
            self.overlay(id)
                .await?
                .rewrite_files(&deletions, rewritten, operation);
        }
        self.changes.did(operation);
        Ok(count)
    }

    async fn file_deletion(
        &self,
        id: TableId,
        state: &TableState,
        path: String,
        rows: RowSet,
        gone: RowSet,
    ) -> Result<FileDeletion, DbError> {
        let table = self.entry(id)?.display_name();
        let Some(file) = state.files.get(&path) else {
            return Err(DbError::RowsNotLive {
                table,
                file: path,
                rows: rows.len(),
            });
        };
        let deleted = self.deleted_rows(id, &file.deletion).await?;
        let total = self.row_count(id, &file).await?;
        let beyond = rows.len() - rows.rank(total.saturating_sub(1));
        let wrong = rows.intersection_len(&deleted) + if total == 0 { rows.len() } else { beyond };
        if wrong > 0 {
            return Err(DbError::RowsNotLive {
                table,
                file: path,
                rows: wrong,
            });
        }
        let all = deleted.as_ref() | &rows;
        let emptied = all.len() == total;
        Ok(FileDeletion {
            file,
            rows,
            gone,
            all: Arc::new(all),
            emptied,
        })
    }

    /// Physical rows of a file; from its footer when the log does not say.
    pub(crate) async fn row_count(&self, id: TableId, file: &DataFile) -> Result<u64, DbError> {
        if let Some(rows) = file.num_records() {
            return Ok(rows);
        }
        let entry = self.entry(id)?;
        parquet_row_count(&self.inner().store, &entry.location, file)
            .await
            .map_err(DbError::table(entry.display_name()))
    }

    /// Files without the deleted rows, and what their rows are.
    async fn rewrite(
        &self,
        id: TableId,
        state: &TableState,
        deletions: &[FileDeletion],
    ) -> Result<Vec<(DataFile, Image)>, DbError> {
        let overlay = self.changes.overlays.get(&id);
        let image = |deletion: &FileDeletion| match overlay {
            Some(overlay) if overlay.adds.contains_key(&deletion.file.path) => {
                overlay.feed.image(&deletion.file.path)
            }
            _ => Image::Kept,
        };
        let mut rewritten = Vec::new();
        for wanted in [Image::Kept, Image::Updated, Image::Inserted] {
            let kept = deletions
                .iter()
                .filter(|deletion| !deletion.emptied && image(deletion) == wanted);
            let kept: Vec<&FileDeletion> = kept.collect();
            if kept.is_empty() {
                continue;
            }
            let files = self.rewrite_alike(id, state, &kept).await?;
            rewritten.extend(files.into_iter().map(|file| (file, wanted)));
        }
        Ok(rewritten)
    }

    async fn rewrite_alike(
        &self,
        id: TableId,
        state: &TableState,
        deletions: &[&FileDeletion],
    ) -> Result<Vec<DataFile>, DbError> {
        let entry = self.entry(id)?;
        let name = entry.display_name();
        let mut writer = self.writer_for(id, state)?;
        let ids = RowIdColumns::of(&state.properties);
        if let Some(ids) = &ids {
            writer = writer.with_hidden(&ids.fields());
        }
        let kept = deletions.iter().map(|deletion| {
            let deletion_after = Deletion::Loaded(Arc::clone(&deletion.all));
            let file = DataFile::clone(&deletion.file);
            Arc::new(DataFile {
                deletion: deletion_after,
                ..file
            })
        });
        let columns = ids.as_ref().map(|ids| ids.added_to(&state.schema));
        let scan = Scan {
            table: entry,
            columns: columns.as_ref().unwrap_or(&state.schema),
            partition_columns: &state.partition_columns,
        };
        let error = |error: TableError| DbError::table(name.as_str())(error);
        let mut scanned = self.inner().scan(scan, kept.collect());
        while let Some(Scanned { file, mut rows }) = scanned.try_next().await? {
            while let Some(rows) = rows.try_next().await.map_err(error)? {
                let batch = match &ids {
                    Some(ids) => ids.resolved(&file, &rows).map_err(error)?,
                    None => rows.batch,
                };
                writer.write(&batch).await.map_err(error)?;
            }
        }
        Ok(writer.finish().await.map_err(DbError::table(name))?.files)
    }

    /// Puts rewritten files in the place of those that they were made from, which must be just so
    /// in the snapshot. The transaction does nothing else to the table.
    pub(crate) async fn move_rows(&mut self, rewritten: Rewritten) -> Result<(), DbError> {
        let id = rewritten.table;
        let overlay = self.overlay(id).await?;
        let same = |(path, file): (&String, &Arc<DataFile>)| {
            let base = overlay.state.files.get(path);
            base.is_some_and(|base| base.deletion == file.deletion)
        };
        if !overlay.is_unchanged() || !rewritten.sources.iter().all(same) {
            return Err(DbError::Internal {
                what: "a rewrite of files that its snapshot does not have",
            });
        }
        let moved = Moved {
            sources: rewritten.sources,
            row_map: rewritten.row_map,
            parameters: rewritten.parameters,
        };
        overlay.move_rows(moved, rewritten.files);
        self.changes.did(Operation::Rewrite);
        Ok(())
    }

    /// Removes all rows, those that others append before the commit included. Returns how many
    /// the transaction saw, when known.
    pub async fn truncate(&mut self, id: TableId) -> Result<Option<u64>, DbError> {
        let overlay = self.overlay(id).await?;
        let rows = overlay.state.live_rows();
        overlay.overwrite(Vec::new(), false, Operation::Truncate);
        self.changes.did(Operation::Truncate);
        Ok(rows)
    }

    /// Replaces all rows by written files. `source_read_target`: they were computed from the
    /// table itself, so that a concurrent change of it is a conflict.
    pub async fn overwrite(
        &mut self,
        id: TableId,
        written: Written,
        source_read_target: bool,
    ) -> Result<(), DbError> {
        self.check_written(id, &written).await?;
        self.notice_written(id, written.empty_string_as_null)?;
        let files: Vec<&DataFile> = written.files.iter().collect();
        self.bound_held(&files).await?;
        self.take_identities(id, &written).await?;
        let overlay = self.overlay(id).await?;
        overlay.overwrite(written.files, source_read_target, Operation::Overwrite);
        self.changes.did(Operation::Overwrite);
        Ok(())
    }

    /// Changes schema, properties or comments. It is applied again to the head when others
    /// changed the metadata meanwhile.
    ///
    /// # Errors
    /// A change that the format or a property forbids.
    pub async fn change_metadata(
        &mut self,
        id: TableId,
        mut change: MetadataChange,
    ) -> Result<(), DbError> {
        if let MetadataChange::AddColumn(NewColumn { seed, .. })
        | MetadataChange::ReplaceSchema { seed, .. } = &mut change
        {
            *seed = self.inner().context().uuid();
        }
        let operation = match &change {
            MetadataChange::AddColumn(_) => Operation::Merge,
            MetadataChange::RenameColumn { .. }
            | MetadataChange::DropColumn { .. }
            | MetadataChange::WidenColumn { .. }
            | MetadataChange::SetNullable { .. } => Operation::Project,
            MetadataChange::ReplaceSchema { .. } => Operation::ReplaceTable,
            _ => Operation::UpdateConfig,
        };
        let codec = self.codec(id)?;
        let name = self.entry(id)?.display_name();
        let overlay = self.overlay(id).await?;
        let before = Arc::clone(&overlay.state);
        overlay
            .change_metadata(codec.as_ref(), change, operation)
            .map_err(DbError::table(name))?;
        let after = Arc::clone(&overlay.state);
        self.notice_readers(id, Some(&before), &after)?;
        self.changes.did(operation);
        Ok(())
    }

    /// Stores the new files of the transaction that were only held, when `new` would make them
    /// too many for the record and for memory.
    async fn bound_held(&mut self, new: &[&DataFile]) -> Result<(), DbError> {
        let held = |file: &DataFile| file.unstored().map_or(0, |held| held.bytes().len());
        let bytes = self.changes.held_bytes + new.iter().map(|file| held(file)).sum::<usize>();
        if bytes <= self.inner().options.inline_bytes_max {
            self.changes.held_bytes = bytes;
            return Ok(());
        }
        let overlays = self.changes.overlays.values();
        let old = overlays.flat_map(|overlay| overlay.adds.values().map(Arc::as_ref));
        let files = old
            .chain(new.iter().copied())
            .filter_map(|file| file.unstored().cloned());
        let files: Vec<_> = files.collect();
        store_held(&self.store(), files).await?;
        self.changes.held_bytes = 0;
        Ok(())
    }

    pub(super) async fn overlay(&mut self, id: TableId) -> Result<&mut Overlay, DbError> {
        if !self.changes.overlays.contains_key(&id) {
            let base = self.table(id).await?;
            self.changes.overlays.insert(id, Overlay::of_base(base));
        }
        self.changes.overlays.get_mut(&id).ok_or(DbError::Internal {
            what: "an overlay vanished",
        })
    }

    pub(super) fn notice_written(
        &mut self,
        id: TableId,
        empty_as_null: bool,
    ) -> Result<(), DbError> {
        if empty_as_null {
            let name = self.entry(id)?.display_name();
            self.changes.notice(format!(
                "empty strings in a partition column of table {name} were stored as NULL"
            ));
        }
        Ok(())
    }
}
