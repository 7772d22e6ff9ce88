//! Changes of columns: added, renamed, dropped, widened, NULL allowed and forbidden.
//!
//! Invariant: no change needs a data file to be written anew. Where a column goes or changes its
//! name, columns are mapped, so that no file is ever read by a name that it did not mean; what
//! refers to a column by name is never left behind.
//! Spec: Delta PROTOCOL, "Column Mapping", "Type Widening"; docs/format/delta.md, "Schema
//! evolution".

use tarndb_table::rules::IDENTITY_START;
use tarndb_table::schema::path::position;
use tarndb_table::{ColumnPath, DataType, Field, NewColumn, Position};
use tarndb_types::Uuid;

use super::depends::referrer;
use super::draft::Draft;
use super::mapping::{self, Names, Numbering, chosen_mode};
use super::rules::refuse_rules;
use super::stats_columns;
use super::widen::{TYPE_CHANGES, widen};
use crate::action::Change;
use crate::column_mapping::{self, MappingMode as Mode};
use crate::error::DeltaError;
use crate::feature;
use crate::native::protocol::has_feature;
use crate::schema_json::type_text;

const TYPE_WIDENING_KEY: &str = "delta.enableTypeWidening";
const TYPE_WIDENING_PREVIEW: &str = "typeWidening-preview";

impl Draft {
    pub(super) fn add_column(&mut self, new: &NewColumn) -> Result<(), DeltaError> {
        let NewColumn {
            parents,
            field,
            position: place,
            seed,
        } = new;
        let path = new.path();
        let column = path.to_string();
        if !field.nullable {
            return Err(DeltaError::NewColumnNotNull { column });
        }
        refuse_rules(field)?;
        let mut field = field.clone();
        field.metadata.remove(TYPE_CHANGES);
        mapping::clear(std::slice::from_mut(&mut field));
        let r#type = type_text(&field.data_type)?;
        self.name_in_files(std::slice::from_mut(&mut field), *seed)?;
        let siblings = self.schema.fields_at_mut(parents);
        let siblings = siblings.ok_or_else(|| missing_parent(&path))?;
        if position(siblings, &field.name).is_some() {
            return Err(DeltaError::ColumnExists { column });
        }
        let at = match place {
            Position::Last => siblings.len(),
            Position::First => 0,
            Position::After(name) => {
                let after = position(siblings, name).ok_or_else(|| DeltaError::NoSuchColumn {
                    column: path.sibling(name).to_string(),
                })?;
                after + 1
            }
        };
        let features = feature::features_of(std::slice::from_ref(&field));
        siblings.insert(at, field);
        self.features.extend(features);
        self.changes.push(Change::AddColumn {
            name: column,
            r#type,
            nullable: true,
        });
        self.check_schema()?;
        self.refresh_schema()
    }

    pub(super) fn rename_column(
        &mut self,
        column: &ColumnPath,
        to: &str,
    ) -> Result<(), DeltaError> {
        let path = self.spelled(column)?;
        let renamed = path.sibling(to);
        if renamed == path {
            return Ok(());
        }
        self.check_unreferenced(&path, "renamed")?;
        self.map_columns()?;
        let siblings = self.schema.fields_at_mut(path.parents());
        let siblings = siblings.ok_or_else(|| missing(&path))?;
        let at = position(siblings, path.leaf());
        if position(siblings, to).is_some_and(|other| Some(other) != at) {
            let column = renamed.to_string();
            return Err(DeltaError::ColumnExists { column });
        }
        let field = at.and_then(|at| siblings.get_mut(at));
        to.clone_into(&mut field.ok_or_else(|| missing(&path))?.name);
        if path.is_top() {
            for partition in &mut self.metadata.partition_columns {
                if partition == path.leaf() {
                    to.clone_into(partition);
                }
            }
        }
        self.rewrite_stats_columns(&path, Some(&renamed));
        self.changes.push(Change::RenameColumn {
            from: path.to_string(),
            to: renamed.to_string(),
        });
        self.check_schema()?;
        self.refresh_schema()
    }

    pub(super) fn drop_column(&mut self, column: &ColumnPath) -> Result<(), DeltaError> {
        let path = self.spelled(column)?;
        self.check_unreferenced(&path, "dropped")?;
        self.check_free(&path)?;
        self.map_columns()?;
        let siblings = self.schema.fields_at_mut(path.parents());
        let siblings = siblings.ok_or_else(|| missing(&path))?;
        siblings.retain(|field| field.name != path.leaf());
        self.rewrite_stats_columns(&path, None);
        self.changes.push(Change::DropColumn {
            name: path.to_string(),
        });
        self.check_schema()?;
        self.refresh_schema()
    }

