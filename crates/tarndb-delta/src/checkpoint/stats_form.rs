//! In which form a table's checkpoints hold the statistics of files: as text, as columns, both,
//! or neither; with columns, partition values are columns too.
//!
//! Invariant: a column holds the bound that the text reads as, or is null where its type cannot;
//! every leaf has a count of nulls, those with an order a minimum and a maximum. Names are those
//! that files have.
//! Spec: Delta PROTOCOL, "Checkpoint Schema"; docs/format/delta.md, "Checkpoints".

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int64Array, PrimitiveArray, StringArray, StructArray, new_null_array,
};
use arrow_schema::{ArrowError, DataType as ArrowType, Field as ArrowField, Fields};
use tarndb_table::decimal::rescale;
use tarndb_table::{
    ColumnStats, DataType, Field, Scalar, Schema, Statistics, StatsNeeded, TableState,
    parse_partition_value,
};

use crate::action::Add;
use crate::clustering::has_bounds;
use crate::property::is_on;
use crate::stats_json;

/// The form, for one table.
#[derive(Clone, Debug)]
pub(super) struct StatsForm {
    text: bool,
    columns: Option<Parsed>,
}

/// What has columns of its own.
#[derive(Clone, Debug)]
struct Parsed {
    /// The columns of the table that have statistics.
    schema: Schema,
    /// Its partition columns.
    partitions: Vec<Field>,
}

/// A part of the statistics, which mirrors the schema.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Min,
    Max,
    Nulls,
}

const PARTS: [(&str, Part); 3] = [
    ("minValues", Part::Min),
    ("maxValues", Part::Max),
    ("nullCount", Part::Nulls),
];

impl StatsForm {
    /// As the table's properties say.
    pub(super) fn of(state: &TableState) -> Self {
        let on = |key| is_on(&state.properties, key);
        let is_partition = |field: &Field| state.partition_columns.contains(&field.name);
        let (partitions, others): (Vec<Field>, Vec<Field>) =
            state.schema.fields.iter().cloned().partition(is_partition);
        let parsed = Parsed {
            schema: Schema::new(others),
            partitions,
        };
        Self {
            text: on("delta.checkpoint.writeStatsAsJson"),
            columns: on("delta.checkpoint.writeStatsAsStruct").then_some(parsed),
        }
    }

    /// The last columns of `add`.
    pub(super) fn fields(&self) -> Vec<ArrowField> {
        let mut fields = Vec::new();
        if self.text {
            fields.push(ArrowField::new("stats", ArrowType::Utf8, true));
        }
        if let Some(parsed) = &self.columns {
            let partitions = parsed.partitions.iter().map(|field| {
                ArrowField::new(field.stored_name(), field.data_type.to_arrow(), true)
            });
            fields.extend(group("partitionValues_parsed", partitions.collect()));
            fields.extend(group("stats_parsed", parsed.stats_fields()));
        }
        fields
    }

    /// The same columns for rows of a batch.
    pub(super) fn arrays(&self, adds: &[Option<&Add>]) -> Result<Vec<ArrayRef>, ArrowError> {
        let mut arrays: Vec<ArrayRef> = Vec::new();
        if self.text {
            let texts = adds
                .iter()
                .map(|add| add.and_then(|add| add.stats.as_deref()));
            arrays.push(Arc::new(texts.collect::<StringArray>()));
        }
        if let Some(parsed) = &self.columns {
            if !parsed.partitions.is_empty() {
                arrays.push(parsed.partition_values(adds)?);
            }
            arrays.push(parsed.statistics(adds)?);
        }
        Ok(arrays)
    }
}

/// A struct column; `None` without fields, for which Parquet has no form.
fn group(name: &str, fields: Vec<ArrowField>) -> Option<ArrowField> {
    let fields = Fields::from(fields);
    (!fields.is_empty()).then(|| ArrowField::new(name, ArrowType::Struct(fields), true))
}

impl Parsed {
    fn stats_fields(&self) -> Vec<ArrowField> {
        let mut fields = vec![ArrowField::new("numRecords", ArrowType::Int64, true)];
        for (name, part) in PARTS {
            fields.extend(group(name, part_fields(part, &self.schema.fields)));
        }
        fields.push(ArrowField::new("tightBounds", ArrowType::Boolean, true));
        fields
    }

