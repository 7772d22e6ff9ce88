//! What of a transaction's changes of metadata the head still lacks, and whether its files fit
//! what comes out.
//!
//! Invariant: an equal change that another transaction made meanwhile is one change, not two.
//! Nobody's file is read by a name or number that its writer did not mean: where the columns
//! that a file was written for are mapped otherwise by now, it is written again.
//! Spec: docs/conflicts.md, "Schema and properties".

use tarndb_table::codec::MetadataChange;
use tarndb_table::{ColumnPath, DataType, Field, Schema, TableState};

use crate::transaction::Overlay;

/// The changes that the head does not have yet.
pub(super) fn pending_metadata(
    overlay: &Overlay,
    head: Option<&TableState>,
) -> Vec<MetadataChange> {
    let (Some(base), Some(head)) = (&overlay.base, head) else {
        return overlay.metadata.clone();
    };
    let mut pending = Vec::new();
    // A column that an earlier change of ours concerns is not what it was in the base.
    let mut changed: Vec<String> = Vec::new();
    for change in &overlay.metadata {
        let column = column_of(change);
        let first = column.as_ref().and_then(first_part);
        let untouched = first.as_ref().is_some_and(|name| !changed.contains(name));
        if untouched && is_done(change, &base.schema, &head.schema) {
            continue;
        }
        changed.extend(first);
        pending.push(change.clone());
    }
    pending
}

fn first_part(column: &ColumnPath) -> Option<String> {
    column.parts().next().map(str::to_lowercase)
}

/// The column that a change of columns concerns.
fn column_of(change: &MetadataChange) -> Option<ColumnPath> {
    match change {
        MetadataChange::AddColumn(new) => Some(new.path()),
        MetadataChange::RenameColumn { column, .. }
        | MetadataChange::DropColumn { column }
        | MetadataChange::WidenColumn { column, .. }
        | MetadataChange::SetNullable { column, .. } => Some(column.clone()),
        _ => None,
    }
}

/// Whether another transaction made the change between base and head.
fn is_done(change: &MetadataChange, base: &Schema, head: &Schema) -> bool {
    match change {
        MetadataChange::AddColumn(new) => head.field_at(&new.path()).is_some_and(|(_, theirs)| {
            theirs.data_type == new.field.data_type && theirs.nullable == new.field.nullable
        }),
        MetadataChange::RenameColumn { column, to } => {
            let renamed = head.field_at(&column.sibling(to));
            let is_gone = head
                .field_at(column)
                .is_none_or(|(_, field)| field.name == *to);
            base.field_at(column).is_some()
                && is_gone
                && renamed.is_some_and(|(_, field)| field.name == *to)
        }
        MetadataChange::DropColumn { column } => {
            base.field_at(column).is_some() && head.field_at(column).is_none()
        }
        _ => false,
    }
}

/// The first column that files of the transaction were written for and that would be read by
/// another name or number after the commit; `None` when all fit. One that another transaction
/// dropped meanwhile fits: nobody reads it.
pub(super) fn misfit(overlay: &Overlay, after: &TableState) -> Option<String> {
    let base = overlay.base.as_ref()?;
    if overlay.adds.is_empty() {
        return None;
    }
    let written = &overlay.state.schema.fields;
    misfit_in(written, &base.schema.fields, &after.schema.fields)
}

fn misfit_in(written: &[Field], base: &[Field], after: &[Field]) -> Option<String> {
    written.iter().find_map(|field| {
        let was = stored_as(base, field);
        match (stored_as(after, field), was) {
            (None, Some(_)) => None,
            (None, None) => Some(field.name.clone()),
            (Some(now), _) => {
                let id = |field: &Field| field.physical.as_ref().map(|physical| physical.id);
                if id(field).is_some() && id(field) != id(now) {
                    return Some(field.name.clone());
                }
                let was = was.map(|was| &was.data_type);
                misfit_inside(&field.data_type, was, &now.data_type)
                    .map(|inner| format!("{}.{inner}", field.name))
            }
        }
    })
}

fn misfit_inside(written: &DataType, base: Option<&DataType>, after: &DataType) -> Option<String> {
    match (written, after) {
        (DataType::Struct(written), DataType::Struct(after)) => match base {
            Some(DataType::Struct(base)) => misfit_in(written, base, after),
            _ => misfit_in(written, &[], after),
        },
        (DataType::Array { element, .. }, DataType::Array { element: now, .. }) => {
            let base = match base {
                Some(DataType::Array { element, .. }) => Some(element.as_ref()),
                _ => None,
            };
            misfit_inside(element, base, now)
        }
        (
            DataType::Map { key, value, .. },
            DataType::Map {
                key: key_now,
                value: value_now,
                ..
            },
        ) => {
            let (key_was, value_was) = match base {
                Some(DataType::Map { key, value, .. }) => {
                    (Some(key.as_ref()), Some(value.as_ref()))
                }
                _ => (None, None),
            };
            misfit_inside(key, key_was, key_now)
                .or_else(|| misfit_inside(value, value_was, value_now))
        }
        _ => None,
    }
}

/// The field that files have under the name that `field` has there.
fn stored_as<'a>(fields: &'a [Field], field: &Field) -> Option<&'a Field> {
    let name = field.stored_name().to_lowercase();
    let mut fields = fields.iter();
    fields.find(|other| other.stored_name().to_lowercase() == name)
}
