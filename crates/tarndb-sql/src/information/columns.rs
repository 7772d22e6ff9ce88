//! `information_schema.columns`: the columns of all tables and views.
//!
//! Invariant: `ordinal_position` counts from 1. What a view computes in a type that tables do
//! not have is named as the engine names it, and tells nothing of its precision.
//! Spec: SQL/Schemata, COLUMNS view.

use arrow_schema::Field as EngineField;
use datafusion::catalog::MemTable;
use datafusion::common::Result;
use tarndb_table::rules::{CURRENT_DEFAULT, GENERATION_EXPRESSION, Identity};
use tarndb_table::{DataType, Field, Schema};

use super::{number, same, table, text, yes_no};
use crate::catalog::{NamedView, View, ViewTable};
use crate::ddl::storable;
use crate::engine::CATALOG;
use crate::types::{sql_name, sql_type};

/// One row.
struct Column {
    schema: String,
    table: String,
    name: String,
    position: i32,
    nullable: bool,
    /// The type, or the engine's name of one that tables do not have.
    data_type: std::result::Result<DataType, String>,
    /// The type as declared, with the length of a text.
    declared: Option<String>,
    default: Option<String>,
    generation: Option<String>,
    identity: Option<Identity>,
    is_view: bool,
}

pub(super) fn columns(view: &View) -> Result<MemTable> {
    let mut rows = Vec::new();
    for schema in view.schemas.values() {
        for found in schema.tables.values() {
            rows.extend(of_table(&schema.name, found));
        }
        for found in schema.views.values() {
            rows.extend(of_view(&schema.name, found));
        }
    }
    let typed = |of: fn(&DataType) -> Option<i32>| {
        number(&rows, |row| row.data_type.as_ref().ok().and_then(of))
    };
    let identity =
        |of: fn(&Identity) -> String| text(&rows, |row: &Column| row.identity.as_ref().map(of));
    table(vec![
        ("table_catalog", same(&rows, CATALOG)),
        ("table_schema", text(&rows, |row| Some(row.schema.clone()))),
        ("table_name", text(&rows, |row| Some(row.table.clone()))),
        ("column_name", text(&rows, |row| Some(row.name.clone()))),
        ("ordinal_position", number(&rows, |row| Some(row.position))),
        ("column_default", text(&rows, |row| row.default.clone())),
        ("is_nullable", text(&rows, |row| Some(yes_no(row.nullable)))),
        (
            "data_type",
            text(&rows, |row| {
                Some(match (&row.declared, &row.data_type) {
                    (Some(declared), _) | (None, Err(declared)) => declared.clone(),
                    (None, Ok(data_type)) => sql_name(data_type),
                })
            }),
        ),
        ("character_maximum_length", number(&rows, |_| None)),
        ("numeric_precision", typed(precision)),
        ("numeric_precision_radix", typed(radix)),
        ("numeric_scale", typed(scale)),
        ("datetime_precision", typed(microseconds)),
        (
            "udt_name",
            text(&rows, |row| row.data_type.as_ref().ok().map(postgres_name)),
        ),
        (
            "is_identity",
            text(&rows, |row| Some(yes_no(row.identity.is_some()))),
        ),
        (
            "identity_generation",
            identity(|identity| {
                if identity.explicit {
                    "BY DEFAULT"
                } else {
                    "ALWAYS"
                }
                .to_owned()
            }),
        ),
        (
            "identity_start",
            identity(|identity| identity.start.to_string()),
        ),
        (
            "identity_increment",
            identity(|identity| identity.step.to_string()),
        ),
        (
            "is_generated",
            text(&rows, |row| {
                let word = if row.generation.is_some() {
                    "ALWAYS"
                } else {
                    "NEVER"
                };
                Some(word.to_owned())
            }),
        ),
        (
            "generation_expression",
            text(&rows, |row| row.generation.clone()),
        ),
        (
            "is_updatable",
            text(&rows, |row| Some(yes_no(!row.is_view))),
        ),
    ])
}

