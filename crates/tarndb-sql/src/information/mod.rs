//! `information_schema`: what is there, in the words of the standard.
//!
//! Invariant: every object that a statement could name is in it, also a view that does not work
//! any more (it has no columns then). `data_type` is a name that CREATE TABLE takes with the
//! same meaning, `udt_name` the one that PostgreSQL has for it.
//! Does not: describe `information_schema` itself, but for its names in `tables`; settings and
//! functions are the engine's own tables.
//! Spec: SQL/Schemata; docs/guide/sql.md, "Looking around".

mod columns;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::Result;
use tarndb_table::TableState;
use tarndb_table::rules::CONSTRAINT_PREFIX;

use crate::catalog::{INFORMATION_SCHEMA, View};
use crate::engine::CATALOG;
use crate::primary_key::{key_name, key_of};

/// Tables of the engine that speak of no table.
const ENGINES: &[&str] = &["df_settings", "parameters", "routines"];

/// Our own tables.
const OURS: &[&str] = &[
    "check_constraints",
    "columns",
    "key_column_usage",
    "schemata",
    "table_constraints",
    "tables",
    "views",
];

/// The schema.
#[derive(Debug)]
pub(crate) struct Information {
    view: Arc<View>,
    engine: InformationSchemaProvider,
}

impl Information {
    /// Describes `view`, all of whose tables are loaded.
    pub(crate) fn new(view: Arc<View>, engine: InformationSchemaProvider) -> Self {
        Self { view, engine }
    }
}

