//! ALTER TABLE on columns, run.
//!
//! Invariant: each is one change of metadata; no row is written anew. What the format forbids is
//! refused there, with the name of what stands in the way.
//! Spec: docs/guide/sql.md, "Tables".

use tarndb_table::{ColumnPath, MetadataChange, NewColumn, Schema, TableError};
use tarndb_types::{TableId, Uuid};

use crate::ddl::field;
use crate::dml::Change;
use crate::error::SqlError;
use crate::name::near;
use crate::parser::{AddedColumn, AlterAction};
use crate::primary_key;
use crate::types::check_no_length;

impl Change<'_> {
    /// Runs an action on columns; false when it is another one.
    pub(crate) async fn alter_columns(
        &mut self,
        id: TableId,
        action: &AlterAction,
    ) -> Result<bool, SqlError> {
        let key = primary_key::follow(self.txn.table(id).await?.as_ref(), action)?;
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
                check_no_length(&self.txn.table(id).await?.schema, column)?;
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
        if let Some(change) = key {
            self.txn.change_metadata(id, change).await?;
        }
        Ok(true)
    }

    async fn add_column(
        &mut self,
        id: TableId,
        added: &AddedColumn,
        if_not_exists: bool,
    ) -> Result<(), SqlError> {
        let state = self.txn.table(id).await?;
        let table = self.txn.entry(id)?.display_name();
        if let Some(new) = new_column(&state.schema, &table, added, if_not_exists)? {
            self.txn.add_column_at(id, new).await?;
        }
        Ok(())
    }

    async fn check_column(&self, id: TableId, column: &ColumnPath) -> Result<(), SqlError> {
        let state = self.txn.table(id).await?;
        check_column(&state.schema, &self.txn.entry(id)?.display_name(), column)
    }
}

/// The column of ADD COLUMN; `None` when it is there and may be.
///
/// # Errors
/// A name that is taken, NOT NULL.
pub(crate) fn new_column(
    schema: &Schema,
    table: &str,
    added: &AddedColumn,
    if_not_exists: bool,
) -> Result<Option<NewColumn>, SqlError> {
    let new = NewColumn {
        parents: added.parents.clone(),
        field: field(&added.column),
        position: added.position.clone(),
        seed: Uuid::nil(),
    };
    let path = new.path();
    if let Some((first, _)) = schema.field_at(&path) {
        if if_not_exists {
            return Ok(None);
        }
        let (first, second) = (first.to_string(), path.to_string());
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
    Ok(Some(new))
}

/// # Errors
/// A column that is not there, with those that may have been meant.
pub(crate) fn check_column(
    schema: &Schema,
    table: &str,
    column: &ColumnPath,
) -> Result<(), SqlError> {
    if schema.field_at(column).is_some() {
        return Ok(());
    }
    let siblings = siblings(schema, column);
    Err(SqlError::UnknownColumn {
        name: column.to_string(),
        table: Some(table.to_owned()),
        near: near(column.leaf(), siblings.iter().map(String::as_str)),
    })
}

/// COMMENT ON a column or (`None`) the table.
///
/// # Errors
/// A column that is not there.
pub(crate) fn comment_change(
    schema: &Schema,
    table: &str,
    column: Option<&str>,
    text: Option<String>,
) -> Result<MetadataChange, SqlError> {
    let column = match column {
        None => None,
        Some(name) => match schema.field(name) {
            Some((_, field)) => Some(field.name.clone()),
            None => {
                return Err(SqlError::UnknownColumn {
                    name: name.to_owned(),
                    table: Some(table.to_owned()),
                    near: near(name, schema.fields.iter().map(|f| f.name.as_str())),
                });
            }
        },
    };
    Ok(MetadataChange::SetComment { column, text })
}

/// The names beside a column; of none where its parent is not there.
fn siblings(schema: &Schema, column: &ColumnPath) -> Vec<String> {
    let mut schema = schema.clone();
    let fields = schema.fields_at_mut(column.parents());
    let names = fields.map(|fields| fields.iter().map(|field| field.name.clone()).collect());
    names.unwrap_or_default()
}
