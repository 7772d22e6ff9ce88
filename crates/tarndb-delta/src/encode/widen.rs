//! Widening a column's type, with the record of it that readers need.
//!
//! Invariant: a change is recorded with the nearest field above, in the order in which changes
//! came; only changes of the format's list are made.
//! Spec: Delta PROTOCOL, "Type Widening".

use serde_json::{Value, json};
use tarndb_table::schema::path::{self, ELEMENT_STEP, KEY_STEP, VALUE_STEP};
use tarndb_table::{ColumnPath, DataType, Field};

use crate::error::DeltaError;

/// The record of changes, in a field's metadata.
pub(super) const TYPE_CHANGES: &str = "delta.typeChanges";

/// Widens the type at `column`; false when it is that type already.
///
/// # Errors
/// `NoSuchColumn`, `CannotWiden`.
pub(super) fn widen(
    fields: &mut [Field],
    column: &ColumnPath,
    to: &DataType,
) -> Result<bool, DeltaError> {
    let change = Change { column, to };
    let parts: Vec<&str> = column.parts().collect();
    Ok(change.in_fields(fields, &parts)? == Done::Changed)
}

struct Change<'a> {
    column: &'a ColumnPath,
    to: &'a DataType,
}

#[derive(PartialEq)]
enum Done {
    /// The type was that already.
    Same,
    /// The type is changed, and that is recorded.
    Changed,
    /// The type is changed from this one; the field above records it.
    From(DataType),
}

impl Change<'_> {
    fn in_fields(&self, fields: &mut [Field], parts: &[&str]) -> Result<Done, DeltaError> {
        let (first, rest) = parts.split_first().ok_or_else(|| self.missing())?;
        let at = path::position(fields, first);
        let field = at.and_then(|at| fields.get_mut(at));
        let field = field.ok_or_else(|| self.missing())?;
        let mut inside = Vec::new();
        match self.in_type(&mut field.data_type, rest, &mut inside)? {
            Done::From(from) => {
                self.record(field, &from, &inside)?;
                Ok(Done::Changed)
            }
            done => Ok(done),
        }
    }

    fn in_type(
        &self,
        data_type: &mut DataType,
        parts: &[&str],
        inside: &mut Vec<&'static str>,
    ) -> Result<Done, DeltaError> {
        let Some((step, rest)) = parts.split_first() else {
            return self.replace(data_type);
        };
        let (name, inner) = match data_type {
            DataType::Struct(fields) => return self.in_fields(fields, parts),
            DataType::Array { element, .. } if *step == ELEMENT_STEP => (ELEMENT_STEP, element),
            DataType::Map { key, .. } if *step == KEY_STEP => (KEY_STEP, key),
            DataType::Map { value, .. } if *step == VALUE_STEP => (VALUE_STEP, value),
            _ => return Err(self.missing()),
        };
        inside.push(name);
        self.in_type(inner, rest, inside)
    }

    fn replace(&self, data_type: &mut DataType) -> Result<Done, DeltaError> {
        if data_type == self.to {
            return Ok(Done::Same);
        }
        if !data_type.widens_to(self.to) {
            return Err(DeltaError::CannotWiden {
                column: self.column.to_string(),
                from: data_type.to_string(),
                to: self.to.to_string(),
            });
        }
        let from = std::mem::replace(data_type, self.to.clone());
        Ok(Done::From(from))
    }

    fn record(
        &self,
        field: &mut Field,
        from: &DataType,
        inside: &[&str],
    ) -> Result<(), DeltaError> {
        let mut change = json!({"fromType": from.to_string(), "toType": self.to.to_string()});
        if !inside.is_empty() {
            let path = Value::from(inside.join("."));
            let members = change.as_object_mut();
            members.map(|members| members.insert("fieldPath".to_owned(), path));
        }
        let changes = field.metadata.entry(TYPE_CHANGES.to_owned());
        match changes.or_insert_with(|| Value::Array(Vec::new())) {
            Value::Array(changes) => {
                changes.push(change);
                Ok(())
            }
            _ => Err(DeltaError::BadSchema {
                reason: format!("{TYPE_CHANGES} is not a list"),
                at: self.column.to_string(),
            }),
        }
    }

    fn missing(&self) -> DeltaError {
        DeltaError::NoSuchColumn {
            column: self.column.to_string(),
        }
    }
}
