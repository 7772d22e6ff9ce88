//! Views of a transaction: created, replaced, dropped, renamed.
//!
//! Invariant: a view has no identity but its name: one that is replaced or renamed is dropped
//! and created in one transaction. A view that was created here and dropped again leaves no
//! trace.
//! Does not: read the query of a view; `tarndb-sql` does.
//! Spec: docs/format/log.md, "Actions".

use tarndb_txn::Operation;

use super::Transaction;
use crate::catalog::error::ObjectError;
use crate::catalog::{check_name, fold_name};
use crate::error::DbError;
use crate::record::{Action, ViewDefinition};

impl Transaction {
    /// Creates a view, in place of one of its name when `replace`.
    ///
    /// # Errors
    /// The schema does not exist, the name is invalid, or a table's, or another view's.
    pub fn create_view(
        &mut self,
        mut definition: ViewDefinition,
        replace: bool,
    ) -> Result<(), DbError> {
        check_name(&definition.name).map_err(|reason| DbError::InvalidName {
            what: "view",
            name: definition.name.clone(),
            reason,
        })?;
        let found = self.changes.catalog.schema(&definition.schema);
        let schema = found.ok_or_else(|| DbError::SchemaNotFound {
            name: definition.schema.clone(),
        })?;
        definition.schema.clone_from(&schema.name);
        let taken = self
            .changes
            .catalog
            .view(&definition.schema, &definition.name);
        if taken.is_some() && !replace {
            let name = definition.display_name();
            return Err(DbError::TableExists { name });
        }
        if taken.is_some() {
            let (schema, name) = (definition.schema.clone(), definition.name.clone());
            self.drop_view(&schema, &name)?;
        }
        self.act(Action::CreateView(definition), Operation::CreateView)
    }

    /// Drops a view.
    ///
    /// # Errors
    /// [`ObjectError::ViewNotFound`].
    pub fn drop_view(&mut self, schema: &str, name: &str) -> Result<(), DbError> {
        let found = self.changes.catalog.view(schema, name);
        let view = found.ok_or_else(|| ObjectError::ViewNotFound {
            name: format!("{schema}.{name}"),
        })?;
        let (schema, name) = (view.definition.schema.clone(), view.definition.name.clone());
        let is_it = |action: &Action| match action {
            Action::CreateView(view) => {
                fold_name(&view.schema) == fold_name(&schema)
                    && fold_name(&view.name) == fold_name(&name)
            }
            _ => false,
        };
        let Some(created) = self.changes.actions.iter().rposition(is_it) else {
            return self.act(Action::DropView { schema, name }, Operation::DropView);
        };
        let mut actions = self.changes.actions.clone();
        actions.remove(created);
        self.changes.catalog = self.replayed(&actions)?;
        self.changes.actions = actions;
        self.changes.did(Operation::DropView);
        Ok(())
    }

    /// Gives a view another name, in the same or another schema. Queries of other views that
    /// name it are left as they are.
    ///
    /// # Errors
    /// The view or the schema does not exist, the name is taken or invalid.
    pub fn rename_view(
        &mut self,
        (schema, name): (&str, &str),
        (to_schema, to): (&str, &str),
    ) -> Result<(), DbError> {
        let found = self.changes.catalog.view(schema, name);
        let view = found.ok_or_else(|| ObjectError::ViewNotFound {
            name: format!("{schema}.{name}"),
        })?;
        let mut definition = view.definition.clone();
        let mark = self.mark();
        self.drop_view(schema, name)?;
        definition.schema = to_schema.to_owned();
        definition.name = to.to_owned();
        self.create_view(definition, false)
            .inspect_err(|_| self.rewind(mark))
    }
}
