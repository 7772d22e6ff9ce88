//! Record to bytes.
//!
//! Invariant: one JSON object per line, the last line ended; table lines are copied verbatim.
//! Spec: docs/format/log.md, "Records".

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::object::UndropLine;
use super::{
    Action, AttachAction, EntryBody, Record, RecordTxn, TableEntryAction, VacuumAction, files,
    notes,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordLine<'a> {
    version: u64,
    timestamp: i64,
    writer: &'a str,
    reader_features: &'a [String],
    writer_features: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TxnLine<'a> {
    id: String,
    read_version: u64,
    timestamp: i64,
    isolation: &'a str,
    operation: &'a str,
    user_metadata: &'a BTreeMap<String, Value>,
}

/// The bytes of a record. Unknown actions cannot be written and are left out.
pub fn encode(record: &Record) -> Bytes {
    let mut text = encode_head(record);
    for txn in &record.txns {
        text.push_str(&encode_txn(txn));
    }
    Bytes::from(text)
}

/// The first line of a record: what stands before its transactions.
pub(crate) fn encode_head(record: &Record) -> String {
    let mut text = String::new();
    push_line(
        &mut text,
        "record",
        &RecordLine {
            version: record.version.0,
            timestamp: record.timestamp.0,
            writer: &record.writer,
            reader_features: &record.reader_features,
            writer_features: &record.writer_features,
        },
    );
    text
}

/// The lines of one transaction of a record.
pub(crate) fn encode_txn(txn: &RecordTxn) -> String {
    let mut text = String::new();
    push_txn(&mut text, txn);
    for action in &txn.actions {
        push_action(&mut text, action);
    }
    text
}

fn push_txn(text: &mut String, txn: &RecordTxn) {
    push_line(
        text,
        "txn",
        &TxnLine {
            id: txn.id.to_string(),
            read_version: txn.read_version.0,
            timestamp: txn.timestamp.0,
            isolation: &txn.isolation,
            operation: &txn.operation,
            user_metadata: &txn.user_metadata,
        },
    );
}

fn push_action(text: &mut String, action: &Action) {
    match action {
        Action::CreateDatabase { id, format } => {
            push_line(
                text,
                "createDatabase",
                &json!({ "id": id.to_string(), "format": format }),
            );
        }
        Action::CreateSchema { name } => push_line(text, "createSchema", &json!({ "name": name })),
        Action::DropSchema { name } => push_line(text, "dropSchema", &json!({ "name": name })),
        Action::CreateTable {
            id,
            schema,
            name,
            format,
            location,
            bases,
        } => {
            let mut line = json!({
                "id": id.to_string(), "schema": schema, "name": name,
                "format": format, "location": location,
            });
            if let Some(line) = line.as_object_mut().filter(|_| !bases.is_empty()) {
                line.insert("bases".to_owned(), json!(bases));
            }
            push_line(text, "createTable", &line);
        }
        Action::DropTable { id } => {
            push_line(text, "dropTable", &json!({ "id": id.to_string() }));
        }
        Action::AttachTable(attach) => push_line(text, "attachTable", &attach_value(attach)),
        Action::DetachTable { id } => {
            push_line(text, "detachTable", &json!({ "id": id.to_string() }));
        }
        Action::RenameTable { id, schema, name } => push_line(
            text,
            "renameTable",
            &json!({ "id": id.to_string(), "schema": schema, "name": name }),
        ),
        Action::UndropTable(undrop) => push_line(
            text,
            "undropTable",
            &UndropLine {
                id: undrop.id.to_string(),
                schema: undrop.schema.clone(),
                name: undrop.name.clone(),
            },
        ),
        Action::CreateView(view) => push_line(text, "createView", view),
        Action::DropView { schema, name } => {
            push_line(text, "dropView", &json!({ "schema": schema, "name": name }))
        }
        Action::CreateTag(tag) => push_line(
            text,
            "createTag",
            &json!({ "name": tag.name, "version": tag.version.0 }),
        ),
        Action::DropTag { name } => push_line(text, "dropTag", &json!({ "name": name })),
        Action::Entry(entry) => push_entry(text, entry),
        Action::Fence { txns } => {
            let txns: Vec<String> = txns.iter().map(ToString::to_string).collect();
            push_line(text, "fence", &json!({ "txns": txns }));
        }
        Action::Vacuum(vacuum) => push_line(text, "vacuum", &vacuum_value(vacuum)),
        Action::Unknown { .. } => {}
    }
}

fn attach_value(attach: &AttachAction) -> Value {
    json!({
        "id": attach.id.to_string(), "schema": attach.schema, "name": attach.name,
        "format": attach.format, "location": attach.location, "version": attach.version.0,
    })
}

fn vacuum_value(vacuum: &VacuumAction) -> Value {
    let (horizon, before) = (vacuum.horizon.0, vacuum.before.0);
    match &vacuum.tables {
        None => json!({ "horizon": horizon, "before": before }),
        Some(tables) => {
            let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
            json!({ "horizon": horizon, "before": before, "tables": tables })
        }
    }
}

/// Written by hand, because the lines of the table must stay byte for byte what they are.
fn push_entry(text: &mut String, entry: &TableEntryAction) {
    let key = Value::from(entry.format.as_str());
    let _infallible = write!(
        text,
        "{{{key}:{{\"table\":\"{}\",\"version\":{},",
        entry.table, entry.version
    );
    match &entry.body {
        EntryBody::Inline(inline) => {
            text.push_str("\"actions\":[");
            for (at, line) in inline.lines.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(line);
            }
            text.push(']');
        }
        EntryBody::Staged(staged) => {
            let (path, hash) = (
                Value::from(staged.path.as_str()),
                Value::from(staged.hash.as_str()),
            );
            let _infallible = write!(
                text,
                "\"staged\":{path},\"bytes\":{},\"hash\":{hash}",
                staged.size_bytes
            );
        }
    }
    if !entry.files.is_empty() {
        text.push_str(",\"files\":");
        files::push(text, &entry.files);
    }
    if let Some(notes) = &entry.notes {
        text.push_str(",\"conflict\":");
        text.push_str(&notes::encode(notes));
    }
    text.push_str("}}\n");
}

fn push_line<T: Serialize>(text: &mut String, key: &str, value: &T) {
    // Maps with string keys and plain fields always have a JSON form.
    let body = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    let _infallible = writeln!(text, "{{\"{key}\":{body}}}");
}
