//! Catalog to the bytes of a checkpoint.
//!
//! Invariant: one JSON object per line in a fixed order, so that equal catalogs with equal
//! knowledge of publishing give equal text; the last line is the checksum of all before it.
//! Spec: docs/format/checkpoint.md.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Value, json};
use tarndb_types::DbVersion;

use crate::catalog::{Catalog, LOG_FORMAT, TableEntry, TagEntry, ViewEntry};
use crate::error::DbError;
use crate::hash::sha256_hex;
use crate::invariants;

const ZSTD_LEVEL: i32 = 3;

/// The bytes of the checkpoint of a catalog.
///
/// # Errors
/// The catalog breaks an invariant; it is then not written.
pub fn encode(catalog: &Catalog) -> Result<Bytes, DbError> {
    invariants::check_catalog(catalog).map_err(|violation| DbError::Invariant {
        version: catalog.version(),
        violation,
    })?;
    let text = to_text(catalog);
    let packed = zstd::encode_all(text.as_bytes(), ZSTD_LEVEL).map_err(|_| DbError::Internal {
        what: "compressing a checkpoint failed",
    })?;
    Ok(Bytes::from(packed))
}

/// The text inside: what `encode` compresses.
pub(crate) fn to_text(catalog: &Catalog) -> String {
    let mut text = String::new();
    let named = |(name, version): (&str, DbVersion)| json!([name, version.0]);
    let mut header = json!({
        "format": LOG_FORMAT,
        "database": catalog.database().to_string(),
        "version": catalog.version().0,
        "timestamp": catalog.timestamp().0,
        "readerFeatures": catalog.reader_features().collect::<Vec<_>>(),
        "writerFeatures": catalog.writer_features().map(named).collect::<Vec<_>>(),
        "unknownActions": catalog.unknown_actions().map(named).collect::<Vec<_>>(),
    });
    if let (Some(mark), Some(header)) = (catalog.vacuum(), header.as_object_mut()) {
        let (version, horizon, before) = (mark.version.0, mark.horizon.0, mark.before.0);
        let mark = json!({ "version": version, "horizon": horizon, "before": before });
        header.insert("vacuum".to_owned(), mark);
    }
    push(&mut text, "checkpoint", &header);
    for schema in catalog.schemas() {
        push(&mut text, "schema", &json!({ "name": schema.name }));
    }
    for table in catalog.tables().chain(catalog.dropped_tables()) {
        push(&mut text, "table", &table_line(table));
    }
    for view in catalog.views() {
        push(&mut text, "view", &view_line(view));
    }
    for tag in catalog.tags() {
        push(&mut text, "tag", &tag_line(tag));
    }
    for location in catalog.locations() {
        push(&mut text, "location", &json!(location));
    }
    let sum = sha256_hex(text.as_bytes());
    push(&mut text, "sha256", &json!(sum));
    text
}

fn table_line(table: &TableEntry) -> Value {
    let first = table.first_unpublished();
    let unpublished: Vec<Value> = table
        .positions
        .range(first..)
        .map(|(version, record)| json!([version.0, record.0]))
        .collect();
    let mut line = json!({
        "id": table.id.to_string(),
        "schema": table.schema,
        "name": table.name,
        "format": table.format,
        "location": table.place(),
        "version": table.version.0,
        "timestamp": table.timestamp.0,
        "published": table.published.map(|version| version.0),
        "created": table.created.0,
        "dropped": table.dropped.map(|version| version.0),
        "unpublished": unpublished,
    });
    if let (Some(vacuumed), Some(line)) = (table.vacuumed, line.as_object_mut()) {
        line.insert("vacuumed".to_owned(), json!(vacuumed.0));
    }
    if let Some(line) = line.as_object_mut().filter(|_| !table.bases.is_empty()) {
        let bases: Vec<&str> = table.bases.iter().map(AsRef::as_ref).collect();
        line.insert("bases".to_owned(), json!(bases));
    }
    if let (Some(attached), Some(line)) = (&table.attached, line.as_object_mut()) {
        line.insert("attached".to_owned(), json!(attached.version.0));
    }
    if let (true, Some(line)) = (table.is_detached, line.as_object_mut()) {
        line.insert("detached".to_owned(), json!(true));
    }
    line
}

fn view_line(view: &ViewEntry) -> Value {
    let mut line = view.definition.value();
    if let Some(line) = line.as_object_mut() {
        line.insert("created".to_owned(), json!(view.created.0));
    }
    line
}

fn tag_line(tag: &TagEntry) -> Value {
    json!({
        "name": tag.name, "version": tag.version.0,
        "created": tag.created.0, "timestamp": tag.timestamp.0,
    })
}

fn push(text: &mut String, key: &str, value: &Value) {
    let _infallible = writeln!(text, "{{\"{key}\":{value}}}");
}