    pub(super) fn widen_column(
        &mut self,
        column: &ColumnPath,
        to: &DataType,
    ) -> Result<(), DeltaError> {
        if !widen(&mut self.schema.fields, column, to)? {
            return Ok(());
        }
        self.check_unreferenced(column, "of another type")?;
        let field = self.schema.field_at(column).map(|(_, field)| field);
        if field.is_some_and(|field| field.metadata.contains_key(IDENTITY_START)) {
            // Another type has no rule of this kind, and the table would take no rows any more.
            return Err(DeltaError::ColumnInUse {
                column: column.to_string(),
                becomes: "of another type",
                by: "its own rule, an identity is a BIGINT".to_owned(),
            });
        }
        self.widen_types()?;
        if *to == DataType::TimestampNtz {
            self.features.insert(feature::TIMESTAMP_NTZ);
        }
        self.changes.push(Change::WidenColumn {
            column: column.to_string(),
            r#type: type_text(to)?,
        });
        self.refresh_schema()
    }

    pub(super) fn set_nullable(
        &mut self,
        column: &ColumnPath,
        nullable: bool,
    ) -> Result<(), DeltaError> {
        let path = self.spelled(column)?;
        let siblings = self.schema.fields_at_mut(path.parents());
        let siblings = siblings.ok_or_else(|| missing(&path))?;
        let field = position(siblings, path.leaf()).and_then(|at| siblings.get_mut(at));
        field.ok_or_else(|| missing(&path))?.nullable = nullable;
        let column = path.to_string();
        self.changes.push(if nullable {
            Change::DropNotNull { column }
        } else {
            self.features.insert(feature::INVARIANTS);
            Change::SetNotNull { column }
        });
        self.refresh_schema()
    }

    /// Chooses how columns are mapped, where the table may still choose.
    pub(super) fn set_mapping_mode(&mut self, value: &str) -> Result<(), DeltaError> {
        let refuse = |reason| {
            Err(DeltaError::PropertyRefused {
                key: column_mapping::MODE.to_owned(),
                value: value.to_owned(),
                reason,
            })
        };
        match (self.mapping_mode(), chosen_mode(value)) {
            (_, None) => refuse("it is none, name or id"),
            (now, Some(wanted)) if now == wanted => {
                self.store_property(column_mapping::MODE, &value.to_lowercase());
                Ok(())
            }
            (Mode::None, Some(Mode::Name)) => self.map_columns(),
            (Mode::None, Some(_)) => refuse("only a new table can map its columns by id"),
            (_, Some(Mode::None)) => refuse(
                "files have the names that columns are mapped to; copy the rows to a new table",
            ),
            (_, Some(_)) => refuse("a table that maps its columns keeps its mode"),
        }
    }

    /// What becomes of mapping in a new table, whose columns are still to be named.
    pub(super) fn map_new_table(&mut self, seed: Uuid) -> Result<(), DeltaError> {
        let mut fields = std::mem::take(&mut self.schema.fields);
        let named = self.name_in_files(&mut fields, seed);
        self.schema.fields = fields;
        named?;
        self.refresh_schema()
    }

    /// Maps columns by name from now on, each to the name that it has.
    fn map_columns(&mut self) -> Result<(), DeltaError> {
        if self.mapping_mode() != Mode::None {
            return Ok(());
        }
        let mut numbering =
            Numbering::of(&self.metadata, &self.schema.fields, Mode::Name, Names::Own);
        numbering.number(&mut self.schema.fields)?;
        numbering.store(&mut self.metadata);
        self.features.insert(feature::COLUMN_MAPPING);
        self.store_property(column_mapping::MODE, "name");
        self.refresh_schema()
    }

    /// Names new columns in files: by random names where columns are mapped.
    pub(super) fn name_in_files(
        &mut self,
        fields: &mut [Field],
        seed: Uuid,
    ) -> Result<(), DeltaError> {
        if self.mapping_mode() == Mode::None {
            mapping::clear(fields);
            return Ok(());
        }
        let (mode, names) = (self.mapping_mode(), Names::Random(seed));
        let mut numbering = Numbering::of(&self.metadata, &self.schema.fields, mode, names);
        numbering.number(fields)?;
        numbering.store(&mut self.metadata);
        Ok(())
    }

