//! The files of the change data feed that a commit needs.
//!
//! Invariant: written once, before the first attempt, from the snapshot's rows and own rows;
//! what others do meanwhile changes none of these, or the commit conflicts. They tell all
//! changes of the commit, for a reader then looks at nothing else.
//! Does not: write any where the commit's own files tell the changes (appends, deletions by
//! vectors or of whole files, whole overwrites, compaction).
//! Spec: docs/format/delta.md, "Change data feed"; Delta PROTOCOL, "Add CDC File".

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema};
use futures::TryStreamExt as _;
use tarndb_table::parquet::read::{ReadOptions, Wanted, open_file};
use tarndb_table::{
    DataFile, DataType, Field, RowSet, TableError, TableState, TableWriter, WriteOptions,
};
use tarndb_types::TableId;

use crate::catalog::TableEntry;
use crate::error::DbError;
use crate::transaction::{Overlay, Transaction};

/// Column that says what happened to a row.
const CHANGE_TYPE: &str = "_change_type";
/// Folder of the files.
const FOLDER: &str = "_change_data";

/// Writes the files that the transaction's changes need.
///
/// # Cost
/// None for tables without a feed, or when the commit's own files tell the changes. Else the
/// changed rows are read (about two GETs per file) and written (1 PUT per partition).
pub(super) async fn write(txn: &mut Transaction) -> Result<(), DbError> {
    let tables: Vec<TableId> = txn.changes.changed_tables().map(|(id, _)| id).collect();
    for id in tables {
        let files = match txn.changes.overlays.get(&id) {
            Some(overlay) if needs_files(overlay) => write_table(txn, id, overlay).await?,
            _ => continue,
        };
        if let Some(overlay) = txn.changes.overlays.get_mut(&id) {
            overlay.change_files = files;
        }
    }
    Ok(())
}

fn needs_files(overlay: &Overlay) -> bool {
    let feed = overlay.state.properties.get("delta.enableChangeDataFeed");
    feed.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
        && overlay.base.is_some()
        && overlay.overwrite.is_none()
        && overlay.moved.is_none()
        && overlay.feed.needs_files()
}

async fn write_table(
    txn: &Transaction,
    id: TableId,
    overlay: &Overlay,
) -> Result<Vec<DataFile>, DbError> {
    let entry = txn.entry(id)?;
    let failed = |error: TableError| DbError::table(entry.display_name())(error);
    let state = overlay.state.as_ref();
    let hidden = Field::new(CHANGE_TYPE, DataType::String, false);
    let writer = TableWriter::new(
        txn.inner().store.clone(),
        entry.location.clone(),
        Arc::clone(&state.schema),
        state.partition_columns.clone(),
        WriteOptions::of_table(state).map_err(failed)?,
    );
    let mut job = Job {
        txn,
        entry,
        state,
        writer: writer.with_hidden(&[hidden]).with_folder(FOLDER),
    };
    let base = overlay.base.as_ref();
    let deleted = overlay
        .deletions
        .iter()
        .map(|(path, rows)| (path, rows.as_ref()));
    // A file that was written anew is no longer among the deletions, but what was deleted in
    // it before that belongs to it.
    let feed = &overlay.feed;
    for (path, rows) in deleted.chain(feed.left_out()) {
        let file = base.and_then(|base| base.files.get(path));
        let file = file.ok_or(DbError::Internal {
            what: "changed rows of a file that the snapshot does not have",
        })?;
        let change = |position| feed.change_of_deleted(path, position);
        job.copy(&file, Wanted::Only(rows), change).await?;
    }
    for (path, file) in &overlay.adds {
        let Some(change) = feed.change_of_added(path) else {
            continue;
        };
        let none = RowSet::new();
        let gone = overlay.own_deletions.get(path);
        let gone = gone.map_or(&none, |rows| rows.as_ref());
        job.copy(file, Wanted::AllBut(gone), |_| change).await?;
    }
    Ok(job.writer.finish().await.map_err(failed)?.files)
}

struct Job<'a> {
    txn: &'a Transaction,
    entry: &'a TableEntry,
    state: &'a TableState,
    writer: TableWriter,
}

impl Job<'_> {
    async fn copy(
        &mut self,
        file: &DataFile,
        wanted: Wanted<'_>,
        change: impl Fn(u64) -> &'static str,
    ) -> Result<(), DbError> {
        let name = self.entry.display_name();
        let failed = |error: TableError| DbError::table(name.as_str())(error);
        let opened = open_file(
            &self.txn.inner().store,
            &self.entry.location,
            file,
            &self.state.schema,
            &self.state.partition_columns,
            wanted,
            ReadOptions::default(),
        );
        let mut rows = opened.await.map_err(failed)?.rows;
        while let Some(rows) = rows.try_next().await.map_err(failed)? {
            let changes = rows.positions.iter().map(|position| change(*position));
            let changes: StringArray = changes.map(Some).collect();
            let batch = with_column(&rows.batch, Arc::new(changes)).map_err(failed)?;
            self.writer.write(&batch).await.map_err(failed)?;
        }
        Ok(())
    }
}

fn with_column(batch: &RecordBatch, changes: ArrayRef) -> Result<RecordBatch, TableError> {
    let field = ArrowField::new(CHANGE_TYPE, changes.data_type().clone(), false);
    let given = batch.schema();
    let fields = given.fields().iter().cloned().chain([Arc::new(field)]);
    let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
    let columns = batch.columns().iter().cloned().chain([changes]).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(|source| {
        TableError::Arrow {
            context: "adding the kind of change",
            source,
        }
    })
}
