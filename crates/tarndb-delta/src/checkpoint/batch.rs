//! Actions as a record batch of the checkpoint schema.
//!
//! Invariant: one row per action; the columns of the other actions are null in it.
//! Spec: Delta PROTOCOL, "Checkpoint Schema".

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::new_null_array;
use arrow_array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray, StructArray,
};
use arrow_schema::{ArrowError, DataType, Field, Fields, SchemaRef};

use super::stats_form::StatsForm;
use crate::action::{Action, CommitInfo, DeletionVector, Sidecar};

/// Columns of one struct, in the order of its fields.
struct Columns<'a> {
    fields: &'a Fields,
    arrays: Vec<ArrayRef>,
}

impl Columns<'_> {
    fn text<'v>(&mut self, values: impl Iterator<Item = Option<&'v str>>) {
        self.arrays.push(Arc::new(values.collect::<StringArray>()));
    }

    fn long(&mut self, values: impl Iterator<Item = Option<i64>>) {
        self.arrays.push(Arc::new(values.collect::<Int64Array>()));
    }

    fn int(&mut self, values: impl Iterator<Item = Option<i32>>) {
        self.arrays.push(Arc::new(values.collect::<Int32Array>()));
    }

    fn flag(&mut self, values: impl Iterator<Item = Option<bool>>) {
        self.arrays.push(Arc::new(values.collect::<BooleanArray>()));
    }

    fn list(&mut self, values: impl Iterator<Item = Option<Vec<String>>>) {
        let element = Field::new("element", DataType::Utf8, true);
        let mut builder = ListBuilder::new(StringBuilder::new()).with_field(element);
        for value in values {
            builder.append_option(value.map(|list| list.into_iter().map(Some)));
        }
        self.arrays.push(Arc::new(builder.finish()));
    }

    fn map<'v>(
        &mut self,
        values: impl Iterator<Item = Option<&'v BTreeMap<String, Option<String>>>>,
    ) -> Result<(), ArrowError> {
        let names = MapFieldNames {
            entry: "key_value".to_owned(),
            key: "key".to_owned(),
            value: "value".to_owned(),
        };
        let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
        for value in values {
            for (key, value) in value.into_iter().flatten() {
                builder.keys().append_value(key);
                builder.values().append_option(value.as_deref());
            }
            builder.append(value.is_some())?;
        }
        self.arrays.push(Arc::new(builder.finish()));
        Ok(())
    }

    fn group(&mut self, valid: &[bool], columns: Vec<ArrayRef>) -> Result<(), ArrowError> {
        let field = self.fields.get(self.arrays.len());
        let fields = match field.map(|field| field.data_type()) {
            Some(DataType::Struct(fields)) => fields.clone(),
            _ => return Err(ArrowError::SchemaError("not a struct column".to_owned())),
        };
        self.arrays.push(struct_array(fields, columns, valid)?);
        Ok(())
    }
}

fn struct_array(
    fields: Fields,
    columns: Vec<ArrayRef>,
    valid: &[bool],
) -> Result<ArrayRef, ArrowError> {
    let nulls = valid.iter().copied().collect::<arrow::buffer::NullBuffer>();
    Ok(Arc::new(StructArray::try_new(
        fields,
        columns,
        Some(nulls),
    )?))
}

/// `actions` as a batch; those without a column of their own become rows of nulls.
pub(super) fn batch(
    actions: &[Action],
    schema: &SchemaRef,
    stats: &StatsForm,
) -> Result<RecordBatch, ArrowError> {
    let mut arrays = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let DataType::Struct(fields) = field.data_type() else {
            return Err(ArrowError::SchemaError("not a struct column".to_owned()));
        };
        let mut columns = Columns {
            fields,
            arrays: Vec::new(),
        };
        let valid = match field.name().as_str() {
            "txn" => txns(actions, &mut columns),
            "add" => adds(actions, &mut columns, stats)?,
            "remove" => removes(actions, &mut columns)?,
            "metaData" => metadata(actions, &mut columns)?,
            "protocol" => protocols(actions, &mut columns),
            "domainMetadata" => domains(actions, &mut columns),
            "sidecar" => sidecars(actions, &mut columns)?,
            _ => Vec::new(),
        };
        arrays.push(if valid.contains(&true) {
            struct_array(fields.clone(), columns.arrays, &valid)?
        } else {
            new_null_array(field.data_type(), actions.len())
        });
    }
    RecordBatch::try_new(Arc::clone(schema), arrays)
}