    fn statistics(&self, adds: &[Option<&Add>]) -> Result<ArrayRef, ArrowError> {
        let parse =
            |add: &Add| stats_json::parse(add.stats.as_deref()?, &self.schema, StatsNeeded::All);
        let rows: Vec<Option<Statistics>> = adds.iter().map(|add| add.and_then(parse)).collect();
        let rows: Vec<Option<&Statistics>> = rows.iter().map(Option::as_ref).collect();
        let records = rows
            .iter()
            .map(|row| count(row.and_then(|row| row.num_records)));
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(records.collect::<Int64Array>())];
        for (_, part) in PARTS {
            arrays.extend(part_array(
                part,
                &self.schema.fields,
                &mut Vec::new(),
                &rows,
            )?);
        }
        let tight = rows.iter().map(|row| row.map(|row| row.tight_bounds));
        arrays.push(Arc::new(tight.collect::<BooleanArray>()));
        let valid: Vec<bool> = rows.iter().map(Option::is_some).collect();
        structure(self.stats_fields(), arrays, valid)
    }

    fn partition_values(&self, adds: &[Option<&Add>]) -> Result<ArrayRef, ArrowError> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for field in &self.partitions {
            let value = |add: &Add| {
                let text = add.partition_values.get(field.stored_name())?;
                parse_partition_value(text.as_deref(), &field.data_type).ok()?
            };
            let values: Vec<_> = adds.iter().map(|add| add.and_then(value)).collect();
            arrays.push(scalars(
                values.iter().map(Option::as_ref),
                &field.data_type,
                adds.len(),
            ));
            let data_type = field.data_type.to_arrow();
            fields.push(ArrowField::new(field.stored_name(), data_type, true));
        }
        structure(fields, arrays, adds.iter().map(Option::is_some).collect())
    }
}

fn structure(
    fields: Vec<ArrowField>,
    arrays: Vec<ArrayRef>,
    valid: Vec<bool>,
) -> Result<ArrayRef, ArrowError> {
    let array = StructArray::try_new(Fields::from(fields), arrays, Some(valid.into()))?;
    Ok(Arc::new(array))
}

fn count(count: Option<u64>) -> Option<i64> {
    count.and_then(|count| i64::try_from(count).ok())
}

/// The type of a leaf's cells in a part; `None` when it has none there.
fn cell_type(part: Part, data_type: &DataType) -> Option<ArrowType> {
    match (part, data_type) {
        (_, DataType::Void) => None,
        (Part::Nulls, _) => Some(ArrowType::Int64),
        _ if has_bounds(data_type) => Some(data_type.to_arrow()),
        _ => None,
    }
}

fn part_fields(part: Part, fields: &[Field]) -> Vec<ArrowField> {
    let field = |field: &Field| match &field.data_type {
        DataType::Struct(children) => group(field.stored_name(), part_fields(part, children)),
        data_type => {
            let data_type = cell_type(part, data_type)?;
            Some(ArrowField::new(field.stored_name(), data_type, true))
        }
    };
    fields.iter().filter_map(field).collect()
}

/// The columns of a part below `path`, as one struct; `None` when there are none.
fn part_array(
    part: Part,
    fields: &[Field],
    path: &mut Vec<String>,
    rows: &[Option<&Statistics>],
) -> Result<Option<ArrayRef>, ArrowError> {
    let types = part_fields(part, fields);
    if types.is_empty() {
        return Ok(None);
    }
    let mut arrays = Vec::new();
    for field in fields {
        path.push(field.stored_name().to_owned());
        match &field.data_type {
            DataType::Struct(children) => {
                arrays.extend(part_array(part, children, path, rows)?);
            }
            data_type if cell_type(part, data_type).is_some() => {
                arrays.push(leaf(part, data_type, path, rows));
            }
            _ => {}
        }
        path.pop();
    }
    let valid = rows.iter().map(Option::is_some).collect();
    structure(types, arrays, valid).map(Some)
}

