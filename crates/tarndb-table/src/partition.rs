//! Partition values: their text form in a log, and the directories named after them.
//!
//! Invariant: the log's text is the truth; a directory name is never read back. An empty string
//! or binary value is stored as NULL, since readers disagree on `""`.
//! Spec: Delta PROTOCOL, "Partition Value Serialization"; RFC 2396 for paths in a log.

mod dir;
mod text;

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, TimestampMicrosecondArray, new_null_array,
};

pub use dir::{partition_dir, uri_encode};

use crate::decimal::{format_decimal, parse_decimal, rescale};
use crate::error::TableError;
use crate::schema::{DataType, Schema, fold_name};
use crate::stats::Scalar;

/// Whether `column` is one of `partition_columns`, ignoring case.
pub fn is_partition_column(partition_columns: &[String], column: &str) -> bool {
    partition_columns.iter().any(|p| p == column)
        || partition_columns
            .iter()
            .any(|p| fold_name(p) == fold_name(column))
}

/// Checks that a table may be partitioned so.
///
/// # Errors
/// A column that is not there, is named twice or has a nested type; all columns as partition
/// columns.
pub fn check_partition_columns(
    schema: &Schema,
    partition_columns: &[String],
) -> Result<(), TableError> {
    let illegal = |column: &String, reason| {
        Err(TableError::IllegalPartitionColumn {
            column: column.clone(),
            reason,
        })
    };
    for (position, column) in partition_columns.iter().enumerate() {
        let Some((_, field)) = schema.field(column) else {
            return Err(TableError::NoSuchColumn {
                column: column.clone(),
            });
        };
        if field.data_type.is_nested() || field.data_type == DataType::Void {
            return illegal(column, "its type has no partition values");
        }
        let earlier = partition_columns.iter().take(position);
        if earlier
            .into_iter()
            .any(|other| fold_name(other) == fold_name(column))
        {
            return illegal(column, "it is named twice");
        }
    }
    match partition_columns.last() {
        Some(last) if partition_columns.len() >= schema.fields.len() => {
            illegal(last, "a table needs at least one other column")
        }
        _ => Ok(()),
    }
}

/// The log's text of one value of an array in the table's Arrow type; `None` for NULL, and for
/// an empty string or binary value.
///
/// # Errors
/// [`TableError::PartitionValueUnwritable`] for binary that is not UTF-8, for years that have no
/// text form and for nested types; [`TableError::Internal`] when the array has another type.
pub fn encode_partition_value(
    array: &dyn Array,
    row: usize,
    data_type: &DataType,
) -> Result<Option<String>, TableError> {
    if row >= array.len() {
        return Err(TableError::Internal {
            context: "encoding a partition value",
        });
    }
    if array.is_null(row) || *data_type == DataType::Void {
        return Ok(None);
    }
    let scalar = array_value(array, row, data_type)?;
    Ok(Some(scalar_text(&scalar, data_type)?).filter(|text| !text.is_empty()))
}

