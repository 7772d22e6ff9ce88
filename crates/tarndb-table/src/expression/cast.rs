//! CAST as Spark does it with ANSI off: what does not fit wraps (whole numbers) or is NULL.
//!
//! Invariant: exactly the pairs of `types::can_cast`.
//! Spec: docs/expressions.md, "CAST".

use std::sync::Arc;

use ::arrow::compute::{CastOptions, cast_with_options};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, PrimitiveArray, StringArray,
};

use super::calendar;
use super::types::{is_float, is_whole};
use crate::decimal::format_decimal;
use crate::schema::DataType;

/// `array` of type `from` as `to`; the error says for which value there is none.
pub(super) fn cast(array: &ArrayRef, from: &DataType, to: &DataType) -> Result<ArrayRef, String> {
    use DataType as T;
    match (from, to) {
        (from, to) if from == to => Ok(Arc::clone(array)),
        (T::Decimal { scale, .. }, to) if is_whole(to) => {
            let power = 10_i128.pow(u32::from(*scale));
            let values = array.as_primitive::<Decimal128Type>().iter();
            // Like Java, the low bits of what does not fit.
            #[expect(clippy::cast_possible_truncation, reason = "Spark keeps the low bits")]
            let values = values.map(|value| value.map(|value| (value / power) as i64));
            narrow(&values.collect(), to)
        }
        (from, to) if is_whole(from) && is_whole(to) => narrow(&longs(array)?, to),
        (from, to) if is_float(from) && is_whole(to) => floats_to_whole(array, to),
        (from, T::Decimal { precision, scale }) if is_float(from) => {
            let values = doubles(array)?;
            let values = values
                .iter()
                .map(|value| decimal_of_text(&format!("{}", value?), *precision, *scale));
            decimals(values.collect(), *precision, *scale)
        }
        (T::Boolean, to) if is_whole(to) => {
            let values = array.as_boolean().iter();
            narrow(&values.map(|value| value.map(i64::from)).collect(), to)
        }
        (from, T::Boolean) if is_whole(from) => {
            let values = longs(array)?;
            let values = values.iter().map(|value| value.map(|value| value != 0));
            Ok(Arc::new(values.collect::<BooleanArray>()))
        }
        (T::String, to) => from_text(array, to),
        (from, T::String) => to_text(array, from),
        (T::Timestamp, T::Long) => {
            let values = array.as_primitive::<TimestampMicrosecondType>();
            let values = values
                .iter()
                .map(|value| value.map(|v| v.div_euclid(1_000_000)));
            Ok(Arc::new(values.collect::<Int64Array>()))
        }
        (from, T::Timestamp) if is_whole(from) => {
            let values = longs(array)?;
            let micros = values.iter().map(|value| value?.checked_mul(1_000_000));
            let micros: PrimitiveArray<TimestampMicrosecondType> = micros.collect();
            Ok(Arc::new(micros.with_timezone("UTC")))
        }
        (T::Date | T::Timestamp | T::TimestampNtz, to) => moments(array, from, to),
        _ => plain(array, to),
    }
}

/// Arrow's own cast, NULL for what does not fit.
pub(super) fn plain(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    cast_with_options(array, &to.to_arrow(), &options).map_err(|error| error.to_string())
}

fn longs(array: &ArrayRef) -> Result<Int64Array, String> {
    Ok(plain(array, &DataType::Long)?
        .as_primitive::<Int64Type>()
        .clone())
}

pub(super) fn doubles(array: &ArrayRef) -> Result<Float64Array, String> {
    Ok(plain(array, &DataType::Double)?
        .as_primitive::<Float64Type>()
        .clone())
}

/// The low bits of whole numbers.
#[expect(clippy::cast_possible_truncation, reason = "Spark keeps the low bits")]
pub(super) fn narrow(values: &Int64Array, to: &DataType) -> Result<ArrayRef, String> {
    Ok(match to {
        DataType::Byte => Arc::new(values.unary::<_, Int8Type>(|value| value as i8)),
        DataType::Short => Arc::new(values.unary::<_, Int16Type>(|value| value as i16)),
        DataType::Integer => Arc::new(values.unary::<_, Int32Type>(|value| value as i32)),
        DataType::Long => Arc::new(values.clone()),
        other => return Err(format!("{other} is no whole number")),
    })
}

/// Cut toward zero, held at the ends of the type (of INT for narrower ones, then wrapped).
#[expect(
    clippy::cast_possible_truncation,
    reason = "Java's conversions, as in Spark"
)]
fn floats_to_whole(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let values = doubles(array)?;
    let whole: Int64Array = match to {
        DataType::Long => values.unary::<_, Int64Type>(|value| value as i64),
        _ => values.unary::<_, Int64Type>(|value| i64::from(value as i32)),
    };
    narrow(&whole, to)
}

pub(super) fn decimals(
    values: Decimal128Array,
    precision: u8,
    scale: u8,
) -> Result<ArrayRef, String> {
    let scale = i8::try_from(scale).map_err(|error| error.to_string())?;
    let values = values.with_precision_and_scale(precision, scale);
    Ok(Arc::new(values.map_err(|error| error.to_string())?))
}

