//! `ChangeWriter`: new rows, and new forms of rows, on their way into data files.
//!
//! Invariant: a new form keeps the stable id of its row where the table tracks rows; where the
//! table has a change data feed, no file holds both new rows and new forms.
//! Does not: delete the old forms, or commit.
//! Spec: docs/format/delta.md, "Row tracking", "Change data feed".

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::compute::filter_record_batch;
use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::Schema as ArrowSchema;
use tarndb_storage::{Path, Store};
use tarndb_table::{
    DataFile, RowIdColumns, RowSet, StableId, Supplied, TableError, TableWriter, WriteOptions,
    Written, id_arrays, stable_ids,
};
use tarndb_types::TableId;

use crate::error::DbError;
use crate::transaction::feed::{Feed, Image};
use crate::transaction::{Overlay, Transaction};

/// Where a row was before it got its new form.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The file.
    pub file: Arc<DataFile>,
    /// Its position there.
    pub position: u64,
}

/// Writes rows of a change.
#[derive(Debug)]
pub struct ChangeWriter {
    name: String,
    store: Store,
    location: Path,
    ids: Option<RowIdColumns>,
    /// New forms, and new rows unless these have a writer of their own.
    updated: TableWriter,
    inserted: Option<TableWriter>,
    /// What is known of the files that the transaction wrote before.
    feed: Feed,
    own: BTreeMap<String, Arc<DataFile>>,
}

/// What a [`ChangeWriter`] wrote.
#[derive(Clone, Debug, Default)]
pub struct WrittenChange {
    pub(crate) inserted: Written,
    pub(crate) updated: Written,
    /// The two are told apart.
    pub(crate) apart: bool,
}

impl WrittenChange {
    /// All of it.
    pub(crate) fn parts(&self) -> [&Written; 2] {
        [&self.inserted, &self.updated]
    }

    pub(crate) fn empty_string_as_null(&self) -> bool {
        self.inserted.empty_string_as_null || self.updated.empty_string_as_null
    }

    /// Each file with what its rows are.
    pub(crate) fn into_images(self) -> impl Iterator<Item = (DataFile, Image)> {
        let updated = if self.apart {
            Image::Updated
        } else {
            Image::Inserted
        };
        let inserted = self.inserted.files.into_iter();
        let inserted = inserted.map(|file| (file, Image::Inserted));
        inserted.chain(
            self.updated
                .files
                .into_iter()
                .map(move |file| (file, updated)),
        )
    }
}

impl Transaction {
    /// A writer for a change of a table's rows; hand what it returns to [`Self::add_changed`].
    /// `options` replace those of the table.
    ///
    /// # Errors
    /// A table property that cannot be obeyed.
    pub async fn change_writer(
        &self,
        id: TableId,
        options: Option<WriteOptions>,
    ) -> Result<ChangeWriter, DbError> {
        let state = self.table(id).await?;
        let entry = self.entry(id)?;
        let name = entry.display_name();
        let options = match options {
            Some(options) => options,
            None => WriteOptions::of_table(&state).map_err(DbError::table(name.as_str()))?,
        };
        let rules = self.rules_of(id, &state)?;
        let writer = || {
            TableWriter::new(
                self.inner().store.clone(),
                entry.location.clone(),
                Arc::clone(&state.schema),
                state.partition_columns.clone(),
                options.clone(),
            )
            .with_held(self.inner().options.held_limits())
            .with_rules(rules.clone(), Supplied::all(&state.schema))
        };
        let ids = RowIdColumns::of(&state.properties);
        let updated = match &ids {
            Some(ids) => writer().with_hidden(&ids.fields()),
            None => writer(),
        };
        let feed = state.properties.get("delta.enableChangeDataFeed");
        let has_feed = feed.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
        let overlay = self.changes.overlays.get(&id);
        let own = |overlay: &Overlay| (overlay.feed.clone(), overlay.adds.clone());
        let (feed, own) = overlay.map(own).unwrap_or_default();
        Ok(ChangeWriter {
            store: self.inner().store.clone(),
            location: entry.location.clone(),
            inserted: has_feed.then(writer),
            name,
            ids,
            updated,
            feed,
            own,
        })
    }
}

impl ChangeWriter {
    /// Rows that the table does not have. `supplied`: where their columns come from; `None`: all
    /// are given.
    ///
    /// # Errors
    /// As [`TableWriter::write`].
    pub async fn write_inserted(
        &mut self,
        rows: &RecordBatch,
        supplied: Option<&Supplied>,
    ) -> Result<(), DbError> {
        let writer = self.inserted.as_mut().unwrap_or(&mut self.updated);
        let written = write(writer, rows, supplied).await;
        written.map_err(DbError::table(self.name.as_str()))
    }

