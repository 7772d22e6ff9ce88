//! `RowRules`: what the rows of a table must fulfil, and what is filled in for them.
//!
//! Invariant: the one place where rows that are written meet the table's rules; rows that come
//! out fulfil all of them. A rule that cannot be evaluated is an error before any row is
//! written.
//!
//! ```text
//! rows -> defaults, identity values -> generated columns -> lengths -> NOT NULL -> conditions
//! ```
//! Does not: decide who may change a rule, or commit the marks of identity columns.
//! Spec: docs/expressions.md; Delta PROTOCOL, "CHECK Constraints", "Column Invariants",
//! "Generated Columns", "Default Columns", "Identity Columns".

mod change;
mod column;
mod emptied;
mod error;
mod fill;
mod identity;
mod supplied;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, BooleanArray, RecordBatch};

pub use change::{RuleChange, constraint_key};
pub use column::{CHAR_VARCHAR, CURRENT_DEFAULT, GENERATION_EXPRESSION, INVARIANTS};
pub use error::RuleError;
pub use identity::{
    IDENTITY_EXPLICIT, IDENTITY_MARK, IDENTITY_START, IDENTITY_STEP, Identity, IdentityUse,
};
pub use supplied::{Supplied, Supply};

use self::column::{ColumnRules, not_evaluated};
use self::emptied::Emptied;
use crate::error::TableError;
use crate::expression::Expression;
use crate::key::row_text;
use crate::parquet::write::Written;
use crate::schema::Schema;
use crate::schema::conform::conform_batch;
use crate::state::TableState;

/// Prefix of the property that holds a CHECK constraint; its name follows.
pub const CONSTRAINT_PREFIX: &str = "delta.constraints.";

/// A condition that every row must fulfil.
#[derive(Clone, Debug, PartialEq)]
struct Condition {
    /// What it is, for people.
    rule: String,
    expression: Expression,
}

/// The rules of one table at one version.
#[derive(Clone, Debug, PartialEq)]
pub struct RowRules {
    schema: Arc<Schema>,
    conditions: Vec<Condition>,
    columns: BTreeMap<usize, ColumnRules>,
    /// The identity columns' marks when nothing was taken yet.
    marks: BTreeMap<usize, Option<i64>>,
    fingerprint: Arc<str>,
    now_micros: i64,
    /// Partition columns in which an empty text is stored as NULL.
    emptied: Emptied,
}

/// Tells of a rule that is not there yet.
fn not_made(error: TableError) -> TableError {
    match error {
        TableError::Rule(RuleError::NotEvaluated { rule, source }) => {
            TableError::Rule(RuleError::NotMade { rule, source })
        }
        other => other,
    }
}

impl RowRules {
    /// The rules of a table. `now_micros`: the time of the statement, microseconds since 1970
    /// UTC, for defaults.
    ///
    /// # Errors
    /// [`TableError::Rule`] for a rule that this build cannot evaluate, or that is malformed.
    pub fn of(state: &TableState, now_micros: i64) -> Result<Self, TableError> {
        let mut rules = Self::new(Arc::clone(&state.schema), &state.properties, now_micros)?;
        rules.emptied = Emptied::of(&state.schema, &state.partition_columns);
        Ok(rules)
    }

    /// The rules that columns and properties hold; as [`Self::of`].
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn new(
        schema: Arc<Schema>,
        properties: &BTreeMap<String, String>,
        now_micros: i64,
    ) -> Result<Self, TableError> {
        let mut conditions = Vec::new();
        for (key, text) in properties {
            let Some(name) = key.strip_prefix(CONSTRAINT_PREFIX) else {
                continue;
            };
            conditions.push(condition(
                format!("CHECK constraint {name}"),
                text,
                &schema,
            )?);
        }
        let mut columns = BTreeMap::new();
        let mut marks = BTreeMap::new();
        for (place, field) in schema.fields.iter().enumerate() {
            let mut found = Vec::new();
            column::invariants(field, "", &mut found)?;
            for (path, text) in found {
                let rule = format!("invariant of column {path}");
                conditions.push(condition(rule, &text, &schema)?);
            }
            let rules = ColumnRules::of(field, &schema)?;
            if let Some(identity) = rules.identity {
                marks.insert(place, identity.mark);
            }
            if !rules.is_empty() {
                columns.insert(place, rules);
            }
        }
        let rules = Self {
            fingerprint: fingerprint(&schema, properties).into(),
            schema,
            conditions,
            columns,
            marks,
            now_micros,
            emptied: Emptied::default(),
        };
        rules.check_references()?;
        Ok(rules)
    }

