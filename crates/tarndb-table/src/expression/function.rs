//! The functions that an expression may call: their names, arguments and types.
//!
//! Invariant: a list of what is allowed; everything else is refused by its name.
//! Does not evaluate.
//! Spec: docs/expressions.md, "Functions".

use super::node::{DatePart, Function, Node, Piece, Typed, Unit};
use super::types;
use crate::schema::DataType;
use crate::stats::Scalar;

/// Why a call is not a node.
pub(super) enum Refusal {
    /// The function, or this form of it, is not there.
    Unsupported(String),
    /// Its arguments do not fit.
    Types(String),
}

/// The node of a call; `name` in lower case.
pub(super) fn call(name: &str, arguments: Vec<Typed>) -> Result<Typed, Refusal> {
    let given = arguments.len();
    let counted = |least: usize, most: usize| {
        if (least..=most).contains(&given) {
            Ok(())
        } else {
            Err(Refusal::Types(format!("{name}() with {given} argument(s)")))
        }
    };
    if let Some(part) = date_part(name) {
        counted(1, 1)?;
        return part_of(part, arguments, name);
    }
    match name {
        "upper" | "ucase" => text(Function::Upper, arguments, DataType::String, name),
        "lower" | "lcase" => text(Function::Lower, arguments, DataType::String, name),
        "trim" => text(trim(true, true), arguments, DataType::String, name),
        "ltrim" => text(trim(true, false), arguments, DataType::String, name),
        "rtrim" => text(trim(false, true), arguments, DataType::String, name),
        "length" | "char_length" | "character_length" | "len" => {
            text(Function::Length, arguments, DataType::Integer, name)
        }
        "concat" => concat(arguments),
        "substring" | "substr" => {
            counted(2, 3)?;
            substring(arguments)
        }
        "coalesce" | "nvl" | "ifnull" => {
            counted(1, if name == "coalesce" { usize::MAX } else { 2 })?;
            coalesce(arguments)
        }
        "abs" | "ceil" | "ceiling" | "floor" => {
            counted(1, 1)?;
            number(name, arguments)
        }
        "round" => {
            counted(1, 2)?;
            round(arguments)
        }
        "to_date" | "date" => {
            counted(1, 1)?;
            cast_first(arguments, DataType::Date, name)
        }
        "date_trunc" => {
            counted(2, 2)?;
            date_trunc(arguments)
        }
        "trunc" => {
            counted(2, 2)?;
            trunc(arguments)
        }
        "date_format" => {
            counted(2, 2)?;
            date_format(arguments)
        }
        "current_timestamp" | "now" => {
            counted(0, 0)?;
            Ok(Typed::new(Node::Now, DataType::Timestamp))
        }
        "current_date" | "curdate" => {
            counted(0, 0)?;
            let now = Typed::new(Node::Now, DataType::Timestamp);
            Ok(Typed::new(Node::Cast(Box::new(now)), DataType::Date))
        }
        _ => Err(Refusal::Unsupported(format!("the function {name}()"))),
    }
}

fn date_part(name: &str) -> Option<DatePart> {
    Some(match name {
        "year" => DatePart::Year,
        "quarter" => DatePart::Quarter,
        "month" => DatePart::Month,
        "day" | "dayofmonth" => DatePart::Day,
        "dayofweek" => DatePart::DayOfWeek,
        "dayofyear" => DatePart::DayOfYear,
        "hour" => DatePart::Hour,
        "minute" => DatePart::Minute,
        "second" => DatePart::Second,
        _ => return None,
    })
}

pub(super) fn part_of(part: DatePart, arguments: Vec<Typed>, name: &str) -> Result<Typed, Refusal> {
    let in_day = matches!(part, DatePart::Hour | DatePart::Minute | DatePart::Second);
    let day = |t: &DataType| matches!(t, DataType::Date);
    let time = |t: &DataType| matches!(t, DataType::Timestamp | DataType::TimestampNtz);
    let [argument] = exactly(arguments, name)?;
    let argument = match &argument.data_type {
        t if time(t) || (day(t) && !in_day) => argument,
        t if day(t) => cast(argument, DataType::Timestamp, name)?,
        _ if in_day => cast(argument, DataType::Timestamp, name)?,
        _ => cast(argument, DataType::Date, name)?,
    };
    Ok(Typed::new(
        Node::Call(Function::Part(part), vec![argument]),
        DataType::Integer,
    ))
}

const fn trim(left: bool, right: bool) -> Function {
    Function::Trim { left, right }
}

