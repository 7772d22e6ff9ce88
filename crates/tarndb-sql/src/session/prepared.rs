//! The prepared statements of a session.
//!
//! Invariant: they live as long as the session and belong to no transaction; a name stands for
//! one statement until DEALLOCATE.
//! Spec: docs/guide/sql.md, "Prepared statements".

use std::collections::BTreeMap;

use crate::error::SqlError;
use crate::name::fold;
use crate::outcome::Outcome;
use crate::parser::template::{Argument, Parameter, Template};
use crate::parser::{ParsedStatement, Prepared};
use crate::session::Session;

/// Statements by their folded names.
#[derive(Debug, Default)]
pub(super) struct PreparedStatements(BTreeMap<String, Template>);

impl PreparedStatements {
    fn bind(&self, name: &str, arguments: &[Argument]) -> Result<ParsedStatement, SqlError> {
        let Some(template) = self.0.get(&fold(name)) else {
            return Err(SqlError::UnknownPrepared {
                name: name.to_owned(),
            });
        };
        bind(name, template, arguments)
    }

    fn add(&mut self, name: &str, template: &Template) -> Result<(), SqlError> {
        if self.0.contains_key(&fold(name)) {
            return Err(SqlError::PreparedExists {
                name: name.to_owned(),
            });
        }
        self.0.insert(fold(name), template.clone());
        Ok(())
    }

    fn remove(&mut self, name: Option<&str>) -> Result<(), SqlError> {
        match name {
            None => self.0.clear(),
            Some(name) if self.0.remove(&fold(name)).is_some() => {}
            Some(name) => {
                return Err(SqlError::UnknownPrepared {
                    name: name.to_owned(),
                });
            }
        }
        Ok(())
    }
}

fn bind(
    name: &str,
    template: &Template,
    arguments: &[Argument],
) -> Result<ParsedStatement, SqlError> {
    if arguments.len() != template.parameters() {
        return Err(SqlError::ArgumentCount {
            name: name.to_owned(),
            expected: template.parameters(),
            given: arguments.len(),
        });
    }
    template.bind(arguments)
}

impl Session {
    /// Reads one statement with parameters, `?` or `$1`, for [`Self::execute_prepared`]. Queries
    /// and INSERT, UPDATE, DELETE and MERGE have them.
    ///
    /// # Errors
    /// It does not parse, whatever the values.
    pub fn prepare(text: &str) -> Result<Template, SqlError> {
        Template::parse(text)
    }

    /// Runs a prepared statement with values for its parameters, in order.
    ///
    /// # Errors
    /// `ArgumentCount`, a type that is none; else as [`Self::execute`].
    ///
    /// # Cost
    /// As [`Self::execute`].
    pub async fn execute_prepared(
        &mut self,
        template: &Template,
        values: &[Parameter],
    ) -> Result<Outcome, SqlError> {
        let bound = values
            .iter()
            .map(Parameter::argument)
            .collect::<Result<Vec<_>, _>>()
            .and_then(|arguments| bind("of the caller", template, &arguments))
            .inspect_err(|_| self.fail())?;
        Box::pin(self.execute(&bound)).await
    }

    /// PREPARE, EXECUTE, DEALLOCATE; an error fails an open transaction.
    pub(super) async fn prepared(&mut self, statement: &Prepared) -> Result<Outcome, SqlError> {
        let tag = match statement {
            Prepared::Execute { name, arguments } => {
                let bound = self.prepared.bind(name, arguments);
                let bound = bound.inspect_err(|_| self.fail())?;
                return Box::pin(self.execute(&bound)).await;
            }
            Prepared::Prepare { name, template } => {
                self.prepared.add(name, template).map(|()| "PREPARE")
            }
            Prepared::Deallocate { name } => {
                self.prepared.remove(name.as_deref()).map(|()| "DEALLOCATE")
            }
        };
        let tag = tag.inspect_err(|_| self.fail())?;
        Ok(Outcome::Done { tag })
    }
}
