//! Keys of rows: one form for equal keys, whatever file, type width or build they come from.
//!
//! Invariant: two rows of one table have the same canonical bytes if and only if SQL's `=` holds
//! for each key column (-0.0 equals 0.0, and all NaN are one key); a row with NULL in a key
//! column has no key, as `=` is never true for it. Bytes and hashes never change between builds:
//! records keep them.
//! Does not: say whether keys are unique in a table.
//! Spec: docs/format/log.md, "Keys".

use std::fmt::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, PrimitiveArray, RecordBatch, StringArray,
};
use sha2::{Digest as _, Sha256};

use crate::error::TableError;
use crate::partition::{array_value, scalar_text};
use crate::prune::{Comparison, Predicate};
use crate::schema::{DataType, Field, Schema, fold_name};
use crate::stats::{ColumnStats, Indexed, Scalar, StatsCollector};

/// First byte of each value, by kind.
mod tag {
    pub(super) const BOOLEAN: u8 = 1;
    pub(super) const INTEGER: u8 = 2;
    pub(super) const FLOAT: u8 = 3;
    pub(super) const DECIMAL: u8 = 4;
    pub(super) const STRING: u8 = 5;
    pub(super) const BINARY: u8 = 6;
    pub(super) const DATE: u8 = 7;
    pub(super) const TIMESTAMP: u8 = 8;
    pub(super) const TIMESTAMP_NTZ: u8 = 9;
}

/// The columns of a key, in the order of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumns {
    fields: Vec<Field>,
}

impl KeyColumns {
    /// The columns `on` of a table, named in any case.
    ///
    /// # Errors
    /// No column, one that is not there or is named twice, one of a nested type.
    pub fn new(schema: &Schema, on: &[&str]) -> Result<Self, TableError> {
        let illegal = |column: &str, reason| TableError::IllegalKeyColumn {
            column: column.to_owned(),
            reason,
        };
        if on.is_empty() {
            return Err(illegal("", "a key needs at least one column"));
        }
        let mut fields: Vec<Field> = Vec::new();
        for column in on {
            let (_, field) = schema
                .field(column)
                .ok_or_else(|| TableError::NoSuchColumn {
                    column: (*column).to_owned(),
                })?;
            if field.data_type.is_nested() || field.data_type == DataType::Void {
                return Err(illegal(column, "values of its type are not keys"));
            }
            if fields.iter().any(|known| known.name == field.name) {
                return Err(illegal(column, "it is named twice"));
            }
            fields.push(field.clone());
        }
        Ok(Self { fields })
    }

    /// No column: no row has a key.
    pub fn none() -> Self {
        Self { fields: Vec::new() }
    }

    /// The columns as a schema, in the order of the key.
    pub fn schema(&self) -> Schema {
        Schema::new(self.fields.clone())
    }

    /// Their names as the table spells them.
    pub fn names(&self) -> Vec<String> {
        self.fields.iter().map(|field| field.name.clone()).collect()
    }

    /// Whether `column` is one of them, in any case.
    pub fn holds(&self, column: &str) -> bool {
        let folded = fold_name(column);
        self.fields
            .iter()
            .any(|field| fold_name(&field.name) == folded)
    }

    /// What a file must be able to hold to have one of these keys: a value between the smallest
    /// and the largest of each column. Columns without bounds (all NULL, NaN) do not count.
    pub fn bounds<'a>(&self, batches: impl IntoIterator<Item = &'a RecordBatch>) -> Predicate {
        let mut bounds = KeyBounds::new(self);
        for batch in batches {
            bounds.update(batch);
        }
        bounds.finish()
    }

    /// The keys of a batch that has these columns under the table's names and types.
    ///
    /// # Errors
    /// [`TableError::Internal`] when it has not.
    pub fn of<'a>(&'a self, batch: &'a RecordBatch) -> Result<Keys<'a>, TableError> {
        let columns = self.fields.iter().map(|field| {
            let array = batch.column_by_name(&field.name);
            array.and_then(|array| {
                Some(KeyColumn {
                    field,
                    array,
                    values: Values::of(array, &field.data_type)?,
                })
            })
        });
        let columns: Option<Vec<_>> = columns.collect();
        let columns = columns.ok_or(TableError::Internal {
            context: "reading the key columns of a batch",
        })?;
        Ok(Keys { columns })
    }
}

