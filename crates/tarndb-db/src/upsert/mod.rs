//! Upserts: rows that replace those with the same key and are inserted where there is none.
//!
//! Invariant: decided on the transaction's own view, and recorded so that the decision holds at
//! commit: rows that were replaced are deleted by position, and the keys of the whole source
//! are noted, so that a row with one of them that others add in the meantime is a conflict.
//! Does not: demand that keys are unique in the table; each row with the key is replaced.
//! Spec: docs/conflicts.md, "Keys"; docs/format/log.md, "Keys".

pub(crate) mod looked;
mod sought;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use futures::stream::BoxStream;
use futures::{Stream, TryStreamExt as _};
use tarndb_table::parquet::read::{ReadOptions, read_file_rows};
use tarndb_table::{
    ChangeWriter, DataFile, Field, LiveRows, Origin, RowRules, RowSet, Schema, Supplied, Supply,
    TableError, TableState, matching_files,
};
use tarndb_txn::Operation;
use tarndb_types::TableId;

pub(crate) use looked::KeysLooked;
pub use looked::MergeKeys;
pub use sought::{DoubledKeys, SoughtKeys};

use crate::error::DbError;
use crate::scan::{Scan, Scanned};
use crate::transaction::Transaction;
use source::{RowRef, Source};

/// Rows put together at once.
const ROWS_AT_ONCE: usize = 8192;

/// What an upsert did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpsertReport {
    /// Rows of the source that had no counterpart.
    pub inserted: u64,
    /// Rows of the table that were replaced.
    pub updated: u64,
    /// Data files in which keys were looked up; the others could not hold any.
    pub files_read: u64,
}

/// Rows of one file that have a counterpart, ascending by position.
#[derive(Default)]
struct Matches {
    positions: RowSet,
    rows: Vec<RowRef>,
}

impl Matches {
    fn origins<'a>(&'a self, file: &'a Arc<DataFile>) -> impl Iterator<Item = Origin> + 'a {
        self.positions.iter().map(move |position| Origin {
            file: Arc::clone(file),
            position,
        })
    }
}

impl Transaction {
    /// Replaces the rows whose columns `on` equal those of a row of the source, and inserts the
    /// other rows of the source. The source's columns go by name, in any case and order; those
    /// that it lacks keep their value in rows that are replaced and are NULL in new ones. NULL
    /// in a key column equals nothing, so such rows are inserted.
    ///
    /// Others that add a row with one of these keys before the commit are a retryable conflict,
    /// also where the keys were not found here.
    ///
    /// # Errors
    /// [`DbError::DuplicateKey`] for a key that the source has twice;
    /// [`DbError::SourceTooLarge`] for a source above `DbOptions::upsert_bytes_max`, which is
    /// held in memory; [`DbError::SecondKey`] after an upsert of the same table by other
    /// columns; columns that the table does not have, values that do not fit, NULL for a
    /// NOT NULL column in a new row. Nothing is changed then.
    ///
    /// # Cost
    /// Two GETs for each file that can hold a key by its statistics and partition values (the
    /// key columns are read; one GET when it has at most 256 KiB or its footer is known), one
    /// more where rows of it are replaced and the source lacks columns, several files at a time; 1 PUT per file of about 128 MiB written.
    pub async fn upsert<S, E>(
        &mut self,
        id: TableId,
        on: &[&str],
        source: S,
    ) -> Result<UpsertReport, DbError>
    where
        S: Stream<Item = Result<RecordBatch, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let name = self.entry(id)?.display_name();
        let state = self.table(id).await?;
        let rules = self.rules_of(id, &state)?;
        let sought = self.seek_keys(id, on, DoubledKeys::Refused, source).await?;
        let source = sought.0;
        if source.is_empty() {
            return Ok(UpsertReport::default());
        }
        let mut writer = self.change_writer(id, None).await?;
        let mut upsert = Upsert::new(self, id, &state, &source, &rules);
        upsert.replace(&mut writer).await?;
        let inserted = upsert.insert(&mut writer).await?;
        let (files_read, deleted) = (upsert.files_read, upsert.deleted);
        let written = writer.finish().await;
        let written = written.map_err(DbError::table(name.as_str()))?;
        self.make_room(id, &written.parts()).await?;
        let updated = self.delete_rows(id, deleted, Operation::Upsert).await?;
        self.add_upserted(id, written, source.into_looked()).await?;
        Ok(UpsertReport {
            inserted,
            updated,
            files_read,
        })
    }
}