fn leaf(
    part: Part,
    data_type: &DataType,
    path: &[String],
    rows: &[Option<&Statistics>],
) -> ArrayRef {
    let column = |row: &Option<&'_ Statistics>| -> Option<ColumnStats> {
        (*row)?.columns.get(path).cloned()
    };
    let columns: Vec<Option<ColumnStats>> = rows.iter().map(column).collect();
    let columns = columns.iter().map(Option::as_ref);
    match part {
        Part::Nulls => {
            let counts = columns.map(|column| count(column.and_then(|column| column.null_count)));
            Arc::new(counts.collect::<Int64Array>())
        }
        Part::Min => {
            let bounds = columns.map(|column| column.and_then(|column| column.min.as_ref()));
            scalars(bounds, data_type, rows.len())
        }
        Part::Max => {
            let bounds = columns.map(|column| column.and_then(|column| column.max.as_ref()));
            scalars(bounds, data_type, rows.len())
        }
    }
}

/// Values of one type as a column; those of another kind, or that do not fit, are null.
fn scalars<'a>(
    values: impl Iterator<Item = Option<&'a Scalar>>,
    data_type: &DataType,
    rows: usize,
) -> ArrayRef {
    match data_type {
        DataType::Byte => integers::<Int8Type>(values),
        DataType::Short => integers::<Int16Type>(values),
        DataType::Integer => integers::<Int32Type>(values),
        DataType::Long => integers::<Int64Type>(values),
        DataType::Float => Arc::new(
            doubles(values)
                .map(|v| v.map(|v| v as f32))
                .collect::<Float32Array>(),
        ),
        DataType::Double => Arc::new(doubles(values).collect::<Float64Array>()),
        DataType::Decimal { precision, scale } => decimals(values, *precision, *scale),
        DataType::String => Arc::new(
            values
                .map(|value| match value {
                    Some(Scalar::String(text)) => Some(text.as_str()),
                    _ => None,
                })
                .collect::<StringArray>(),
        ),
        DataType::Binary => Arc::new(
            values
                .map(|value| match value {
                    Some(Scalar::Binary(bytes)) => Some(bytes.as_slice()),
                    _ => None,
                })
                .collect::<BinaryArray>(),
        ),
        DataType::Boolean => Arc::new(
            values
                .map(|value| match value {
                    Some(Scalar::Boolean(value)) => Some(*value),
                    _ => None,
                })
                .collect::<BooleanArray>(),
        ),
        DataType::Date => Arc::new(
            values
                .map(|value| match value {
                    Some(Scalar::Date(days)) => Some(*days),
                    _ => None,
                })
                .collect::<Date32Array>(),
        ),
        DataType::Timestamp | DataType::TimestampNtz => {
            let micros = values.map(|value| match value {
                Some(Scalar::TimestampMicros(micros)) => Some(*micros),
                _ => None,
            });
            let array: PrimitiveArray<TimestampMicrosecondType> = micros.collect();
            Arc::new(array.with_data_type(data_type.to_arrow()))
        }
        other => new_null_array(&other.to_arrow(), rows),
    }
}

fn integers<'a, T: ArrowPrimitiveType>(values: impl Iterator<Item = Option<&'a Scalar>>) -> ArrayRef
where
    T::Native: TryFrom<i64>,
{
    let native = |value: Option<&Scalar>| match value {
        Some(Scalar::Long(value)) => T::Native::try_from(*value).ok(),
        _ => None,
    };
    Arc::new(values.map(native).collect::<PrimitiveArray<T>>())
}

fn doubles<'a>(
    values: impl Iterator<Item = Option<&'a Scalar>>,
) -> impl Iterator<Item = Option<f64>> {
    values.map(|value| match value {
        Some(Scalar::Double(value)) => Some(*value),
        _ => None,
    })
}

fn decimals<'a>(
    values: impl Iterator<Item = Option<&'a Scalar>>,
    precision: u8,
    scale: u8,
) -> ArrayRef {
    let limit = 10_i128.checked_pow(precision.into()).unwrap_or(i128::MAX);
    let unscaled = |value: Option<&Scalar>| match value {
        Some(Scalar::Decimal(unscaled, has)) => {
            rescale(*unscaled, *has, scale).filter(|value| value.abs() < limit)
        }
        _ => None,
    };
    let array: Decimal128Array = values.map(unscaled).collect();
    let data_type = DataType::Decimal { precision, scale }.to_arrow();
    Arc::new(array.with_data_type(data_type))
}

#[cfg(test)]
mod tests;
