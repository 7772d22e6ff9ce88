//! Column mapping: the table's schema with the names and ids that its files have.
//!
//! Invariant: fields are mapped exactly when the protocol supports it and the property says so;
//! annotations that are left over otherwise mean nothing. A mapped table has a name and an id
//! for every field, none twice, or is refused.
//! Does not: assign names or ids to new columns.
//! Spec: Delta PROTOCOL, "Column Mapping".

use std::collections::BTreeSet;

use tarndb_table::{DataType, Field, Physical, Schema};

use crate::action::{Metadata, Protocol};
use crate::error::DeltaError;
use crate::schema_json::parse_schema;
use crate::type_changes;

/// Name of the feature.
pub(crate) const FEATURE: &str = "columnMapping";
/// Property with the mode.
pub(crate) const MODE: &str = "delta.columnMapping.mode";
/// Field metadata: the id.
pub(crate) const ID: &str = "delta.columnMapping.id";
/// Field metadata: the stored name.
pub(crate) const PHYSICAL_NAME: &str = "delta.columnMapping.physicalName";

/// How columns are found in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingMode {
    /// By their own names.
    None,
    /// By their physical names.
    Name,
    /// By their ids.
    Id,
}

/// Whether the protocol lets a table map its columns.
pub(crate) fn is_supported(protocol: &Protocol) -> bool {
    protocol.min_reader_version == 2 || protocol.lists_reader_feature(FEATURE)
}

/// The mode in force: `None` unless the protocol supports mapping.
///
/// # Errors
/// `BadSchema` for a mode that is not known.
pub(crate) fn mode(protocol: &Protocol, metadata: &Metadata) -> Result<MappingMode, DeltaError> {
    let text = metadata.configuration.get(MODE);
    let text = text.filter(|_| is_supported(protocol));
    match text.map(|text| text.to_ascii_lowercase()).as_deref() {
        None | Some("none") => Ok(MappingMode::None),
        Some("name") => Ok(MappingMode::Name),
        Some("id") => Ok(MappingMode::Id),
        Some(other) => Err(bad(
            &format!("not a mode of column mapping: {other:?}"),
            MODE,
        )),
    }
}

/// The schema of a table under a protocol.
///
/// # Errors
/// As [`parse_schema`]; `UnsupportedTypeChange`; `BadSchema` for a mapped table with a field that is not mapped, or two
/// that are mapped to one.
pub fn table_schema(protocol: &Protocol, metadata: &Metadata) -> Result<Schema, DeltaError> {
    let mut schema = parse_schema(&metadata.schema_string)?;
    type_changes::check(protocol, &schema)?;
    let by_id = match mode(protocol, metadata)? {
        MappingMode::None => return Ok(schema),
        MappingMode::Name => false,
        MappingMode::Id => true,
    };
    map_fields(&mut schema.fields, by_id)?;
    Ok(schema)
}

/// Sets the stored names and ids of all fields, at every level, from their annotations.
///
/// # Errors
/// As [`table_schema`].
pub(crate) fn map_fields(fields: &mut [Field], by_id: bool) -> Result<(), DeltaError> {
    map_level(fields, "", by_id, &mut BTreeSet::new())
}

fn bad(reason: &str, at: &str) -> DeltaError {
    DeltaError::BadSchema {
        reason: reason.to_owned(),
        at: at.to_owned(),
    }
}

fn map_level(
    fields: &mut [Field],
    parent: &str,
    by_id: bool,
    ids: &mut BTreeSet<i32>,
) -> Result<(), DeltaError> {
    let mut names = BTreeSet::new();
    for field in fields {
        let at = match parent {
            "" => field.name.clone(),
            parent => format!("{parent}.{}", field.name),
        };
        let physical = physical(field, by_id, &at)?;
        if !names.insert(physical.name.clone()) {
            return Err(bad("two columns have one physical name", &at));
        }
        if !ids.insert(physical.id) {
            return Err(bad("two columns have one column mapping id", &at));
        }
        field.physical = Some(physical);
        map_type(&mut field.data_type, &at, by_id, ids)?;
    }
    Ok(())
}

fn map_type(
    data_type: &mut DataType,
    at: &str,
    by_id: bool,
    ids: &mut BTreeSet<i32>,
) -> Result<(), DeltaError> {
    match data_type {
        DataType::Struct(fields) => map_level(fields, at, by_id, ids),
        DataType::Array { element, .. } => map_type(element, at, by_id, ids),
        DataType::Map { key, value, .. } => {
            map_type(key, &format!("{at}.key"), by_id, ids)?;
            map_type(value, &format!("{at}.value"), by_id, ids)
        }
        _ => Ok(()),
    }
}

fn physical(field: &Field, by_id: bool, at: &str) -> Result<Physical, DeltaError> {
    let name = field.metadata.get(PHYSICAL_NAME);
    let name = name
        .and_then(serde_json::Value::as_str)
        .filter(|name| !name.is_empty())
        .ok_or_else(|| {
            bad(
                "the table maps columns, but this one has no physical name",
                at,
            )
        })?;
    let id = field.metadata.get(ID);
    let id = id
        .and_then(serde_json::Value::as_i64)
        .and_then(|id| i32::try_from(id).ok())
        .filter(|id| *id >= 0)
        .ok_or_else(|| bad("the table maps columns, but this one has no id", at))?;
    Ok(Physical {
        name: name.to_owned(),
        id,
        by_id,
    })
}

#[cfg(test)]
mod tests;