    /// The rule of one CHECK constraint that is about to be made.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_new_constraint(
        schema: &Arc<Schema>,
        name: &str,
        expression: &str,
    ) -> Result<Self, TableError> {
        let key = format!("{CONSTRAINT_PREFIX}{name}");
        let properties = [(key, expression.to_owned())].into();
        Self::new(Arc::clone(schema), &properties, 0).map_err(not_made)
    }

    /// As [`Self::new`], for rules that are about to be made: also refuses what other engines
    /// refuse, a condition or generated column that depends on the time.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn check_new(
        schema: &Schema,
        properties: &BTreeMap<String, String>,
    ) -> Result<(), TableError> {
        let rules = Self::new(Arc::new(schema.clone()), properties, 0).map_err(not_made)?;
        let refuse = |rule: String| {
            Err(TableError::Rule(RuleError::IllegalRule {
                rule,
                reason: "its value depends on the time of the statement".to_owned(),
            }))
        };
        for condition in &rules.conditions {
            if condition.expression.uses_clock() {
                return refuse(condition.rule.clone());
            }
        }
        for (place, column) in &rules.columns {
            // A default that does not fit its column is told now and not with the first row.
            rules.default_value(*place)?;
            if column
                .generated
                .as_ref()
                .is_some_and(Expression::uses_clock)
            {
                return refuse(format!("generated column {}", rules.name(*place)));
            }
        }
        Ok(())
    }

    /// No generated column uses another one: the order in which they are computed is free.
    fn check_references(&self) -> Result<(), TableError> {
        for (place, column) in &self.columns {
            let Some(expression) = &column.generated else {
                continue;
            };
            let generated = |used: &usize| {
                self.columns
                    .get(used)
                    .is_some_and(|used| used.generated.is_some())
            };
            if let Some(used) = expression.columns().iter().find(|used| generated(used)) {
                return Err(TableError::Rule(RuleError::IllegalRule {
                    rule: format!("generated column {}", self.name(*place)),
                    reason: format!("it uses the generated column {}", self.name(*used)),
                }));
            }
        }
        Ok(())
    }

    /// Whether the table has any.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.columns.is_empty()
    }

    /// What tells these rules from others; empty when there are none. Equal also after values
    /// were taken from an identity column.
    pub fn fingerprint(&self) -> &Arc<str> {
        &self.fingerprint
    }

    /// The fingerprint of the rules of a table, without reading their expressions.
    pub fn fingerprint_of(state: &TableState) -> String {
        fingerprint(&state.schema, &state.properties)
    }

    /// Whether written rows may be added to the table as it is now: they were checked against
    /// its rules, and nobody took the numbers that they have from its identity columns.
    ///
    /// # Errors
    /// [`RuleError::Unchecked`], [`RuleError::IdentityStale`].
    pub fn check_written(state: &TableState, written: &Written) -> Result<(), RuleError> {
        if written.files.is_empty() {
            return Ok(());
        }
        if written.checked.as_deref().unwrap_or_default() != Self::fingerprint_of(state) {
            return Err(RuleError::Unchecked);
        }
        for used in &written.identities {
            let field = state.schema.field(&used.column);
            let identity = field.map(|(_, field)| Identity::of(field)).transpose()?;
            if identity.flatten().and_then(|identity| identity.mark) != used.before {
                let column = used.column.clone();
                return Err(RuleError::IdentityStale { column });
            }
        }
        Ok(())
    }

    /// Whether rows had an empty text where it is stored as NULL.
    pub fn met_empty_text(&self) -> bool {
        self.emptied.was_met()
    }

    /// The table's columns.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Whether the column may be left out though it is NOT NULL: the rules give its values.
    pub fn fills(&self, place: usize) -> bool {
        self.columns.get(&place).is_some_and(|rules| {
            rules.generated.is_some() || rules.default.is_some() || rules.identity.is_some()
        })
    }

    /// Whether the column takes its numbers from an identity.
    pub fn is_identity(&self, place: usize) -> bool {
        self.columns
            .get(&place)
            .is_some_and(|rules| rules.identity.is_some())
    }

    /// How the columns of rows that change are supplied, when those at the places that `given`
    /// tells are assigned: generated columns of which an input changes are computed anew.
    pub fn supplied_by_update(&self, given: impl Fn(usize) -> bool) -> Supplied {
        let columns = (0..self.schema.fields.len()).map(|place| {
            if given(place) {
                return Supply::Given;
            }
            let generated = self
                .columns
                .get(&place)
                .and_then(|rules| rules.generated.as_ref());
            match generated {
                Some(expression) if expression.columns().iter().any(|used| given(*used)) => {
                    Supply::Omitted
                }
                _ => Supply::Kept,
            }
        });
        Supplied::new(columns.collect())
    }

    /// The value that DEFAULT stands for in a column that is neither generated nor an identity:
    /// an array of one value.
    ///
    /// # Errors
    /// None but bugs.
    pub fn default_value(&self, place: usize) -> Result<Option<ArrayRef>, TableError> {
        let Some(rules) = self.columns.get(&place) else {
            return Ok(self.null(place, 1));
        };
        if rules.generated.is_some() || rules.identity.is_some() {
            return Ok(None);
        }
        match &rules.default {
            None => Ok(self.null(place, 1)),
            Some(expression) => {
                let one = fill::rows_without_columns(1)?;
                Ok(Some(expression.evaluate(&one, self.now_micros)?))
            }
        }
    }

    /// What was taken from identity columns since the rules were made.
    pub fn identities_used(&self) -> Vec<IdentityUse> {
        let mut used = Vec::new();
        for (place, before) in &self.marks {
            let identity = self.columns.get(place).and_then(|rules| rules.identity);
            if let Some(after) = identity.and_then(|identity| identity.mark)
                && Some(after) != *before
            {
                used.push(IdentityUse {
                    column: self.name(*place).to_owned(),
                    before: *before,
                    after,
                });
            }
        }
        used
    }

    /// The rows as they are to be written: all rules kept. `rows` has the table's columns, with
    /// anything in those that are omitted.
    ///
    /// # Errors
    /// [`TableError::Rule`] for rows that break a rule, [`TableError::NullInNotNull`].
    pub fn apply(
        &mut self,
        rows: &RecordBatch,
        supplied: &Supplied,
    ) -> Result<RecordBatch, TableError> {
        let rows = self.number(rows, supplied)?;
        let rows = self.fill(&rows, supplied)?;
        self.check(&rows, supplied)?;
        Ok(rows)
    }

    /// Whether rows that are there fulfil the conditions (not what columns hold).
    ///
    /// # Errors
    /// [`RuleError::Violated`].
    pub fn check_conditions(&self, rows: &RecordBatch) -> Result<(), TableError> {
        for condition in &self.conditions {
            let holds = condition.expression.holds(rows, self.now_micros)?;
            self.refuse_rows(
                rows,
                |row| !is_true(&holds, row),
                |rows, row| RuleError::Violated {
                    rule: condition.rule.clone(),
                    expression: condition.expression.text().to_owned(),
                    rows,
                    row,
                },
            )?;
        }
        Ok(())
    }

    fn check(&self, rows: &RecordBatch, supplied: &Supplied) -> Result<(), TableError> {
        self.check_generated(rows, supplied)?;
        conform_batch(rows, &self.schema)?;
        self.check_conditions(rows)
    }

    /// The error of the rows that are wrong, if any are.
    fn refuse_rows(
        &self,
        rows: &RecordBatch,
        is_wrong: impl Fn(usize) -> bool,
        error: impl FnOnce(usize, String) -> RuleError,
    ) -> Result<(), TableError> {
        let mut wrong = (0..rows.num_rows()).filter(|row| is_wrong(*row));
        let Some(first) = wrong.next() else {
            return Ok(());
        };
        let text = row_text(rows, first, &self.schema);
        Err(TableError::Rule(error(1 + wrong.count(), text)))
    }

    fn name(&self, place: usize) -> &str {
        let field = self.schema.fields.get(place);
        field.map_or("?", |field| field.name.as_str())
    }
}

fn is_true(values: &BooleanArray, row: usize) -> bool {
    values.is_valid(row) && values.value(row)
}

fn condition(rule: String, text: &str, schema: &Schema) -> Result<Condition, TableError> {
    let expression = Expression::parse_condition(text, schema);
    match expression {
        Ok(expression) => Ok(Condition { rule, expression }),
        Err(error) => Err(TableError::Rule(not_evaluated(rule)(error))),
    }
}

/// The texts of all rules; empty without any.
fn fingerprint(schema: &Schema, properties: &BTreeMap<String, String>) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for (key, value) in properties {
        if key.starts_with(CONSTRAINT_PREFIX) {
            let _infallible = writeln!(text, "{key}={value}");
        }
    }
    for field in &schema.fields {
        column::write_fingerprint(field, &field.name, &mut text);
    }
    text
}

#[cfg(test)]
mod tests;
