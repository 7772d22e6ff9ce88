//! `add.stats_parsed`: statistics as Parquet columns, for checkpoints without the JSON text.
//!
//! Invariant: a cell of an unexpected type counts as absent; timestamps of nanoseconds are left
//! out (INT96 ones come as microseconds), for far dates overflow there.
//! Spec: Delta PROTOCOL, "Checkpoint Schema" (stats_parsed).

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType as ArrowType, TimeUnit};
use tarndb_table::{DataType, Field, Scalar, Schema, Statistics};

use super::columns::Group;
use crate::action::Action;
use crate::stats_json::{self, lower_bound, upper_bound};

/// Gives those `adds` of `batch` that have no statistics the text of the parsed ones.
pub(super) fn attach(
    batch: &RecordBatch,
    schema: &Schema,
    adds: &mut [Action],
) -> Result<(), ArrowError> {
    let add = Group::of(batch.column_by_name("add"));
    let parsed = add.group("stats_parsed");
    if !parsed.exists() {
        return Ok(());
    }
    let mut without: HashMap<String, &mut Option<String>> = HashMap::new();
    for action in adds {
        if let Action::Add(add) = action
            && add.stats.is_none()
        {
            without.insert(add.path.clone(), &mut add.stats);
        }
    }
    let (paths, records) = (add.text("path")?, parsed.long("numRecords")?);
    let tight = parsed.flag("tightBounds")?;
    let parts = [
        (Part::Min, parsed.group("minValues")),
        (Part::Max, parsed.group("maxValues")),
        (Part::Nulls, parsed.group("nullCount")),
    ];
    for row in (0..batch.num_rows()).filter(|row| parsed.is_set(*row)) {
        let Some(text) = paths.get(row).and_then(|path| without.remove(&path)) else {
            continue;
        };
        let mut statistics = Statistics {
            num_records: records.get(row).and_then(|count| u64::try_from(count).ok()),
            tight_bounds: tight.get(row).unwrap_or(true),
            ..Statistics::default()
        };
        for (part, group) in &parts {
            if let Some(array) = group.array() {
                collect(
                    *part,
                    array,
                    row,
                    &schema.fields,
                    &mut Vec::new(),
                    &mut statistics,
                );
            }
        }
        *text = Some(stats_json::write(&statistics, schema));
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Part {
    Min,
    Max,
    Nulls,
}

fn collect(
    part: Part,
    group: &StructArray,
    row: usize,
    fields: &[Field],
    names: &mut Vec<String>,
    into: &mut Statistics,
) {
    for field in fields {
        let Some(array) = group
            .column_by_name(field.stored_name())
            .filter(|array| array.is_valid(row))
        else {
            continue;
        };
        names.push(field.stored_name().to_owned());
        if let DataType::Struct(children) = &field.data_type {
            if let Some(child) = array.as_struct_opt() {
                collect(part, child, row, children, names, into);
            }
        } else {
            set(part, array, row, (names, field), into);
        }
        names.pop();
    }
}

fn set(
    part: Part,
    array: &ArrayRef,
    row: usize,
    (names, field): (&[String], &Field),
    into: &mut Statistics,
) {
    let Some(value) = scalar(array, row) else {
        return;
    };
    let column = into.columns.entry(names.to_vec()).or_default();
    match (part, value) {
        (Part::Nulls, Scalar::Long(count)) => column.null_count = u64::try_from(count).ok(),
        (Part::Nulls, _) => {}
        (Part::Min, value) => column.min = Some(lower_bound(value, field)),
        (Part::Max, value) => column.max = Some(upper_bound(value, field)),
    }
}

fn scalar(array: &ArrayRef, row: usize) -> Option<Scalar> {
    Some(match array.data_type() {
        ArrowType::Int8 => Scalar::Long(array.as_primitive::<Int8Type>().value(row).into()),
        ArrowType::Int16 => Scalar::Long(array.as_primitive::<Int16Type>().value(row).into()),
        ArrowType::Int32 => Scalar::Long(array.as_primitive::<Int32Type>().value(row).into()),
        ArrowType::Int64 => Scalar::Long(array.as_primitive::<Int64Type>().value(row)),
        ArrowType::Float32 => finite(array.as_primitive::<Float32Type>().value(row).into())?,
        ArrowType::Float64 => finite(array.as_primitive::<Float64Type>().value(row))?,
        ArrowType::Utf8 => Scalar::String(array.as_string::<i32>().value(row).to_owned()),
        ArrowType::Date32 => Scalar::Date(array.as_primitive::<Date32Type>().value(row)),
        ArrowType::Decimal128(_, scale) => Scalar::Decimal(
            array.as_primitive::<Decimal128Type>().value(row),
            u8::try_from(*scale).ok()?,
        ),
        ArrowType::Timestamp(TimeUnit::Millisecond, _) => {
            let millis = array.as_primitive::<TimestampMillisecondType>().value(row);
            Scalar::TimestampMicros(millis.checked_mul(1000)?)
        }
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
            Scalar::TimestampMicros(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        _ => return None,
    })
}

fn finite(value: f64) -> Option<Scalar> {
    value.is_finite().then_some(Scalar::Double(value))
}