/// An upsert under way. It only reads and writes new files; the transaction is changed by the
/// caller, once nothing more can fail.
struct Upsert<'a> {
    txn: &'a Transaction,
    id: TableId,
    state: &'a TableState,
    source: &'a Source,
    rules: &'a RowRules,
    deleted: BTreeMap<String, RowSet>,
    /// Source rows that have a counterpart.
    matched: BTreeSet<RowRef>,
    files_read: u64,
}

impl<'a> Upsert<'a> {
    fn new(
        txn: &'a Transaction,
        id: TableId,
        state: &'a TableState,
        source: &'a Source,
        rules: &'a RowRules,
    ) -> Self {
        Self {
            txn,
            id,
            state,
            source,
            rules,
            deleted: BTreeMap::new(),
            matched: BTreeSet::new(),
            files_read: 0,
        }
    }

    /// Writes the new forms of all rows that have a counterpart, file by file.
    async fn replace(&mut self, writer: &mut ChangeWriter) -> Result<(), DbError> {
        let bounds = self.source.bounds();
        let (txn, state) = (self.txn, self.state);
        let files = matching_files(state, &bounds);
        self.files_read = files.len() as u64;
        let columns = self.source.key().schema();
        let scan = Scan {
            table: txn.entry(self.id)?,
            columns: &columns,
            partition_columns: &state.partition_columns,
        };
        let mut scanned = txn.inner().scan(scan, files);
        while let Some(Scanned { file, rows }) = scanned.try_next().await? {
            let matches = self.matches(rows).await?;
            if matches.rows.is_empty() {
                continue;
            }
            self.matched.extend(&matches.rows);
            if self.source.is_complete() {
                let mut origins = matches.origins(&file);
                for rows in matches.rows.chunks(ROWS_AT_ONCE) {
                    let batch = self.assemble(rows, None)?;
                    let origins: Vec<Origin> = origins.by_ref().take(rows.len()).collect();
                    let supplied = self.replaced();
                    let written = writer.write_updated(&batch, &origins, Some(&supplied));
                    written.await.map_err(|error| self.error(error))?;
                }
            } else {
                self.replace_some_columns(writer, &file, &matches).await?;
            }
            self.deleted.insert(file.path.clone(), matches.positions);
        }
        Ok(())
    }

    /// Looks up the keys of live rows of a file.
    async fn matches(
        &self,
        mut live: BoxStream<'static, Result<LiveRows, TableError>>,
    ) -> Result<Matches, DbError> {
        let mut found = Matches::default();
        let key = self.source.key();
        let mut bytes = Vec::new();
        while let Some(rows) = live.try_next().await.map_err(|error| self.error(error))? {
            let keys = key.of(&rows.batch).map_err(|error| self.error(error))?;
            for (row, position) in rows.positions.iter().enumerate() {
                if keys.read(row, &mut bytes)
                    && let Some(source) = self.source.find(&bytes)
                {
                    found.positions.insert(*position);
                    found.rows.push(source);
                }
            }
        }
        Ok(found)
    }

    /// Writes rows of a file anew with the source's columns in place of theirs.
    async fn replace_some_columns(
        &self,
        writer: &mut ChangeWriter,
        file: &Arc<DataFile>,
        matches: &Matches,
    ) -> Result<(), DbError> {
        let others = self.source.others(&self.state.schema);
        // All but the rows wanted are masked out.
        let mut masked = RowSet::new();
        masked.insert_range(0..self.txn.row_count(self.id, file).await?);
        masked -= &matches.positions;
        let entry = self.txn.entry(self.id)?;
        let mut kept = read_file_rows(
            &self.txn.inner().store,
            &entry.location,
            file,
            &others,
            &self.state.partition_columns,
            Some(&masked),
            ReadOptions {
                batch_rows: ROWS_AT_ONCE,
            },
        )
        .await
        .map_err(|error| self.error(error))?;
        let mut rest = matches.rows.as_slice();
        let mut origins = matches.origins(file);
        while let Some(rows) = kept.try_next().await.map_err(|error| self.error(error))? {
            let (now, later) =
                rest.split_at_checked(rows.batch.num_rows())
                    .ok_or(DbError::Internal {
                        what: "a file gave more rows than were matched",
                    })?;
            rest = later;
            let batch = self.assemble(now, Some(&rows.batch))?;
            let origins: Vec<Origin> = origins.by_ref().take(now.len()).collect();
            let supplied = self.replaced();
            let written = writer.write_updated(&batch, &origins, Some(&supplied));
            written.await.map_err(|error| self.error(error))?;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(DbError::Internal {
                what: "a file gave fewer rows than were matched",
            })
        }
    }

