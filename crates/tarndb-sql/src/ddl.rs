//! CREATE, DROP and ALTER of schemas and tables.
//!
//! Invariant: a table option that is not known, or a value it does not take, is an error; keys
//! with a dot are the format's own and pass through as written.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field as ArrowField, Schema as ArrowSchema, TimeUnit};
use tarndb_db::NewTable;
use tarndb_table::rules::{CHAR_VARCHAR, CONSTRAINT_PREFIX};
use tarndb_table::{Field, MetadataChange, RuleChange, Schema, WriteOptions, Written};
use tarndb_txn::Operation;
use tarndb_types::{TableId, Uuid};

use crate::alter::comment_change;
use crate::catalog::INFORMATION_SCHEMA;
use crate::dml::Change;
use crate::dml::insert::{by_position, fill};
use crate::dml::write::Destination;
use crate::engine::DEFAULT_SCHEMA;
use crate::error::SqlError;
use crate::name::{near, same};
use crate::parser::{AlterAction, ColumnDef, CreateTable, Statement, TableName};
use crate::primary_key::property_of_new;
use crate::query::{Planned, output_schema};
use crate::rule::{add_rule, constraint_properties};
use crate::types::{LEVELS_MAX, levels, too_nested};

/// Options of CREATE TABLE by their short names, and the properties they stand for.
const OPTIONS: &[(&str, &str)] = &[
    ("auto_compact", "tarndb.autoCompact"),
    ("deletion_vectors", "tarndb.deletionVectors"),
    ("target_file_size", "tarndb.targetFileSize"),
    ("row_group_rows", "tarndb.rowGroupRows"),
    ("row_group_size", "tarndb.rowGroupBytes"),
    ("zstd_level", "tarndb.zstdLevel"),
];

/// Key of a column's comment in its metadata.
pub(crate) const COMMENT: &str = "comment";

