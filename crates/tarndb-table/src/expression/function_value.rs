//! The functions of the allow-list over arrays.
//!
//! Invariant: a NULL argument gives NULL.
//! Spec: docs/expressions.md, "Functions".

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int32Array, PrimitiveArray, StringArray,
};

use super::calendar;
use super::cast::{cast, decimal_of_text, decimals, doubles, plain};
use super::node::{Function, Typed};
use crate::schema::DataType;

/// The values of a call; `values` are those of `arguments`.
pub(super) fn call(
    function: &Function,
    values: &[ArrayRef],
    arguments: &[Typed],
    result: &DataType,
) -> Result<ArrayRef, String> {
    if *function == Function::Concat {
        return concat(values);
    }
    let missing = || "a function without its argument".to_owned();
    let first = values.first().ok_or_else(missing)?;
    let given = &arguments.first().ok_or_else(missing)?.data_type;
    match function {
        Function::Part(_) | Function::Truncate(_) | Function::DateFormat(_) => {
            of_moment(function, first, given)
        }
        Function::Substring => substring(first, values.get(1), values.get(2)),
        Function::Upper => Ok(texts(first, |text| Some(text.to_uppercase()))),
        Function::Lower => Ok(texts(first, |text| Some(text.to_lowercase()))),
        Function::Trim { left, right } => Ok(texts(first, |text| {
            let text = if *left {
                text.trim_start_matches(' ')
            } else {
                text
            };
            let text = if *right {
                text.trim_end_matches(' ')
            } else {
                text
            };
            Some(text.to_owned())
        })),
        Function::Length => {
            let lengths = first.as_string::<i32>().iter();
            let lengths = lengths.map(|text| i32::try_from(text?.chars().count()).ok());
            Ok(Arc::new(lengths.collect::<Int32Array>()))
        }
        Function::Abs => absolute(first, given),
        Function::Ceil | Function::Floor => whole(function, first, given, result),
        Function::Round(digits) => round(*digits, first, given, result),
        Function::Concat => concat(values),
    }
}

fn texts(array: &ArrayRef, of: impl Fn(&str) -> Option<String>) -> ArrayRef {
    let values = array.as_string::<i32>().iter().map(|text| of(text?));
    Arc::new(values.collect::<StringArray>())
}

fn concat(values: &[ArrayRef]) -> Result<ArrayRef, String> {
    let len = values.first().map_or(0, |first| first.len());
    let columns: Vec<&StringArray> = values.iter().map(|array| array.as_string()).collect();
    let row = |row: usize| {
        let mut whole = String::new();
        for column in &columns {
            if column.is_null(row) {
                return None;
            }
            whole.push_str(column.value(row));
        }
        Some(whole)
    };
    Ok(Arc::new((0..len).map(row).collect::<StringArray>()))
}

fn substring(
    text: &ArrayRef,
    place: Option<&ArrayRef>,
    length: Option<&ArrayRef>,
) -> Result<ArrayRef, String> {
    let place = place.ok_or_else(|| "substring() without a place".to_owned())?;
    let places = place.as_primitive::<Int32Type>();
    let lengths = length.map(|length| length.as_primitive::<Int32Type>());
    let texts = text.as_string::<i32>().iter().enumerate();
    let values = texts.map(|(row, text)| {
        let (text, place) = (text?, places.is_valid(row).then(|| places.value(row))?);
        let length = match lengths {
            None => i64::MAX,
            Some(lengths) => i64::from(lengths.is_valid(row).then(|| lengths.value(row))?),
        };
        let count = i64::try_from(text.chars().count()).ok()?;
        let start = match place {
            0 => 0,
            place if place > 0 => i64::from(place) - 1,
            place => count + i64::from(place),
        };
        let end = start.saturating_add(length);
        let (start, end) = (start.max(0), end.clamp(0, count));
        let taken = usize::try_from((end - start).max(0)).ok()?;
        let skipped = usize::try_from(start).ok()?;
        Some(text.chars().skip(skipped).take(taken).collect::<String>())
    });
    Ok(Arc::new(values.collect::<StringArray>()))
}

