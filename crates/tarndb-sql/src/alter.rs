//! ALTER TABLE on columns, run.
//!
//! Invariant: each is one change of metadata; no row is written anew. What the format forbids is
//! refused there, with the name of what stands in the way.
//! Spec: docs/guide/sql.md, "Tables".

use tarndb_table::{ColumnPath, NewColumn, Schema, TableError};
use tarndb_types::{TableId, Uuid};

use crate::ddl::field;
use crate::dml::Change;
use crate::error::SqlError;
use crate::name::near;
use crate::parser::{AddedColumn, AlterAction};

impl Change<'_> {
    /// Runs an action on columns; false when it is another one.
    pub(crate) async fn alter_columns(
        &mut self,
        id: TableId,
        action: &AlterAction,
    ) -> Result<bool, SqlError> {
        match action {
            AlterAction::AddColumns {
                columns,
                if_not_exists,
            } => {
                for column in columns {
                    self.add_column(id, column, *if_not_exists).await?;
                }
            }
            AlterAction::RenameColumn { column, to } => {
                self.check_column(id, column).await?;
                self.txn.rename_column(id, column.clone(), to).await?;
            }
            AlterAction::DropColumns { columns, if_exists } => {
                for column in columns {
                    match self.check_column(id, column).await {
                        Err(SqlError::UnknownColumn { .. }) if *if_exists => {}
                        found => {
                            found?;
                            self.txn.drop_column(id, column.clone()).await?;
                        }
                    }
                }
            }
            AlterAction::SetType { column, data_type } => {
                let to = data_type.clone();
                self.txn.widen_column(id, column.clone(), to).await?;
            }
            AlterAction::SetNullable { column, nullable } => {
                self.check_column(id, column).await?;
                let column = column.clone();
                self.txn.set_nullable(id, column, *nullable).await?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    async fn add_column(
        &mut self,
        id: TableId,
        added: &AddedColumn,
        if_not_exists: bool,
    ) -> Result<(), SqlError> {
        let new = NewColumn {
            parents: added.parents.clone(),
            field: field(&added.column),
            position: added.position.clone(),
            seed: Uuid::nil(),
        };
        let path = new.path();
        let state = self.txn.table(id).await?;
        if let Some((first, _)) = state.schema.field_at(&path) {
            if if_not_exists {
                return Ok(());
            }
            let (first, second) = (first.to_string(), path.to_string());
            let table = self.txn.entry(id)?.display_name();
            return Err(SqlError::table(table)(TableError::DuplicateColumn {
                first,
                second,
            }));
        }
        if !added.column.nullable {
            return Err(SqlError::Unsupported {
                what: "ADD COLUMN .. NOT NULL".to_owned(),
                hint: Some("rows that are there get NULL in the new column".to_owned()),
            });
        }
        self.txn.add_column_at(id, new).await?;
        Ok(())
    }

    /// # Errors
    /// A column that is not there, with those that may have been meant.
    async fn check_column(&self, id: TableId, column: &ColumnPath) -> Result<(), SqlError> {
        let state = self.txn.table(id).await?;
        if state.schema.field_at(column).is_some() {
            return Ok(());
        }
        let siblings = siblings(&state.schema, column);
        Err(SqlError::UnknownColumn {
            name: column.to_string(),
            table: Some(self.txn.entry(id)?.display_name()),
            near: near(column.leaf(), siblings.iter().map(String::as_str)),
        })
    }
}

/// The names beside a column; of none where its parent is not there.
fn siblings(schema: &Schema, column: &ColumnPath) -> Vec<String> {
    let mut schema = schema.clone();
    let fields = schema.fields_at_mut(column.parents());
    let names = fields.map(|fields| fields.iter().map(|field| field.name.clone()).collect());
    names.unwrap_or_default()
}