    /// How the table's columns are mapped. What a property says without the feature is void.
    pub(super) fn mapping_mode(&self) -> Mode {
        let raised = self.features.contains(feature::COLUMN_MAPPING);
        if !raised && !column_mapping::is_supported(&self.protocol) {
            return Mode::None;
        }
        let value = self.metadata.configuration.get(column_mapping::MODE);
        value
            .and_then(|value| chosen_mode(value))
            .unwrap_or(Mode::None)
    }

    /// Lets types be widened from now on.
    fn widen_types(&mut self) -> Result<(), DeltaError> {
        match self.metadata.configuration.get(TYPE_WIDENING_KEY) {
            Some(value) if value.eq_ignore_ascii_case("true") => {}
            Some(value) => {
                return Err(DeltaError::PropertyRefused {
                    key: TYPE_WIDENING_KEY.to_owned(),
                    value: value.clone(),
                    reason: "set it to true first, then a column's type can be widened",
                });
            }
            None => self.store_property(TYPE_WIDENING_KEY, "true"),
        }
        if !has_feature(&self.protocol, TYPE_WIDENING_PREVIEW) {
            self.features.insert(feature::TYPE_WIDENING);
        }
        Ok(())
    }

    /// Checks names and types; where columns are mapped, names may have any character.
    pub(super) fn check_schema(&self) -> Result<(), DeltaError> {
        self.schema.validate().map_err(DeltaError::from_table)?;
        tarndb_table::check_partition_columns(&self.schema, &self.metadata.partition_columns)
            .map_err(DeltaError::from_table)
    }

    fn spelled(&self, column: &ColumnPath) -> Result<ColumnPath, DeltaError> {
        let found = self.schema.field_at(column).map(|(path, _)| path);
        found.ok_or_else(|| missing(column))
    }

    /// Nothing refers to the column by its name.
    fn check_unreferenced(
        &self,
        path: &ColumnPath,
        becomes: &'static str,
    ) -> Result<(), DeltaError> {
        match referrer(path, &self.schema, &self.metadata.configuration) {
            Some(by) => Err(DeltaError::ColumnInUse {
                column: path.to_string(),
                becomes,
                by,
            }),
            None => Ok(()),
        }
    }

    /// Neither partitions nor clusters the table.
    fn check_free(&self, path: &ColumnPath) -> Result<(), DeltaError> {
        let in_use = |by: &str| {
            Err(DeltaError::ColumnInUse {
                column: path.to_string(),
                becomes: "dropped",
                by: by.to_owned(),
            })
        };
        let partitions = self.metadata.partition_columns.iter();
        if path.is_top() && partitions.into_iter().any(|name| name == path.leaf()) {
            return in_use("the partitioning of the table");
        }
        let physical = self.physical(path);
        if self
            .clustering
            .iter()
            .any(|column| column.starts_with(&physical))
        {
            return in_use("the clustering of the table");
        }
        Ok(())
    }

    /// The names in files on the way to a column.
    fn physical(&self, path: &ColumnPath) -> Vec<String> {
        let parts: Vec<String> = path.parts().map(str::to_owned).collect();
        let names = (1..=parts.len()).map(|length| {
            let prefix = parts.get(..length).unwrap_or_default().to_vec();
            let found = ColumnPath::new(prefix).and_then(|path| self.schema.field_at(&path));
            let name = found.map(|(_, field)| field.stored_name().to_owned());
            name.unwrap_or_default()
        });
        names.collect()
    }

    /// The property that names the columns with statistics follows.
    fn rewrite_stats_columns(&mut self, path: &ColumnPath, to: Option<&ColumnPath>) {
        let Some(value) = self.metadata.configuration.get(stats_columns::KEY) else {
            return;
        };
        match stats_columns::rewritten(value, path, to) {
            None => {}
            Some(value) if value.is_empty() => {
                self.metadata.configuration.remove(stats_columns::KEY);
                self.changes.push(Change::Unset {
                    key: stats_columns::KEY.to_owned(),
                });
            }
            Some(value) => self.store_property(stats_columns::KEY, &value),
        }
    }
}

fn missing(path: &ColumnPath) -> DeltaError {
    DeltaError::NoSuchColumn {
        column: path.to_string(),
    }
}

fn missing_parent(path: &ColumnPath) -> DeltaError {
    let parent = ColumnPath::new(path.parents().to_vec());
    DeltaError::NoSuchColumn {
        column: parent.map_or_else(String::new, |parent| parent.to_string()),
    }
}

#[cfg(test)]
mod tests;