/// The main file of a V2 checkpoint of `version`: what it is, then `actions`.
pub(super) fn v2_batch(
    version: u64,
    actions: Vec<Action>,
    schema: &SchemaRef,
    stats: &StatsForm,
) -> Result<RecordBatch, ArrowError> {
    let mut rows = vec![Action::CommitInfo(CommitInfo::default())];
    rows.extend(actions);
    let plain = batch(&rows, schema, stats)?;
    let index = schema.index_of("checkpointMetadata")?;
    let DataType::Struct(fields) = schema.field(index).data_type() else {
        return Err(ArrowError::SchemaError("not a struct column".to_owned()));
    };
    let first = |row: usize| (row == 0).then(|| i64::try_from(version).unwrap_or(i64::MAX));
    let versions: Int64Array = (0..rows.len()).map(first).collect();
    let tags = new_null_array(&super::schema::map_type(), rows.len());
    let valid: Vec<bool> = (0..rows.len()).map(|row| row == 0).collect();
    let mut columns = plain.columns().to_vec();
    if let Some(column) = columns.get_mut(index) {
        *column = struct_array(fields.clone(), vec![Arc::new(versions), tags], &valid)?;
    }
    RecordBatch::try_new(Arc::clone(schema), columns)
}

fn sidecars(actions: &[Action], columns: &mut Columns<'_>) -> Result<Vec<bool>, ArrowError> {
    let rows = pick(actions, |action| match action {
        Action::Sidecar(sidecar) => Some(sidecar),
        _ => None,
    });
    let path = |sidecar: &'_ Sidecar| sidecar.path.clone();
    let paths: Vec<Option<String>> = rows.iter().map(|row| row.map(path)).collect();
    columns.text(paths.iter().map(Option::as_deref));
    columns.long(
        rows.iter()
            .map(|row| row.map(|sidecar| sidecar.size_in_bytes)),
    );
    columns.long(
        rows.iter()
            .map(|row| row.map(|sidecar| sidecar.modification_time)),
    );
    columns.map(rows.iter().map(|_| None))?;
    Ok(valid(&rows))
}

/// The rows that hold one kind of action.
fn pick<'a, T>(
    actions: &'a [Action],
    kind: impl Fn(&'a Action) -> Option<&'a T>,
) -> Vec<Option<&'a T>> {
    actions.iter().map(kind).collect()
}

fn valid<T>(rows: &[Option<&T>]) -> Vec<bool> {
    rows.iter().map(Option::is_some).collect()
}

fn txns(actions: &[Action], columns: &mut Columns<'_>) -> Vec<bool> {
    let rows = pick(actions, |action| match action {
        Action::Txn(txn) => Some(txn),
        _ => None,
    });
    columns.text(rows.iter().map(|row| row.map(|txn| txn.app_id.as_str())));
    columns.long(rows.iter().map(|row| row.map(|txn| txn.version)));
    columns.long(rows.iter().map(|row| row.and_then(|txn| txn.last_updated)));
    valid(&rows)
}

fn vectors(rows: &[Option<&DeletionVector>], columns: &mut Columns<'_>) -> Result<(), ArrowError> {
    let mut inner = Columns {
        fields: columns.fields,
        arrays: Vec::new(),
    };
    inner.text(
        rows.iter()
            .map(|row| row.map(|vector| vector.storage_type.as_str())),
    );
    inner.text(
        rows.iter()
            .map(|row| row.map(|vector| vector.path_or_inline_dv.as_str())),
    );
    inner.int(rows.iter().map(|row| row.and_then(|vector| vector.offset)));
    inner.int(
        rows.iter()
            .map(|row| row.map(|vector| vector.size_in_bytes)),
    );
    inner.long(rows.iter().map(|row| row.map(|vector| vector.cardinality)));
    columns.group(&valid(rows), inner.arrays)
}

fn adds(
    actions: &[Action],
    columns: &mut Columns<'_>,
    stats: &StatsForm,
) -> Result<Vec<bool>, ArrowError> {
    let rows = pick(actions, |action| match action {
        Action::Add(add) => Some(add.as_ref()),
        _ => None,
    });
    columns.text(rows.iter().map(|row| row.map(|add| add.path.as_str())));
    columns.map(rows.iter().map(|row| row.map(|add| &add.partition_values)))?;
    columns.long(rows.iter().map(|row| row.map(|add| add.size)));
    columns.long(rows.iter().map(|row| row.map(|add| add.modification_time)));
    columns.flag(rows.iter().map(|row| row.map(|add| add.data_change)));
    columns.map(rows.iter().map(|row| row.and_then(|add| add.tags.as_ref())))?;
    let found: Vec<_> = rows
        .iter()
        .map(|row| row.and_then(|add| add.deletion_vector.as_ref()))
        .collect();
    vectors(&found, columns)?;
    columns.long(rows.iter().map(|row| row.and_then(|add| add.base_row_id)));
    columns.long(
        rows.iter()
            .map(|row| row.and_then(|add| add.default_row_commit_version)),
    );
    columns.text(
        rows.iter()
            .map(|row| row.and_then(|add| add.clustering_provider.as_deref())),
    );
    columns.arrays.extend(stats.arrays(&rows)?);
    Ok(valid(&rows))
}

