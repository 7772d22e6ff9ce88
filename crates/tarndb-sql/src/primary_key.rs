//! `PRIMARY KEY (..) NOT ENFORCED`: which columns tell the rows of a table apart.
//!
//! Invariant: the key is a promise of the user, kept as a property of the table; no statement
//! checks that it holds, and none relies on it for its result. Its columns are there, are
//! NOT NULL and have values that can be compared.
//! Does not: find doubled keys; INSERT .. ON CONFLICT keeps them out.
//! Spec: docs/sql/insert.md, "Primary keys".

use serde_json::{Value, json};
use tarndb_table::{ColumnPath, KeyColumns, MetadataChange, Schema, TableState};

use crate::dml::Change;
use crate::error::SqlError;
use crate::name::same;
use crate::parser::{AlterAction, PrimaryKey};
use tarndb_types::TableId;

/// The property: `{"columns": [..], "name": ".."}`.
const PROPERTY: &str = "tarndb.primaryKey";

/// The columns of a table's primary key, as the table spells them.
///
/// # Errors
/// A property that is no key of the table.
pub(crate) fn primary_key(state: &TableState) -> Result<Option<Vec<String>>, SqlError> {
    Ok(key_of(state)?.map(|key| key.columns))
}

/// The primary key of a table.
///
/// # Errors
/// A property that is no key of the table.
pub(crate) fn key_of(state: &TableState) -> Result<Option<PrimaryKey>, SqlError> {
    let Some(text) = state.properties.get(PROPERTY) else {
        return Ok(None);
    };
    let wrong = || SqlError::TableOption {
        name: PROPERTY.to_owned(),
        reason: format!("holds no key of the table: {text}"),
    };
    let value: Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let columns = value.get("columns").and_then(Value::as_array);
    let columns = columns.ok_or_else(wrong)?.iter().map(|column| {
        let (_, field) = state.schema.field(column.as_str()?)?;
        Some(field.name.clone())
    });
    let columns = columns.collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
    if columns.is_empty() {
        return Err(wrong());
    }
    let name = value.get("name").and_then(Value::as_str);
    Ok(Some(PrimaryKey {
        name: name.map(str::to_owned),
        columns,
    }))
}

/// The name of a key, of a table of that name.
pub(crate) fn key_name(key: &PrimaryKey, table: &str) -> String {
    match &key.name {
        Some(name) => name.clone(),
        None => format!("{table}_pkey"),
    }
}

/// The property of a new table, whose columns of the key become NOT NULL.
///
/// # Errors
/// Columns that are not there, named twice, or of a type without an order.
pub(crate) fn property_of_new(
    schema: &mut Schema,
    table: &str,
    key: &PrimaryKey,
) -> Result<(String, String), SqlError> {
    let columns = checked(schema, table, key)?;
    for field in &mut schema.fields {
        if columns.contains(&field.name) {
            field.nullable = false;
        }
    }
    Ok((PROPERTY.to_owned(), stored(key.name.as_deref(), &columns)))
}

/// What an ALTER TABLE changes of the key; `None` when it is about something else, an empty list
/// when there is nothing to do.
///
/// # Errors
/// A second key, columns that may be NULL, a key that is not there.
pub(crate) fn changes(
    state: &TableState,
    table: &str,
    action: &AlterAction,
) -> Result<Option<Vec<MetadataChange>>, SqlError> {
    match action {
        AlterAction::AddPrimaryKey(key) => add(state, table, key).map(|change| Some(vec![change])),
        AlterAction::DropPrimaryKey { if_exists } => {
            let known = state.properties.contains_key(PROPERTY);
            if !known && !if_exists {
                return Err(SqlError::TableOption {
                    name: "primary key".to_owned(),
                    reason: format!("{table} has none"),
                });
            }
            Ok(Some(known.then(unset).into_iter().collect()))
        }
        AlterAction::DropConstraint { name, .. } => {
            let own = table.rsplit('.').next().unwrap_or(table);
            let key = key_of(state).ok().flatten();
            let is_it = key.is_some_and(|key| same(&key_name(&key, own), name));
            Ok(is_it.then(|| vec![unset()]))
        }
        _ => Ok(None),
    }
}