    /// New forms of rows, each with the place of the row that it replaces; `supplied` as for
    /// [`Self::write_inserted`].
    ///
    /// # Errors
    /// As [`TableWriter::write`]; reading row ids.
    ///
    /// # Cost
    /// Where the table tracks rows and a file has their ids, about one ranged GET per file of
    /// the rows given.
    pub async fn write_updated(
        &mut self,
        rows: &RecordBatch,
        origins: &[Origin],
        supplied: Option<&Supplied>,
    ) -> Result<(), DbError> {
        if rows.num_rows() != origins.len() {
            return Err(DbError::Internal {
                what: "new forms of rows without the rows",
            });
        }
        let rows = match self.ids.clone() {
            None => rows.clone(),
            Some(columns) => self.with_ids(&columns, rows, origins).await?,
        };
        let name = self.name.clone();
        let failed = |error: TableError| DbError::table(name.as_str())(error);
        let Some(inserted) = &mut self.inserted else {
            return write(&mut self.updated, &rows, supplied)
                .await
                .map_err(failed);
        };
        // Of a row that the base does not have either, the new form is just a new row.
        let is_update = origins.iter().map(|origin| {
            let path = &origin.file.path;
            let image = self.feed.image_of_update(path, self.own.contains_key(path));
            Some(image == Image::Updated)
        });
        let is_update: BooleanArray = is_update.collect();
        if is_update.false_count() == 0 {
            return write(&mut self.updated, &rows, supplied)
                .await
                .map_err(failed);
        }
        let arrow = |source| TableError::Arrow {
            context: "dividing changed rows",
            source,
        };
        let chosen = |mask: &BooleanArray| filter_record_batch(&rows, mask).map_err(arrow);
        let updated = chosen(&is_update).map_err(failed)?;
        let is_new = arrow::compute::not(&is_update)
            .map_err(arrow)
            .map_err(failed)?;
        let own_columns: Vec<usize> = (0..inserted.schema().fields.len()).collect();
        let new = chosen(&is_new).map_err(failed)?;
        let new = new.project(&own_columns).map_err(arrow).map_err(failed)?;
        let written = write(&mut self.updated, &updated, supplied).await;
        written.map_err(failed)?;
        write(inserted, &new, supplied).await.map_err(failed)
    }

    // Mutable, for a shared writer cannot be sent.
    async fn with_ids(
        &mut self,
        columns: &RowIdColumns,
        rows: &RecordBatch,
        origins: &[Origin],
    ) -> Result<RecordBatch, DbError> {
        let failed = |error: TableError| DbError::table(self.name.as_str())(error);
        let mut wanted: BTreeMap<&str, (&DataFile, RowSet)> = BTreeMap::new();
        for origin in origins {
            let path = origin.file.path.as_str();
            let (_, rows) = wanted
                .entry(path)
                .or_insert_with(|| (&origin.file, RowSet::new()));
            rows.insert(origin.position);
        }
        let mut known: BTreeMap<&str, BTreeMap<u64, StableId>> = BTreeMap::new();
        for (path, (file, rows)) in wanted {
            let ids = stable_ids(&self.store, &self.location, file, columns, &rows).await;
            known.insert(path, ids.map_err(failed)?);
        }
        let ids = origins.iter().map(|origin| {
            let file = known.get(origin.file.path.as_str())?;
            let (id, _) = file.get(&origin.position)?;
            // The version of a new form is that of the commit, which is not known yet.
            Some((*id, None))
        });
        let ids: Option<Vec<StableId>> = ids.collect();
        let ids = ids.ok_or(DbError::Internal {
            what: "a row without its row id",
        })?;
        extended(rows, columns, &ids).map_err(failed)
    }

    /// Completes all files.
    ///
    /// # Errors
    /// As [`TableWriter::finish`].
    pub async fn finish(self) -> Result<WrittenChange, DbError> {
        let name = self.name;
        let failed = |error: TableError| DbError::table(name.as_str())(error);
        let apart = self.inserted.is_some();
        let inserted = match self.inserted {
            Some(writer) => writer.finish().await.map_err(failed)?,
            None => Written::default(),
        };
        Ok(WrittenChange {
            updated: self.updated.finish().await.map_err(failed)?,
            inserted,
            apart,
        })
    }
}

async fn write(
    writer: &mut TableWriter,
    rows: &RecordBatch,
    supplied: Option<&Supplied>,
) -> Result<(), TableError> {
    match supplied {
        Some(supplied) => writer.write_supplied(rows, supplied).await,
        None => writer.write(rows).await,
    }
}

/// Rows with their row ids behind them.
fn extended(
    rows: &RecordBatch,
    columns: &RowIdColumns,
    ids: &[StableId],
) -> Result<RecordBatch, TableError> {
    let given = rows.schema();
    let hidden = columns.fields();
    let hidden = hidden.iter().map(|field| Arc::new(field.to_arrow()));
    let fields: Vec<_> = given.fields().iter().cloned().chain(hidden).collect();
    let arrays = rows
        .columns()
        .iter()
        .cloned()
        .chain(id_arrays(ids))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let schema = Arc::new(ArrowSchema::new(fields));
    RecordBatch::try_new_with_options(schema, arrays, &options).map_err(|source| {
        TableError::Arrow {
            context: "adding row ids",
            source,
        }
    })
}
