//! Catalog changes of a transaction: schemas and tables created, dropped, renamed.
//!
//! Invariant: the actions, applied to the snapshot's catalog in order, give the catalog that
//! the transaction shows; each is checked by the very code that replays records.
//! Spec: docs/format/log.md, "Actions" and "Locations".

use std::collections::BTreeMap;

use tarndb_delta::feature::readers_locked_out;
use tarndb_table::codec::TableDefinition;
use tarndb_table::{Schema, TableState};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use super::{Overlay, Transaction};
use crate::attach::check_droppable;
use crate::catalog::error::ObjectError;
use crate::catalog::{Catalog, check_name, location_for, parse_location};
use crate::error::DbError;
use crate::invariants::Violation;
use crate::record::Action;

/// Format of new tables.
pub(super) const NEW_TABLE_FORMAT: &str = "delta";

/// A table to create.
#[derive(Clone, Debug)]
pub struct NewTable {
    /// Its name, as written.
    pub name: String,
    /// Its columns.
    pub schema: Schema,
    /// Partition columns in order.
    pub partition_columns: Vec<String>,
    /// Properties, verbatim.
    pub properties: BTreeMap<String, String>,
    /// Its comment.
    pub comment: Option<String>,
}

/// SQL's own schema; one of that name would never be seen.
const INFORMATION_SCHEMA: &str = "information_schema";

impl Transaction {
    /// Creates a schema.
    ///
    /// # Errors
    /// The name is invalid or taken.
    pub fn create_schema(&mut self, name: &str) -> Result<(), DbError> {
        let invalid = |reason| DbError::InvalidName {
            what: "schema",
            name: name.to_owned(),
            reason,
        };
        check_name(name).map_err(invalid)?;
        if name.eq_ignore_ascii_case(INFORMATION_SCHEMA) {
            return Err(invalid("SQL keeps it for its views of the catalog"));
        }
        self.act(
            Action::CreateSchema {
                name: name.to_owned(),
            },
            Operation::CreateSchema,
        )
    }

    /// Drops a schema, with its tables and views when `cascade`.
    ///
    /// # Errors
    /// It does not exist, or it has tables or views and `cascade` is not set.
    pub fn drop_schema(&mut self, name: &str, cascade: bool) -> Result<(), DbError> {
        let catalog = &self.changes.catalog;
        let found = catalog.schema(name);
        let schema = found.ok_or_else(|| DbError::SchemaNotFound {
            name: name.to_owned(),
        })?;
        let schema = schema.name.clone();
        let tables = catalog.tables_in(&schema);
        tables.iter().try_for_each(|table| check_droppable(table))?;
        let tables: Vec<TableId> = tables.iter().map(|table| table.id).collect();
        let views = catalog.views_in(&schema).into_iter();
        let views: Vec<String> = views.map(|view| view.definition.name.clone()).collect();
        let count = tables.len() + views.len();
        if count > 0 && !cascade {
            return Err(DbError::SchemaNotEmpty {
                name: schema,
                tables: count,
            });
        }
        for view in views {
            self.drop_view(&schema, &view)?;
        }
        for table in tables {
            self.drop_table(table)?;
        }
        self.act(Action::DropSchema { name: schema }, Operation::DropSchema)
    }

    /// Creates a table and returns its id.
    ///
    /// # Errors
    /// The schema does not exist, the name is taken or invalid, the definition is illegal.
    ///
    /// # Cost
    /// At most 2 LISTs, to find a folder that was never used.
    pub async fn create_table(
        &mut self,
        schema: &str,
        table: NewTable,
    ) -> Result<TableId, DbError> {
        let (schema, full_name) = self.free_name(schema, &table.name)?;
        let id = TableId(self.inner().context().uuid());
        let codec = self.inner().codec(NEW_TABLE_FORMAT, &full_name)?;
        let definition = TableDefinition {
            id,
            name: table.name.clone(),
            schema: table.schema,
            partition_columns: table.partition_columns,
            properties: table.properties,
            description: table.comment,
        };
        let overlay =
            Overlay::created(codec.as_ref(), definition).map_err(DbError::table(full_name))?;
        let location = self.free_location(&schema, &table.name, id).await?;
        let action = Action::CreateTable {
            id,
            schema,
            name: table.name,
            format: NEW_TABLE_FORMAT.to_owned(),
            location,
            bases: Vec::new(),
        };
        self.act(action, Operation::CreateTable)?;
        self.notice_readers(id, None, &overlay.state)?;
        self.changes.overlays.insert(id, overlay);
        Ok(id)
    }

    /// A schema as it is spelled, with the full name of a table that can be created in it.
    pub(super) fn free_name(&self, schema: &str, name: &str) -> Result<(String, String), DbError> {
        check_name(name).map_err(|reason| DbError::InvalidName {
            what: "table",
            name: name.to_owned(),
            reason,
        })?;
        let catalog = &self.changes.catalog;
        let found = catalog.schema(schema);
        let schema = found.ok_or_else(|| DbError::SchemaNotFound {
            name: schema.to_owned(),
        })?;
        let schema = schema.name.clone();
        let full_name = format!("{schema}.{name}");
        let is_taken =
            catalog.find(&schema, name).is_some() || catalog.view(&schema, name).is_some();
        match is_taken {
            true => Err(DbError::TableExists { name: full_name }),
            false => Ok((schema, full_name)),
        }
    }

