//! Constants of an expression.
//!
//! Invariant: a constant has the type that Spark gives its spelling; one that Spark would read
//! differently than it looks (a backslash in a text) is refused.
//! Spec: docs/expressions.md, "Constants".

use sqlparser::ast::{DataType as SqlType, Expr, TimezoneInfo, TypedString, Value};

use super::calendar::{parse_date, parse_timestamp};
use super::error::ExpressionError;
use super::lower::{Lower, whole};
use super::node::{Node, Typed};
use crate::decimal::parse_decimal;
use crate::schema::DataType;
use crate::stats::Scalar;

/// The node of a constant; `negative`: a minus stands before it.
pub(super) fn value(
    lower: &Lower<'_>,
    value: &Value,
    negative: bool,
) -> Result<Typed, ExpressionError> {
    match value {
        Value::Null => Ok(Typed::new(Node::Literal(None), DataType::Void)),
        Value::Boolean(flag) => Ok(Typed::boolean(Node::Literal(Some(Scalar::Boolean(*flag))))),
        Value::Number(text, long) => number(lower, text, *long, negative),
        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => {
            plain(lower, text)?;
            Ok(string(text))
        }
        other => Err(lower.unsupported(format!("the constant {other}"))),
    }
}

fn string(text: &str) -> Typed {
    let node = Node::Literal(Some(Scalar::String(text.to_owned())));
    Typed::new(node, DataType::String)
}

fn plain(lower: &Lower<'_>, text: &str) -> Result<(), ExpressionError> {
    if text.contains('\\') {
        return Err(lower.unsupported("a backslash in a text constant"));
    }
    Ok(())
}

fn number(
    lower: &Lower<'_>,
    text: &str,
    long: bool,
    negative: bool,
) -> Result<Typed, ExpressionError> {
    let sign = if negative { "-" } else { "" };
    let refuse = || lower.unsupported(format!("the number {sign}{text}"));
    let signed = format!("{sign}{text}");
    if text.contains(['e', 'E']) {
        let value: f64 = signed.parse().map_err(|_| refuse())?;
        let node = Node::Literal(Some(Scalar::Double(value)));
        return Ok(Typed::new(node, DataType::Double));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(value) = signed.parse::<i64>()
    {
        let narrow = i32::try_from(value).is_ok() && !long;
        let data_type = if narrow {
            DataType::Integer
        } else {
            DataType::Long
        };
        return Ok(whole(value, data_type));
    }
    let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
    let scale = u8::try_from(fraction.len()).map_err(|_| refuse())?;
    let whole_digits = digits.trim_start_matches('0').len();
    let precision = u8::try_from(whole_digits)
        .ok()
        .and_then(|digits| digits.checked_add(scale))
        .filter(|precision| *precision <= 38 && !long)
        .ok_or_else(refuse)?
        .max(1);
    let unscaled = parse_decimal(&signed, scale).ok_or_else(refuse)?;
    let node = Node::Literal(Some(Scalar::Decimal(unscaled, scale)));
    Ok(Typed::new(node, DataType::Decimal { precision, scale }))
}

/// `DATE '..'` and `TIMESTAMP '..'`.
pub(super) fn typed_string(
    lower: &Lower<'_>,
    typed: &TypedString,
) -> Result<Typed, ExpressionError> {
    let to = match &typed.data_type {
        SqlType::Date => DataType::Date,
        SqlType::Timestamp(None, TimezoneInfo::None) => DataType::Timestamp,
        SqlType::TimestampNtz(None) => DataType::TimestampNtz,
        other => return Err(lower.unsupported(format!("a constant of type {other}"))),
    };
    match &typed.value.value {
        Value::SingleQuotedString(text) => moment(lower, text, to),
        other => Err(lower.unsupported(format!("the constant {other}"))),
    }
}

fn moment(lower: &Lower<'_>, text: &str, to: DataType) -> Result<Typed, ExpressionError> {
    let scalar = match to {
        DataType::Date => parse_date(text).map(Scalar::Date),
        _ => parse_timestamp(text).map(Scalar::TimestampMicros),
    };
    match scalar {
        Some(scalar) => Ok(Typed::new(Node::Literal(Some(scalar)), to)),
        None => Err(lower.types(format!("{text:?} is no {to}"))),
    }
}

/// A text constant beside a date or timestamp is one of that type, as in Spark.
pub(super) fn dated(
    lower: &Lower<'_>,
    value: Typed,
    beside: &DataType,
) -> Result<Typed, ExpressionError> {
    match (&value.node, beside) {
        (
            Node::Literal(Some(Scalar::String(text))),
            DataType::Date | DataType::Timestamp | DataType::TimestampNtz,
        ) => moment(lower, text, beside.clone()),
        _ => Ok(value),
    }
}

/// The pattern of a LIKE: a text constant in which a backslash stands before `%` or `_` only.
pub(super) fn pattern(lower: &Lower<'_>, expr: &Expr) -> Result<String, ExpressionError> {
    let refuse = || lower.unsupported("LIKE with a pattern that is no text constant");
    let Expr::Value(value) = expr else {
        return Err(refuse());
    };
    let (Value::SingleQuotedString(text) | Value::DoubleQuotedString(text)) = &value.value else {
        return Err(refuse());
    };
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        if sign == '\\' && !matches!(signs.next(), Some('%' | '_')) {
            return Err(lower.unsupported("a backslash in a LIKE pattern before another sign"));
        }
    }
    Ok(text.clone())
}
