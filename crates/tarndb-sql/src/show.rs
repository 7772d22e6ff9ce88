//! SHOW and DESCRIBE.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema};
use tarndb_db::TableHistoryEntry;

use tarndb_table::rules::CONSTRAINT_PREFIX;

use crate::ddl::COMMENT;
use crate::error::{SqlError, translate::translate};
use crate::function::travel;
use crate::name::{Spelling, near, same};
use crate::object::show_create;
use crate::outcome::Outcome;
use crate::parser::TableName;
use crate::primary_key::{key_name, key_of};
use crate::query::Scope;
use crate::rule::rule_text;
use crate::types::sql_type;

/// A result of text columns.
pub(crate) fn text_rows(
    columns: &[&str],
    rows: Vec<Vec<Option<String>>>,
) -> Result<Outcome, SqlError> {
    let fields = columns
        .iter()
        .map(|name| Field::new(*name, DataType::Utf8, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = (0..columns.len()).map(|index| {
        let values = rows
            .iter()
            .map(|row| row.get(index).and_then(Option::as_deref));
        Arc::new(values.collect::<StringArray>()) as ArrayRef
    });
    RecordBatch::try_new(schema, arrays.collect())
        .map(Outcome::of_batch)
        .map_err(|error| translate(error.into(), &Spelling::default()))
}

/// SHOW TABLES.
pub(crate) fn tables(scope: &Scope<'_>, schema: Option<&str>) -> Result<Outcome, SqlError> {
    let catalog = scope.txn.catalog();
    if let Some(name) = schema
        && catalog.schema(name).is_none()
    {
        let near = near(name, catalog.schemas().map(|s| s.name.as_str()));
        return Err(SqlError::UnknownSchema {
            name: name.to_owned(),
            near,
        });
    }
    let mut rows = catalog
        .tables()
        .filter(|table| schema.is_none_or(|name| same(name, &table.schema)))
        .map(|table| vec![Some(table.schema.clone()), Some(table.name.clone())])
        .collect::<Vec<_>>();
    rows.sort();
    text_rows(&["schema", "name"], rows)
}

/// SHOW SCHEMAS.
pub(crate) fn schemas(scope: &Scope<'_>) -> Result<Outcome, SqlError> {
    let mut rows = scope
        .txn
        .catalog()
        .schemas()
        .map(|s| vec![Some(s.name.clone())])
        .collect::<Vec<_>>();
    rows.sort();
    text_rows(&["name"], rows)
}

/// DESCRIBE.
pub(crate) async fn describe(scope: &Scope<'_>, name: &TableName) -> Result<Outcome, SqlError> {
    if scope.view_instead(name).is_some() {
        return show_create::columns(scope, name).await;
    }
    let (id, pinned) = scope.pin(name).await?;
    let state = &pinned.state;
    let yes_no = |yes: bool| Some(if yes { "YES" } else { "NO" }.to_owned());
    let rows = state.schema.fields.iter().map(|field| {
        vec![
            Some(field.name.clone()),
            Some(sql_type(field)),
            yes_no(field.nullable),
            yes_no(state.is_partition_column(&field.name)),
            field
                .metadata
                .get(COMMENT)
                .and_then(|text| text.as_str())
                .map(str::to_owned),
            rule_text(field),
        ]
    });
    let mut rows: Vec<_> = rows.collect();
    for (key, expression) in &state.properties {
        if let Some(name) = key.strip_prefix(CONSTRAINT_PREFIX) {
            let check = Some(format!("CHECK ({expression})"));
            rows.push(vec![
                Some(format!("constraint {name}")),
                None,
                None,
                None,
                None,
                check,
            ]);
        }
    }
    if let Some(key) = key_of(state)? {
        let text = format!("PRIMARY KEY ({}) NOT ENFORCED", key.columns.join(", "));
        let own = scope.txn.entry(id)?.name.clone();
        let name = format!("constraint {}", key_name(&key, &own));
        rows.push(vec![Some(name), None, None, None, None, Some(text)]);
    }
    let mut columns = vec!["column", "type", "nullable", "partition", "comment", "rule"];
    if rows
        .iter()
        .all(|row| row.last().is_none_or(Option::is_none))
    {
        columns.pop();
        for row in &mut rows {
            row.pop();
        }
    }
    text_rows(&columns, rows)
}

/// DESCRIBE HISTORY: newest version first.
pub(crate) async fn history(
    scope: &Scope<'_>,
    name: &TableName,
    limit: Option<u64>,
) -> Result<Outcome, SqlError> {
    let (id, snapshot) = travel::find(scope, name)?;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let entries = snapshot.table_history(id, limit).await?;
    let number = |value: u64| i64::try_from(value).ok();
    let numbers = |of: &dyn Fn(&TableHistoryEntry) -> Option<i64>| {
        Arc::new(entries.iter().map(of).collect::<Int64Array>()) as ArrayRef
    };
    let texts = |of: &dyn Fn(&TableHistoryEntry) -> Option<String>| {
        Arc::new(entries.iter().map(of).collect::<StringArray>()) as ArrayRef
    };
    let times = entries.iter();
    let times = times.map(|entry| entry.timestamp.0.checked_mul(1000));
    let times = times.collect::<TimestampMicrosecondArray>();
    let columns = [
        ("version", numbers(&|entry| number(entry.version.0))),
        (
            "timestamp",
            Arc::new(times.with_timezone("UTC")) as ArrayRef,
        ),
        ("operation", texts(&|entry| entry.operation.clone())),
        (
            "parameters",
            texts(&|entry| Some(object(&entry.parameters))),
        ),
        ("metrics", texts(&|entry| Some(object(&entry.metrics)))),
        (
            "database_version",
            numbers(&|entry| entry.db_version.and_then(|version| number(version.0))),
        ),
        ("transaction", texts(&|entry| entry.txn.clone())),
        ("engine", texts(&|entry| entry.engine.clone())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .map(Outcome::of_batch)
        .map_err(|error| translate(error.into(), &Spelling::default()))
}

/// As a JSON object.
fn object(map: &BTreeMap<String, String>) -> String {
    let fields = map.iter();
    let fields = fields.map(|(key, value)| (key.clone(), value.clone().into()));
    serde_json::Value::Object(fields.collect()).to_string()
}
