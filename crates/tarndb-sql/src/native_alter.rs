//! ALTER TABLE delta.`<url>` and COMMENT ON it.
//!
//! Invariant: one statement is one commit of the table's own log; rows are looked at before a
//! rule about them is made.
//! Spec: docs/sql/transactions.md, "Tables by path"; docs/format/native.md, "Changing a table".

use tarndb_delta::{NativeError, NativeTable, feature::readers_locked_out};
use tarndb_table::rules::constraint_key;
use tarndb_table::{MetadataChange, RuleChange, TableState};

use crate::alter::{check_column, comment_change, new_column};
use crate::ddl::{properties, property_key};
use crate::error::SqlError;
use crate::function::store_of;
use crate::native::failed;
use crate::parser::AlterAction;
use crate::primary_key;
use crate::query::Storage;
use crate::rule::{check_default, free_name};
use crate::types::check_no_length;

/// Runs an action on the table at `path`: what to tell about it.
///
/// # Cost
/// That of opening the table; reading its rows where a rule asks something of them; one PUT of
/// the commit and one of its checksum.
pub(crate) async fn alter(
    storage: &Storage,
    path: &str,
    if_exists: bool,
    action: &AlterAction,
) -> Result<Option<String>, SqlError> {
    let store = store_of(path, storage)?;
    let mut table = match NativeTable::open(&store).await {
        Ok(table) => table,
        Err(error) if if_exists && error.is_no_table() => {
            return Ok(Some(format!("table {path} does not exist")));
        }
        Err(error) => return Err(failed(path)(error)),
    };
    let state = |table: &NativeTable| -> Result<_, NativeError> { Ok(table.state()?.clone()) };
    let before = state(&table).map_err(failed(path))?;
    let changes = changes(&before, path, action)?;
    if changes.is_empty() {
        return Ok(None);
    }
    let changed = table.change_metadata(changes).await;
    changed.map_err(failed(path))?;
    let after = state(&table).map_err(failed(path))?;
    let told = readers_locked_out(Some(&before), &after);
    Ok(told.map(|text| format!("table {path}: {text}")))
}

/// What the action changes.
fn changes(
    state: &TableState,
    path: &str,
    action: &AlterAction,
) -> Result<Vec<MetadataChange>, SqlError> {
    if let Some(mut changes) = column_changes(state, path, action)? {
        changes.extend(primary_key::follow(state, action)?);
        return Ok(changes);
    }
    if let Some(changes) = primary_key::changes(state, path, action)? {
        return Ok(changes);
    }
    Ok(match action {
        AlterAction::AddFeature(name) => vec![MetadataChange::SetProperty {
            key: format!("delta.feature.{name}"),
            value: "supported".to_owned(),
        }],
        AlterAction::DropFeature(name) => vec![MetadataChange::DropFeature(name.clone())],
        AlterAction::ClusterBy(columns) => vec![MetadataChange::ClusterBy(columns.clone())],
        AlterAction::AddConstraint(constraint) => vec![rule(RuleChange::AddConstraint {
            name: match &constraint.name {
                Some(name) => name.clone(),
                None => free_name(&state.properties),
            },
            expression: constraint.expression.clone(),
        })],
        AlterAction::DropConstraint { name, if_exists } => {
            if *if_exists && constraint_key(&state.properties, name).is_none() {
                return Ok(Vec::new());
            }
            let name = name.clone();
            vec![rule(RuleChange::DropConstraint { name })]
        }
        AlterAction::SetDefault { column, expression } => {
            check_default(column)?;
            let column = column.leaf().to_owned();
            vec![rule(match expression.clone() {
                Some(expression) => RuleChange::SetDefault { column, expression },
                None => RuleChange::DropDefault { column },
            })]
        }
        AlterAction::SetOptions(options) => {
            let set = properties(options)?.into_iter();
            set.map(|(key, value)| MetadataChange::SetProperty { key, value })
                .collect()
        }
        AlterAction::UnsetOptions(keys) => {
            let unset = keys.iter().map(|key| {
                let key = property_key(key)?;
                Ok(MetadataChange::UnsetProperty { key })
            });
            unset.collect::<Result<_, SqlError>>()?
        }
        AlterAction::SetComment { column, text } => {
            let (column, text) = (column.as_deref(), text.clone());
            vec![comment_change(&state.schema, path, column, text)?]
        }
        _ => {
            return Err(SqlError::Unsupported {
                what: format!("renaming table {path}"),
                hint: Some("its name is its path: move the folder".to_owned()),
            });
        }
    })
}

/// What an action on columns changes; `None` when it is another one.
fn column_changes(
    state: &TableState,
    path: &str,
    action: &AlterAction,
) -> Result<Option<Vec<MetadataChange>>, SqlError> {
    let schema = &state.schema;
    Ok(Some(match action {
        AlterAction::AddColumns {
            columns,
            if_not_exists,
        } => {
            let new = columns
                .iter()
                .map(|column| new_column(schema, path, column, *if_not_exists));
            let new: Vec<_> = new.collect::<Result<_, SqlError>>()?;
            let new = new.into_iter().flatten();
            new.map(MetadataChange::AddColumn).collect()
        }
        AlterAction::RenameColumn { column, to } => {
            check_column(schema, path, column)?;
            let (column, to) = (column.clone(), to.clone());
            vec![MetadataChange::RenameColumn { column, to }]
        }
        AlterAction::DropColumns { columns, if_exists } => {
            let there = columns
                .iter()
                .filter(|column| !if_exists || schema.field_at(column).is_some());
            let drop = there.map(|column| {
                check_column(schema, path, column)?;
                let column = column.clone();
                Ok(MetadataChange::DropColumn { column })
            });
            drop.collect::<Result<_, SqlError>>()?
        }
        AlterAction::SetType { column, data_type } => {
            check_no_length(schema, column)?;
            let (column, to) = (column.clone(), data_type.clone());
            vec![MetadataChange::WidenColumn { column, to }]
        }
        AlterAction::SetNullable { column, nullable } => {
            check_column(schema, path, column)?;
            let (column, nullable) = (column.clone(), *nullable);
            vec![MetadataChange::SetNullable { column, nullable }]
        }
        _ => return Ok(None),
    }))
}

fn rule(change: RuleChange) -> MetadataChange {
    MetadataChange::Rule(change)
}
