//! Columns of a checkpoint batch, whatever physical type their writer chose.
//!
//! Invariant: a missing column is a column of nulls.
//! Spec: Delta PROTOCOL, "Checkpoint Schema".

use std::collections::BTreeMap;

use arrow::compute::cast;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, StringArray, StructArray,
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
        Ok(Texts(found.cloned()))
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

/// A list or a map of strings.
pub(super) struct Texts(Option<ArrayRef>);

impl Texts {
    /// The map of a row.
    pub(super) fn map(
        &self,
        row: usize,
    ) -> Result<Option<BTreeMap<String, Option<String>>>, ArrowError> {
        let Some(map) = self.0.as_ref().and_then(|array| array.as_map_opt()) else {
            return Ok(None);
        };
        if map.is_null(row) {
            return Ok(None);
        }
        let entries = map.value(row);
        let keys = cast(entries.column(0), &DataType::Utf8)?;
        let values = cast(entries.column(1), &DataType::Utf8)?;
        let (keys, values) = (keys.as_string::<i32>(), values.as_string::<i32>());
        let pairs = keys.iter().zip(values.iter());
        let owned = |(key, value): (Option<&str>, Option<&str>)| {
            Some((key?.to_owned(), value.map(str::to_owned)))
        };
        Ok(Some(pairs.filter_map(owned).collect()))
    }

    /// The map of a row without its null values.
    pub(super) fn plain_map(&self, row: usize) -> Result<BTreeMap<String, String>, ArrowError> {
        let map = self.map(row)?.unwrap_or_default();
        Ok(map
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect())
    }

    /// The list of a row.
    pub(super) fn list(&self, row: usize) -> Result<Option<Vec<String>>, ArrowError> {
        let Some(array) = self.0.as_ref().filter(|array| array.is_valid(row)) else {
            return Ok(None);
        };
        let items = match (array.as_list_opt::<i32>(), array.as_list_opt::<i64>()) {
            (Some(list), _) => list.value(row),
            (None, Some(list)) => list.value(row),
            (None, None) => return Ok(None),
        };
        let items = cast(&items, &DataType::Utf8)?;
        Ok(Some(
            items
                .as_string::<i32>()
                .iter()
                .flatten()
                .map(str::to_owned)
                .collect(),
        ))
    }
}
