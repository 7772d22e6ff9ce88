//! `Supplied`: where the values of each column of some rows come from.
//!
//! Invariant: one entry per column of the table, in its order.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema};

use crate::error::TableError;
use crate::schema::Schema;
use crate::schema::conform::conform_batch;

/// Where a column's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// Somebody says them.
    Given,
    /// They were in the table and stay what they are.
    Kept,
    /// Nobody says them: the table's rules do, or they are NULL.
    Omitted,
}

/// Where the values of each column come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supplied(Vec<Supply>);

impl Supplied {
    /// Every column is given.
    pub fn all(schema: &Schema) -> Self {
        Self(vec![Supply::Given; schema.fields.len()])
    }

    /// The entries, one per column.
    pub fn new(columns: Vec<Supply>) -> Self {
        Self(columns)
    }

    /// Only the columns named are given, the others omitted.
    ///
    /// # Errors
    /// [`TableError::NoSuchColumn`], [`TableError::DuplicateColumn`].
    pub fn only<S: AsRef<str>>(schema: &Schema, names: &[S]) -> Result<Self, TableError> {
        let mut columns = vec![Supply::Omitted; schema.fields.len()];
        for name in names {
            let name = name.as_ref();
            let missing = || TableError::NoSuchColumn {
                column: name.to_owned(),
            };
            let (place, field) = schema.field(name).ok_or_else(missing)?;
            let entry = columns.get_mut(place).ok_or_else(missing)?;
            if *entry == Supply::Given {
                return Err(TableError::DuplicateColumn {
                    first: field.name.clone(),
                    second: name.to_owned(),
                });
            }
            *entry = Supply::Given;
        }
        Ok(Self(columns))
    }

    /// That of a column by its place; omitted beyond the end.
    pub fn of(&self, place: usize) -> Supply {
        self.0.get(place).copied().unwrap_or(Supply::Omitted)
    }

    /// The schema that rows have before the rules fill them: omitted columns may be NULL.
    pub fn input_schema(&self, schema: &Schema) -> Schema {
        let mut schema = schema.clone();
        for (place, field) in schema.fields.iter_mut().enumerate() {
            field.nullable |= self.of(place) == Supply::Omitted;
        }
        schema
    }

    /// Rows that have only `columns`, in that order, with all columns of the table: NULL in
    /// those that are left out, which these entries must say are omitted.
    ///
    /// # Errors
    /// Another number of columns; values that do not fit.
    pub fn arrange(
        &self,
        batch: &RecordBatch,
        columns: &[&str],
        schema: &Schema,
    ) -> Result<RecordBatch, TableError> {
        if batch.num_columns() != columns.len() {
            return Err(TableError::ColumnCount {
                expected: columns.len(),
                given: batch.num_columns(),
            });
        }
        let places = columns.iter().map(|name| schema.field(name));
        let places: Vec<Option<usize>> = places.map(|found| Some(found?.0)).collect();
        let rows = batch.num_rows();
        let mut fields = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (place, field) in schema.fields.iter().enumerate() {
            let given = places.iter().position(|known| *known == Some(place));
            let array = given.and_then(|at| batch.columns().get(at).cloned());
            let array = array.unwrap_or_else(|| new_null_array(&field.data_type.to_arrow(), rows));
            fields.push(ArrowField::new(
                &field.name,
                array.data_type().clone(),
                true,
            ));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let arrow = Arc::new(ArrowSchema::new(fields));
        let batch = RecordBatch::try_new_with_options(arrow, arrays, &options);
        let batch = batch.map_err(|source| TableError::Arrow {
            context: "arranging columns by name",
            source,
        })?;
        conform_batch(&batch, &self.input_schema(schema))
    }
}
