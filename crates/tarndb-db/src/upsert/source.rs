//! The source of an upsert, in memory and indexed by key.
//!
//! Invariant: every row is in the table's types; a key is there once; the bytes of rows and keys
//! stay below the limit.
//! Does not look at the table's rows.
//! Spec: docs/conflicts.md, "Keys".

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;

use arrow::compute::{filter_record_batch, interleave_record_batch};
use arrow_array::{Array as _, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use futures::{Stream, StreamExt as _};
use tarndb_table::{Field, KeyColumns, Predicate, Schema, TableError, conform_batch, key_hash};

use super::looked::KeysLooked;
use super::{DoubledKeys, without};
use crate::error::DbError;

/// Batch and row of a source row.
pub(super) type RowRef = (usize, usize);

/// What a key costs beside its bytes, in the index.
const KEY_OVERHEAD: usize = 64;

/// The rows.
pub(super) struct Source {
    key: KeyColumns,
    bytes_max: usize,
    doubled: DoubledKeys,
    /// The columns that it has, in the table's order.
    given: Schema,
    complete: bool,
    batches: Vec<RecordBatch>,
    keys: BTreeMap<Vec<u8>, RowRef>,
}

impl Source {
    /// No rows yet, and at most that many bytes of them and of keys.
    pub(super) fn new(key: KeyColumns, bytes_max: usize, doubled: DoubledKeys) -> Self {
        Self {
            key,
            bytes_max,
            doubled,
            given: Schema::default(),
            complete: false,
            batches: Vec::new(),
            keys: BTreeMap::new(),
        }
    }

    /// Reads all of the source.
    pub(super) async fn collect<S, E>(
        &mut self,
        table: &str,
        schema: &Schema,
        source: S,
    ) -> Result<(), DbError>
    where
        S: Stream<Item = Result<RecordBatch, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut bytes = 0;
        let mut source = std::pin::pin!(source);
        while let Some(batch) = source.next().await {
            let batch = batch.map_err(|error| DbError::Source(error.into()))?;
            if batch.num_rows() == 0 {
                continue;
            }
            let columns = columns(&batch, schema).map_err(DbError::table(table))?;
            if self.batches.is_empty() {
                self.given = given(&columns);
                self.check_given(table)?;
                self.complete = without(schema, &self.given).fields.is_empty();
            } else if self.given != given(&columns) {
                return Err(DbError::SourceColumns {
                    table: table.to_owned(),
                });
            }
            let batch = conformed(columns, &self.given, batch.num_rows());
            let batch = batch.map_err(DbError::table(table))?;
            bytes += batch_bytes(&batch);
            let (batch, key_bytes) = self.index(table, batch)?;
            bytes += key_bytes;
            if bytes > self.bytes_max {
                return Err(DbError::SourceTooLarge {
                    table: table.to_owned(),
                    bytes_max: self.bytes_max,
                });
            }
            self.batches.push(batch);
        }
        Ok(())
    }

    fn check_given(&self, table: &str) -> Result<(), DbError> {
        let missing = |column: &String| self.given.field(column).is_none();
        match self.key.names().into_iter().find(missing) {
            Some(column) => Err(DbError::table(table)(TableError::NoSuchColumn { column })),
            None => Ok(()),
        }
    }

    /// Adds the keys of the next batch to the index: the batch without rows that do not count,
    /// and the bytes that the keys take.
    fn index(&mut self, table: &str, batch: RecordBatch) -> Result<(RecordBatch, usize), DbError> {
        let at = self.batches.len();
        let keys = self.key.of(&batch).map_err(DbError::table(table))?;
        let mut bytes = Vec::new();
        let mut size = 0;
        let mut counts = vec![true; batch.num_rows()];
        let mut left_out = 0;
        for (row, counts) in counts.iter_mut().enumerate() {
            if !keys.read(row, &mut bytes) {
                continue;
            }
            match self.keys.entry(bytes.clone()) {
                Entry::Vacant(free) => {
                    size += bytes.len() + KEY_OVERHEAD;
                    free.insert((at, row - left_out));
                }
                Entry::Occupied(_) if self.doubled == DoubledKeys::FirstCounts => {
                    *counts = false;
                    left_out += 1;
                }
                Entry::Occupied(_) => {
                    return Err(DbError::DuplicateKey {
                        table: table.to_owned(),
                        key: keys.describe(row),
                    });
                }
            }
        }
        if left_out == 0 {
            return Ok((batch, size));
        }
        let kept = filter_record_batch(&batch, &BooleanArray::from(counts));
        let kept = kept.map_err(|source| TableError::Arrow {
            context: "leaving out rows with a key that was there",
            source,
        });
        Ok((kept.map_err(DbError::table(table))?, size))
    }

    /// Its rows in order.
    pub(super) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    pub(super) fn key(&self) -> &KeyColumns {
        &self.key
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether it has all columns of the table.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// All rows in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = RowRef> {
        let batches = self.batches.iter().enumerate();
        batches.flat_map(|(at, batch)| (0..batch.num_rows()).map(move |row| (at, row)))
    }

    /// The row with that key.
    pub(super) fn find(&self, key: &[u8]) -> Option<RowRef> {
        self.keys.get(key).copied()
    }

    pub(super) fn bounds(&self) -> Predicate {
        if self.keys.is_empty() {
            // Only rows without a key: nothing can match.
            return Predicate::Or(Vec::new());
        }
        self.key.bounds(&self.batches)
    }

    /// Rows by reference, in that order.
    pub(super) fn take(&self, rows: &[RowRef]) -> Result<RecordBatch, TableError> {
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        interleave_record_batch(&batches, rows).map_err(|source| TableError::Arrow {
            context: "taking rows of an upsert's source",
            source,
        })
    }

    /// The columns of the table that it lacks.
    pub(super) fn others(&self, schema: &Schema) -> Schema {
        without(schema, &self.given)
    }

    /// Whether it has the column.
    pub(super) fn gives(&self, field: &Field) -> bool {
        self.given.field(&field.name).is_some()
    }

    pub(super) fn into_looked(self) -> KeysLooked {
        let bounds = self.bounds();
        KeysLooked {
            hashes: self.keys.keys().map(|key| key_hash(key)).collect(),
            bounds,
            key: self.key,
            any: false,
        }
    }
}