fn of_table(schema: &str, found: &ViewTable) -> Vec<Column> {
    let Some(provider) = &found.provider else {
        return Vec::new();
    };
    let fields = provider.pinned().state.schema.fields.iter();
    let columns = (1..).zip(fields).map(|(position, field)| {
        let told = |key: &str| {
            let text = field.metadata.get(key).and_then(|text| text.as_str());
            text.map(str::to_owned)
        };
        Column {
            schema: schema.to_owned(),
            table: found.name.clone(),
            name: field.name.clone(),
            position,
            nullable: field.nullable,
            data_type: Ok(field.data_type.clone()),
            declared: Some(sql_type(field)),
            default: told(CURRENT_DEFAULT),
            generation: told(GENERATION_EXPRESSION),
            identity: Identity::of(field).ok().flatten(),
            is_view: false,
        }
    });
    columns.collect()
}

fn of_view(schema: &str, found: &NamedView) -> Vec<Column> {
    let Some(expanded) = &found.expanded else {
        return Vec::new();
    };
    let definition = &found.entry.definition;
    let fields = expanded.logical_plan().schema().fields();
    let columns = definition.columns.iter().zip(fields);
    let columns = (1..)
        .zip(columns)
        .map(|(position, (column, field))| Column {
            schema: schema.to_owned(),
            table: definition.name.clone(),
            name: column.name.clone(),
            position,
            nullable: field.is_nullable(),
            data_type: stored_type(field),
            declared: None,
            default: None,
            generation: None,
            identity: None,
            is_view: true,
        });
    columns.collect()
}

/// The type that a table would have for a column of the engine.
fn stored_type(field: &EngineField) -> std::result::Result<DataType, String> {
    let schema = arrow_schema::Schema::new(vec![field.clone()]);
    let stored = Schema::from_arrow(&storable(&schema));
    let only: Option<Field> = stored
        .ok()
        .and_then(|schema| schema.fields.into_iter().next());
    only.map(|field| field.data_type)
        .ok_or_else(|| field.data_type().to_string().to_uppercase())
}

/// The name of the type that PostgreSQL would have.
fn postgres_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "bool",
        DataType::Byte | DataType::Short => "int2",
        DataType::Integer => "int4",
        DataType::Long => "int8",
        DataType::Float => "float4",
        DataType::Double => "float8",
        DataType::Decimal { .. } => "numeric",
        DataType::String => "text",
        DataType::Binary => "bytea",
        DataType::Date => "date",
        DataType::Timestamp => "timestamptz",
        DataType::TimestampNtz => "timestamp",
        DataType::Array { element, .. } => return format!("_{}", postgres_name(element)),
        DataType::Struct(_) => "record",
        _ => "jsonb",
    }
    .to_owned()
}

fn precision(data_type: &DataType) -> Option<i32> {
    Some(match data_type {
        DataType::Byte => 8,
        DataType::Short => 16,
        DataType::Integer => 32,
        DataType::Long => 64,
        DataType::Float => 24,
        DataType::Double => 53,
        DataType::Decimal { precision, .. } => i32::from(*precision),
        _ => return None,
    })
}

fn radix(data_type: &DataType) -> Option<i32> {
    let is_decimal = matches!(data_type, DataType::Decimal { .. });
    precision(data_type).map(|_| if is_decimal { 10 } else { 2 })
}

fn scale(data_type: &DataType) -> Option<i32> {
    match data_type {
        DataType::Decimal { scale, .. } => Some(i32::from(*scale)),
        DataType::Byte | DataType::Short | DataType::Integer | DataType::Long => Some(0),
        _ => None,
    }
}

fn microseconds(data_type: &DataType) -> Option<i32> {
    match data_type {
        DataType::Timestamp | DataType::TimestampNtz => Some(6),
        DataType::Date => Some(0),
        _ => None,
    }
}