    /// Drops a table. Its files stay until vacuum.
    ///
    /// # Errors
    /// [`DbError::TableNotFound`]; a table that was attached, which is detached instead.
    pub fn drop_table(&mut self, id: TableId) -> Result<(), DbError> {
        check_droppable(self.entry(id)?)?;
        let created_here = self.changes.actions.iter().any(
            |action| matches!(action, Action::CreateTable { id: created, .. } if *created == id),
        );
        if !created_here {
            self.act(Action::DropTable { id }, Operation::DropTable)?;
            self.changes.overlays.remove(&id);
            return Ok(());
        }
        // What was created here and never seen by anybody leaves no trace.
        let mut actions = self.changes.actions.clone();
        actions.retain(|action| match action {
            Action::CreateTable { id: other, .. } | Action::RenameTable { id: other, .. } => {
                *other != id
            }
            _ => true,
        });
        self.changes.catalog = self.replayed(&actions)?;
        self.changes.actions = actions;
        self.changes.overlays.remove(&id);
        Ok(())
    }

    /// Gives a table another name, in the same or another schema. Its files stay where they are.
    ///
    /// # Errors
    /// The table or the schema does not exist, the name is taken or invalid.
    pub fn rename_table(&mut self, id: TableId, schema: &str, name: &str) -> Result<(), DbError> {
        check_name(name).map_err(|reason| DbError::InvalidName {
            what: "table",
            name: name.to_owned(),
            reason,
        })?;
        self.entry(id)?;
        let found = self.changes.catalog.schema(schema);
        let schema = found.ok_or_else(|| DbError::SchemaNotFound {
            name: schema.to_owned(),
        })?;
        let action = Action::RenameTable {
            id,
            schema: schema.name.clone(),
            name: name.to_owned(),
        };
        self.act(action, Operation::RenameTable)
    }

    /// Says once that readers need a feature that they did not need `before`.
    pub(super) fn notice_readers(
        &mut self,
        id: TableId,
        before: Option<&TableState>,
        after: &TableState,
    ) -> Result<(), DbError> {
        if let Some(added) = readers_locked_out(before, after) {
            let name = self.entry(id)?.display_name();
            self.changes
                .notice(format!("table {name} has a new feature: {added}"));
        }
        Ok(())
    }

    pub(super) fn act(&mut self, action: Action, operation: Operation) -> Result<(), DbError> {
        let mut catalog = self.changes.catalog.clone();
        let (version, timestamp) = (catalog.version().next(), catalog.timestamp());
        catalog
            .apply_action(&action, version, timestamp)
            .map_err(refused)?;
        self.changes.catalog = catalog;
        self.changes.actions.push(action);
        self.changes.did(operation);
        Ok(())
    }

    pub(super) fn replayed(&self, actions: &[Action]) -> Result<Catalog, DbError> {
        let mut catalog = self.snapshot.catalog().clone();
        let (version, timestamp) = (catalog.version().next(), catalog.timestamp());
        for action in actions {
            catalog
                .apply_action(action, version, timestamp)
                .map_err(refused)?;
        }
        Ok(catalog)
    }

    /// A folder that no table of this database ever had and that is empty.
    pub(super) async fn free_location(
        &self,
        schema: &str,
        name: &str,
        id: TableId,
    ) -> Result<String, DbError> {
        let (plain, unique) = location_for(schema, name, id);
        for location in [plain, unique] {
            let path = parse_location(&location).map_err(refused)?;
            if self.changes.catalog.location_conflict(&location).is_none()
                && self.inner().store.list_after(&path, None).await?.is_empty()
            {
                return Ok(location);
            }
        }
        Err(DbError::Internal {
            what: "no free location for a new table",
        })
    }
}

/// What a caller is told when an action does not fit the catalog.
pub(super) fn refused(violation: Violation) -> DbError {
    match violation {
        Violation::SchemaExists { name } => DbError::SchemaExists { name },
        Violation::SchemaMissing { name } => DbError::SchemaNotFound { name },
        Violation::SchemaNotEmpty { name, tables } => DbError::SchemaNotEmpty { name, tables },
        Violation::NameTaken { schema, name } => DbError::TableExists {
            name: format!("{schema}.{name}"),
        },
        Violation::ViewMissing { schema, name } => ObjectError::ViewNotFound {
            name: format!("{schema}.{name}"),
        }
        .into(),
        Violation::TagExists { name } => ObjectError::TagExists { name }.into(),
        Violation::TagMissing { name } => ObjectError::TagNotFound { name }.into(),
        Violation::TableMissing { table } => DbError::TableNotFound {
            name: table.to_string(),
        },
        _ => DbError::Internal {
            what: "a catalog change breaks an invariant",
        },
    }
}
