//! Columns of a checkpoint batch, whatever physical type their writer chose.
//!
//! Invariant: a missing column is a column of nulls.
//! Spec: Delta PROTOCOL, "Checkpoint Schema".

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::compute::cast;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, ListArray, MapArray, StringArray,
    StructArray,
};
use arrow_schema::{ArrowError, DataType};

/// One struct column of a batch, or none.
#[derive(Clone)]
pub(super) struct Group {
    array: Option<StructArray>,
}

impl Group {
    pub(super) fn of(array: Option<&ArrayRef>) -> Self {
        Self {
            array: array.and_then(|array| array.as_struct_opt()).cloned(),
        }
    }

    pub(super) fn exists(&self) -> bool {
        self.array.is_some()
    }

    pub(super) fn is_set(&self, row: usize) -> bool {
        self.array.as_ref().is_some_and(|array| array.is_valid(row))
    }

    pub(super) fn group(&self, name: &str) -> Self {
        Self::of(
            self.array
                .as_ref()
                .and_then(|array| array.column_by_name(name)),
        )
    }

    pub(super) fn array(&self) -> Option<&StructArray> {
        self.array.as_ref()
    }

    fn child(&self, name: &str, to: &DataType) -> Result<Option<ArrayRef>, ArrowError> {
        let child = self
            .array
            .as_ref()
            .and_then(|array| array.column_by_name(name));
        child.map(|child| cast(child, to)).transpose()
    }

    pub(super) fn text(&self, name: &str) -> Result<Text, ArrowError> {
        let array = self.child(name, &DataType::Utf8)?;
        Ok(Text(array.map(|array| array.as_string::<i32>().clone())))
    }

    pub(super) fn long(&self, name: &str) -> Result<Long, ArrowError> {
        let array = self.child(name, &DataType::Int64)?;
        Ok(Long(
            array.map(|array| array.as_primitive::<Int64Type>().clone()),
        ))
    }

    pub(super) fn int(&self, name: &str) -> Result<Int, ArrowError> {
        let array = self.child(name, &DataType::Int32)?;
        Ok(Int(
            array.map(|array| array.as_primitive::<Int32Type>().clone())
        ))
    }

    pub(super) fn flag(&self, name: &str) -> Result<Flag, ArrowError> {
        let array = self.child(name, &DataType::Boolean)?;
        Ok(Flag(array.map(|array| array.as_boolean().clone())))
    }

    pub(super) fn texts(&self, name: &str) -> Result<Texts, ArrowError> {
        let found = self
            .array
            .as_ref()
            .and_then(|array| array.column_by_name(name));
        Texts::of(found)
    }
}

/// A string column.
pub(super) struct Text(Option<StringArray>);

impl Text {
    pub(super) fn get(&self, row: usize) -> Option<String> {
        let array = self.0.as_ref()?;
        array.is_valid(row).then(|| array.value(row).to_owned())
    }
}

/// A 64-bit integer column.
pub(super) struct Long(Option<Int64Array>);

impl Long {
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        let array = self.0.as_ref()?;
        array.is_valid(row).then(|| array.value(row))
    }
}

/// A 32-bit integer column.
pub(super) struct Int(Option<Int32Array>);

impl Int {
    pub(super) fn get(&self, row: usize) -> Option<i32> {
        let array = self.0.as_ref()?;
        array.is_valid(row).then(|| array.value(row))
    }
}

/// A boolean column.
pub(super) struct Flag(Option<BooleanArray>);

impl Flag {
    pub(super) fn get(&self, row: usize) -> Option<bool> {
        let array = self.0.as_ref()?;
        array.is_valid(row).then(|| array.value(row))
    }
}

/// A list or a map of strings, cast as a whole and not row by row.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for a column of a batch"
)]
pub(super) enum Texts {
    None,
    Map {
        map: MapArray,
        keys: StringArray,
        values: StringArray,
    },
    List {
        list: ListArray,
        items: StringArray,
    },
}

impl Texts {
    fn of(array: Option<&ArrayRef>) -> Result<Self, ArrowError> {
        let text = |array: &ArrayRef| -> Result<StringArray, ArrowError> {
            Ok(cast(array, &DataType::Utf8)?.as_string::<i32>().clone())
        };
        let Some(array) = array else {
            return Ok(Self::None);
        };
        if let Some(map) = array.as_map_opt() {
            return Ok(Self::Map {
                keys: text(map.keys())?,
                values: text(map.values())?,
                map: map.clone(),
            });
        }
        let element = match array.data_type() {
            DataType::List(element) | DataType::LargeList(element) => Arc::clone(element),
            _ => return Ok(Self::None),
        };
        let list = cast(array, &DataType::List(element))?
            .as_list::<i32>()
            .clone();
        let items = text(list.values())?;
        Ok(Self::List { list, items })
    }

    /// The map of a row.
    pub(super) fn map(&self, row: usize) -> Option<BTreeMap<String, Option<String>>> {
        let Self::Map { map, keys, values } = self else {
            return None;
        };
        let entries = range(map.is_valid(row), map.value_offsets(), row)?;
        let pair = |entry: usize| {
            let key = keys.is_valid(entry).then(|| keys.value(entry).to_owned())?;
            let value = values
                .is_valid(entry)
                .then(|| values.value(entry).to_owned());
            Some((key, value))
        };
        Some(entries.filter_map(pair).collect())
    }

    /// The map of a row without its null values.
    pub(super) fn plain_map(&self, row: usize) -> BTreeMap<String, String> {
        let map = self.map(row).unwrap_or_default();
        map.into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }

    /// The list of a row, without its null elements.
    pub(super) fn list(&self, row: usize) -> Option<Vec<String>> {
        let Self::List { list, items } = self else {
            return None;
        };
        let entries = range(list.is_valid(row), list.value_offsets(), row)?;
        let valid = entries.filter(|entry| items.is_valid(*entry));
        Some(valid.map(|entry| items.value(entry).to_owned()).collect())
    }
}

/// The entries of a row; `None` when it is null.
fn range(valid: bool, offsets: &[i32], row: usize) -> Option<std::ops::Range<usize>> {
    let at = |row: usize| usize::try_from(*offsets.get(row)?).ok();
    if valid {
        Some(at(row)?..at(row + 1)?)
    } else {
        None
    }
}
