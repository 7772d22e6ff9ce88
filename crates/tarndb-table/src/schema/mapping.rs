//! Column mapping: what a field is called in files, whatever the table calls it now.
//!
//! Invariant: data files, statistics and partition values are keyed by stored names at every
//! level, so that renaming a column rewrites nothing.
//! Does not: choose names or ids, or know where a format keeps them (the codec).
//! Spec: Delta PROTOCOL, "Column Mapping".

use std::collections::HashMap;
use std::sync::Arc;

use ::parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray};
use arrow_schema::{
    ArrowError, DataType as ArrowType, Field as ArrowField, Fields, Schema as ArrowSchema,
    SchemaRef,
};

use super::{DataType, Field, Schema, fold_name};

/// How a field of a table with column mapping is found in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Physical {
    /// Its name in files, statistics and partition values; never changes.
    pub name: String,
    /// Its id in files, unique in the table.
    pub id: i32,
    /// Whether files are searched for the id rather than for the name.
    pub by_id: bool,
}

impl Field {
    /// The name in data files, statistics and partition values.
    pub fn stored_name(&self) -> &str {
        self.stored()
    }

    pub(crate) fn stored(&self) -> &String {
        let physical = self.physical.as_ref();
        physical.map_or(&self.name, |physical| &physical.name)
    }

    /// The field as data files have it: stored names, and ids where there are any.
    pub(crate) fn to_stored_arrow(&self) -> ArrowField {
        let field = ArrowField::new(
            self.stored_name(),
            self.data_type.to_stored_arrow(),
            self.nullable,
        );
        match &self.physical {
            None => field,
            Some(physical) => field.with_metadata(HashMap::from([(
                PARQUET_FIELD_ID_META_KEY.to_owned(),
                physical.id.to_string(),
            )])),
        }
    }

    /// Its place among the fields of a file: by id, or by stored name (exact first, then
    /// ignoring case).
    pub(crate) fn place_in(&self, stored: &Fields) -> Option<usize> {
        if let Some(physical) = self.physical.as_ref().filter(|physical| physical.by_id) {
            return stored
                .iter()
                .position(|field| field_id(field) == Some(physical.id));
        }
        place_of(self.stored_name(), stored)
    }
}

/// Place of a name, exact first, then ignoring case.
pub(crate) fn place_of(name: &str, fields: &Fields) -> Option<usize> {
    let names = || fields.iter().map(|field| field.name());
    names().position(|candidate| candidate == name).or_else(|| {
        let folded = fold_name(name);
        names().position(|candidate| fold_name(candidate) == folded)
    })
}

impl Schema {
    /// Whether the table maps its columns.
    pub fn is_mapped(&self) -> bool {
        self.fields.iter().any(|field| field.physical.is_some())
    }

    /// The schema as data files have it.
    pub(crate) fn to_stored_arrow(&self) -> SchemaRef {
        let fields = self.fields.iter().map(Field::to_stored_arrow);
        Arc::new(ArrowSchema::new(fields.collect::<Fields>()))
    }

    /// Whether fields are searched in files by their ids.
    pub(crate) fn is_by_id(&self) -> bool {
        let by_id = |field: &Field| field.physical.as_ref().is_some_and(|p| p.by_id);
        self.fields.iter().any(by_id)
    }
}

impl DataType {
    /// The type as data files have it; see [`Field::to_stored_arrow`].
    pub(crate) fn to_stored_arrow(&self) -> ArrowType {
        self.to_arrow_with(Field::to_stored_arrow)
    }

    /// Whether a struct field below has another name in files.
    pub fn is_mapped(&self) -> bool {
        self.any(&|data_type| match data_type {
            Self::Struct(fields) => fields.iter().any(|field| field.physical.is_some()),
            _ => false,
        })
    }
}

/// The id of a column of a file.
fn field_id(field: &ArrowField) -> Option<i32> {
    field
        .metadata()
        .get(PARQUET_FIELD_ID_META_KEY)
        .and_then(|id| id.parse().ok())
}

/// Whether a column of a file, or anything inside it, has an id.
pub(crate) fn has_field_ids(fields: &Fields) -> bool {
    fields.iter().any(|field| {
        field_id(field).is_some()
            || match field.data_type() {
                ArrowType::Struct(inner) => has_field_ids(inner),
                ArrowType::List(inner) | ArrowType::LargeList(inner) | ArrowType::Map(inner, _) => {
                    has_field_ids(&Fields::from(vec![inner.clone()]))
                }
                _ => false,
            }
    })
}

/// An array of the table's Arrow type under the names and ids that files have; the values are
/// shared, not copied.
///
/// # Errors
/// The array has another type.
pub(crate) fn stored_array(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if !data_type.is_mapped() {
        return Ok(Arc::clone(array));
    }
    let other = || ArrowError::SchemaError(format!("not of type {data_type}"));
    let nulls = array.nulls().cloned();
    Ok(match (data_type, data_type.to_stored_arrow()) {
        (DataType::Struct(fields), ArrowType::Struct(stored)) => {
            let given = array.as_struct_opt().ok_or_else(other)?;
            let children = given.columns().iter().zip(fields);
            let children = children.map(|(child, field)| stored_array(child, &field.data_type));
            let children = children.collect::<Result<Vec<_>, _>>()?;
            let length = array.len();
            Arc::new(StructArray::try_new_with_length(
                stored, children, nulls, length,
            )?)
        }
        (DataType::Array { element, .. }, ArrowType::List(stored)) => {
            let given = array.as_list_opt::<i32>().ok_or_else(other)?;
            let values = stored_array(given.values(), element)?;
            Arc::new(ListArray::try_new(
                stored,
                given.offsets().clone(),
                values,
                nulls,
            )?)
        }
        (DataType::Map { key, value, .. }, ArrowType::Map(stored, ordered)) => {
            let given = array.as_map_opt().ok_or_else(other)?;
            let ArrowType::Struct(entry) = stored.data_type().clone() else {
                return Err(other());
            };
            let entries = vec![
                stored_array(given.keys(), key)?,
                stored_array(given.values(), value)?,
            ];
            let entries = StructArray::try_new(entry, entries, given.entries().nulls().cloned())?;
            let offsets = given.offsets().clone();
            Arc::new(MapArray::try_new(stored, offsets, entries, nulls, ordered)?)
        }
        _ => return Err(other()),
    })
}