/// The bounds of keys that come batch by batch; see [`KeyColumns::bounds`].
#[derive(Debug)]
pub struct KeyBounds {
    fields: Vec<Field>,
    /// `None`: a batch was not understood.
    collector: Option<StatsCollector>,
}

impl KeyBounds {
    /// Of no key yet.
    pub fn new(key: &KeyColumns) -> Self {
        let collector = StatsCollector::new(&key.schema(), &Indexed::from(usize::MAX));
        Self {
            fields: key.fields.clone(),
            collector: Some(collector),
        }
    }

    /// Takes the keys of a batch that has these columns under the table's names and types.
    pub fn update(&mut self, batch: &RecordBatch) {
        let position = |field: &Field| batch.schema().index_of(&field.name).ok();
        let positions: Option<Vec<_>> = self.fields.iter().map(position).collect();
        match (
            positions.map(|positions| batch.project(&positions)),
            &mut self.collector,
        ) {
            (Some(Ok(keys)), Some(collector)) => collector.update(&keys),
            // A batch that is not understood leaves no bound that could be wrong.
            _ => self.collector = None,
        }
    }

    /// What a file must be able to hold to have one of the keys.
    pub fn finish(self) -> Predicate {
        let Some(collector) = self.collector else {
            return Predicate::And(Vec::new());
        };
        let stats = collector.finish();
        let bounds = self.fields.iter().flat_map(|field| {
            let known = stats.top(field);
            let bound = |op, value: Option<Scalar>| {
                value.map(|value| Predicate::Compare {
                    column: field.name.clone(),
                    op,
                    value,
                })
            };
            let min = known.and_then(|stats| stats.min.clone());
            let max = known.and_then(ColumnStats::upper_bound);
            [
                bound(Comparison::GreaterOrEqual, min),
                bound(Comparison::LessOrEqual, max),
            ]
        });
        Predicate::And(bounds.flatten().collect())
    }
}

/// The keys of one batch.
#[derive(Debug)]
pub struct Keys<'a> {
    columns: Vec<KeyColumn<'a>>,
}

#[derive(Debug)]
struct KeyColumn<'a> {
    field: &'a Field,
    array: &'a ArrayRef,
    values: Values<'a>,
}

impl Keys<'_> {
    /// Puts the canonical bytes of a row's key into `bytes`, in place of what they held. False
    /// when the row has none, because a key column is NULL.
    pub fn read(&self, row: usize, bytes: &mut Vec<u8>) -> bool {
        bytes.clear();
        if self.columns.is_empty() {
            return false;
        }
        for column in &self.columns {
            if row >= column.array.len() || column.array.is_null(row) {
                return false;
            }
            column.values.append(row, bytes);
        }
        true
    }

    /// The key in words: `id = 7, day = 2024-05-01`.
    pub fn describe(&self, row: usize) -> String {
        let mut text = String::new();
        for column in &self.columns {
            let comma = if text.is_empty() { "" } else { ", " };
            let value = value_text(column.array, row, &column.field.data_type);
            let _infallible = write!(text, "{comma}{} = {value}", column.field.name);
        }
        text
    }
}

/// A row for people: `id = 7, name = "x"`, its columns being those of `schema`.
pub fn row_text(batch: &RecordBatch, row: usize, schema: &Schema) -> String {
    const COLUMNS: usize = 16;
    let mut text = String::new();
    for field in schema.fields.iter().take(COLUMNS) {
        let comma = if text.is_empty() { "" } else { ", " };
        let value = batch.column_by_name(&field.name);
        let value = value.map_or_else(
            || "?".to_owned(),
            |array| value_text(array, row, &field.data_type),
        );
        let _infallible = write!(text, "{comma}{} = {value}", field.name);
    }
    if schema.fields.len() > COLUMNS {
        text.push_str(", ..");
    }
    text
}

/// One value for people, long ones cut.
fn value_text(array: &dyn Array, row: usize, data_type: &DataType) -> String {
    const SHOWN: usize = 64;
    if row >= array.len() || array.is_null(row) {
        return "NULL".to_owned();
    }
    let text = array_value(array, row, data_type).and_then(|value| scalar_text(&value, data_type));
    let mut text = text.unwrap_or_else(|_| "?".to_owned());
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push_str("..");
    }
    if *data_type == DataType::String {
        text = format!("{text:?}");
    }
    text
}