fn of_moment(function: &Function, array: &ArrayRef, given: &DataType) -> Result<ArrayRef, String> {
    let beyond = || "a date outside the calendar".to_owned();
    if *given == DataType::Date {
        let days = array.as_primitive::<Date32Type>();
        return Ok(match function {
            Function::Part(part) => {
                let of = |day| calendar::part_of_day(*part, day).ok_or_else(beyond);
                Arc::new(days.try_unary::<_, Int32Type, _>(of)?)
            }
            Function::Truncate(unit) => {
                let of = |day| calendar::truncated_day(*unit, day).ok_or_else(beyond);
                Arc::new(days.try_unary::<_, Date32Type, _>(of)?)
            }
            _ => return Err("a function of timestamps over dates".to_owned()),
        });
    }
    let micros = array.as_primitive::<TimestampMicrosecondType>();
    Ok(match function {
        Function::Part(part) => {
            let of = |micros| calendar::part_of_instant(*part, micros).ok_or_else(beyond);
            Arc::new(micros.try_unary::<_, Int32Type, _>(of)?)
        }
        Function::Truncate(unit) => {
            let of = |micros| calendar::truncated_instant(*unit, micros).ok_or_else(beyond);
            let cut: PrimitiveArray<TimestampMicrosecondType> = micros.try_unary(of)?;
            Arc::new(cut.with_timezone_opt(micros.timezone().map(Arc::<str>::from)))
        }
        Function::DateFormat(pieces) => {
            let of = |micros| calendar::formatted(pieces, micros).ok_or_else(beyond);
            let texts = micros.iter().map(|micros| micros.map(of).transpose());
            Arc::new(texts.collect::<Result<StringArray, String>>()?)
        }
        _ => return Err("a function of other values over timestamps".to_owned()),
    })
}

fn absolute(array: &ArrayRef, given: &DataType) -> Result<ArrayRef, String> {
    Ok(match given {
        DataType::Byte => Arc::new(
            array
                .as_primitive::<Int8Type>()
                .unary::<_, Int8Type>(i8::wrapping_abs),
        ),
        DataType::Short => Arc::new(
            array
                .as_primitive::<Int16Type>()
                .unary::<_, Int16Type>(i16::wrapping_abs),
        ),
        DataType::Integer => Arc::new(
            array
                .as_primitive::<Int32Type>()
                .unary::<_, Int32Type>(i32::wrapping_abs),
        ),
        DataType::Long => Arc::new(
            array
                .as_primitive::<Int64Type>()
                .unary::<_, Int64Type>(i64::wrapping_abs),
        ),
        DataType::Decimal { precision, scale } => {
            let values = array.as_primitive::<Decimal128Type>();
            let values: Decimal128Array = values.unary(i128::wrapping_abs);
            return decimals(values, *precision, *scale);
        }
        _ => {
            let values: ArrayRef = Arc::new(doubles(array)?.unary::<_, Float64Type>(f64::abs));
            return plain(&values, given);
        }
    })
}

/// The next whole number below or above.
fn whole(
    function: &Function,
    array: &ArrayRef,
    given: &DataType,
    result: &DataType,
) -> Result<ArrayRef, String> {
    let up = *function == Function::Ceil;
    if let (
        DataType::Decimal { scale, .. },
        DataType::Decimal {
            precision,
            scale: to,
        },
    ) = (given, result)
    {
        let power = 10_i128.pow(u32::from(*scale));
        let of = |value: i128| {
            let floor = value.div_euclid(power);
            let rest = i128::from(up && value.rem_euclid(power) != 0);
            floor + rest
        };
        let values: Decimal128Array = array.as_primitive::<Decimal128Type>().unary(of);
        return decimals(values, *precision, *to);
    }
    let of = if up { f64::ceil } else { f64::floor };
    let values: ArrayRef = Arc::new(doubles(array)?.unary::<_, Float64Type>(of));
    cast(&values, &DataType::Double, &DataType::Long)
}

/// Rounded, halves away from zero, as the number's shortest text says.
fn round(
    digits: u8,
    array: &ArrayRef,
    given: &DataType,
    result: &DataType,
) -> Result<ArrayRef, String> {
    if let (
        DataType::Decimal { scale, .. },
        DataType::Decimal {
            precision,
            scale: to,
        },
    ) = (given, result)
    {
        let power = 10_i128.pow(u32::from(scale.saturating_sub(*to)));
        let of = |value: i128| {
            let (whole, rest) = (value / power, value % power);
            if rest.abs() * 2 >= power && power > 1 {
                whole + value.signum()
            } else {
                whole
            }
        };
        let values: Decimal128Array = array.as_primitive::<Decimal128Type>().unary(of);
        return decimals(values, *precision, *to);
    }
    let rounded = |value: f64, text: String| -> f64 {
        let unscaled = decimal_of_text(&text, 38, digits);
        let text = unscaled.map(|unscaled| crate::decimal::format_decimal(unscaled, digits));
        // Beyond 38 digits a float has no fraction.
        text.and_then(|text| text.parse().ok()).unwrap_or(value)
    };
    let values: Float64Array = if *given == DataType::Float {
        let values = array.as_primitive::<arrow_array::types::Float32Type>();
        values.unary(|value| rounded(f64::from(value), value.to_string()))
    } else {
        doubles(array)?.unary(|value| rounded(value, value.to_string()))
    };
    let values: ArrayRef = Arc::new(values);
    plain(&values, result)
}