pub(crate) fn array_value(
    array: &dyn Array,
    row: usize,
    data_type: &DataType,
) -> Result<Scalar, TableError> {
    macro_rules! value {
        ($type:ty) => {
            array
                .as_primitive_opt::<$type>()
                .map(|array| array.value(row))
        };
    }
    let scalar = match data_type {
        DataType::Boolean => array
            .as_boolean_opt()
            .map(|a| Scalar::Boolean(a.value(row))),
        DataType::Byte => value!(Int8Type).map(|v| Scalar::Long(v.into())),
        DataType::Short => value!(Int16Type).map(|v| Scalar::Long(v.into())),
        DataType::Integer => value!(Int32Type).map(|v| Scalar::Long(v.into())),
        DataType::Long => value!(Int64Type).map(Scalar::Long),
        DataType::Float => value!(Float32Type).map(|v| Scalar::Double(v.into())),
        DataType::Double => value!(Float64Type).map(Scalar::Double),
        DataType::Decimal { scale, .. } => {
            value!(Decimal128Type).map(|v| Scalar::Decimal(v, *scale))
        }
        DataType::String => array
            .as_string_opt::<i32>()
            .map(|a| Scalar::String(a.value(row).to_owned())),
        DataType::Binary => array
            .as_binary_opt::<i32>()
            .map(|a| Scalar::Binary(a.value(row).to_owned())),
        DataType::Date => value!(Date32Type).map(Scalar::Date),
        DataType::Timestamp | DataType::TimestampNtz => {
            value!(TimestampMicrosecondType).map(Scalar::TimestampMicros)
        }
        DataType::Array { .. }
        | DataType::Map { .. }
        | DataType::Struct(_)
        | DataType::Variant
        | DataType::Void => {
            return Err(unwritable(
                data_type,
                "",
                "its type has no partition values",
            ));
        }
    };
    scalar.ok_or(TableError::Internal {
        context: "encoding a partition value",
    })
}

fn unwritable(data_type: &DataType, value: &str, reason: &'static str) -> TableError {
    let (data_type, value) = (data_type.to_string(), value.to_owned());
    TableError::PartitionValueUnwritable {
        data_type,
        value,
        reason,
    }
}

pub(crate) fn scalar_text(scalar: &Scalar, data_type: &DataType) -> Result<String, TableError> {
    let no_text = |value: String| unwritable(data_type, &value, "its year has no text form");
    Ok(match scalar {
        Scalar::Boolean(value) => value.to_string(),
        Scalar::Long(value) => value.to_string(),
        Scalar::Double(value) if *data_type == DataType::Float => {
            // Narrowing is exact: the value was widened from a float.
            text::java_float(*value, format!("{:e}", *value as f32))
        }
        Scalar::Double(value) => text::java_float(*value, format!("{value:e}")),
        Scalar::Decimal(value, scale) => format_decimal(*value, *scale),
        Scalar::String(value) => value.clone(),
        Scalar::Binary(bytes) => String::from_utf8(bytes.clone()).map_err(|_| {
            unwritable(
                data_type,
                &format!("{bytes:02x?}"),
                "its bytes are not UTF-8",
            )
        })?,
        Scalar::Date(days) => text::date(*days).ok_or_else(|| no_text(days.to_string()))?,
        Scalar::TimestampMicros(micros) => {
            let formatted = match data_type {
                DataType::Timestamp => text::timestamp(*micros),
                _ => text::timestamp_ntz(*micros),
            };
            formatted.ok_or_else(|| no_text(micros.to_string()))?
        }
    })
}

/// The value of a log's text; `None` and `""` are NULL. Takes all forms that writers use: any
/// case of booleans, exponents, timestamps with or without zone (none means UTC).
///
/// # Errors
/// [`TableError::MalformedPartitionValue`].
pub fn parse_partition_value(
    text: Option<&str>,
    data_type: &DataType,
) -> Result<Option<Scalar>, TableError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let integer = |min: i64, max: i64| {
        let value = text.trim().parse::<i64>().ok();
        value
            .filter(|value| (min..=max).contains(value))
            .map(Scalar::Long)
    };
    let scalar = match data_type {
        DataType::Boolean => text::parse_boolean(text).map(Scalar::Boolean),
        DataType::Byte => integer(i8::MIN.into(), i8::MAX.into()),
        DataType::Short => integer(i16::MIN.into(), i16::MAX.into()),
        DataType::Integer => integer(i32::MIN.into(), i32::MAX.into()),
        DataType::Long => integer(i64::MIN, i64::MAX),
        // A float's shortest text read as a double would be another number.
        DataType::Float => text
            .trim()
            .parse::<f32>()
            .ok()
            .map(|value| Scalar::Double(value.into())),
        DataType::Double => text.trim().parse::<f64>().ok().map(Scalar::Double),
        DataType::Decimal { precision, scale } => parse_decimal(text.trim(), *scale)
            .filter(|value| value.unsigned_abs() < 10_u128.pow(u32::from((*precision).min(38))))
            .map(|value| Scalar::Decimal(value, *scale)),
        DataType::String => Some(Scalar::String(text.to_owned())),
        DataType::Binary => Some(Scalar::Binary(text.as_bytes().to_owned())),
        DataType::Date => text::parse_date(text.trim()).map(Scalar::Date),
        DataType::Timestamp | DataType::TimestampNtz => {
            text::parse_timestamp(text.trim()).map(Scalar::TimestampMicros)
        }
        DataType::Void => return Ok(None),
        DataType::Array { .. } | DataType::Map { .. } | DataType::Struct(_) | DataType::Variant => {
            None
        }
    };
    scalar
        .map(Some)
        .ok_or_else(|| TableError::MalformedPartitionValue {
            data_type: data_type.to_string(),
            text: text.to_owned(),
        })
}

