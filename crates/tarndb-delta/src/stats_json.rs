//! `add.stats`: statistics of a data file as JSON text.
//!
//! Invariant: a malformed cell of foreign statistics counts as absent and never fails a read;
//! digits of decimals never pass through floating point; bounds written are never tighter
//! than the data (timestamps are cut to milliseconds, minima down, maxima up).
//! Spec: Delta PROTOCOL, "Per-file Statistics".

mod members;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::{DateTime, NaiveDate, NaiveDateTime, SecondsFormat};
use serde_json::value::RawValue;
use tarndb_table::{ColumnStats, DataType, Field, Scalar, Schema, Statistics, StatsNeeded};

use self::members::{listed_members, members};
use crate::type_changes::TYPE_CHANGES;

/// Strings of exactly this many characters may be cut maxima that were not marked as cut.
const SUSPICIOUS_CHARS: usize = 32;

/// Reads the statistics needed; `None` when the text is not a JSON object.
pub(crate) fn parse(text: &str, schema: &Schema, needed: StatsNeeded<'_>) -> Option<Statistics> {
    let keys = [
        "numRecords",
        "minValues",
        "maxValues",
        "nullCount",
        "tightBounds",
    ];
    let [records, min, max, nulls, tight] = members(text, &keys)?;
    let mut statistics = Statistics {
        num_records: records.and_then(number),
        columns: BTreeMap::new(),
        tight_bounds: tight.is_none_or(|raw| raw.get() != "false"),
    };
    let is_needed = |field: &&Field| match needed {
        StatsNeeded::None => false,
        StatsNeeded::Columns(names) => names.iter().any(|name| name == field.stored_name()),
        StatsNeeded::All => true,
    };
    let fields: Vec<&Field> = schema.fields.iter().filter(is_needed).collect();
    if fields.is_empty() {
        return Some(statistics);
    }
    let columns = &mut statistics.columns;
    for (part, raw) in [(Part::Min, min), (Part::Max, max), (Part::Nulls, nulls)] {
        if let Some(raw) = raw {
            collect(part, raw, &fields, &mut Vec::new(), columns);
        }
    }
    Some(statistics)
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Min,
    Max,
    Nulls,
}

fn number(raw: &RawValue) -> Option<u64> {
    raw.get().parse().ok()
}

fn collect(
    part: Part,
    raw: &RawValue,
    fields: &[&Field],
    path: &mut Vec<String>,
    columns: &mut BTreeMap<Vec<String>, ColumnStats>,
) {
    let names: Vec<&str> = fields.iter().map(|field| field.stored_name()).collect();
    let Some(cells) = listed_members(raw.get(), &names) else {
        return;
    };
    for (field, cell) in fields.iter().zip(cells) {
        let Some(cell) = cell else {
            continue;
        };
        path.push(field.stored_name().to_owned());
        match &field.data_type {
            DataType::Struct(children) => {
                let children: Vec<&Field> = children.iter().collect();
                collect(part, cell, &children, path, columns);
            }
            _ => set_cell(part, cell, field, path, columns),
        }
        path.pop();
    }
}

fn set_cell(
    part: Part,
    cell: &RawValue,
    field: &Field,
    path: &[String],
    columns: &mut BTreeMap<Vec<String>, ColumnStats>,
) {
    if part == Part::Nulls {
        if let Some(count) = number(cell) {
            columns.entry(path.to_vec()).or_default().null_count = Some(count);
        }
        return;
    }
    let Some(value) = parse_scalar(cell, &field.data_type) else {
        return;
    };
    let column = columns.entry(path.to_vec()).or_default();
    if part == Part::Min {
        column.min = Some(lower_bound(value, field));
    } else {
        column.max = Some(upper_bound(value, field));
    }
}

/// A minimum of `field` as a bound of the values that files hold.
pub(crate) fn lower_bound(value: Scalar, field: &Field) -> Scalar {
    match value {
        Scalar::Double(value) => Scalar::Double(value.min(once_float(value, field))),
        other => other,
    }
}