/// What happens to the key with an action on columns.
///
/// # Errors
/// A column of the key that is dropped or may become NULL.
pub(crate) fn follow(
    state: &TableState,
    action: &AlterAction,
) -> Result<Option<MetadataChange>, SqlError> {
    let Ok(Some(key)) = key_of(state) else {
        // A property that is no key binds nobody.
        return Ok(None);
    };
    let of_key = |path: &ColumnPath| {
        let column = key.columns.iter().find(|name| same(name, path.leaf()));
        column.filter(|_| path.parents().is_empty())
    };
    let refuse = |column: &str| SqlError::Engine {
        message: format!("column {column} is of the primary key"),
        sqlstate: "2BP01",
        kind: tarndb_db::ErrorKind::Invalid,
        hint: Some("ALTER TABLE .. DROP PRIMARY KEY first".to_owned()),
    };
    match action {
        AlterAction::RenameColumn { column, to } => {
            let Some(old) = of_key(column) else {
                return Ok(None);
            };
            let columns = key.columns.iter();
            let columns = columns.map(|name| if name == old { to } else { name }.clone());
            let columns = columns.collect::<Vec<_>>();
            Ok(Some(MetadataChange::SetProperty {
                key: PROPERTY.to_owned(),
                value: stored(key.name.as_deref(), &columns),
            }))
        }
        AlterAction::DropColumns { columns, .. } => match columns.iter().find_map(of_key) {
            Some(column) => Err(refuse(column)),
            None => Ok(None),
        },
        AlterAction::SetNullable {
            column,
            nullable: true,
        } => match of_key(column) {
            Some(column) => Err(refuse(column)),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

impl Change<'_> {
    /// ADD and DROP PRIMARY KEY; false when it is another action.
    pub(crate) async fn alter_primary_key(
        &mut self,
        id: TableId,
        action: &AlterAction,
    ) -> Result<bool, SqlError> {
        let state = self.txn.table(id).await?;
        let table = self.txn.entry(id)?.display_name();
        let Some(changes) = changes(&state, &table, action)? else {
            return Ok(false);
        };
        for change in changes {
            self.txn.change_metadata(id, change).await?;
        }
        Ok(true)
    }
}

fn add(state: &TableState, table: &str, key: &PrimaryKey) -> Result<MetadataChange, SqlError> {
    if state.properties.contains_key(PROPERTY) {
        return Err(SqlError::Engine {
            message: format!("{table} has a primary key already"),
            sqlstate: "42P16",
            kind: tarndb_db::ErrorKind::Invalid,
            hint: Some("ALTER TABLE .. DROP PRIMARY KEY first".to_owned()),
        });
    }
    let columns = checked(&state.schema, table, key)?;
    let nullable = |name: &&String| {
        let field = state.schema.field(name);
        field.is_some_and(|(_, field)| field.nullable)
    };
    if let Some(column) = columns.iter().find(nullable) {
        return Err(SqlError::Engine {
            message: format!("column {column} of the primary key may be NULL"),
            sqlstate: "42P16",
            kind: tarndb_db::ErrorKind::Invalid,
            hint: Some(format!(
                "ALTER TABLE .. ALTER COLUMN {column} SET NOT NULL first"
            )),
        });
    }
    Ok(MetadataChange::SetProperty {
        key: PROPERTY.to_owned(),
        value: stored(key.name.as_deref(), &columns),
    })
}

fn checked(schema: &Schema, table: &str, key: &PrimaryKey) -> Result<Vec<String>, SqlError> {
    let on = key.columns.iter().map(String::as_str).collect::<Vec<_>>();
    let columns = KeyColumns::new(schema, &on).map_err(SqlError::table(table))?;
    Ok(columns.names())
}

fn stored(name: Option<&str>, columns: &[String]) -> String {
    match name {
        Some(name) => json!({ "columns": columns, "name": name }).to_string(),
        None => json!({ "columns": columns }).to_string(),
    }
}

fn unset() -> MetadataChange {
    MetadataChange::UnsetProperty {
        key: PROPERTY.to_owned(),
    }
}
