//! Bytes to record, for bytes that nobody vouches for.
//!
//! Invariant: what is not understood is either named (`Action::Unknown`) or an error with its
//! line; nothing is skipped in silence but unknown keys inside known objects.
//! Spec: docs/format/log.md, "Records".

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tarndb_table::codec::Entry;
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TimestampMs, TxnId, Uuid};

use super::object::{DropTagLine, DropViewLine, TagLine, UndropLine};
use super::{
    Action, AttachAction, EntryBody, Record, RecordTxn, Staged, TableEntryAction, TagAction,
    UndropAction, VacuumAction, files, notes,
};

/// Formats whose entries this build understands; the action's key is the format's name.
const FORMATS: [&str; 1] = ["delta"];

/// Why bytes are not a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No bytes at all.
    #[error("the record is empty")]
    Empty,
    /// The bytes are not UTF-8 text.
    #[error("the record is not UTF-8 text")]
    NotText(#[source] std::str::Utf8Error),
    /// The last line has no end: the object was cut off.
    #[error("the record is torn: its last line is not ended: line={line}")]
    Torn {
        /// 1-based.
        line: usize,
    },
    /// A line that is not what it has to be.
    #[error("malformed line in the record: line={line}")]
    Malformed {
        /// 1-based.
        line: usize,
        /// What the JSON parser says.
        #[source]
        source: serde_json::Error,
    },
    /// A line with no action or several.
    #[error("a line of the record must hold exactly one action: line={line} keys={keys}")]
    NotOneAction {
        /// 1-based.
        line: usize,
        /// Number of keys found.
        keys: usize,
    },
    /// Lines in a wrong order, such as an action before its transaction.
    #[error("unexpected line in the record: line={line} found={found} expected={expected}")]
    OutOfOrder {
        /// 1-based.
        line: usize,
        /// The key found.
        found: String,
        /// What had to stand there.
        expected: &'static str,
    },
    /// Notes for later writers that cannot be read.
    #[error("the conflict notes of a table entry cannot be read: line={line}, {reason}")]
    Notes {
        /// Line.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A data file in the record whose bytes cannot be read.
    #[error("the bytes of a data file in the record are damaged: line={line} file={path}")]
    InlineFile {
        /// 1-based.
        line: usize,
        /// Its path relative to the table.
        path: String,
    },
    /// An entry with neither actions nor a staged object.
    #[error("a table entry has neither actions nor a staged file: line={line}")]
    NoBody {
        /// 1-based.
        line: usize,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordLine {
    version: u64,
    timestamp: i64,
    #[serde(default)]
    writer: String,
    #[serde(default)]
    reader_features: Vec<String>,
    #[serde(default)]
    writer_features: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TxnLine {
    id: String,
    read_version: u64,
    timestamp: i64,
    #[serde(default)]
    isolation: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    user_metadata: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct DatabaseLine {
    id: String,
    format: u32,
}

#[derive(Deserialize)]
struct SchemaLine {
    name: String,
}

#[derive(Deserialize)]
struct CreateTableLine {
    id: String,
    schema: String,
    name: String,
    format: String,
    location: String,
    #[serde(default)]
    bases: Vec<String>,
}

#[derive(Deserialize)]
struct TableLine {
    id: String,
}

#[derive(Deserialize)]
struct AttachLine {
    id: String,
    schema: String,
    name: String,
    format: String,
    location: String,
    version: u64,
}

#[derive(Deserialize)]
struct FenceLine {
    txns: Vec<String>,
}

#[derive(Deserialize)]
struct VacuumLine {
    horizon: u64,
    before: i64,
    #[serde(default)]
    tables: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RenameLine {
    id: String,
    schema: String,
    name: String,
}

#[derive(Deserialize)]
struct EntryLine<'a> {
    table: String,
    version: u64,
    #[serde(borrow, default)]
    actions: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    staged: Option<String>,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    hash: String,
    #[serde(borrow, default)]
    conflict: Option<&'a RawValue>,
    /// The bytes are base64, which JSON never escapes.
    #[serde(borrow, default)]
    files: BTreeMap<String, &'a str>,
}

/// Reads a record.
///
/// # Errors
/// [`RecordError`] with the line that is wrong.
pub fn parse(bytes: &[u8]) -> Result<Record, RecordError> {
    let text = std::str::from_utf8(bytes).map_err(RecordError::NotText)?;
    if text.is_empty() {
        return Err(RecordError::Empty);
    }
    let last_line = text.lines().count();
    if !text.ends_with('\n') {
        return Err(RecordError::Torn { line: last_line });
    }
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let (number, first) = lines.next().ok_or(RecordError::Empty)?;
    let mut record = parse_head(number, first, bytes.len())?;
    for (number, line) in lines {
        parse_line(&mut record, number, line)?;
    }
    Ok(record)
}

fn parse_head(number: usize, line: &str, size_bytes: usize) -> Result<Record, RecordError> {
    let (key, body) = one_action(number, line)?;
    if key != "record" {
        return Err(RecordError::OutOfOrder {
            line: number,
            found: key,
            expected: "record",
        });
    }
    let head: RecordLine = read(number, body)?;
    Ok(Record {
        version: DbVersion(head.version),
        timestamp: TimestampMs(head.timestamp),
        writer: head.writer,
        reader_features: head.reader_features,
        writer_features: head.writer_features,
        txns: Vec::new(),
        size_bytes,
    })
}

fn parse_line(record: &mut Record, number: usize, line: &str) -> Result<(), RecordError> {
    let (key, body) = one_action(number, line)?;
    if key == "record" {
        return Err(RecordError::OutOfOrder {
            line: number,
            found: key,
            expected: "an action",
        });
    }
    if key == "txn" {
        let txn: TxnLine = read(number, body)?;
        record.txns.push(RecordTxn {
            id: TxnId(id(number, &txn.id)?),
            read_version: DbVersion(txn.read_version),
            timestamp: TimestampMs(txn.timestamp),
            isolation: txn.isolation,
            operation: txn.operation,
            user_metadata: txn.user_metadata,
            actions: Vec::new(),
        });
        return Ok(());
    }
    let Some(txn) = record.txns.last_mut() else {
        return Err(RecordError::OutOfOrder {
            line: number,
            found: key,
            expected: "txn",
        });
    };
    txn.actions.push(parse_action(number, key, body)?);
    Ok(())
}

fn parse_action(number: usize, key: String, body: &RawValue) -> Result<Action, RecordError> {
    Ok(match key.as_str() {
        "createDatabase" => {
            let line: DatabaseLine = read(number, body)?;
            Action::CreateDatabase {
                id: DatabaseId(id(number, &line.id)?),
                format: line.format,
            }
        }
        "createSchema" => Action::CreateSchema {
            name: read::<SchemaLine>(number, body)?.name,
        },
        "dropSchema" => Action::DropSchema {
            name: read::<SchemaLine>(number, body)?.name,
        },
        "createTable" => {
            let line: CreateTableLine = read(number, body)?;
            Action::CreateTable {
                id: TableId(id(number, &line.id)?),
                schema: line.schema,
                name: line.name,
                format: line.format,
                location: line.location,
                bases: line.bases,
            }
        }
        "dropTable" => {
            let line: TableLine = read(number, body)?;
            Action::DropTable {
                id: TableId(id(number, &line.id)?),
            }
        }
        "attachTable" => {
            let line: AttachLine = read(number, body)?;
            Action::AttachTable(AttachAction {
                id: TableId(id(number, &line.id)?),
                schema: line.schema,
                name: line.name,
                format: line.format,
                location: line.location,
                version: TableVersion(line.version),
            })
        }
        "detachTable" => {
            let line: TableLine = read(number, body)?;
            Action::DetachTable {
                id: TableId(id(number, &line.id)?),
            }
        }
        "renameTable" => {
            let line: RenameLine = read(number, body)?;
            Action::RenameTable {
                id: TableId(id(number, &line.id)?),
                schema: line.schema,
                name: line.name,
            }
        }
        "undropTable" | "createView" | "dropView" | "createTag" | "dropTag" => {
            parse_object(number, &key, body)?
        }
        "fence" => {
            let line: FenceLine = read(number, body)?;
            let ids = line.txns.iter().map(|txn| id(number, txn).map(TxnId));
            Action::Fence {
                txns: ids.collect::<Result<_, _>>()?,
            }
        }
        "vacuum" => {
            let line: VacuumLine = read(number, body)?;
            let ids = line.tables.map(|tables| {
                let ids = tables.iter().map(|text| id(number, text).map(TableId));
                ids.collect::<Result<_, _>>()
            });
            Action::Vacuum(VacuumAction {
                horizon: DbVersion(line.horizon),
                before: TimestampMs(line.before),
                tables: ids.transpose()?,
            })
        }
        format if FORMATS.contains(&format) => {
            let line: EntryLine<'_> = read(number, body)?;
            Action::Entry(parse_entry(number, key, line)?)
        }
        _ => Action::Unknown { name: key },
    })
}

fn parse_object(number: usize, key: &str, body: &RawValue) -> Result<Action, RecordError> {
    Ok(match key {
        "undropTable" => {
            let line: UndropLine = read(number, body)?;
            Action::UndropTable(UndropAction {
                id: TableId(id(number, &line.id)?),
                schema: line.schema,
                name: line.name,
            })
        }
        "createView" => Action::CreateView(read(number, body)?),
        "dropView" => {
            let DropViewLine { schema, name } = read(number, body)?;
            Action::DropView { schema, name }
        }
        "createTag" => {
            let line: TagLine = read(number, body)?;
            Action::CreateTag(TagAction {
                name: line.name,
                version: DbVersion(line.version),
            })
        }
        _ => Action::DropTag {
            name: read::<DropTagLine>(number, body)?.name,
        },
    })
}

fn parse_entry(
    number: usize,
    format: String,
    line: EntryLine<'_>,
) -> Result<TableEntryAction, RecordError> {
    let version = TableVersion(line.version);
    let body = match (line.actions, line.staged) {
        (Some(actions), _) => EntryBody::Inline(Arc::new(Entry {
            version,
            lines: actions.iter().map(|raw| raw.get().to_owned()).collect(),
        })),
        (None, Some(path)) => EntryBody::Staged(Staged {
            path,
            size_bytes: line.bytes,
            hash: line.hash,
        }),
        (None, None) => return Err(RecordError::NoBody { line: number }),
    };
    let notes = line
        .conflict
        .map(|raw| notes::parse(raw.get()))
        .transpose()
        .map_err(|reason| RecordError::Notes {
            line: number,
            reason,
        })?;
    let files =
        files::parse(line.files).map_err(|path| RecordError::InlineFile { line: number, path })?;
    Ok(TableEntryAction {
        format,
        table: TableId(id(number, &line.table)?),
        version,
        body,
        notes: notes.map(Arc::new),
        files,
    })
}

/// Whether the bytes of a record hold the transaction; bytes that are no record do not.
pub fn holds_txn(bytes: &[u8], txn: TxnId) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    // Only lines that are transactions are looked at: user data may contain any text.
    text.lines()
        .filter(|line| line.starts_with("{\"txn\":"))
        .any(|line| {
            one_action(0, line)
                .and_then(|(_, body)| read::<TxnLine>(0, body))
                .is_ok_and(|found| found.id.parse() == Ok(txn))
        })
}

fn one_action(number: usize, line: &str) -> Result<(String, &RawValue), RecordError> {
    let mut keys: BTreeMap<String, &RawValue> =
        serde_json::from_str(line).map_err(|source| RecordError::Malformed {
            line: number,
            source,
        })?;
    let count = keys.len();
    match (keys.pop_first(), count) {
        (Some(only), 1) => Ok(only),
        _ => Err(RecordError::NotOneAction {
            line: number,
            keys: count,
        }),
    }
}

fn read<'a, T: Deserialize<'a>>(number: usize, body: &'a RawValue) -> Result<T, RecordError> {
    serde_json::from_str(body.get()).map_err(|source| RecordError::Malformed {
        line: number,
        source,
    })
}

fn id(number: usize, text: &str) -> Result<Uuid, RecordError> {
    use serde::de::Error as _;
    Uuid::parse_str(text).map_err(|_| RecordError::Malformed {
        line: number,
        source: serde_json::Error::custom(format_args!("not an id: {text:?}")),
    })
}
