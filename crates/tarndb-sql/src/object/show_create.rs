//! SHOW CREATE TABLE, SHOW CREATE VIEW and SHOW COLUMNS.
//!
//! Invariant: the statement that is shown makes a table of the same columns, rules,
//! partitioning, clustering, properties and comments; what the format keeps for itself (ids,
//! marks, features) is not said, because creating the table gives it anew.
//! Spec: docs/guide/sql.md, "Looking around".

use tarndb_table::rules::{CONSTRAINT_PREFIX, CURRENT_DEFAULT};
use tarndb_table::{DataType, Field, NamePath, Schema, TableState};

use crate::ddl::{COMMENT, storable};
use crate::error::SqlError;
use crate::outcome::Outcome;
use crate::parser::{TableName, is_reserved};
use crate::primary_key::key_of;
use crate::provider::reads::Reads;
use crate::query::Scope;
use crate::rule::rule_text;
use crate::show::text_rows;
use crate::types::{sql_name, sql_type};

use super::view::Nest;
use crate::name::Spelling;

/// Properties that a table gets by itself, by the beginning of their keys.
const OWN: &[&str] = &[
    CONSTRAINT_PREFIX,
    "tarndb.primaryKey",
    "delta.columnMapping.maxColumnId",
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablement",
    "delta.rowTracking.materialized",
];

/// Words that end the text of a default, or begin something else where a column stands.
const RULE_WORDS: &[&str] = &[
    "not",
    "null",
    "comment",
    "generated",
    "check",
    "constraint",
    "default",
    "primary",
    "unique",
    "foreign",
    "references",
    "first",
    "after",
    "like",
    "none",
    "if",
];

/// SHOW CREATE TABLE.
pub(super) async fn table(scope: &Scope<'_>, name: &TableName) -> Result<Outcome, SqlError> {
    let (id, pinned) = scope.pin(name).await?;
    let entry = scope.txn.entry(id)?;
    let name = qualified(&entry.schema, &entry.name);
    let text = create_table(&name, &pinned.state);
    text_rows(&["statement"], vec![vec![Some(text)]])
}

/// SHOW CREATE VIEW.
pub(super) fn view(scope: &Scope<'_>, name: &TableName) -> Result<Outcome, SqlError> {
    let view = &scope.find_view(name)?.definition;
    let mut text = format!("CREATE VIEW {}", qualified(&view.schema, &view.name));
    if view.columns.iter().any(|column| column.from.is_some()) {
        let names = view.columns.iter().map(|column| quoted(&column.name));
        text.push_str(&format!(" ({})", names.collect::<Vec<_>>().join(", ")));
    }
    if let Some(comment) = &view.comment {
        text.push_str(&format!("\nCOMMENT {}", literal(comment)));
    }
    text.push_str(&format!("\nAS {}", view.query));
    text_rows(&["statement"], vec![vec![Some(text)]])
}

/// The statement that makes a table like this.
fn create_table(name: &str, state: &TableState) -> String {
    let mut items: Vec<String> = state.schema.fields.iter().map(column).collect();
    for (key, expression) in &state.properties {
        if let Some(name) = key.strip_prefix(CONSTRAINT_PREFIX) {
            items.push(format!("CONSTRAINT {} CHECK ({expression})", quoted(name)));
        }
    }
    // What is no key of the table is told nowhere.
    if let Ok(Some(key)) = key_of(state) {
        let columns = key.columns.iter().map(|column| quoted(column));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let name = key
            .name
            .map(|name| format!("CONSTRAINT {} ", quoted(&name)));
        let name = name.unwrap_or_default();
        items.push(format!("{name}PRIMARY KEY ({columns}) NOT ENFORCED"));
    }
    let mut text = format!("CREATE TABLE {name} (\n  {}\n)", items.join(",\n  "));
    if !state.partition_columns.is_empty() {
        let columns = state.partition_columns.iter().map(|name| quoted(name));
        let columns = columns.collect::<Vec<_>>().join(", ");
        text.push_str(&format!("\nPARTITIONED BY ({columns})"));
    }
    let clustered: Vec<String> = state
        .clustering_columns
        .iter()
        .filter_map(|stored| shown_path(&state.schema, stored))
        .collect();
    if !clustered.is_empty() {
        text.push_str(&format!("\nCLUSTER BY ({})", clustered.join(", ")));
    }
    if let Some(comment) = &state.description {
        text.push_str(&format!("\nCOMMENT {}", literal(comment)));
    }
    let kept = state.properties.iter().filter(|(key, _)| {
        // A key without a dot is no option of CREATE TABLE; another engine set it.
        key.contains('.') && !OWN.iter().any(|own| key.starts_with(own))
    });
    let properties = kept.map(|(key, value)| format!("{} = {}", literal(key), literal(value)));
    let properties = properties.collect::<Vec<_>>();
    if !properties.is_empty() {
        text.push_str(&format!("\nTBLPROPERTIES ({})", properties.join(", ")));
    }
    text
}

