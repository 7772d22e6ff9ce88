//! Casts between primitive types, checked value by value.
//!
//! Invariant: a valid input value gives a valid output value or an error with that value.
//! Spec: docs/format/delta.md, "Types".

use ::arrow::compute::kernels::cmp::distinct;
use ::arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use ::arrow::util::display::array_value_to_string;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType as ArrowType, TimeUnit};

use super::{Source, mismatch};
use crate::error::TableError;
use crate::schema::DataType;

/// Kinds of types between which a value is never reinterpreted silently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Number,
    Text,
    Bytes,
    Time,
    Other,
}

fn kind(data_type: &ArrowType) -> Kind {
    match data_type {
        ArrowType::Boolean => Kind::Boolean,
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => Kind::Text,
        ArrowType::Binary
        | ArrowType::LargeBinary
        | ArrowType::BinaryView
        | ArrowType::FixedSizeBinary(_) => Kind::Bytes,
        ArrowType::Date32 | ArrowType::Date64 | ArrowType::Timestamp(_, _) => Kind::Time,
        other if other.is_numeric() => Kind::Number,
        _ => Kind::Other,
    }
}

fn assignable(from: &ArrowType, to: &ArrowType) -> bool {
    let (source, target) = (kind(from), kind(to));
    let related = source == target || source == Kind::Text || target == Kind::Text;
    related && source != Kind::Other && target != Kind::Other && can_cast_types(from, to)
}

/// Whether a file's column may be read as a table's: the same kind of value, or one that the
/// format lets a column widen to. Values are still checked one by one.
fn readable(from: &ArrowType, to: &DataType) -> bool {
    match (kind(from), to) {
        (Kind::Boolean, DataType::Boolean)
        // Old writers left the annotation of texts away.
        | (Kind::Text | Kind::Bytes, DataType::String | DataType::Binary) => true,
        (Kind::Time, to) => match from {
            ArrowType::Timestamp(_, _) => {
                matches!(to, DataType::Timestamp | DataType::TimestampNtz)
            }
            _ => matches!(to, DataType::Date | DataType::TimestampNtz),
        },
        (Kind::Number, to) => readable_number(from, to),
        _ => false,
    }
}

fn readable_number(from: &ArrowType, to: &DataType) -> bool {
    let exact_in_double = from.is_floating()
        || (from.is_integer() && !matches!(from, ArrowType::Int64 | ArrowType::UInt64));
    match (from, to) {
        (_, DataType::Byte | DataType::Short | DataType::Integer | DataType::Long) => {
            from.is_integer()
        }
        (_, DataType::Float) => matches!(from, ArrowType::Float16 | ArrowType::Float32),
        (_, DataType::Double) => exact_in_double,
        (
            ArrowType::Decimal32(_, stored)
            | ArrowType::Decimal64(_, stored)
            | ArrowType::Decimal128(_, stored)
            | ArrowType::Decimal256(_, stored),
            DataType::Decimal { scale, .. },
        ) => i16::from(*stored) <= i16::from(*scale),
        (_, DataType::Decimal { .. }) => from.is_integer(),
        _ => false,
    }
}

pub(super) fn cast_leaf(
    array: &ArrayRef,
    data_type: &DataType,
    path: &str,
    source: Source,
) -> Result<ArrayRef, TableError> {
    let target = data_type.to_arrow();
    let allowed = match source {
        Source::Caller => assignable(array.data_type(), &target),
        Source::File => readable(array.data_type(), data_type),
    };
    if !allowed {
        return Err(mismatch(array, data_type, path));
    }
    if source == Source::Caller {
        check_nanoseconds(array, &target, path)?;
    }
    // A value that does not fit becomes NULL, and is then found with its text.
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    let cast = cast_with_options(array, &target, &options)
        .map_err(|_| mismatch(array, data_type, path))?;
    let lost = |row: usize| array.is_valid(row) && cast.is_null(row);
    if cast.null_count() > array.null_count()
        && let Some(row) = (0..array.len()).find(|row| lost(*row))
    {
        return Err(out_of_range(array, row, data_type, path));
    }
    check_whole(array, &cast, data_type, path)?;
    check_finite(array, &cast, data_type, path)?;
    Ok(cast)
}

fn out_of_range(array: &ArrayRef, row: usize, data_type: &DataType, path: &str) -> TableError {
    TableError::ValueOutOfRange {
        column: path.to_owned(),
        data_type: data_type.to_string(),
        value: array_value_to_string(array, row).unwrap_or_default(),
    }
}

/// Nanosecond timestamps must be whole microseconds.
fn check_nanoseconds(array: &ArrayRef, target: &ArrowType, path: &str) -> Result<(), TableError> {
    if !matches!(target, ArrowType::Timestamp(TimeUnit::Microsecond, _)) {
        return Ok(());
    }
    let Some(nanos) = array.as_primitive_opt::<TimestampNanosecondType>() else {
        return Ok(());
    };
    match (0..nanos.len()).find(|row| nanos.is_valid(*row) && nanos.value(*row) % 1000 != 0) {
        Some(row) => Err(TableError::NanosecondsLost {
            column: path.to_owned(),
            value: array_value_to_string(array, row).unwrap_or_default(),
        }),
        None => Ok(()),
    }
}

/// A number with a fraction must not lose it in an integer column.
fn check_whole(
    array: &ArrayRef,
    cast: &ArrayRef,
    data_type: &DataType,
    path: &str,
) -> Result<(), TableError> {
    let has_fraction = array.data_type().is_floating() || is_decimal(array.data_type());
    if !has_fraction || !cast.data_type().is_integer() {
        return Ok(());
    }
    let failed = |source| TableError::Arrow {
        context: "checking a cast",
        source,
    };
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    let back = cast_with_options(cast, array.data_type(), &options).map_err(failed)?;
    let differs = distinct(&back, array).map_err(failed)?;
    match (0..differs.len()).find(|row| differs.value(*row) && !is_negative_zero(array, *row)) {
        Some(row) => Err(out_of_range(array, row, data_type, path)),
        None => Ok(()),
    }
}

fn is_decimal(data_type: &ArrowType) -> bool {
    matches!(
        data_type,
        ArrowType::Decimal32(_, _)
            | ArrowType::Decimal64(_, _)
            | ArrowType::Decimal128(_, _)
            | ArrowType::Decimal256(_, _)
    )
}

/// Negative zero is a whole number although it does not come back from an integer.
fn is_negative_zero(array: &ArrayRef, row: usize) -> bool {
    array.is_valid(row) && array_value_to_string(array, row).is_ok_and(|text| text == "-0.0")
}

/// A double too large for a float column would become infinite.
fn check_finite(
    array: &ArrayRef,
    cast: &ArrayRef,
    data_type: &DataType,
    path: &str,
) -> Result<(), TableError> {
    let Some(floats) = cast.as_primitive_opt::<Float32Type>() else {
        return Ok(());
    };
    let became_infinite = |row: &usize| {
        floats.is_valid(*row)
            && floats.value(*row).is_infinite()
            && !array_value_to_string(array, *row)
                .is_ok_and(|text| text.to_ascii_lowercase().contains("inf"))
    };
    match (0..floats.len()).find(became_infinite) {
        Some(row) => Err(out_of_range(array, row, data_type, path)),
        None => Ok(()),
    }
}
