//! `RuleChange`: a change of one rule of a table.
//!
//! Invariant: applied to columns and properties as they are at the head, so that what others
//! changed beside it stays. Whether rows that are there fulfil a new constraint is checked
//! before, by whoever has the rows.
//! Spec: docs/expressions.md.

use std::collections::BTreeMap;

use serde_json::Value;

use super::column::CURRENT_DEFAULT;
use super::error::RuleError;
use super::identity::{IDENTITY_MARK, Identity};
use super::{CONSTRAINT_PREFIX, column};
use crate::error::TableError;
use crate::schema::{Field, Schema};

/// A change of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleChange {
    /// A new CHECK constraint, which all rows that are there fulfil.
    AddConstraint {
        /// Its name.
        name: String,
        /// Spark SQL, as written.
        expression: String,
    },
    /// A CHECK constraint goes.
    DropConstraint {
        /// Its name, in any case.
        name: String,
    },
    /// Rows that come without the column get this.
    SetDefault {
        /// The column.
        column: String,
        /// Spark SQL, as written.
        expression: String,
    },
    /// Rows that come without the column get NULL.
    DropDefault {
        /// The column.
        column: String,
    },
    /// Values of an identity column were given out.
    MoveIdentity {
        /// The column.
        column: String,
        /// The furthest of them.
        mark: i64,
    },
}

/// The property key of a constraint, by its name in any case.
pub fn constraint_key<'a>(
    properties: &'a BTreeMap<String, String>,
    name: &str,
) -> Option<&'a String> {
    let wanted = name.to_lowercase();
    properties.keys().find(|key| {
        key.strip_prefix(CONSTRAINT_PREFIX)
            .is_some_and(|known| known.to_lowercase() == wanted)
    })
}

impl RuleChange {
    /// Changes columns and properties; nothing is changed when it fails.
    ///
    /// # Errors
    /// [`TableError::NoSuchColumn`]; [`RuleError::IllegalRule`] for a constraint whose name is
    /// taken or unknown, and for a default where there can be none.
    pub fn apply(
        &self,
        schema: &mut Schema,
        properties: &mut BTreeMap<String, String>,
    ) -> Result<(), TableError> {
        match self {
            Self::AddConstraint { name, expression } => {
                let illegal = |reason: &str| constraint_error(name, reason);
                if name.is_empty() {
                    return Err(illegal("it has no name"));
                }
                if constraint_key(properties, name).is_some() {
                    return Err(illegal("there is one of that name"));
                }
                // As other engines write it.
                let key = format!("{CONSTRAINT_PREFIX}{}", name.to_lowercase());
                properties.insert(key, expression.clone());
            }
            Self::DropConstraint { name } => {
                let key = constraint_key(properties, name).cloned();
                let key = key.ok_or_else(|| constraint_error(name, "there is none"))?;
                properties.remove(&key);
            }
            Self::SetDefault { column, expression } => {
                let field = field_mut(schema, column)?;
                if column::is_filled_otherwise(field) {
                    return Err(TableError::Rule(RuleError::IllegalRule {
                        rule: format!("default of column {column}"),
                        reason: "the column is generated or an identity".to_owned(),
                    }));
                }
                let text = Value::from(expression.as_str());
                field.metadata.insert(CURRENT_DEFAULT.to_owned(), text);
            }
            Self::DropDefault { column } => {
                field_mut(schema, column)?.metadata.remove(CURRENT_DEFAULT);
            }
            Self::MoveIdentity { column, mark } => {
                let field = field_mut(schema, column)?;
                let identity = Identity::of(field)?.ok_or_else(|| {
                    TableError::Rule(RuleError::IdentityStale {
                        column: column.clone(),
                    })
                })?;
                if identity.is_beyond(*mark) {
                    field
                        .metadata
                        .insert(IDENTITY_MARK.to_owned(), Value::from(*mark));
                }
            }
        }
        Ok(())
    }
}

fn constraint_error(name: &str, reason: &str) -> TableError {
    TableError::Rule(RuleError::IllegalRule {
        rule: format!("CHECK constraint {name}"),
        reason: reason.to_owned(),
    })
}

fn field_mut<'a>(schema: &'a mut Schema, column: &str) -> Result<&'a mut Field, TableError> {
    let place = schema.field(column).map(|(place, _)| place);
    let field = place.and_then(|place| schema.fields.get_mut(place));
    field.ok_or_else(|| TableError::NoSuchColumn {
        column: column.to_owned(),
    })
}
