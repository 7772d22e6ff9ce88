//! Rules of rows in statements: from what was written to the table's metadata and back.
//!
//! Invariant: expressions are stored as they were written; a constraint without a name gets
//! one that is free.

use std::collections::BTreeMap;

use tarndb_table::rules::{
    CONSTRAINT_PREFIX, CURRENT_DEFAULT, GENERATION_EXPRESSION, Identity, constraint_key,
};
use tarndb_table::{ColumnPath, Field};

use crate::dml::Change;
use crate::error::SqlError;
use crate::parser::{ColumnRule, Constraint};
use tarndb_types::TableId;

/// Puts a column's rule into its metadata.
pub(crate) fn add_rule(field: &mut Field, rule: &ColumnRule) {
    match rule {
        ColumnRule::Default(text) => {
            let text = text.as_str().into();
            field.metadata.insert(CURRENT_DEFAULT.to_owned(), text);
        }
        ColumnRule::Generated(text) => {
            let text = text.as_str().into();
            field
                .metadata
                .insert(GENERATION_EXPRESSION.to_owned(), text);
        }
        ColumnRule::Identity {
            start,
            step,
            explicit,
        } => {
            let identity = Identity {
                start: *start,
                step: *step,
                mark: None,
                explicit: *explicit,
            };
            field.metadata.extend(identity.metadata());
        }
    }
}

/// A column's rule as CREATE TABLE says it; `None` without one.
pub(crate) fn rule_text(field: &Field) -> Option<String> {
    let text = |key: &str| field.metadata.get(key).and_then(|text| text.as_str());
    if let Some(text) = text(GENERATION_EXPRESSION) {
        return Some(format!("GENERATED ALWAYS AS ({text})"));
    }
    if let Some(text) = text(CURRENT_DEFAULT) {
        return Some(format!("DEFAULT {text}"));
    }
    let identity = Identity::of(field).ok().flatten()?;
    let kind = if identity.explicit {
        "BY DEFAULT"
    } else {
        "ALWAYS"
    };
    Some(format!(
        "GENERATED {kind} AS IDENTITY (START WITH {} INCREMENT BY {})",
        identity.start, identity.step
    ))
}

/// The properties that hold the constraints of a new table.
pub(crate) fn constraint_properties(
    constraints: &[Constraint],
    properties: &mut BTreeMap<String, String>,
) -> Result<(), SqlError> {
    for constraint in constraints {
        let name = match &constraint.name {
            Some(name) => name.to_lowercase(),
            None => free_name(properties),
        };
        let key = format!("{CONSTRAINT_PREFIX}{name}");
        if properties
            .insert(key, constraint.expression.clone())
            .is_some()
        {
            return Err(SqlError::TableOption {
                name,
                reason: "is the name of two constraints".to_owned(),
            });
        }
    }
    Ok(())
}

/// `check_1`, or the next number that is free.
pub(crate) fn free_name(properties: &BTreeMap<String, String>) -> String {
    let mut number = 1_u32;
    loop {
        let name = format!("check_{number}");
        if constraint_key(properties, &name).is_none() {
            return name;
        }
        number += 1;
    }
}

/// # Errors
/// A nested field.
pub(crate) fn check_default(column: &ColumnPath) -> Result<(), SqlError> {
    if column.parents().is_empty() {
        return Ok(());
    }
    Err(SqlError::Unsupported {
        what: "a default of a nested field".to_owned(),
        hint: Some("give the whole column a default".to_owned()),
    })
}

impl Change<'_> {
    /// ADD CONSTRAINT.
    pub(crate) async fn add_constraint(
        &mut self,
        id: TableId,
        constraint: &Constraint,
    ) -> Result<(), SqlError> {
        let name = match &constraint.name {
            Some(name) => name.clone(),
            None => free_name(&self.txn.table(id).await?.properties),
        };
        let expression = &constraint.expression;
        Ok(self.txn.add_constraint(id, &name, expression).await?)
    }

    /// ALTER COLUMN .. SET DEFAULT, DROP DEFAULT.
    pub(crate) async fn set_default(
        &mut self,
        id: TableId,
        column: &ColumnPath,
        expression: Option<&str>,
    ) -> Result<(), SqlError> {
        check_default(column)?;
        Ok(self.txn.set_default(id, column.leaf(), expression).await?)
    }

    /// DROP CONSTRAINT.
    pub(crate) async fn drop_constraint(
        &mut self,
        id: TableId,
        name: &str,
        if_exists: bool,
    ) -> Result<(), SqlError> {
        let state = self.txn.table(id).await?;
        if if_exists && constraint_key(&state.properties, name).is_none() {
            return Ok(());
        }
        Ok(self.txn.drop_constraint(id, name).await?)
    }
}