fn column(field: &Field) -> String {
    let type_name = match &field.data_type {
        DataType::String => sql_type(field),
        other => type_text(other),
    };
    let mut text = format!("{} {type_name}", quoted(&field.name));
    if !field.nullable {
        text.push_str(" NOT NULL");
    }
    let default = field.metadata.get(CURRENT_DEFAULT);
    match default.and_then(|text| text.as_str()) {
        Some(default) if needs_brackets(default) => {
            text.push_str(&format!(" DEFAULT ({default})"));
        }
        _ => {
            if let Some(rule) = rule_text(field) {
                text.push_str(&format!(" {rule}"));
            }
        }
    }
    if let Some(comment) = field.metadata.get(COMMENT).and_then(|text| text.as_str()) {
        text.push_str(&format!(" COMMENT {}", literal(comment)));
    }
    text
}

/// Whether the text of a default would end before its end.
fn needs_brackets(default: &str) -> bool {
    if default.starts_with('(') && default.ends_with(')') {
        return false;
    }
    // The words of a text end nothing.
    let inside = default
        .strip_prefix('\'')
        .and_then(|text| text.strip_suffix('\''));
    if inside.is_some_and(|text| !text.replace("''", "").contains('\'')) {
        return false;
    }
    let words = default.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut words = words.skip(1);
    words.any(|word| RULE_WORDS.contains(&word.to_lowercase().as_str()))
}

/// The type with the comments of fields in it.
fn type_text(data_type: &DataType) -> String {
    match data_type {
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| {
                let mut text = format!("{} {}", quoted(&field.name), type_text(&field.data_type));
                if !field.nullable {
                    text.push_str(" NOT NULL");
                }
                let comment = field.metadata.get(COMMENT).and_then(|text| text.as_str());
                if let Some(comment) = comment {
                    text.push_str(&format!(" COMMENT {}", literal(comment)));
                }
                text
            });
            format!("STRUCT<{}>", fields.collect::<Vec<_>>().join(", "))
        }
        DataType::Array { element, .. } => format!("ARRAY<{}>", type_text(element)),
        DataType::Map { key, value, .. } => {
            format!("MAP<{}, {}>", type_text(key), type_text(value))
        }
        other => sql_name(other),
    }
}

/// A column by the names that its table shows, from the names in its files.
fn shown_path(schema: &Schema, stored: &NamePath) -> Option<String> {
    let mut fields = schema.fields.as_slice();
    let mut names = Vec::new();
    for part in stored {
        let field = fields.iter().find(|field| field.stored_name() == part)?;
        names.push(quoted(&field.name));
        fields = match &field.data_type {
            DataType::Struct(inner) => inner.as_slice(),
            _ => &[],
        };
    }
    Some(names.join("."))
}

/// SHOW COLUMNS: of a table or a view.
pub(crate) async fn columns(scope: &Scope<'_>, name: &TableName) -> Result<Outcome, SqlError> {
    let columns = columns_of(scope, name).await?;
    let rows = columns.into_iter().map(|column| {
        let nullable = if column.nullable { "YES" } else { "NO" };
        vec![
            Some(column.name),
            Some(column.type_name),
            Some(nullable.to_owned()),
        ]
    });
    text_rows(&["column", "type", "nullable"], rows.collect())
}

/// A column as it is shown.
pub(crate) struct ShownColumn {
    pub(crate) name: String,
    pub(crate) type_name: String,
    pub(crate) nullable: bool,
}

/// The columns of a table or a view.
pub(crate) async fn columns_of(
    scope: &Scope<'_>,
    name: &TableName,
) -> Result<Vec<ShownColumn>, SqlError> {
    if scope.view_instead(name).is_some() {
        return view_columns(scope, name).await;
    }
    let (_, pinned) = scope.pin(name).await?;
    let fields = pinned.state.schema.fields.iter();
    let shown = fields.map(|field| ShownColumn {
        name: field.name.clone(),
        type_name: sql_type(field),
        nullable: field.nullable,
    });
    Ok(shown.collect())
}

async fn view_columns(scope: &Scope<'_>, name: &TableName) -> Result<Vec<ShownColumn>, SqlError> {
    let view = scope.find_view(name)?;
    let (mut spelling, mut reads) = (Spelling::default(), Reads::default());
    let mut nest = Nest::default();
    let expanded = scope
        .expand(view, &mut spelling, &mut reads, &mut nest)
        .await?;
    let fields = expanded.logical_plan().schema().fields();
    let columns = view.definition.columns.iter().zip(fields);
    let shown = columns.map(|(column, field)| ShownColumn {
        name: column.name.clone(),
        type_name: engine_type_name(field),
        nullable: field.is_nullable(),
    });
    Ok(shown.collect())
}

/// The SQL name of a type of the engine; its own where tables have none like it.
pub(crate) fn engine_type_name(field: &arrow_schema::Field) -> String {
    let schema = arrow_schema::Schema::new(vec![field.clone()]);
    let stored = Schema::from_arrow(&storable(&schema));
    match stored.as_ref().map(|schema| schema.fields.as_slice()) {
        Ok([field]) => sql_name(&field.data_type),
        _ => field.data_type().to_string().to_uppercase(),
    }
}

fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quoted(schema), quoted(name))
}

/// A name as a statement says it, in quotes where it needs them.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let word = name.to_lowercase();
    if plain && !is_reserved(&word) && !RULE_WORDS.contains(&word.as_str()) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a statement says it.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