fn exactly<const N: usize>(arguments: Vec<Typed>, name: &str) -> Result<[Typed; N], Refusal> {
    let given = arguments.len();
    arguments
        .try_into()
        .map_err(|_| Refusal::Types(format!("{name}() with {given} argument(s)")))
}

/// A cast that Spark makes by itself.
fn cast(argument: Typed, to: DataType, name: &str) -> Result<Typed, Refusal> {
    if argument.data_type == to {
        return Ok(argument);
    }
    if argument.node == Node::Literal(None) {
        return Ok(Typed::new(Node::Literal(None), to));
    }
    if !types::can_cast(&argument.data_type, &to) {
        let from = &argument.data_type;
        return Err(Refusal::Types(format!(
            "{name}() of {from} (CAST it to {to})"
        )));
    }
    Ok(Typed::new(Node::Cast(Box::new(argument)), to))
}

fn cast_first(arguments: Vec<Typed>, to: DataType, name: &str) -> Result<Typed, Refusal> {
    let [argument] = exactly(arguments, name)?;
    match argument.data_type {
        DataType::Date
        | DataType::Timestamp
        | DataType::TimestampNtz
        | DataType::String
        | DataType::Void => cast(argument, to, name),
        other => Err(Refusal::Types(format!("{name}() of {other}"))),
    }
}

fn text(
    function: Function,
    arguments: Vec<Typed>,
    result: DataType,
    name: &str,
) -> Result<Typed, Refusal> {
    let [argument] = exactly(arguments, name)?;
    let argument = cast(argument, DataType::String, name)?;
    Ok(Typed::new(Node::Call(function, vec![argument]), result))
}

pub(super) fn concat(arguments: Vec<Typed>) -> Result<Typed, Refusal> {
    let arguments = arguments
        .into_iter()
        .map(|argument| cast(argument, DataType::String, "concat"))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Typed::new(
        Node::Call(Function::Concat, arguments),
        DataType::String,
    ))
}

