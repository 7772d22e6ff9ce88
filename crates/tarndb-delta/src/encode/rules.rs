//! Changes of the rules that rows fulfil.
//!
//! Invariant: a rule that this build cannot evaluate is never made here; the feature that it
//! needs is raised with it.
//! Does not: look at rows.
//! Spec: docs/expressions.md; Delta PROTOCOL, "CHECK Constraints", "Default Columns",
//! "Identity Columns".

use std::collections::BTreeMap;

use tarndb_table::rules::{
    CONSTRAINT_PREFIX, CURRENT_DEFAULT, GENERATION_EXPRESSION, IDENTITY_START,
};
use tarndb_table::{Field, RowRules, RuleChange, Schema};

use super::draft::Draft;
use crate::action::Change;
use crate::error::DeltaError;
use crate::feature;

impl Draft {
    /// Applies a change of rules to the head's.
    pub(super) fn change_rule(&mut self, change: &RuleChange) -> Result<(), DeltaError> {
        change
            .apply(&mut self.schema, &mut self.metadata.configuration)
            .map_err(DeltaError::from_table)?;
        let key = |name: &str| format!("{CONSTRAINT_PREFIX}{}", name.to_lowercase());
        let told = match change {
            RuleChange::AddConstraint { name, expression } => {
                self.features.insert(feature::CHECK_CONSTRAINTS);
                Change::Set {
                    key: key(name),
                    value: expression.clone(),
                }
            }
            RuleChange::DropConstraint { name } => Change::Unset { key: key(name) },
            RuleChange::SetDefault { column, expression } => {
                self.features.insert(feature::ALLOW_COLUMN_DEFAULTS);
                Change::Default {
                    column: column.clone(),
                    text: Some(expression.clone()),
                }
            }
            RuleChange::DropDefault { column } => Change::Default {
                column: column.clone(),
                text: None,
            },
            RuleChange::MoveIdentity { column, mark } => Change::Identity {
                column: column.clone(),
                mark: *mark,
            },
        };
        self.changes.push(told);
        if matches!(
            change,
            RuleChange::AddConstraint { .. } | RuleChange::SetDefault { .. }
        ) {
            check_rules(&self.schema, &self.metadata.configuration)?;
        }
        self.refresh_schema()
    }

    /// A schema that replaced the old one must go with the rules as they are in the end. One that
    /// is restored had them.
    pub(super) fn check_replaced_rules(&self) -> Result<(), DeltaError> {
        if self.changes.contains(&Change::ReplaceSchema) && !self.restored {
            check_rules(&self.schema, &self.metadata.configuration)?;
        }
        Ok(())
    }
}

/// Can this build keep the rules, and may they be made?
pub(super) fn check_rules(
    schema: &Schema,
    configuration: &BTreeMap<String, String>,
) -> Result<(), DeltaError> {
    RowRules::check_new(schema, configuration).map_err(DeltaError::from_table)
}

/// A column that is added to a table that is there has no rule yet: the rows that are there
/// would have to be computed.
pub(super) fn refuse_rules(field: &Field) -> Result<(), DeltaError> {
    let keys = [CURRENT_DEFAULT, GENERATION_EXPRESSION, IDENTITY_START];
    if keys.iter().any(|key| field.metadata.contains_key(*key)) {
        return Err(DeltaError::NewColumnWithRule {
            column: field.name.clone(),
        });
    }
    Ok(())
}
