//! NDJSON: one object per line.
//!
//! Invariant: lines are decoded in groups; when a group fails, its lines are decoded one by
//! one, so that the error names the line.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use arrow::json::ReaderBuilder;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema as ArrowSchema, SchemaRef};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::ddl::storable;
use crate::error::{FileValueError, SqlError};
use crate::import::source::{BATCH_ROWS, Reading, Source};
use crate::import::stream::Sink;
use crate::name::{near, same};

/// Lines decoded together; at most this many bytes of them.
const GROUP_LINES: usize = 1024;
const GROUP_BYTES: usize = 4 << 20;

/// The columns that all lines of a file together have.
pub(super) fn infer(source: &Source) -> Result<ArrowSchema, SqlError> {
    let reader = BufReader::new(source.bytes()?);
    let (schema, _) = arrow::json::reader::infer_json_schema(reader, None)
        .map_err(|error| source.failed(reason(&error)))?;
    let mut fields = schema.fields().to_vec();
    // The library sorts by name; people expect the order in which the keys first come.
    let order = first_keys(source)?;
    let place = |name: &str| {
        order
            .iter()
            .position(|key| key == name)
            .unwrap_or(order.len())
    };
    fields.sort_by_key(|field| place(field.name()));
    Ok(storable(&ArrowSchema::new(fields)))
}

/// Keys of the first lines in the order in which they first come.
fn first_keys(source: &Source) -> Result<Vec<String>, SqlError> {
    let mut keys = Vec::<String>::new();
    let mut lines = BufReader::new(source.bytes()?);
    let group = read_group(&mut lines).map_err(|error| source.failed(error.to_string()))?;
    for line in group.bytes.split(|byte| *byte == b'\n') {
        if let Ok(Keys(found)) = serde_json::from_slice(line) {
            for key in found {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
    }
    Ok(keys)
}

/// The keys of an object in their order.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Keys;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(KeyVisitor)
    }
}

/// Reads a file into the columns of its table.
pub(super) fn read(source: &Source, reading: &Reading, sink: Sink<'_>) -> Result<(), SqlError> {
    let table = reading.schema.to_arrow();
    let fields = table
        .fields()
        .iter()
        .map(|f| f.as_ref().clone().with_nullable(true));
    let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
    let mut lines = BufReader::new(source.bytes()?);
    let mut first_line = 1;
    loop {
        let group = read_group(&mut lines).map_err(|error| source.failed(error.to_string()))?;
        if group.lines == 0 {
            return Ok(());
        }
        let text = renamed(source, reading, &group, first_line)?;
        match decode(&schema, &text) {
            Ok(batches) => {
                for batch in batches {
                    if !sink(Ok(batch)) {
                        return Ok(());
                    }
                }
            }
            Err(error) => return Err(find_line(source, &schema, &text, first_line, &error)),
        }
        first_line += group.lines;
    }
}

struct Group {
    bytes: Vec<u8>,
    lines: u64,
}

fn read_group(reader: &mut BufReader<Box<dyn Read + Send>>) -> std::io::Result<Group> {
    let mut group = Group {
        bytes: Vec::new(),
        lines: 0,
    };
    for _ in 0..GROUP_LINES {
        if group.bytes.len() >= GROUP_BYTES || reader.read_until(b'\n', &mut group.bytes)? == 0 {
            break;
        }
        group.lines += 1;
    }
    Ok(group)
}

/// The group with its keys spelled as the table's columns; a key that is no column is an error.
fn renamed(
    source: &Source,
    reading: &Reading,
    group: &Group,
    first_line: u64,
) -> Result<Vec<u8>, SqlError> {
    let mut text = Vec::with_capacity(group.bytes.len());
    for (index, line) in group.bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let number = first_line + u64::try_from(index).unwrap_or(0);
        let wrong = |reason: String| file_line(source, number, reason);
        // Raw values pass through as written, so that long numbers keep their digits.
        let object: std::collections::BTreeMap<String, &serde_json::value::RawValue> =
            serde_json::from_slice(line)
                .map_err(|error| wrong(format!("not a JSON object, {error}")))?;
        text.push(b'{');
        for (place, (key, value)) in object.into_iter().enumerate() {
            let field = reading.schema.fields.iter().find(|f| same(&f.name, &key));
            let Some(field) = field else {
                let near = near(&key, reading.schema.fields.iter().map(|f| f.name.as_str()));
                let name = format!("{key} (of {}, line {number})", source.name());
                let table = Some(reading.table.clone());
                return Err(SqlError::UnknownColumn { name, table, near });
            };
            if place > 0 {
                text.push(b',');
            }
            let name = serde_json::to_string(&field.name).unwrap_or_default();
            text.extend_from_slice(name.as_bytes());
            text.push(b':');
            text.extend_from_slice(value.get().as_bytes());
        }
        text.extend_from_slice(b"}\n");
    }
    Ok(text)
}

fn decode(schema: &SchemaRef, text: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
    let reader = ReaderBuilder::new(Arc::clone(schema))
        .with_batch_size(BATCH_ROWS)
        .build(text)?;
    reader.collect()
}

fn find_line(
    source: &Source,
    schema: &SchemaRef,
    text: &[u8],
    first_line: u64,
    whole: &ArrowError,
) -> SqlError {
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if let Err(error) = decode(schema, line) {
            let number = first_line + u64::try_from(index).unwrap_or(0);
            return file_line(source, number, reason(&error));
        }
    }
    source.failed(reason(whole))
}

fn file_line(source: &Source, line: u64, reason: String) -> SqlError {
    SqlError::FileValue(Box::new(FileValueError {
        file: source.name(),
        line,
        column: String::new(),
        value: String::new(),
        reason,
    }))
}

fn reason(error: &ArrowError) -> String {
    match error {
        ArrowError::JsonError(text) | ArrowError::ParseError(text) => text.clone(),
        other => other.to_string(),
    }
}
