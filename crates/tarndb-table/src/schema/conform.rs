//! Batches from outside, cast to the types of a table with every value checked.
//!
//! Invariant: a value arrives unchanged or is an error that names its column; nothing turns
//! into NULL, wraps around or loses a whole number's fraction. Rounding happens only where SQL
//! assignment rounds: to fewer fraction digits of a decimal, to a float.
//! Does not: match columns by name (the caller did) or evaluate SQL casts.
//! Spec: Delta PROTOCOL, "Column Invariants" (NOT NULL); docs/format/delta.md, "Types".

mod leaf;
mod variant;

use std::sync::Arc;

use ::arrow::buffer::{NullBuffer, OffsetBuffer};
use ::arrow::compute::cast;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray,
    new_null_array,
};
use arrow_schema::{DataType as ArrowType, Field as ArrowField, Fields};

use crate::error::TableError;
use crate::schema::arrow::ELEMENT;
use crate::schema::mapping::place_of;
use crate::schema::{DataType, Field, Schema, nested_name};

/// Casts a batch to the table's Arrow schema, column by column in order.
///
/// # Errors
/// [`TableError::ColumnCount`], [`TableError::TypeMismatch`], [`TableError::ValueOutOfRange`],
/// [`TableError::NullInNotNull`], [`TableError::NanosecondsLost`]; all but the first name the
/// column.
pub fn conform_batch(batch: &RecordBatch, schema: &Schema) -> Result<RecordBatch, TableError> {
    if batch.num_columns() != schema.fields.len() {
        return Err(TableError::ColumnCount {
            expected: schema.fields.len(),
            given: batch.num_columns(),
        });
    }
    let columns = batch.columns().iter().zip(&schema.fields);
    let columns = columns.map(|(array, field)| {
        let cast = cast_array(array, &field.data_type, &field.name, Source::Caller)?;
        check_nulls(&cast, field.nullable, None, &field.name)?;
        Ok(cast)
    });
    let columns = columns.collect::<Result<Vec<_>, TableError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.to_arrow(), columns, &options).map_err(|source| {
        TableError::Arrow {
            context: "conforming a batch",
            source,
        }
    })
}

/// Where an array comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The caller: struct fields go by name where all names match, else by position.
    Caller,
    /// A data file: struct fields go by name, missing ones are NULL, others are ignored, and
    /// nanoseconds are cut.
    File,
}

/// `array` as the table's `data_type`; `path` names the column in errors.
pub(crate) fn cast_array(
    array: &ArrayRef,
    data_type: &DataType,
    path: &str,
    source: Source,
) -> Result<ArrayRef, TableError> {
    let target = data_type.to_arrow();
    // Equal names inside a file may mean other columns when the table maps them.
    let renames = source == Source::File && data_type.is_mapped();
    if *array.data_type() == target && !renames {
        return Ok(array.clone());
    }
    match array.data_type() {
        ArrowType::Null => return Ok(new_null_array(&target, array.len())),
        ArrowType::Dictionary(_, plain) => {
            let plain = arrow_cast(array, plain, data_type, path)?;
            return cast_array(&plain, data_type, path, source);
        }
        ArrowType::RunEndEncoded(_, values) => {
            let plain = arrow_cast(array, values.data_type(), data_type, path)?;
            return cast_array(&plain, data_type, path, source);
        }
        _ => {}
    }
    match data_type {
        DataType::Variant => variant::cast_variant(array, data_type, path),
        DataType::Struct(fields) => cast_struct(array, fields, data_type, path, source),
        DataType::Array {
            element,
            contains_null,
        } => cast_list(array, element, *contains_null, data_type, path, source),
        DataType::Map {
            key,
            value,
            value_contains_null,
        } => cast_map(
            array,
            (key, value, *value_contains_null),
            data_type,
            path,
            source,
        ),
        _ => leaf::cast_leaf(array, data_type, path, source),
    }
}

fn arrow_cast(
    array: &ArrayRef,
    target: &ArrowType,
    data_type: &DataType,
    path: &str,
) -> Result<ArrayRef, TableError> {
    cast(array, target).map_err(|_| mismatch(array, data_type, path))
}

fn mismatch(array: &ArrayRef, data_type: &DataType, path: &str) -> TableError {
    TableError::TypeMismatch {
        column: path.to_owned(),
        data_type: data_type.to_string(),
        given: array.data_type().to_string(),
    }
}

fn rebuilt<A: Array + 'static>(
    array: Result<A, arrow_schema::ArrowError>,
) -> Result<ArrayRef, TableError> {
    let array = array.map_err(|source| TableError::Arrow {
        context: "rebuilding a nested column",
        source,
    })?;
    Ok(Arc::new(array))
}

fn cast_struct(
    array: &ArrayRef,
    fields: &[Field],
    data_type: &DataType,
    path: &str,
    source: Source,
) -> Result<ArrayRef, TableError> {
    let given = array
        .as_struct_opt()
        .ok_or_else(|| mismatch(array, data_type, path))?;
    let inner =
        struct_children(given, fields, source).ok_or_else(|| mismatch(array, data_type, path))?;
    let mut children = Vec::with_capacity(fields.len());
    for (field, child) in fields.iter().zip(inner) {
        let path = nested_name(path, &field.name);
        let child = match child {
            Some(child) => cast_array(child, &field.data_type, &path, source)?,
            None => new_null_array(&field.data_type.to_arrow(), array.len()),
        };
        check_nulls(&child, field.nullable, given.nulls(), &path)?;
        children.push(child);
    }
    let fields: Fields = fields
        .iter()
        .map(|field| Arc::new(field.to_arrow()))
        .collect();
    rebuilt(StructArray::try_new_with_length(
        fields,
        children,
        given.nulls().cloned(),
        array.len(),
    ))
}

