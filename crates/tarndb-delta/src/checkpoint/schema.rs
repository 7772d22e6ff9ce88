//! The Parquet schemas of checkpoints.
//!
//! Invariant: every column is nullable but the keys of maps; maps and lists are named as the
//! reference engine names them (`key_value`, `element`).
//! Spec: Delta PROTOCOL, "Checkpoint Schema".

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use super::stats_form::StatsForm;

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn map_entries() -> FieldRef {
    let key = Field::new("key", DataType::Utf8, false);
    let value = field("value", DataType::Utf8);
    let entries = DataType::Struct(Fields::from(vec![key, value]));
    Arc::new(Field::new("key_value", entries, false))
}

/// A map from strings to strings.
pub(super) fn map_type() -> DataType {
    DataType::Map(map_entries(), false)
}

/// A list of strings.
pub(super) fn list_type() -> DataType {
    DataType::List(Arc::new(field("element", DataType::Utf8)))
}

fn vector_type() -> DataType {
    DataType::Struct(Fields::from(vec![
        field("storageType", DataType::Utf8),
        field("pathOrInlineDv", DataType::Utf8),
        field("offset", DataType::Int32),
        field("sizeInBytes", DataType::Int32),
        field("cardinality", DataType::Int64),
    ]))
}

fn format_type() -> DataType {
    DataType::Struct(Fields::from(vec![
        field("provider", DataType::Utf8),
        field("options", map_type()),
    ]))
}

fn group(name: &str, columns: Vec<(&str, DataType)>) -> Field {
    let fields = columns
        .into_iter()
        .map(|(name, data_type)| field(name, data_type));
    field(name, DataType::Struct(fields.collect()))
}

/// The schema of a sidecar: the actions about files alone.
pub(super) fn sidecar_schema(stats: &StatsForm) -> SchemaRef {
    let all = checkpoint_schema(stats);
    let about_files = |field: &&FieldRef| matches!(field.name().as_str(), "add" | "remove");
    let fields: Vec<_> = all.fields().iter().filter(about_files).cloned().collect();
    Arc::new(Schema::new(fields))
}

/// The schema of the main file of a V2 checkpoint.
pub(super) fn v2_schema(stats: &StatsForm) -> SchemaRef {
    use DataType::{Int64, Utf8};
    let mut fields = checkpoint_schema(stats).fields().to_vec();
    fields.push(Arc::new(group(
        "checkpointMetadata",
        vec![("version", Int64), ("tags", map_type())],
    )));
    fields.push(Arc::new(group(
        "sidecar",
        vec![
            ("path", Utf8),
            ("sizeInBytes", Int64),
            ("modificationTime", Int64),
            ("tags", map_type()),
        ],
    )));
    Arc::new(Schema::new(fields))
}

fn add_type(stats: &StatsForm) -> DataType {
    use DataType::{Boolean, Int64, Utf8};
    let plain = [
        ("path", Utf8),
        ("partitionValues", map_type()),
        ("size", Int64),
        ("modificationTime", Int64),
        ("dataChange", Boolean),
        ("tags", map_type()),
        ("deletionVector", vector_type()),
        ("baseRowId", Int64),
        ("defaultRowCommitVersion", Int64),
        ("clusteringProvider", Utf8),
    ];
    let plain = plain.map(|(name, data_type)| field(name, data_type));
    DataType::Struct(plain.into_iter().chain(stats.fields()).collect())
}

/// The schema of a classic checkpoint.
pub(super) fn checkpoint_schema(stats: &StatsForm) -> SchemaRef {
    use DataType::{Boolean, Int32, Int64, Utf8};
    Arc::new(Schema::new(vec![
        group(
            "txn",
            vec![("appId", Utf8), ("version", Int64), ("lastUpdated", Int64)],
        ),
        field("add", add_type(stats)),
        group(
            "remove",
            vec![
                ("path", Utf8),
                ("deletionTimestamp", Int64),
                ("dataChange", Boolean),
                ("extendedFileMetadata", Boolean),
                ("partitionValues", map_type()),
                ("size", Int64),
                ("deletionVector", vector_type()),
                ("baseRowId", Int64),
                ("defaultRowCommitVersion", Int64),
            ],
        ),
        group(
            "metaData",
            vec![
                ("id", Utf8),
                ("name", Utf8),
                ("description", Utf8),
                ("format", format_type()),
                ("schemaString", Utf8),
                ("partitionColumns", list_type()),
                ("createdTime", Int64),
                ("configuration", map_type()),
            ],
        ),
        group(
            "protocol",
            vec![
                ("minReaderVersion", Int32),
                ("minWriterVersion", Int32),
                ("readerFeatures", list_type()),
                ("writerFeatures", list_type()),
            ],
        ),
        group(
            "domainMetadata",
            vec![
                ("domain", Utf8),
                ("configuration", Utf8),
                ("removed", Boolean),
            ],
        ),
    ]))
}