/// The batch's columns with the table's fields, in the table's order.
fn columns(batch: &RecordBatch, schema: &Schema) -> Result<Vec<(Field, ArrayRef)>, TableError> {
    let mut by_position: BTreeMap<usize, (Field, ArrayRef)> = BTreeMap::new();
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let name = field.name();
        let found = schema.field(name).ok_or_else(|| TableError::NoSuchColumn {
            column: name.clone(),
        })?;
        let column = (found.1.clone(), ArrayRef::clone(array));
        if let Some((first, _)) = by_position.insert(found.0, column) {
            return Err(TableError::DuplicateColumn {
                first: first.name,
                second: name.clone(),
            });
        }
    }
    Ok(by_position.into_values().collect())
}

fn given(columns: &[(Field, ArrayRef)]) -> Schema {
    Schema::new(columns.iter().map(|(field, _)| field.clone()).collect())
}

fn conformed(
    columns: Vec<(Field, ArrayRef)>,
    given: &Schema,
    rows: usize,
) -> Result<RecordBatch, TableError> {
    let fields: Vec<arrow_schema::Field> = columns
        .iter()
        .map(|(field, array)| {
            arrow_schema::Field::new(&field.name, array.data_type().clone(), true)
        })
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = std::sync::Arc::new(arrow_schema::Schema::new(fields));
    let batch = RecordBatch::try_new_with_options(schema, arrays, &options);
    let batch = batch.map_err(|source| TableError::Arrow {
        context: "ordering the columns of an upsert's source",
        source,
    })?;
    conform_batch(&batch, given)
}

/// Bytes of the rows, not of what else lies in buffers that they share.
fn batch_bytes(batch: &RecordBatch) -> usize {
    let bytes = |array: &ArrayRef| {
        let data = array.to_data();
        data.get_slice_memory_size()
            .unwrap_or_else(|_| data.get_array_memory_size())
    };
    batch.columns().iter().map(bytes).sum()
}