/// An array of `len` times `value` in the table's Arrow type.
///
/// # Errors
/// [`TableError::ValueOutOfRange`] when the value is not one of the type (column left empty).
pub fn scalar_to_array(
    value: Option<&Scalar>,
    data_type: &DataType,
    len: usize,
) -> Result<ArrayRef, TableError> {
    let Some(value) = value else {
        return Ok(new_null_array(&data_type.to_arrow(), len));
    };
    filled_array(value, data_type, len).ok_or_else(|| TableError::ValueOutOfRange {
        column: String::new(),
        data_type: data_type.to_string(),
        value: format!("{value:?}"),
    })
}

fn filled_array(value: &Scalar, data_type: &DataType, len: usize) -> Option<ArrayRef> {
    Some(match (data_type, value) {
        (DataType::Boolean, Scalar::Boolean(v)) => Arc::new(BooleanArray::from(vec![*v; len])),
        (DataType::Byte, Scalar::Long(v)) => {
            Arc::new(Int8Array::from_value(i8::try_from(*v).ok()?, len))
        }
        (DataType::Short, Scalar::Long(v)) => {
            Arc::new(Int16Array::from_value(i16::try_from(*v).ok()?, len))
        }
        (DataType::Integer, Scalar::Long(v)) => {
            Arc::new(Int32Array::from_value(i32::try_from(*v).ok()?, len))
        }
        (DataType::Long, Scalar::Long(v)) => Arc::new(Int64Array::from_value(*v, len)),
        (DataType::Float, Scalar::Double(v)) => Arc::new(Float32Array::from_value(*v as f32, len)),
        (DataType::Double, Scalar::Double(v)) => Arc::new(Float64Array::from_value(*v, len)),
        (DataType::Decimal { scale, .. }, Scalar::Decimal(v, from)) => {
            let array = Decimal128Array::from_value(rescale(*v, *from, *scale)?, len);
            Arc::new(array.with_data_type(data_type.to_arrow()))
        }
        (DataType::String, Scalar::String(v)) => {
            let mut builder = StringBuilder::with_capacity(len, v.len().saturating_mul(len));
            (0..len).for_each(|_| builder.append_value(v));
            Arc::new(builder.finish())
        }
        (DataType::Binary, Scalar::Binary(v)) => {
            let mut builder = BinaryBuilder::with_capacity(len, v.len().saturating_mul(len));
            (0..len).for_each(|_| builder.append_value(v));
            Arc::new(builder.finish())
        }
        (DataType::Date, Scalar::Date(v)) => Arc::new(Date32Array::from_value(*v, len)),
        (DataType::Timestamp | DataType::TimestampNtz, Scalar::TimestampMicros(v)) => {
            let array = TimestampMicrosecondArray::from_value(*v, len);
            Arc::new(array.with_data_type(data_type.to_arrow()))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