/// A maximum of `field` as a bound of the values that files hold.
pub(crate) fn upper_bound(value: Scalar, field: &Field) -> Scalar {
    match value {
        Scalar::Double(value) => Scalar::Double(value.max(once_float(value, field))),
        other => close_cut(other),
    }
}

/// The value that a column which was once of floats may hold for a bound: written as the float's
/// shortest text, it is another number when read as a double.
fn once_float(value: f64, field: &Field) -> f64 {
    let widened = field.data_type == DataType::Double && field.metadata.contains_key(TYPE_CHANGES);
    match widened {
        true => f64::from(value as f32),
        false => value,
    }
}

/// A string maximum that may have been cut without a mark becomes a bound again.
fn close_cut(value: Scalar) -> Scalar {
    match value {
        Scalar::String(mut text) if text.chars().count() == SUSPICIOUS_CHARS => {
            text.push(char::MAX);
            Scalar::String(text)
        }
        other => other,
    }
}

fn parse_scalar(cell: &RawValue, data_type: &DataType) -> Option<Scalar> {
    let json = cell.get();
    let text = || serde_json::from_str::<String>(json).ok();
    match data_type {
        DataType::Byte | DataType::Short | DataType::Integer | DataType::Long => {
            json.parse().ok().map(Scalar::Long)
        }
        DataType::Float => {
            // The shortest text of a float is another number as a double.
            let value: f32 = json.parse().ok()?;
            value.is_finite().then_some(Scalar::Double(value.into()))
        }
        DataType::Double => {
            let value: f64 = json.parse().ok()?;
            value.is_finite().then_some(Scalar::Double(value))
        }
        DataType::Decimal { .. } => {
            let digits = text().unwrap_or_else(|| json.to_owned());
            tarndb_table::parse_partition_value(Some(&digits), data_type)
                .ok()
                .flatten()
        }
        DataType::String => text().map(Scalar::String),
        DataType::Date => parse_date(&text()?),
        DataType::Timestamp | DataType::TimestampNtz => parse_timestamp(&text()?),
        _ => None,
    }
}

fn parse_date(text: &str) -> Option<Scalar> {
    // Some writers put a whole timestamp here.
    let date = NaiveDate::parse_from_str(text.get(..10).unwrap_or(text), "%Y-%m-%d").ok()?;
    let days = date.signed_duration_since(NaiveDate::default()).num_days();
    i32::try_from(days).ok().map(Scalar::Date)
}

fn parse_timestamp(text: &str) -> Option<Scalar> {
    let micros = match DateTime::parse_from_rfc3339(text) {
        Ok(instant) => instant.timestamp_micros(),
        Err(_) => ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"]
            .iter()
            .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())?
            .and_utc()
            .timestamp_micros(),
    };
    Some(Scalar::TimestampMicros(micros))
}

/// The JSON of one cell of a column's statistics.
type CellJson<'a> = dyn Fn(&ColumnStats, &DataType) -> Option<String> + 'a;