/// The given child of each field; `None` when they cannot be paired.
fn struct_children<'a>(
    given: &'a StructArray,
    fields: &[Field],
    source: Source,
) -> Option<Vec<Option<&'a ArrayRef>>> {
    let found = |field: &Field| {
        let place = match source {
            Source::File => field.place_in(given.fields()),
            Source::Caller => place_of(&field.name, given.fields()),
        };
        given.columns().get(place?)
    };
    let children: Vec<_> = fields.iter().map(found).collect();
    match source {
        Source::File => Some(children),
        Source::Caller if given.num_columns() != fields.len() => None,
        Source::Caller if children.iter().all(Option::is_some) => Some(children),
        Source::Caller => Some(given.columns().iter().map(Some).collect()),
    }
}

fn cast_list(
    array: &ArrayRef,
    element: &DataType,
    contains_null: bool,
    data_type: &DataType,
    path: &str,
    source: Source,
) -> Result<ArrayRef, TableError> {
    let plain = match array.data_type() {
        ArrowType::List(_) => array.clone(),
        ArrowType::LargeList(inner)
        | ArrowType::ListView(inner)
        | ArrowType::LargeListView(inner)
        | ArrowType::FixedSizeList(inner, _) => {
            arrow_cast(array, &ArrowType::List(inner.clone()), data_type, path)?
        }
        _ => return Err(mismatch(array, data_type, path)),
    };
    let list = plain
        .as_list_opt::<i32>()
        .ok_or_else(|| mismatch(array, data_type, path))?;
    let (offsets, range) = compact_offsets(list.offsets());
    let values = list.values().slice(range.start, range.len());
    let path = nested_name(path, ELEMENT);
    let values = cast_array(&values, element, &path, source)?;
    check_nulls(&values, contains_null, None, &path)?;
    let field = ArrowField::new(ELEMENT, element.to_arrow(), contains_null);
    rebuilt(ListArray::try_new(
        Arc::new(field),
        offsets,
        values,
        list.nulls().cloned(),
    ))
}

fn cast_map(
    array: &ArrayRef,
    (key, value, value_contains_null): (&DataType, &DataType, bool),
    data_type: &DataType,
    path: &str,
    source: Source,
) -> Result<ArrayRef, TableError> {
    let map = array
        .as_map_opt()
        .ok_or_else(|| mismatch(array, data_type, path))?;
    let (offsets, range) = compact_offsets(map.offsets());
    let entries = map.entries().slice(range.start, range.len());
    let [keys, values] = entries.columns() else {
        return Err(mismatch(array, data_type, path));
    };
    let key_path = nested_name(path, "key");
    let value_path = nested_name(path, "value");
    let keys = cast_array(keys, key, &key_path, source)?;
    check_nulls(&keys, false, None, &key_path)?;
    let values = cast_array(values, value, &value_path, source)?;
    check_nulls(&values, value_contains_null, None, &value_path)?;
    let ArrowType::Map(field, ordered) = data_type.to_arrow() else {
        return Err(TableError::Internal {
            context: "casting a map",
        });
    };
    let ArrowType::Struct(fields) = field.data_type().clone() else {
        return Err(TableError::Internal {
            context: "casting a map",
        });
    };
    let entries = StructArray::try_new(fields, vec![keys, values], None).map_err(|source| {
        TableError::Arrow {
            context: "casting a map",
            source,
        }
    })?;
    rebuilt(MapArray::try_new(
        field,
        offsets,
        entries,
        map.nulls().cloned(),
        ordered,
    ))
}

/// Offsets that start at 0, and the range of the values that they covered: a sliced list still
/// holds the values of its neighbours, which must not be judged.
fn compact_offsets(offsets: &OffsetBuffer<i32>) -> (OffsetBuffer<i32>, std::ops::Range<usize>) {
    let first = offsets.first().copied().unwrap_or(0);
    let last = offsets.last().copied().unwrap_or(0);
    let bounds = |offset: i32| usize::try_from(offset).unwrap_or(0);
    let lengths = offsets.lengths();
    (
        OffsetBuffer::from_lengths(lengths),
        bounds(first)..bounds(last),
    )
}

/// A NULL where none may be, unless its parent is NULL as well.
fn check_nulls(
    array: &ArrayRef,
    nullable: bool,
    parent: Option<&NullBuffer>,
    path: &str,
) -> Result<(), TableError> {
    if nullable {
        return Ok(());
    }
    let Some(nulls) = array.logical_nulls() else {
        return Ok(());
    };
    let excused = |row: usize| parent.is_some_and(|parent| parent.is_null(row));
    match (0..array.len()).find(|row| nulls.is_null(*row) && !excused(*row)) {
        Some(row) => Err(TableError::NullInNotNull {
            column: path.to_owned(),
            row,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