impl Change<'_> {
    /// Runs a statement of this module: the command's tag, and rows where it wrote some.
    pub(crate) async fn define(
        &mut self,
        statement: &Statement,
    ) -> Result<(&'static str, Option<u64>), SqlError> {
        match statement {
            Statement::CreateSchema {
                name,
                if_not_exists,
            } => {
                if same(name, INFORMATION_SCHEMA) {
                    return Err(SqlError::ReservedName { name: name.clone() });
                }
                let there = self.txn.catalog().schema(name).is_some();
                if !(there && *if_not_exists) {
                    self.txn.create_schema(name)?;
                }
                Ok(("CREATE SCHEMA", None))
            }
            Statement::DropSchema {
                name,
                if_exists,
                cascade,
            } => {
                let catalog = self.txn.catalog();
                if catalog.schema(name).is_some() {
                    let tables = catalog.tables_in(name);
                    if !cascade && !tables.is_empty() {
                        return Err(SqlError::SchemaNotEmpty {
                            name: name.clone(),
                            tables: tables.into_iter().map(|t| t.name.clone()).collect(),
                        });
                    }
                    self.txn.drop_schema(name, *cascade)?;
                } else if !if_exists {
                    let near = near(name, catalog.schemas().map(|s| s.name.as_str()));
                    return Err(SqlError::UnknownSchema {
                        name: name.clone(),
                        near,
                    });
                }
                Ok(("DROP SCHEMA", None))
            }
            Statement::DropTable { names, if_exists } => {
                for name in names {
                    if let Some(id) = self.find_if(name, *if_exists)? {
                        self.txn.drop_table(id)?;
                    }
                }
                Ok(("DROP TABLE", None))
            }
            Statement::AlterTable {
                name,
                if_exists,
                action,
            } => {
                if let Some(id) = self.find_if(name, *if_exists)? {
                    self.alter(id, action).await?;
                }
                Ok((action.tag(), None))
            }
            Statement::CloneTable(clone) => {
                self.clone_table(clone).await?;
                Ok(("CREATE TABLE", None))
            }
            Statement::CreateTable(create) => {
                Ok(("CREATE TABLE", self.create_table(create).await?))
            }
            _ => Err(SqlError::Internal {
                context: "a statement that defines nothing",
            }),
        }
    }

    /// What the user is told when a statement finds nothing to do.
    pub(crate) fn notice(&self, statement: &Statement) -> Option<String> {
        let catalog = self.txn.catalog();
        let missing = |name: &TableName| self.scope().find(name).is_err();
        match statement {
            Statement::CreateTable(create) if create.if_not_exists && !missing(&create.name) => {
                Some(format!("table {} exists already", create.name))
            }
            Statement::CloneTable(clone) if clone.if_not_exists && !missing(&clone.name) => {
                Some(format!("table {} exists already", clone.name))
            }
            Statement::CreateSchema {
                name,
                if_not_exists: true,
            } if catalog.schema(name).is_some() => Some(format!("schema {name} exists already")),
            Statement::DropSchema {
                name,
                if_exists: true,
                ..
            } if catalog.schema(name).is_none() => Some(format!("schema {name} does not exist")),
            Statement::DropTable {
                names,
                if_exists: true,
            } => {
                let name = names.iter().find(|name| missing(name))?;
                Some(format!("table {name} does not exist"))
            }
            Statement::AlterTable {
                name,
                if_exists: true,
                ..
            } if missing(name) => Some(format!("table {name} does not exist")),
            _ => None,
        }
    }

    /// A table; `None` when it may be missing and is.
    pub(crate) fn find_if(
        &self,
        name: &TableName,
        if_exists: bool,
    ) -> Result<Option<TableId>, SqlError> {
        match self.scope().find(name) {
            Ok(id) => Ok(Some(id)),
            Err(SqlError::UnknownTable { .. } | SqlError::UnknownSchema { .. }) if if_exists => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn alter(&mut self, id: TableId, action: &AlterAction) -> Result<(), SqlError> {
        if self.alter_columns(id, action).await? || self.alter_primary_key(id, action).await? {
            return Ok(());
        }
        match action {
            AlterAction::Rename(to) => {
                let schema = match &to.schema {
                    Some(schema) => schema.clone(),
                    None => self.txn.entry(id)?.schema.clone(),
                };
                self.txn.rename_table(id, &schema, &to.name)?;
            }
            AlterAction::SetSchema(schema) => {
                self.check_schema(schema)?;
                let name = self.txn.entry(id)?.name.clone();
                self.txn.rename_table(id, schema, &name)?;
            }
            AlterAction::AddFeature(name) => {
                let key = format!("delta.feature.{name}");
                self.txn.set_property(id, &key, Some("supported")).await?;
            }
            AlterAction::DropFeature(name) => self.txn.drop_feature(id, name).await?,
            AlterAction::ClusterBy(columns) => self.txn.cluster_by(id, columns.clone()).await?,
            AlterAction::AddConstraint(constraint) => self.add_constraint(id, constraint).await?,
            AlterAction::DropConstraint { name, if_exists } => {
                self.drop_constraint(id, name, *if_exists).await?;
            }
            AlterAction::SetDefault { column, expression } => {
                self.set_default(id, column, expression.as_deref()).await?;
            }
            AlterAction::SetOptions(options) => {
                let set = properties(options)?;
                for (key, value) in set {
                    let change = MetadataChange::SetProperty { key, value };
                    self.txn.change_metadata(id, change).await?;
                }
            }
            AlterAction::SetComment { column, text } => {
                self.comment(id, column.as_deref(), text.clone()).await?;
            }
            AlterAction::UnsetOptions(keys) => {
                for key in keys {
                    let change = MetadataChange::UnsetProperty {
                        key: property_key(key)?,
                    };
                    self.txn.change_metadata(id, change).await?;
                }
            }
            _ => {
                return Err(SqlError::Internal {
                    context: "an ALTER TABLE that changes nothing",
                });
            }
        }
        Ok(())
    }

    async fn comment(
        &mut self,
        id: TableId,
        column: Option<&str>,
        text: Option<String>,
    ) -> Result<(), SqlError> {
        let state = self.txn.table(id).await?;
        let table = self.txn.entry(id)?.display_name();
        let change = comment_change(&state.schema, &table, column, text)?;
        self.txn.change_metadata(id, change).await?;
        Ok(())
    }

    async fn create_table(&mut self, create: &CreateTable) -> Result<Option<u64>, SqlError> {
        let existing = self.find_if(&create.name, true)?;
        if existing.is_some() && create.if_not_exists {
            return Ok(None);
        }
        let planned = match &create.query {
            Some(query) => Some(self.scope().plan(query, self.spelling, None).await?),
            None => None,
        };
        let table = self.new_table(create, planned.as_ref()).await?;
        let id = match existing.filter(|_| create.or_replace) {
            Some(id) => {
                self.replace(id, &table).await?;
                id
            }
            None => {
                let schema = create.name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
                self.check_schema(schema)?;
                self.txn.create_table(schema, table).await?
            }
        };
        if !create.cluster_columns.is_empty() {
            let columns = create.cluster_columns.clone();
            self.txn.cluster_by(id, columns).await?;
        }
        let Some(planned) = planned else {
            if existing.is_some() {
                self.txn.overwrite(id, Written::default(), false).await?;
            }
            return Ok(None);
        };
        let plan = self.scope().physical(&planned).await?;
        let mut destination = Destination::of_table(self.txn, id, self.options).await?;
        if !create.columns.is_empty() {
            destination = by_position(destination, &plan)?;
        }
        let written = fill(self, &destination, plan, &planned).await?;
        self.note_reads(&planned);
        let rows = written.rows;
        if existing.is_some() {
            let reads_itself = planned.reads.contains(id);
            self.txn.overwrite(id, written, reads_itself).await?;
        } else if rows > 0 {
            self.txn.add_files(id, written, Operation::Append).await?;
        }
        Ok(Some(rows))
    }

    pub(crate) fn check_schema(&self, name: &str) -> Result<(), SqlError> {
        let catalog = self.txn.catalog();
        if catalog.schema(name).is_some() {
            return Ok(());
        }
        let near = near(name, catalog.schemas().map(|s| s.name.as_str()));
        Err(SqlError::UnknownSchema {
            name: name.to_owned(),
            near,
        })
    }

    /// The definition that a CREATE TABLE asks for.
    async fn new_table(
        &self,
        create: &CreateTable,
        planned: Option<&Planned>,
    ) -> Result<NewTable, SqlError> {
        let failed = SqlError::table(&create.name);
        let mut schema = match planned.filter(|_| create.columns.is_empty()) {
            None => Schema {
                fields: create.columns.iter().map(field).collect(),
            },
            Some(planned) => {
                let plan = self.scope().physical(planned).await?;
                let columns = output_schema(&plan.schema(), &planned.spelling);
                Schema::from_arrow(&storable(&columns)).map_err(failed)?
            }
        };
        schema.validate().map_err(SqlError::table(&create.name))?;
        refuse_nested(&schema)?;
        let partition_columns = create
            .partition_columns
            .iter()
            .map(|name| match schema.field(name) {
                Some((_, field)) => Ok(field.name.clone()),
                None => Err(SqlError::UnknownColumn {
                    name: name.clone(),
                    table: Some(create.name.to_string()),
                    near: near(name, schema.fields.iter().map(|f| f.name.as_str())),
                }),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut properties = properties(&create.options)?;
        constraint_properties(&create.constraints, &mut properties)?;
        if let Some(key) = &create.primary_key {
            let table = create.name.to_string();
            properties.extend([property_of_new(&mut schema, &table, key)?]);
        }
        Ok(NewTable {
            name: create.name.name.clone(),
            schema,
            partition_columns,
            properties,
            comment: create.comment.clone(),
        })
    }

    /// Gives an existing table another definition; its rows go with the overwrite that follows.
    async fn replace(&mut self, id: TableId, table: &NewTable) -> Result<(), SqlError> {
        let old = self.txn.table(id).await?;
        let mut changes = vec![MetadataChange::ReplaceSchema {
            schema: table.schema.clone(),
            partition_columns: table.partition_columns.clone(),
            seed: Uuid::nil(),
        }];
        for key in old.properties.keys() {
            if let Some(name) = key.strip_prefix(CONSTRAINT_PREFIX) {
                let name = name.to_owned();
                // Before the columns that it names are replaced.
                changes.insert(0, MetadataChange::Rule(RuleChange::DropConstraint { name }));
            }
            // The format's own switches only ever go up.
            let is_ours = key.starts_with("tarndb.");
            if is_ours && !table.properties.contains_key(key) {
                changes.push(MetadataChange::UnsetProperty { key: key.clone() });
            }
        }
        for (key, value) in &table.properties {
            if let Some(name) = key.strip_prefix(CONSTRAINT_PREFIX) {
                changes.push(MetadataChange::Rule(RuleChange::AddConstraint {
                    name: name.to_owned(),
                    expression: value.clone(),
                }));
                continue;
            }
            if old.properties.get(key) != Some(value) {
                let (key, value) = (key.clone(), value.clone());
                changes.push(MetadataChange::SetProperty { key, value });
            }
        }
        if old.description != table.comment {
            changes.push(MetadataChange::SetComment {
                column: None,
                text: table.comment.clone(),
            });
        }
        for change in changes {
            self.txn.change_metadata(id, change).await?;
        }
        Ok(())
    }
}

pub(crate) fn field(column: &ColumnDef) -> Field {
    let mut field = Field::new(
        column.name.clone(),
        column.data_type.clone(),
        column.nullable,
    );
    if let Some(rule) = &column.rule {
        add_rule(&mut field, rule);
    }
    if let Some(length) = &column.length {
        let length = length.as_str().into();
        field.metadata.insert(CHAR_VARCHAR.to_owned(), length);
    }
    if let Some(text) = &column.comment {
        field
            .metadata
            .insert(COMMENT.to_owned(), serde_json::Value::String(text.clone()));
    }
    field
}

/// The columns of a query as a table holds them: everything nullable, timestamps in
/// microseconds (each value is checked when it is written).
pub(crate) fn storable(schema: &ArrowSchema) -> ArrowSchema {
    let fields = schema
        .fields()
        .iter()
        .map(|f| ArrowField::new(f.name(), storable_type(f.data_type()), true));
    ArrowSchema::new(fields.collect::<Vec<_>>())
}

pub(crate) fn storable_type(data_type: &ArrowType) -> ArrowType {
    match data_type {
        ArrowType::Timestamp(TimeUnit::Nanosecond, zone) => {
            ArrowType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        ArrowType::List(field) => ArrowType::List(Arc::new(ArrowField::new(
            field.name(),
            storable_type(field.data_type()),
            true,
        ))),
        other => other.clone(),
    }
}

/// Table properties from options as written.
pub(crate) fn properties(
    options: &[(String, String)],
) -> Result<BTreeMap<String, String>, SqlError> {
    let mut properties = BTreeMap::new();
    for (name, value) in options {
        let key = property_key(name)?;
        let value = property_value(name, &key, value)?;
        if properties.insert(key, value).is_some() {
            return Err(SqlError::TableOption {
                name: name.clone(),
                reason: "is given twice".to_owned(),
            });
        }
    }
    WriteOptions::from_properties(&properties).map_err(|error| SqlError::TableOption {
        name: options
            .iter()
            .map(|(n, _)| n.as_str())
            .collect::<Vec<_>>()
            .join(", "),
        reason: error.to_string(),
    })?;
    Ok(properties)
}

pub(crate) fn property_key(name: &str) -> Result<String, SqlError> {
    if name.contains('.') {
        return Ok(name.to_owned());
    }
    if let Some((_, key)) = OPTIONS.iter().find(|(short, _)| same(short, name)) {
        return Ok((*key).to_owned());
    }
    let near = near(name, OPTIONS.iter().map(|(short, _)| *short));
    let known = OPTIONS
        .iter()
        .map(|(short, _)| *short)
        .collect::<Vec<_>>()
        .join(", ");
    let reason = match near.first() {
        Some(near) => format!("is not known; did you mean {near}?"),
        None => format!("is not known; there are {known}, and keys with a dot (delta.*)"),
    };
    Err(SqlError::TableOption {
        name: name.to_owned(),
        reason,
    })
}

fn property_value(name: &str, key: &str, value: &str) -> Result<String, SqlError> {
    if key != "tarndb.deletionVectors" {
        return Ok(value.to_owned());
    }
    match value.to_lowercase().as_str() {
        "on" | "true" => Ok("on".to_owned()),
        "off" | "false" => Ok("off".to_owned()),
        _ => Err(SqlError::TableOption {
            name: name.to_owned(),
            reason: format!("takes 'on' or 'off', not {value:?}"),
        }),
    }
}

/// A query can give a type that nests deeper than one that is written.
fn refuse_nested(schema: &Schema) -> Result<(), SqlError> {
    let deep = |field: &&Field| levels(&field.data_type) > LEVELS_MAX;
    match schema.fields.iter().find(deep) {
        None => Ok(()),
        Some(field) => Err(SqlError::Engine {
            message: format!("column {}: {}", field.name, too_nested()),
            sqlstate: "42P16",
            kind: tarndb_db::ErrorKind::Invalid,
            hint: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, value: &str) -> Result<BTreeMap<String, String>, SqlError> {
        properties(&[(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn short_names_become_properties() {
        let properties = of("Deletion_Vectors", "OFF").unwrap();
        assert_eq!(
            properties.get("tarndb.deletionVectors").map(String::as_str),
            Some("off")
        );
        assert!(
            of("delta.appendOnly", "true")
                .unwrap()
                .contains_key("delta.appendOnly")
        );
    }

    #[test]
    fn what_is_not_known_is_refused_with_advice() {
        let error = of("deletion_vector", "off").unwrap_err();
        assert!(
            error.to_string().contains("did you mean deletion_vectors"),
            "{error}"
        );
        assert!(of("deletion_vectors", "maybe").is_err());
        assert!(of("target_file_size", "huge").is_err());
    }
}