/// The JSON text of statistics; the same text for equal statistics.
pub(crate) fn write(statistics: &Statistics, schema: &Schema) -> String {
    let mut text = String::from("{");
    if let Some(rows) = statistics.num_records {
        let _ = write!(text, "\"numRecords\":{rows},");
    }
    let parts: [(&str, &CellJson<'_>); 3] = [
        ("minValues", &|column, data_type| {
            scalar_json(column.min.as_ref()?, data_type, false)
        }),
        ("maxValues", &|column, data_type| {
            scalar_json(column.max.as_ref()?, data_type, true)
        }),
        ("nullCount", &|column, _| {
            column.null_count.map(|count| count.to_string())
        }),
    ];
    for (key, cell) in parts {
        let object = object_json(statistics, &schema.fields, &mut Vec::new(), cell);
        let _ = write!(text, "\"{key}\":{},", object.as_deref().unwrap_or("{}"));
    }
    let _ = write!(text, "\"tightBounds\":{}}}", statistics.tight_bounds);
    text
}

fn object_json(
    statistics: &Statistics,
    fields: &[Field],
    path: &mut Vec<String>,
    cell: &CellJson<'_>,
) -> Option<String> {
    let mut members = Vec::new();
    for field in fields {
        path.push(field.stored_name().to_owned());
        let value = match &field.data_type {
            DataType::Struct(children) => object_json(statistics, children, path, cell),
            data_type => statistics
                .columns
                .get(path)
                .and_then(|column| cell(column, data_type)),
        };
        path.pop();
        members.extend(value.map(|value| format!("{}:{value}", json_string(field.stored_name()))));
    }
    (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The JSON of a bound; `None` for types that have none.
fn scalar_json(value: &Scalar, data_type: &DataType, is_max: bool) -> Option<String> {
    match value {
        Scalar::Long(value) => Some(value.to_string()),
        Scalar::Double(value) => serde_json::Number::from_f64(*value).map(|n| n.to_string()),
        Scalar::Decimal(unscaled, scale) => Some(decimal_text(*unscaled, *scale)),
        Scalar::String(text) => Some(json_string(text)),
        Scalar::Date(days) => {
            let is_negative = *days < 0;
            let days = chrono::Days::new(u64::from(days.unsigned_abs()));
            let epoch = NaiveDate::default();
            let date = if is_negative {
                epoch.checked_sub_days(days)
            } else {
                epoch.checked_add_days(days)
            };
            // A year of another length than four digits is not read everywhere.
            date.map(|date| date.format("%Y-%m-%d").to_string())
                .filter(|text| text.len() == 10)
                .map(|text| json_string(&text))
        }
        Scalar::TimestampMicros(micros) => timestamp_text(*micros, data_type, is_max),
        Scalar::Boolean(_) | Scalar::Binary(_) => None,
    }
}

fn timestamp_text(micros: i64, data_type: &DataType, is_max: bool) -> Option<String> {
    let down = micros.div_euclid(1000);
    let millis = if is_max && micros.rem_euclid(1000) != 0 {
        down + 1
    } else {
        down
    };
    let instant = DateTime::from_timestamp_millis(millis)?;
    let zoned = instant.to_rfc3339_opts(SecondsFormat::Millis, true);
    let text = match data_type {
        DataType::TimestampNtz => zoned.trim_end_matches('Z').to_owned(),
        _ => zoned,
    };
    let year_has_four_digits = text.get(4..5) == Some("-");
    year_has_four_digits.then(|| json_string(&text))
}

fn decimal_text(unscaled: i128, scale: u8) -> String {
    let digits = format!(
        "{:0>width$}",
        unscaled.unsigned_abs(),
        width = usize::from(scale) + 1
    );
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    let sign = if unscaled < 0 { "-" } else { "" };
    if fraction.is_empty() {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

/// The statistics of a file that gets a new deletion vector: the same text with
/// `tightBounds` false; every other member stays byte for byte. `None`: not a JSON object,
/// or without `numRecords`.
pub(crate) fn loosened(text: &str) -> Option<String> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    members.get("numRecords").and_then(|raw| number(raw))?;
    let usual = ["numRecords", "minValues", "maxValues", "nullCount"];
    let others = members
        .keys()
        .filter(|key| !usual.contains(&key.as_str()) && *key != "tightBounds");
    let mut result = String::from("{");
    for key in usual.iter().copied().chain(others.map(String::as_str)) {
        if let Some(raw) = members.get(key) {
            let _ = write!(result, "{}:{},", json_string(key), raw.get());
        }
    }
    result.push_str("\"tightBounds\":false}");
    Some(result)
}

#[cfg(test)]
mod tests;
