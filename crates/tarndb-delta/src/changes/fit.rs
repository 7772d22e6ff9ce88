//! Which schemas fit together in one feed.
//!
//! Invariant: every column of every version of the range is in the feed, under the name and
//! type it has at the end; nothing is left out silently.
//! Spec: Delta PROTOCOL, "Change Data Feed"; docs/format/delta.md, "Change feed".

use tarndb_table::{DataType, Field, Schema};

use crate::error::DeltaError;

/// Checks that rows of `schema`, of a version, can be given out as rows of `last`.
///
/// # Errors
/// `ChangeFeedSchema` names the first column that cannot.
pub(super) fn check_fit(schema: &Schema, last: &Schema, version: u64) -> Result<(), DeltaError> {
    match misfit(&schema.fields, &last.fields) {
        None => Ok(()),
        Some(column) => Err(DeltaError::ChangeFeedSchema { version, column }),
    }
}

/// The first of `fields` that `last` does not have, or has with a type it does not widen to.
fn misfit(fields: &[Field], last: &[Field]) -> Option<String> {
    fields.iter().find_map(|field| {
        let later = last
            .iter()
            .find(|later| later.stored_name() == field.stored_name());
        match later {
            None => Some(field.name.clone()),
            Some(later) if later.name != field.name => Some(field.name.clone()),
            Some(later) => misfit_type(&field.data_type, &later.data_type).map(|inner| match inner
                .is_empty()
            {
                true => field.name.clone(),
                false => format!("{}.{inner}", field.name),
            }),
        }
    })
}

/// The field inside that does not fit; empty for the type itself.
fn misfit_type(data_type: &DataType, last: &DataType) -> Option<String> {
    match (data_type, last) {
        (DataType::Struct(fields), DataType::Struct(last)) => misfit(fields, last),
        (DataType::Array { element, .. }, DataType::Array { element: last, .. }) => {
            misfit_type(element, last)
        }
        (
            DataType::Map { key, value, .. },
            DataType::Map {
                key: last_key,
                value: last_value,
                ..
            },
        ) => misfit_type(key, last_key).or_else(|| misfit_type(value, last_value)),
        (one, other) if one == other || one.widens_to(other) => None,
        // A column without a type has no values.
        (DataType::Void, _) => None,
        _ => Some(String::new()),
    }
}
