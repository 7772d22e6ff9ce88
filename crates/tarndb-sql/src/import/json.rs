//! NDJSON: one object per line.
//!
//! Invariant: a value arrives as it is written or the import ends with its line and column. Plain
//! values become text and are cast as those of CSV are; nested ones are decoded by the engine,
//! after their numbers and keys were seen to by [`super::nested`].
//! Does not: take a key that comes twice.
//! Spec: docs/sql/insert.md, "Copy from".

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use arrow::json::ReaderBuilder;
use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Schema as ArrowSchema, SchemaRef};
use tarndb_table::DataType;

use crate::ddl::storable;
use crate::error::{FileValueError, SqlError};
use crate::import::nested::{Entries, leaf, rewrite};
use crate::import::source::{Reading, Source, batch_of};
use crate::import::stream::Sink;
use crate::import::text::{cast, first_lost, no_such};
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
        if let Ok(Entries(found)) = serde_json::from_slice(line) {
            for (key, _) in found {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
    }
    Ok(keys)
}

/// Reads a file into the columns of its table.
pub(super) fn read(source: &Source, reading: &Reading, sink: Sink<'_>) -> Result<(), SqlError> {
    let mut lines = BufReader::new(source.bytes()?);
    let mut first_line = 1;
    loop {
        let group = read_group(&mut lines).map_err(|error| source.failed(error.to_string()))?;
        if group.lines == 0 {
            return Ok(());
        }
        let mut rows = Rows::new(source, reading);
        for (line, number) in group.bytes.split(|byte| *byte == b'\n').zip(first_line..) {
            if !line.trim_ascii().is_empty() {
                rows.push(line, number)?;
            }
        }
        if !rows.lines.is_empty() && !sink(rows.finish()) {
            return Ok(());
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

/// Rows on their way to a batch.
struct Rows<'a> {
    source: &'a Source,
    reading: &'a Reading,
    /// The line of each row.
    lines: Vec<u64>,
    /// The texts of each column that is not nested.
    texts: Vec<Option<StringBuilder>>,
    /// Lines of the nested columns only.
    nested: Vec<u8>,
}

/// Whether the engine decodes values of the type: nested ones, and binaries (in hexadecimal).
fn is_nested(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Array { .. }
            | DataType::Map { .. }
            | DataType::Struct(_)
            | DataType::Binary
            | DataType::Void
            | DataType::Variant
    )
}

impl<'a> Rows<'a> {
    fn new(source: &'a Source, reading: &'a Reading) -> Self {
        let fields = reading.schema.fields.iter();
        let texts = fields.map(|f| (!is_nested(&f.data_type)).then(StringBuilder::new));
        Self {
            source,
            reading,
            lines: Vec::new(),
            texts: texts.collect(),
            nested: Vec::new(),
        }
    }

    fn push(&mut self, line: &[u8], number: u64) -> Result<(), SqlError> {
        let fields = &self.reading.schema.fields;
        let wrong = |column: &str, value: &str, reason: String| {
            file_value(self.source, number, column, value, reason)
        };
        let Entries(entries) = serde_json::from_slice(line)
            .map_err(|error| wrong("", "", format!("not a JSON object, {error}")))?;
        let mut values = vec![None; fields.len()];
        for (key, value) in entries {
            let place = fields.iter().position(|field| same(&field.name, &key));
            let Some(slot) = place.and_then(|place| values.get_mut(place)) else {
                let near = near(&key, fields.iter().map(|f| f.name.as_str()));
                let name = format!("{key} (of {}, line {number})", self.source.name());
                let table = Some(self.reading.table.clone());
                return Err(SqlError::UnknownColumn { name, table, near });
            };
            if slot.replace(value.get()).is_some() {
                let reason = "the key comes twice in one object".to_owned();
                return Err(wrong(&key, value.get(), reason));
            }
        }
        self.nested.push(b'{');
        let mut first = true;
        for ((field, value), texts) in fields.iter().zip(values).zip(&mut self.texts) {
            let failed = |reason| wrong(&field.name, value.unwrap_or_default(), reason);
            match (texts, value) {
                (Some(texts), None) => texts.append_null(),
                (Some(texts), Some(value)) => {
                    texts.append_option(leaf(value, &field.data_type).map_err(failed)?);
                }
                (None, None) => {}
                (None, Some(value)) => {
                    if !std::mem::take(&mut first) {
                        self.nested.push(b',');
                    }
                    let name = serde_json::to_string(&field.name).unwrap_or_default();
                    self.nested.extend_from_slice(name.as_bytes());
                    self.nested.push(b':');
                    rewrite(value, &field.data_type, &mut self.nested).map_err(failed)?;
                }
            }
        }
        self.nested.extend_from_slice(b"}\n");
        self.lines.push(number);
        Ok(())
    }

    fn finish(mut self) -> Result<RecordBatch, SqlError> {
        let output = self.reading.schema.to_arrow();
        let nested = self.decode_nested(&output)?;
        let mut columns = Vec::<ArrayRef>::with_capacity(self.texts.len());
        let fields = self.reading.schema.fields.iter().zip(output.fields());
        for ((field, arrow), texts) in fields.zip(&mut self.texts) {
            let Some(texts) = texts else {
                let column = nested.as_ref().and_then(|n| n.column_by_name(arrow.name()));
                columns.push(Arc::clone(column.ok_or(SqlError::Internal {
                    context: "decoding a nested column",
                })?));
                continue;
            };
            let texts = texts.finish();
            let column = cast(&texts, arrow.data_type())
                .map_err(|error| self.source.failed(reason(&error)))?;
            if let Some(row) = first_lost(&texts, &column) {
                let line = self.lines.get(row).copied().unwrap_or_default();
                let reason = no_such(&field.data_type);
                let value = texts.value(row);
                return Err(file_value(self.source, line, &field.name, value, reason));
            }
            columns.push(column);
        }
        batch_of(&output, columns, self.lines.len())
    }

    fn decode_nested(&self, output: &SchemaRef) -> Result<Option<RecordBatch>, SqlError> {
        let fields = output.fields().iter().zip(&self.texts);
        let fields = fields
            .filter(|(_, texts)| texts.is_none())
            .map(|(field, _)| field.as_ref().clone().with_nullable(true))
            .collect::<Vec<_>>();
        if fields.is_empty() {
            return Ok(None);
        }
        let schema = Arc::new(ArrowSchema::new(fields));
        match decode(&schema, &self.nested, self.lines.len()) {
            Ok(batch) => Ok(batch),
            Err(error) => Err(self.find_line(&schema, &error)),
        }
    }

    /// The line that cannot be decoded by itself.
    fn find_line(&self, schema: &SchemaRef, whole: &ArrowError) -> SqlError {
        let lines = self.nested.split(|byte| *byte == b'\n');
        for (line, number) in lines.zip(&self.lines) {
            if let Err(error) = decode(schema, line, 1) {
                return file_value(self.source, *number, "", "", reason(&error));
            }
        }
        self.source.failed(reason(whole))
    }
}

fn decode(schema: &SchemaRef, text: &[u8], rows: usize) -> Result<Option<RecordBatch>, ArrowError> {
    let mut reader = ReaderBuilder::new(Arc::clone(schema))
        .with_batch_size(rows)
        .build(text)?;
    reader.next().transpose()
}

fn file_value(source: &Source, line: u64, column: &str, value: &str, reason: String) -> SqlError {
    SqlError::FileValue(Box::new(FileValueError {
        file: source.name(),
        line,
        column: column.to_owned(),
        value: value.to_owned(),
        reason,
    }))
}

fn reason(error: &ArrowError) -> String {
    match error {
        ArrowError::JsonError(text) | ArrowError::ParseError(text) => text.clone(),
        other => other.to_string(),
    }
}