    /// Writes the source's rows without a counterpart; how many these are.
    async fn insert(&mut self, writer: &mut ChangeWriter) -> Result<u64, DbError> {
        let matched = std::mem::take(&mut self.matched);
        let new: Vec<RowRef> = self
            .source
            .rows()
            .filter(|row| !matched.contains(row))
            .collect();
        if !new.is_empty()
            && let Some(column) = self.lacks_required()
        {
            return Err(self.error(TableError::NullInNotNull { column, row: 0 }));
        }
        for rows in new.chunks(ROWS_AT_ONCE) {
            let batch = self.assemble(rows, None)?;
            let supplied = self.inserted();
            let written = writer.write_inserted(&batch, Some(&supplied));
            written.await.map_err(|error| self.error(error))?;
        }
        Ok(new.len() as u64)
    }

    /// A NOT NULL column that the source lacks and that no rule fills.
    fn lacks_required(&self) -> Option<String> {
        let fields = self.state.schema.fields.iter().enumerate();
        let mut lacking = fields.filter(|(place, field)| {
            !field.nullable && !self.source.gives(field) && !self.rules.fills(*place)
        });
        lacking.next().map(|(_, field)| field.name.clone())
    }

    /// Where the columns of new rows come from.
    fn inserted(&self) -> Supplied {
        let fields = self.state.schema.fields.iter();
        let supply = fields.map(|field| match self.source.gives(field) {
            true => Supply::Given,
            false => Supply::Omitted,
        });
        Supplied::new(supply.collect())
    }

    /// Where the columns of rows that are replaced come from: their key is what it was.
    fn replaced(&self) -> Supplied {
        let fields = &self.state.schema.fields;
        let key = self.source.key().names();
        self.rules.supplied_by_update(|place| {
            fields
                .get(place)
                .is_some_and(|field| self.source.gives(field) && !key.contains(&field.name))
        })
    }

    /// Rows of the table: the source's columns, then those of `others`, then NULL.
    fn assemble(
        &self,
        rows: &[RowRef],
        others: Option<&RecordBatch>,
    ) -> Result<RecordBatch, DbError> {
        let given = self.source.take(rows).map_err(|error| self.error(error))?;
        let column = |field: &Field| -> ArrayRef {
            let known = given.column_by_name(&field.name);
            let known = known.or_else(|| others.and_then(|kept| kept.column_by_name(&field.name)));
            known.map_or_else(
                || new_null_array(&field.data_type.to_arrow(), rows.len()),
                Arc::clone,
            )
        };
        let columns: Vec<ArrayRef> = self.state.schema.fields.iter().map(column).collect();
        // The rules fill what is NULL here, or refuse it.
        let mut schema = Schema::clone(&self.state.schema);
        for (field, column) in schema.fields.iter_mut().zip(&columns) {
            field.nullable |= column.null_count() > 0;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(schema.to_arrow(), columns, &options).map_err(|source| {
            self.error(TableError::Arrow {
                context: "putting upserted rows together",
                source,
            })
        })
    }

    fn error(&self, error: TableError) -> DbError {
        match self.txn.entry(self.id) {
            Ok(entry) => DbError::table(entry.display_name())(error),
            Err(missing) => missing,
        }
    }
}

/// The columns of `schema` that are not in `given`.
fn without(schema: &Schema, given: &Schema) -> Schema {
    let missing = |field: &&Field| given.field(&field.name).is_none();
    Schema::new(schema.fields.iter().filter(missing).cloned().collect())
}