#[async_trait]
impl SchemaProvider for Information {
    fn table_names(&self) -> Vec<String> {
        let names = OURS.iter().chain(ENGINES);
        names.map(|name| (*name).to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let view = &self.view;
        let table = match name {
            "check_constraints" => check_constraints(view),
            "columns" => columns::columns(view),
            "key_column_usage" => key_column_usage(view),
            "schemata" => schemata(view),
            "table_constraints" => table_constraints(view),
            "tables" => tables(view),
            "views" => views(view),
            _ if ENGINES.contains(&name) => return self.engine.table(name).await,
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(table?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        OURS.contains(&name) || ENGINES.contains(&name)
    }
}

/// A table of text columns and the numbers behind them.
fn table(columns: Vec<(&str, ArrayRef)>) -> Result<MemTable> {
    let fields = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    MemTable::try_new(schema, vec![vec![batch]])
}

fn text<T>(rows: &[T], of: impl Fn(&T) -> Option<String>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<StringArray>())
}

fn same<T>(rows: &[T], value: &str) -> ArrayRef {
    Arc::new(rows.iter().map(|_| Some(value)).collect::<StringArray>())
}

fn number<T>(rows: &[T], of: impl Fn(&T) -> Option<i32>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<Int32Array>())
}

/// `[schema, name, type]`.
fn tables(view: &View) -> Result<MemTable> {
    let mut rows: Vec<(String, String, &str)> = Vec::new();
    for schema in view.schemas.values() {
        let tables = schema
            .tables
            .values()
            .map(|table| (&table.name, "BASE TABLE"));
        let views = schema.views.values();
        let views = views.map(|view| (&view.entry.definition.name, "VIEW"));
        let both = tables.chain(views);
        rows.extend(both.map(|(name, kind)| (schema.name.clone(), name.clone(), kind)));
    }
    for name in OURS.iter().chain(ENGINES) {
        rows.push((INFORMATION_SCHEMA.to_owned(), (*name).to_owned(), "VIEW"));
    }
    rows.sort();
    table(vec![
        ("table_catalog", same(&rows, CATALOG)),
        ("table_schema", text(&rows, |row| Some(row.0.clone()))),
        ("table_name", text(&rows, |row| Some(row.1.clone()))),
        ("table_type", text(&rows, |row| Some(row.2.to_owned()))),
        (
            "is_insertable_into",
            text(&rows, |row| Some(yes_no(row.2 == "BASE TABLE"))),
        ),
    ])
}

fn views(view: &View) -> Result<MemTable> {
    let views = view
        .schemas
        .values()
        .flat_map(|schema| schema.views.values());
    let rows: Vec<_> = views.map(|view| &view.entry.definition).collect();
    table(vec![
        ("table_catalog", same(&rows, CATALOG)),
        (
            "table_schema",
            text(&rows, |view| Some(view.schema.clone())),
        ),
        ("table_name", text(&rows, |view| Some(view.name.clone()))),
        (
            "view_definition",
            text(&rows, |view| Some(view.query.clone())),
        ),
        ("check_option", same(&rows, "NONE")),
        ("is_updatable", same(&rows, "NO")),
        ("is_insertable_into", same(&rows, "NO")),
    ])
}

fn schemata(view: &View) -> Result<MemTable> {
    let names = view.schemas.values().map(|schema| schema.name.as_str());
    let rows: Vec<&str> = names.chain([INFORMATION_SCHEMA]).collect();
    table(vec![
        ("catalog_name", same(&rows, CATALOG)),
        ("schema_name", text(&rows, |name| Some((*name).to_owned()))),
        ("schema_owner", text(&rows, |_| None)),
        ("default_character_set_catalog", text(&rows, |_| None)),
        ("default_character_set_schema", text(&rows, |_| None)),
        ("default_character_set_name", text(&rows, |_| None)),
        ("sql_path", text(&rows, |_| None)),
    ])
}

/// A constraint of a table.
struct Constraint {
    schema: String,
    table: String,
    name: String,
    rule: Rule,
}

enum Rule {
    Check(String),
    /// Columns, in order.
    Key(Vec<String>),
}

fn constraints(view: &View) -> Vec<Constraint> {
    let mut found = Vec::new();
    for schema in view.schemas.values() {
        for table in schema.tables.values() {
            let Some(provider) = &table.provider else {
                continue;
            };
            let rules = rules(&table.name, &provider.pinned().state);
            found.extend(rules.into_iter().map(|(name, rule)| Constraint {
                schema: schema.name.clone(),
                table: table.name.clone(),
                name,
                rule,
            }));
        }
    }
    found
}

fn rules(table: &str, state: &TableState) -> Vec<(String, Rule)> {
    let checks = state.properties.iter().filter_map(|(key, expression)| {
        let name = key.strip_prefix(CONSTRAINT_PREFIX)?;
        Some((name.to_owned(), Rule::Check(expression.clone())))
    });
    let key = key_of(state).ok().flatten();
    let key = key.map(|key| (key_name(&key, table), Rule::Key(key.columns)));
    checks.chain(key).collect()
}

fn table_constraints(view: &View) -> Result<MemTable> {
    let rows = constraints(view);
    let schema = |row: &Constraint| Some(row.schema.clone());
    let kind = |row: &Constraint| match row.rule {
        Rule::Check(_) => ("CHECK", true),
        Rule::Key(_) => ("PRIMARY KEY", false),
    };
    table(vec![
        ("constraint_catalog", same(&rows, CATALOG)),
        ("constraint_schema", text(&rows, schema)),
        ("constraint_name", text(&rows, |row| Some(row.name.clone()))),
        ("table_catalog", same(&rows, CATALOG)),
        ("table_schema", text(&rows, schema)),
        ("table_name", text(&rows, |row| Some(row.table.clone()))),
        (
            "constraint_type",
            text(&rows, |row| Some(kind(row).0.to_owned())),
        ),
        ("is_deferrable", same(&rows, "NO")),
        ("initially_deferred", same(&rows, "NO")),
        ("enforced", text(&rows, |row| Some(yes_no(kind(row).1)))),
    ])
}

fn check_constraints(view: &View) -> Result<MemTable> {
    let found = constraints(view).into_iter();
    let rows: Vec<_> = found
        .filter_map(|row| match row.rule {
            Rule::Check(clause) => Some((row.schema, row.name, clause)),
            Rule::Key(_) => None,
        })
        .collect();
    table(vec![
        ("constraint_catalog", same(&rows, CATALOG)),
        ("constraint_schema", text(&rows, |row| Some(row.0.clone()))),
        ("constraint_name", text(&rows, |row| Some(row.1.clone()))),
        ("check_clause", text(&rows, |row| Some(row.2.clone()))),
    ])
}

fn key_column_usage(view: &View) -> Result<MemTable> {
    let mut rows = Vec::new();
    for row in constraints(view) {
        if let Rule::Key(columns) = row.rule {
            for (position, column) in (1..).zip(columns) {
                let (schema, table) = (row.schema.clone(), row.table.clone());
                rows.push((schema, row.name.clone(), table, column, position));
            }
        }
    }
    table(vec![
        ("constraint_catalog", same(&rows, CATALOG)),
        ("constraint_schema", text(&rows, |row| Some(row.0.clone()))),
        ("constraint_name", text(&rows, |row| Some(row.1.clone()))),
        ("table_catalog", same(&rows, CATALOG)),
        ("table_schema", text(&rows, |row| Some(row.0.clone()))),
        ("table_name", text(&rows, |row| Some(row.2.clone()))),
        ("column_name", text(&rows, |row| Some(row.3.clone()))),
        ("ordinal_position", number(&rows, |row| Some(row.4))),
        ("position_in_unique_constraint", number(&rows, |_| None)),
    ])
}

fn yes_no(yes: bool) -> String {
    if yes { "YES" } else { "NO" }.to_owned()
}