/// The decimal nearest to a number's text, halves away from zero; `None` when it is no number
/// or does not fit.
pub(super) fn decimal_of_text(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, unsigned) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let all = || whole.bytes().chain(fraction.bytes());
    if all().next().is_none() || !all().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // How many of the digits stand before the new last one.
    let kept = i64::try_from(whole.len()).ok()? + i64::from(exponent) + i64::from(scale);
    let mut value = 0_i128;
    for (place, digit) in (0_i64..).zip(all()) {
        let digit = i128::from(digit - b'0');
        match place.cmp(&kept) {
            std::cmp::Ordering::Less => value = value.checked_mul(10)?.checked_add(digit)?,
            std::cmp::Ordering::Equal if digit >= 5 => value = value.checked_add(1)?,
            _ => {}
        }
    }
    let missing = kept - i64::try_from(all().count()).ok()?;
    if missing > 0 && value != 0 {
        value = value.checked_mul(10_i128.checked_pow(u32::try_from(missing).ok()?)?)?;
    }
    let fits = value < 10_i128.pow(u32::from(precision));
    fits.then_some(if negative { -value } else { value })
}

fn from_text(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let texts = || {
        array
            .as_string::<i32>()
            .iter()
            .map(|text| text.map(str::trim))
    };
    Ok(match to {
        DataType::Boolean => {
            let values = texts().map(|text| boolean(text?));
            Arc::new(values.collect::<BooleanArray>())
        }
        DataType::Float | DataType::Double => {
            let values = texts().map(|text| double(text?));
            let values: ArrayRef = Arc::new(values.collect::<Float64Array>());
            return plain(&values, to);
        }
        DataType::Decimal { precision, scale } => {
            let values = texts().map(|text| decimal_of_text(text?, *precision, *scale));
            return decimals(values.collect(), *precision, *scale);
        }
        DataType::Date => {
            let days = texts().map(|text| calendar::parse_date(text?));
            Arc::new(days.collect::<PrimitiveArray<Date32Type>>())
        }
        DataType::Timestamp | DataType::TimestampNtz => {
            let micros = texts().map(|text| calendar::parse_timestamp(text?));
            let micros: PrimitiveArray<TimestampMicrosecondType> = micros.collect();
            match to {
                DataType::Timestamp => Arc::new(micros.with_timezone("UTC")),
                _ => Arc::new(micros),
            }
        }
        _ => {
            let values: ArrayRef =
                Arc::new(texts().map(|text| whole(text?)).collect::<Int64Array>());
            // A text beyond the type is NULL, not wrapped.
            return plain(&values, to);
        }
    })
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// Java's `parseDouble`.
fn double(text: &str) -> Option<f64> {
    let number = |text: &str| {
        let plain = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
        plain.then(|| text.parse().ok()).flatten()
    };
    match text.to_ascii_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "inf" | "+inf" | "infinity" | "+infinity" => Some(f64::INFINITY),
        "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
        _ => number(text).or_else(|| number(text.strip_suffix(['d', 'D', 'f', 'F'])?)),
    }
}

/// A whole number, with a fraction that is cut off.
fn whole(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.trim_start_matches(['+', '-']);
    let plain = digits
        .bytes()
        .chain(fraction.bytes())
        .all(|byte| byte.is_ascii_digit());
    if !plain || digits.len() + 1 < whole.len() || (digits.is_empty() && fraction.is_empty()) {
        return None;
    }
    match digits {
        "" => Some(0),
        _ => whole.parse().ok(),
    }
}

fn to_text(array: &ArrayRef, from: &DataType) -> Result<ArrayRef, String> {
    let beyond = || format!("{from} outside the years 0 to 9999 as text");
    let texts: StringArray = match from {
        DataType::Decimal { scale, .. } => {
            let values = array.as_primitive::<Decimal128Type>().iter();
            values
                .map(|value| value.map(|value| format_decimal(value, *scale)))
                .collect()
        }
        DataType::Date => {
            let days = array.as_primitive::<Date32Type>().iter();
            let texts = days.map(|day| day.map(|day| calendar::date_text(day).ok_or_else(beyond)));
            texts.map(Option::transpose).collect::<Result<_, _>>()?
        }
        DataType::Timestamp | DataType::TimestampNtz => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().iter();
            let text = |micros| calendar::timestamp_text(micros).ok_or_else(beyond);
            let texts = micros.map(|micros| micros.map(text));
            texts.map(Option::transpose).collect::<Result<_, _>>()?
        }
        _ => return plain(array, &DataType::String),
    };
    Ok(Arc::new(texts))
}

/// Between dates and timestamps.
fn moments(array: &ArrayRef, from: &DataType, to: &DataType) -> Result<ArrayRef, String> {
    match (from, to) {
        (DataType::Date, _) => {
            let days = array.as_primitive::<Date32Type>();
            let micros = |day: i32| i64::from(day).checked_mul(calendar::DAY_MICROS);
            let micros = days.iter().map(|day| day.map(micros));
            let beyond = || "a date beyond the range of timestamps".to_owned();
            let micros = micros.map(|m| m.map(|m| m.ok_or_else(beyond)).transpose());
            let micros: PrimitiveArray<TimestampMicrosecondType> =
                micros.collect::<Result<_, String>>()?;
            Ok(match to {
                DataType::Timestamp => Arc::new(micros.with_timezone("UTC")),
                _ => Arc::new(micros),
            })
        }
        (_, DataType::Date) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>();
            let days = micros.iter().map(|micros| calendar::day_of(micros?));
            Ok(Arc::new(days.collect::<PrimitiveArray<Date32Type>>()))
        }
        // The session's zone is UTC.
        (_, to) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().clone();
            let zone = (*to == DataType::Timestamp).then(|| "UTC".into());
            Ok(Arc::new(micros.with_timezone_opt::<Arc<str>>(zone)))
        }
    }
}
