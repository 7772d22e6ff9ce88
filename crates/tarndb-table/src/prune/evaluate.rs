//! Evaluating a predicate on rows, with SQL's three-valued logic.
//!
//! Invariant: true exactly for the rows for which the query engine says so: a comparison with
//! NULL is NULL, -0.0 equals 0.0, all NaN are equal and above every number.
//! Does not: cast; a literal of another kind than its column is an error.
//! Spec: none.

use std::sync::Arc;

use ::arrow::compute::kernels::boolean::{and_kleene, is_not_null, is_null, or_kleene};
use ::arrow::compute::kernels::cmp;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, Scalar as ArrowScalar,
};

use super::{Comparison, Predicate};
use crate::error::TableError;
use crate::key::canonical_float;
use crate::partition::scalar_to_array;
use crate::schema::{DataType, Field, Schema};
use crate::stats::Scalar;

impl Predicate {
    /// The columns it looks at, in the schema's order.
    ///
    /// # Errors
    /// [`TableError::NoSuchColumn`]; [`TableError::TypeMismatch`] for a literal that cannot be
    /// compared with its column.
    pub fn columns(&self, schema: &Schema) -> Result<Schema, TableError> {
        let mut wanted = vec![false; schema.fields.len()];
        self.mark(schema, &mut wanted)?;
        let fields = schema.fields.iter().zip(wanted);
        let fields = fields.filter(|(_, wanted)| *wanted);
        Ok(Schema::new(
            fields.map(|(field, _)| field.clone()).collect(),
        ))
    }

    fn mark(&self, schema: &Schema, wanted: &mut [bool]) -> Result<(), TableError> {
        match self {
            Self::And(parts) | Self::Or(parts) => {
                parts.iter().try_for_each(|part| part.mark(schema, wanted))
            }
            Self::IsNull(column) | Self::IsNotNull(column) => {
                find(column, schema).map(|(at, _)| note(wanted, at))
            }
            Self::Compare { column, value, .. } => {
                let (at, field) = find(column, schema)?;
                note(wanted, at);
                literal(value, field).map(|_| ())
            }
        }
    }

    /// Whether it holds, row by row; NULL where that is unknown. `batch` has the columns under
    /// the names and types of `schema`.
    ///
    /// # Errors
    /// As [`Self::columns`].
    pub fn evaluate(
        &self,
        batch: &RecordBatch,
        schema: &Schema,
    ) -> Result<BooleanArray, TableError> {
        match self {
            Self::And(parts) => fold(parts, true, batch, schema, and_kleene),
            Self::Or(parts) => fold(parts, false, batch, schema, or_kleene),
            Self::IsNull(column) => kernel(is_null(&array(column, batch, schema)?.0)),
            Self::IsNotNull(column) => kernel(is_not_null(&array(column, batch, schema)?.0)),
            Self::Compare { column, op, value } => {
                let (array, field) = array(column, batch, schema)?;
                let array = comparable(&array);
                let value = ArrowScalar::new(comparable(&literal(value, field)?));
                kernel(match op {
                    Comparison::Equal => cmp::eq(&array, &value),
                    Comparison::NotEqual => cmp::neq(&array, &value),
                    Comparison::Less => cmp::lt(&array, &value),
                    Comparison::LessOrEqual => cmp::lt_eq(&array, &value),
                    Comparison::Greater => cmp::gt(&array, &value),
                    Comparison::GreaterOrEqual => cmp::gt_eq(&array, &value),
                })
            }
        }
    }
}

fn note(wanted: &mut [bool], at: usize) {
    if let Some(wanted) = wanted.get_mut(at) {
        *wanted = true;
    }
}

fn find<'a>(column: &str, schema: &'a Schema) -> Result<(usize, &'a Field), TableError> {
    schema
        .field(column)
        .ok_or_else(|| TableError::NoSuchColumn {
            column: column.to_owned(),
        })
}

fn array<'a>(
    column: &str,
    batch: &RecordBatch,
    schema: &'a Schema,
) -> Result<(ArrayRef, &'a Field), TableError> {
    let (_, field) = find(column, schema)?;
    let array = batch.column_by_name(&field.name);
    let array = array.ok_or(TableError::Internal {
        context: "evaluating a predicate on a batch without its columns",
    })?;
    Ok((Arc::clone(array), field))
}

/// The literal as an array of one value in the column's type.
fn literal(value: &Scalar, field: &Field) -> Result<ArrayRef, TableError> {
    // A literal that was rounded to a float would equal values that it does not.
    let data_type = match &field.data_type {
        DataType::Float => &DataType::Double,
        data_type => data_type,
    };
    scalar_to_array(Some(value), data_type, 1).map_err(|_| TableError::TypeMismatch {
        column: field.name.clone(),
        data_type: field.data_type.to_string(),
        given: format!("{value:?}"),
    })
}

/// Arrow orders floats by their bits: with one zero and one NaN that is SQL's order. Floats are
/// compared as doubles.
fn comparable(array: &ArrayRef) -> ArrayRef {
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        let floats: Float64Array = floats.unary(canonical_float);
        return Arc::new(floats);
    }
    if let Some(floats) = array.as_primitive_opt::<Float32Type>() {
        let floats: Float64Array = floats.unary(|value| canonical_float(value.into()));
        return Arc::new(floats);
    }
    Arc::clone(array)
}

fn fold(
    parts: &[Predicate],
    empty: bool,
    batch: &RecordBatch,
    schema: &Schema,
    combine: impl Fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, arrow_schema::ArrowError>,
) -> Result<BooleanArray, TableError> {
    let mut all = BooleanArray::from(vec![empty; batch.num_rows()]);
    for part in parts {
        all = kernel(combine(&all, &part.evaluate(batch, schema)?))?;
    }
    Ok(all)
}

fn kernel(
    result: Result<BooleanArray, arrow_schema::ArrowError>,
) -> Result<BooleanArray, TableError> {
    result.map_err(|source| TableError::Arrow {
        context: "evaluating a predicate",
        source,
    })
}

/// Whether a row counts as matching: NULL is not true.
pub fn is_true(matches: &BooleanArray, row: usize) -> bool {
    row < matches.len() && matches.is_valid(row) && matches.value(row)
}