fn removes(actions: &[Action], columns: &mut Columns<'_>) -> Result<Vec<bool>, ArrowError> {
    let rows = pick(actions, |action| match action {
        Action::Remove(remove) => Some(remove.as_ref()),
        _ => None,
    });
    columns.text(
        rows.iter()
            .map(|row| row.map(|remove| remove.path.as_str())),
    );
    columns.long(
        rows.iter()
            .map(|row| row.and_then(|remove| remove.deletion_timestamp)),
    );
    columns.flag(rows.iter().map(|row| row.map(|remove| remove.data_change)));
    columns.flag(
        rows.iter()
            .map(|row| row.and_then(|remove| remove.extended_file_metadata)),
    );
    columns.map(
        rows.iter()
            .map(|row| row.and_then(|remove| remove.partition_values.as_ref())),
    )?;
    columns.long(rows.iter().map(|row| row.and_then(|remove| remove.size)));
    let found: Vec<_> = rows
        .iter()
        .map(|row| row.and_then(|remove| remove.deletion_vector.as_ref()))
        .collect();
    vectors(&found, columns)?;
    columns.long(
        rows.iter()
            .map(|row| row.and_then(|remove| remove.base_row_id)),
    );
    columns.long(
        rows.iter()
            .map(|row| row.and_then(|remove| remove.default_row_commit_version)),
    );
    Ok(valid(&rows))
}

fn metadata(actions: &[Action], columns: &mut Columns<'_>) -> Result<Vec<bool>, ArrowError> {
    let rows = pick(actions, |action| match action {
        Action::Metadata(metadata) => Some(metadata.as_ref()),
        _ => None,
    });
    let optional = |map: &BTreeMap<String, String>| -> BTreeMap<String, Option<String>> {
        map.iter()
            .map(|(key, value)| (key.clone(), Some(value.clone())))
            .collect()
    };
    columns.text(rows.iter().map(|row| row.map(|data| data.id.as_str())));
    columns.text(
        rows.iter()
            .map(|row| row.and_then(|data| data.name.as_deref())),
    );
    columns.text(
        rows.iter()
            .map(|row| row.and_then(|data| data.description.as_deref())),
    );
    let mut format = Columns {
        fields: columns.fields,
        arrays: Vec::new(),
    };
    format.text(
        rows.iter()
            .map(|row| row.map(|data| data.format.provider.as_str())),
    );
    let options: Vec<_> = rows
        .iter()
        .map(|row| row.map(|data| optional(&data.format.options)))
        .collect();
    format.map(options.iter().map(Option::as_ref))?;
    columns.group(&valid(&rows), format.arrays)?;
    columns.text(
        rows.iter()
            .map(|row| row.map(|data| data.schema_string.as_str())),
    );
    columns.list(
        rows.iter()
            .map(|row| row.map(|data| data.partition_columns.clone())),
    );
    columns.long(
        rows.iter()
            .map(|row| row.and_then(|data| data.created_time)),
    );
    let configurations: Vec<_> = rows
        .iter()
        .map(|row| row.map(|data| optional(&data.configuration)))
        .collect();
    columns.map(configurations.iter().map(Option::as_ref))?;
    Ok(valid(&rows))
}

fn protocols(actions: &[Action], columns: &mut Columns<'_>) -> Vec<bool> {
    let rows = pick(actions, |action| match action {
        Action::Protocol(protocol) => Some(protocol),
        _ => None,
    });
    columns.int(
        rows.iter()
            .map(|row| row.map(|protocol| protocol.min_reader_version)),
    );
    columns.int(
        rows.iter()
            .map(|row| row.map(|protocol| protocol.min_writer_version)),
    );
    let list = |set: Option<&std::collections::BTreeSet<String>>| {
        set.map(|set| set.iter().cloned().collect::<Vec<_>>())
    };
    columns.list(
        rows.iter()
            .map(|row| list(row.and_then(|protocol| protocol.reader_features.as_ref()))),
    );
    columns.list(
        rows.iter()
            .map(|row| list(row.and_then(|protocol| protocol.writer_features.as_ref()))),
    );
    valid(&rows)
}

fn domains(actions: &[Action], columns: &mut Columns<'_>) -> Vec<bool> {
    let rows = pick(actions, |action| match action {
        Action::Domain(domain) => Some(domain),
        _ => None,
    });
    columns.text(
        rows.iter()
            .map(|row| row.map(|domain| domain.domain.as_str())),
    );
    columns.text(
        rows.iter()
            .map(|row| row.map(|domain| domain.configuration.as_str())),
    );
    columns.flag(rows.iter().map(|row| row.map(|domain| domain.removed)));
    valid(&rows)
}