/// A column in its Arrow type.
#[derive(Debug)]
enum Values<'a> {
    Boolean(&'a BooleanArray),
    Byte(&'a PrimitiveArray<Int8Type>),
    Short(&'a PrimitiveArray<Int16Type>),
    Integer(&'a PrimitiveArray<Int32Type>),
    Long(&'a PrimitiveArray<Int64Type>),
    Float(&'a PrimitiveArray<Float32Type>),
    Double(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>, u8),
    String(&'a StringArray),
    Binary(&'a BinaryArray),
    Date(&'a PrimitiveArray<Date32Type>),
    Timestamp(&'a PrimitiveArray<TimestampMicrosecondType>, u8),
}

impl<'a> Values<'a> {
    fn of(array: &'a ArrayRef, data_type: &DataType) -> Option<Self> {
        fn typed<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<&PrimitiveArray<T>> {
            array.as_primitive_opt()
        }
        Some(match data_type {
            DataType::Boolean => Self::Boolean(array.as_boolean_opt()?),
            DataType::Byte => Self::Byte(typed(array)?),
            DataType::Short => Self::Short(typed(array)?),
            DataType::Integer => Self::Integer(typed(array)?),
            DataType::Long => Self::Long(typed(array)?),
            DataType::Float => Self::Float(typed(array)?),
            DataType::Double => Self::Double(typed(array)?),
            DataType::Decimal { scale, .. } => Self::Decimal(typed(array)?, *scale),
            DataType::String => Self::String(array.as_string_opt()?),
            DataType::Binary => Self::Binary(array.as_binary_opt()?),
            DataType::Date => Self::Date(typed(array)?),
            DataType::Timestamp => Self::Timestamp(typed(array)?, tag::TIMESTAMP),
            DataType::TimestampNtz => Self::Timestamp(typed(array)?, tag::TIMESTAMP_NTZ),
            DataType::Array { .. }
            | DataType::Map { .. }
            | DataType::Struct(_)
            | DataType::Variant
            | DataType::Void => {
                return None;
            }
        })
    }

    /// Appends the canonical form of a value that is not NULL.
    fn append(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Boolean(array) => out.extend([tag::BOOLEAN, u8::from(array.value(row))]),
            Self::Byte(array) => integer(array.value(row).into(), out),
            Self::Short(array) => integer(array.value(row).into(), out),
            Self::Integer(array) => integer(array.value(row).into(), out),
            Self::Long(array) => integer(array.value(row), out),
            Self::Float(array) => float(array.value(row).into(), out),
            Self::Double(array) => float(array.value(row), out),
            Self::Decimal(array, scale) => decimal(array.value(row), *scale, out),
            Self::String(array) => sized(tag::STRING, array.value(row).as_bytes(), out),
            Self::Binary(array) => sized(tag::BINARY, array.value(row), out),
            Self::Date(array) => {
                out.push(tag::DATE);
                out.extend(array.value(row).to_le_bytes());
            }
            Self::Timestamp(array, tag) => {
                out.push(*tag);
                out.extend(array.value(row).to_le_bytes());
            }
        }
    }
}

fn integer(value: i64, out: &mut Vec<u8>) {
    out.push(tag::INTEGER);
    out.extend(value.to_le_bytes());
}

fn float(value: f64, out: &mut Vec<u8>) {
    out.push(tag::FLOAT);
    out.extend(canonical_float(value).to_bits().to_le_bytes());
}

/// One zero and one NaN.
pub(crate) fn canonical_float(value: f64) -> f64 {
    if value.is_nan() {
        f64::from_bits(0x7FF8_0000_0000_0000)
    } else if value == 0.0 {
        0.0
    } else {
        value
    }
}

/// Without trailing zeros of the fraction, so that 1.50 and 1.5 are one.
fn decimal(mut unscaled: i128, mut scale: u8, out: &mut Vec<u8>) {
    while scale > 0 && unscaled % 10 == 0 {
        unscaled /= 10;
        scale -= 1;
    }
    out.extend([tag::DECIMAL, scale]);
    out.extend(unscaled.to_le_bytes());
}

/// Bytes after their number, so that two columns cannot run into each other.
fn sized(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}

/// The hash of canonical bytes: the first eight bytes of their SHA-256, little endian.
pub fn key_hash(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    let first = digest.iter().take(8).rev();
    first.fold(0, |hash, byte| (hash << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests;
