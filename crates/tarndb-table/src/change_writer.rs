//! `ChangeWriter`: new rows, and new forms of rows, on their way into data files.
//!
//! Invariant: a new form keeps the stable id of its row where the table tracks rows; where the
//! table has a change data feed, no file holds both new rows and new forms.
//! Does not: delete the old forms, or commit.
//! Spec: docs/format/delta.md, "Row tracking", "Change data feed".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ::arrow::compute::{filter_record_batch, not};
use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::Schema as ArrowSchema;
use object_store::path::Path;
use tarndb_storage::Store;

use crate::deletion_vector::RowSet;
use crate::error::TableError;
use crate::fragment::DataFile;
use crate::parquet::write::{TableWriter, Written};
use crate::row_id::{RowIdColumns, StableId, id_arrays, stable_ids};
use crate::rules::Supplied;
use crate::state::TableState;

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
    store: Store,
    location: Path,
    ids: Option<RowIdColumns>,
    /// New forms, and new rows unless these have a writer of their own.
    updated: TableWriter,
    inserted: Option<TableWriter>,
    /// Files whose rows are new themselves, so that their new forms are just new rows.
    fresh: BTreeSet<String>,
    replaced: BTreeMap<String, RowSet>,
}

/// What a [`ChangeWriter`] wrote.
#[derive(Clone, Debug, Default)]
pub struct WrittenChange {
    /// Rows that the table does not have.
    pub inserted: Written,
    /// New forms of rows; also the new rows unless the two are told apart.
    pub updated: Written,
    /// The two are told apart.
    pub apart: bool,
    /// The rows whose new forms these are, by file.
    pub replaced: BTreeMap<String, RowSet>,
}

impl WrittenChange {
    /// All of it.
    pub fn parts(&self) -> [&Written; 2] {
        [&self.inserted, &self.updated]
    }

    /// An empty string of a partition column was stored as NULL.
    pub fn empty_string_as_null(&self) -> bool {
        self.inserted.empty_string_as_null || self.updated.empty_string_as_null
    }

    /// Are there no new rows and no new forms?
    pub fn is_empty(&self) -> bool {
        self.parts().iter().all(|part| part.files.is_empty())
    }
}

/// Rows that the table does not have.
impl From<Written> for WrittenChange {
    fn from(inserted: Written) -> Self {
        Self {
            inserted,
            apart: true,
            ..Self::default()
        }
    }
}

impl ChangeWriter {
    /// For the table of `state` at `location`; `writer` makes writers of its files, and the rows
    /// of the files `fresh` are new in the same commit.
    pub fn new(
        store: Store,
        location: Path,
        state: &TableState,
        writer: impl Fn() -> TableWriter,
        fresh: BTreeSet<String>,
    ) -> Self {
        let ids = RowIdColumns::of(&state.properties);
        let updated = match &ids {
            Some(ids) => writer().with_hidden(&ids.fields()),
            None => writer(),
        };
        Self {
            store,
            location,
            inserted: state.has_change_feed().then(&writer),
            ids,
            updated,
            fresh,
            replaced: BTreeMap::new(),
        }
    }

    /// Rows that the table does not have. `supplied`: where their columns come from; `None`: all
    /// are given.
    ///
    /// # Errors
    /// As [`TableWriter::write`].
    pub async fn write_inserted(
        &mut self,
        rows: &RecordBatch,
        supplied: Option<&Supplied>,
    ) -> Result<(), TableError> {
        let writer = self.inserted.as_mut().unwrap_or(&mut self.updated);
        write(writer, rows, supplied).await
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
    ) -> Result<(), TableError> {
        if rows.num_rows() != origins.len() {
            return Err(TableError::Internal {
                context: "new forms of rows without the rows",
            });
        }
        for Origin { file, position } in origins {
            match self.replaced.get_mut(&file.path) {
                Some(rows) => {
                    rows.insert(*position);
                }
                None => {
                    let rows = RowSet::from_iter([*position]);
                    self.replaced.insert(file.path.clone(), rows);
                }
            }
        }
        let rows = match self.ids.clone() {
            None => rows.clone(),
            Some(columns) => self.with_ids(&columns, rows, origins).await?,
        };
        let Some(inserted) = &mut self.inserted else {
            return write(&mut self.updated, &rows, supplied).await;
        };
        // Of a row that the base does not have either, the new form is just a new row.
        let is_update = origins
            .iter()
            .map(|origin| Some(!self.fresh.contains(&origin.file.path)));
        let is_update: BooleanArray = is_update.collect();
        if is_update.false_count() == 0 {
            return write(&mut self.updated, &rows, supplied).await;
        }
        let arrow = |source| TableError::Arrow {
            context: "dividing changed rows",
            source,
        };
        let chosen = |mask: &BooleanArray| filter_record_batch(&rows, mask).map_err(arrow);
        let updated = chosen(&is_update)?;
        let own_columns: Vec<usize> = (0..inserted.schema().fields.len()).collect();
        let new = chosen(&not(&is_update).map_err(arrow)?)?;
        let new = new.project(&own_columns).map_err(arrow)?;
        write(&mut self.updated, &updated, supplied).await?;
        write(inserted, &new, supplied).await
    }

    // Mutable, for a shared writer cannot be sent.
    async fn with_ids(
        &mut self,
        columns: &RowIdColumns,
        rows: &RecordBatch,
        origins: &[Origin],
    ) -> Result<RecordBatch, TableError> {
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
            let ids = stable_ids(&self.store, &self.location, file, columns, &rows).await?;
            known.insert(path, ids);
        }
        let ids = origins.iter().map(|origin| {
            let file = known.get(origin.file.path.as_str())?;
            let (id, _) = file.get(&origin.position)?;
            // The version of a new form is that of the commit, which is not known yet.
            Some((*id, None))
        });
        let ids: Option<Vec<StableId>> = ids.collect();
        let ids = ids.ok_or(TableError::Internal {
            context: "a row without its row id",
        })?;
        extended(rows, columns, &ids)
    }

    /// Completes all files.
    ///
    /// # Errors
    /// As [`TableWriter::finish`].
    pub async fn finish(self) -> Result<WrittenChange, TableError> {
        let apart = self.inserted.is_some();
        let inserted = match self.inserted {
            Some(writer) => writer.finish().await?,
            None => Written::default(),
        };
        Ok(WrittenChange {
            updated: self.updated.finish().await?,
            inserted,
            apart,
            replaced: self.replaced,
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
