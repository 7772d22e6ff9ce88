//! `information_schema.columns`: the columns of all tables in SQL's own words.
//!
//! Invariant: `data_type` is a name that CREATE TABLE takes with the same meaning;
//! `ordinal_position` counts from 1.
//! Does not: describe `information_schema` itself; the other tables of it are the engine's.
//! Spec: SQL/Schemata, COLUMNS view.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow_schema::{Field as ArrowField, Schema};
use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::Result;
use tarndb_table::DataType;
use tarndb_table::rules::CURRENT_DEFAULT;

use crate::catalog::View;
use crate::engine::CATALOG;
use crate::types::sql_type;

const COLUMNS: &str = "columns";

/// The schema: our `columns`, the rest as the engine has it.
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
        self.engine.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if name.eq_ignore_ascii_case(COLUMNS) {
            return Ok(Some(Arc::new(columns(&self.view)?)));
        }
        self.engine.table(name).await
    }

    fn table_exist(&self, name: &str) -> bool {
        self.engine.table_exist(name)
    }
}

/// One row of the view.
struct Column<'a> {
    schema: &'a str,
    table: &'a str,
    name: &'a str,
    position: i32,
    nullable: bool,
    default: Option<&'a str>,
    data_type: &'a DataType,
    type_name: String,
}

fn columns(view: &View) -> Result<MemTable> {
    let mut rows = Vec::new();
    for schema in view.schemas.values() {
        for table in schema.tables.values() {
            let fields = table.provider.iter().flat_map(|provider| {
                let fields = &provider.pinned().state.schema.fields;
                (1..).zip(fields.iter())
            });
            rows.extend(fields.map(|(position, field)| {
                Column {
                    schema: &schema.name,
                    table: &table.name,
                    name: &field.name,
                    position,
                    nullable: field.nullable,
                    default: field
                        .metadata
                        .get(CURRENT_DEFAULT)
                        .and_then(|text| text.as_str()),
                    data_type: &field.data_type,
                    type_name: sql_type(field),
                }
            }));
        }
    }
    let batch = batch(&rows)?;
    MemTable::try_new(batch.schema(), vec![vec![batch]])
}

fn batch(rows: &[Column<'_>]) -> Result<RecordBatch> {
    let number = |of: fn(&DataType) -> Option<i32>| -> ArrayRef {
        let values = rows.iter().map(|row| of(row.data_type));
        Arc::new(values.collect::<Int32Array>())
    };
    let positions = rows.iter().map(|row| Some(row.position));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("table_catalog", text(rows, |_| Some(CATALOG.to_owned()))),
        (
            "table_schema",
            text(rows, |row| Some(row.schema.to_owned())),
        ),
        ("table_name", text(rows, |row| Some(row.table.to_owned()))),
        ("column_name", text(rows, |row| Some(row.name.to_owned()))),
        (
            "ordinal_position",
            Arc::new(positions.collect::<Int32Array>()),
        ),
        (
            "column_default",
            text(rows, |row| row.default.map(str::to_owned)),
        ),
        ("is_nullable", text(rows, |row| Some(yes_no(row.nullable)))),
        ("data_type", text(rows, |row| Some(row.type_name.clone()))),
        ("character_maximum_length", number(|_| None)),
        ("numeric_precision", number(precision)),
        ("numeric_precision_radix", number(radix)),
        ("numeric_scale", number(scale)),
        ("datetime_precision", number(microseconds)),
    ];
    let fields = columns
        .iter()
        .map(|(name, array)| ArrowField::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    Ok(RecordBatch::try_new(schema, arrays)?)
}

fn text(rows: &[Column<'_>], of: impl Fn(&Column<'_>) -> Option<String>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<StringArray>())
}

fn yes_no(yes: bool) -> String {
    if yes { "YES" } else { "NO" }.to_owned()
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