fn substring(arguments: Vec<Typed>) -> Result<Typed, Refusal> {
    let types = [DataType::String, DataType::Integer, DataType::Integer];
    let arguments = arguments
        .into_iter()
        .zip(types)
        .map(|(argument, to)| {
            if to == DataType::Integer && !types::is_whole(&argument.data_type) {
                let given = &argument.data_type;
                return Err(Refusal::Types(format!(
                    "substring() with a place of {given}"
                )));
            }
            cast(argument, to, "substring")
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Typed::new(
        Node::Call(Function::Substring, arguments),
        DataType::String,
    ))
}

fn coalesce(arguments: Vec<Typed>) -> Result<Typed, Refusal> {
    let (arguments, data_type) = same_type(arguments, "coalesce()")?;
    Ok(Typed::new(Node::Coalesce(arguments), data_type))
}

/// Values brought to one type.
pub(super) fn same_type(values: Vec<Typed>, what: &str) -> Result<(Vec<Typed>, DataType), Refusal> {
    let mut data_type = DataType::Void;
    for value in &values {
        data_type = types::common(&data_type, &value.data_type).ok_or_else(|| {
            let given = &value.data_type;
            Refusal::Types(format!(
                "{what} of {data_type} and {given} (CAST one of them)"
            ))
        })?;
    }
    let values = values
        .into_iter()
        .map(|value| cast(value, data_type.clone(), what))
        .collect::<Result<Vec<_>, _>>()?;
    Ok((values, data_type))
}

fn number(name: &str, arguments: Vec<Typed>) -> Result<Typed, Refusal> {
    let [argument] = exactly(arguments, name)?;
    let given = argument.data_type.clone();
    if !types::is_number(&given) {
        return Err(Refusal::Types(format!("{name}() of {given}")));
    }
    let function = match name {
        "abs" => return Ok(Typed::new(Node::Call(Function::Abs, vec![argument]), given)),
        "floor" => Function::Floor,
        _ => Function::Ceil,
    };
    let (argument, result) = match given {
        DataType::Decimal { precision, scale } => {
            let precision = (precision - scale + 1).min(38);
            (
                argument,
                DataType::Decimal {
                    precision,
                    scale: 0,
                },
            )
        }
        DataType::Float => (cast(argument, DataType::Double, name)?, DataType::Long),
        DataType::Double => (argument, DataType::Long),
        _ => return cast(argument, DataType::Long, name),
    };
    Ok(Typed::new(Node::Call(function, vec![argument]), result))
}

fn round(arguments: Vec<Typed>) -> Result<Typed, Refusal> {
    let mut arguments = arguments.into_iter();
    let Some(argument) = arguments.next() else {
        return Err(Refusal::Types("round() without argument".to_owned()));
    };
    let digits = match arguments.next().map(|digits| digits.node) {
        None => 0,
        Some(Node::Literal(Some(Scalar::Long(digits)))) if (0..=18).contains(&digits) => {
            u8::try_from(digits).unwrap_or_default()
        }
        Some(_) => {
            return Err(Refusal::Unsupported(
                "round() to anything but 0 to 18 digits".to_owned(),
            ));
        }
    };
    let result = match &argument.data_type {
        t if types::is_whole(t) => return Ok(argument),
        t if types::is_float(t) => t.clone(),
        DataType::Decimal { precision, scale } => {
            let kept = digits.min(*scale);
            let precision = (precision - scale + kept + 1).min(38);
            DataType::Decimal {
                precision,
                scale: kept,
            }
        }
        t => return Err(Refusal::Types(format!("round() of {t}"))),
    };
    Ok(Typed::new(
        Node::Call(Function::Round(digits), vec![argument]),
        result,
    ))
}

fn constant_text(argument: &Typed, what: &str) -> Result<String, Refusal> {
    match &argument.node {
        Node::Literal(Some(Scalar::String(text))) => Ok(text.clone()),
        _ => Err(Refusal::Unsupported(format!(
            "{what} that is no text constant"
        ))),
    }
}

fn unit(text: &str) -> Option<Unit> {
    Some(match text.to_ascii_lowercase().as_str() {
        "year" | "yyyy" | "yy" => Unit::Year,
        "quarter" => Unit::Quarter,
        "month" | "mm" | "mon" => Unit::Month,
        "week" => Unit::Week,
        "day" | "dd" => Unit::Day,
        "hour" => Unit::Hour,
        "minute" => Unit::Minute,
        "second" => Unit::Second,
        "millisecond" => Unit::Millisecond,
        "microsecond" => Unit::Microsecond,
        _ => return None,
    })
}

fn date_trunc(arguments: Vec<Typed>) -> Result<Typed, Refusal> {
    let [format, time] = exactly(arguments, "date_trunc")?;
    let text = constant_text(&format, "a unit of date_trunc()")?;
    let unit =
        unit(&text).ok_or_else(|| Refusal::Unsupported(format!("date_trunc() to {text:?}")))?;
    let time = cast(time, DataType::Timestamp, "date_trunc")?;
    Ok(Typed::new(
        Node::Call(Function::Truncate(unit), vec![time]),
        DataType::Timestamp,
    ))
}

fn trunc(arguments: Vec<Typed>) -> Result<Typed, Refusal> {
    let [date, format] = exactly(arguments, "trunc")?;
    let text = constant_text(&format, "a unit of trunc()")?;
    let unit = unit(&text)
        .filter(|unit| matches!(unit, Unit::Year | Unit::Quarter | Unit::Month | Unit::Week))
        .ok_or_else(|| Refusal::Unsupported(format!("trunc() to {text:?}")))?;
    let date = cast(date, DataType::Date, "trunc")?;
    Ok(Typed::new(
        Node::Call(Function::Truncate(unit), vec![date]),
        DataType::Date,
    ))
}

fn date_format(arguments: Vec<Typed>) -> Result<Typed, Refusal> {
    let [time, format] = exactly(arguments, "date_format")?;
    let text = constant_text(&format, "a pattern of date_format()")?;
    let pieces = pieces(&text)
        .ok_or_else(|| Refusal::Unsupported(format!("date_format() with {text:?}")))?;
    let time = match time.data_type {
        DataType::TimestampNtz => time,
        _ => cast(time, DataType::Timestamp, "date_format")?,
    };
    Ok(Typed::new(
        Node::Call(Function::DateFormat(pieces), vec![time]),
        DataType::String,
    ))
}

/// A pattern of `yyyy MM dd HH mm ss` and signs between them.
fn pieces(pattern: &str) -> Option<Vec<Piece>> {
    const LETTERS: [(&str, Piece); 6] = [
        ("yyyy", Piece::Year),
        ("MM", Piece::Month),
        ("dd", Piece::Day),
        ("HH", Piece::Hour),
        ("mm", Piece::Minute),
        ("ss", Piece::Second),
    ];
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some((word, piece)) = LETTERS.iter().find(|(word, _)| rest.starts_with(word)) {
            rest = rest.strip_prefix(word)?;
            // A longer run of the letter means something else.
            if rest.starts_with(first) {
                return None;
            }
            pieces.push(piece.clone());
        } else if matches!(first, '-' | '/' | ':' | ' ' | '.' | '_' | ',') {
            rest = rest.strip_prefix(first)?;
            pieces.push(Piece::Text(first));
        } else {
            return None;
        }
    }
    Some(pieces)
}
