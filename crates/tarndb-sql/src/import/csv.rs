//! CSV: every value is read as text, then cast, so that an error can name line and column.
//!
//! Invariant: lines are counted as an editor counts them, line breaks inside quotes included. A
//! text column takes what stands in quotes as it is, also the empty text and the text of NULL.
//! Spec: docs/sql/insert.md, "Copy from".

use std::sync::Arc;

use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format as CsvFormat;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow_schema::{ArrowError, DataType as ArrowType, Field as ArrowField, Schema as ArrowSchema};
use tarndb_table::{DataType, Field};

use crate::error::{FileValueError, SqlError};
use crate::import::quotes::{self, Quotes};
use crate::import::source::{BATCH_ROWS, Mapping, Reading, Source, batch_of};
use crate::import::stream::Sink;
use crate::import::text::{cast, first_lost, no_such};

/// Names of the columns: those of the header, else `column1`, `column2`, ..
pub(super) fn column_names(
    source: &Source,
    header: bool,
    delimiter: u8,
) -> Result<Vec<String>, SqlError> {
    let format = CsvFormat::default()
        .with_delimiter(source.delimiter(delimiter))
        .with_header(header)
        .with_quote(b'"');
    let (schema, _) = format
        .infer_schema(source.bytes()?, Some(1))
        .map_err(|error| source.failed(reason(&error)))?;
    if schema.fields().is_empty() {
        return Err(source.failed("is empty"));
    }
    let names = schema.fields().iter().enumerate().map(|(index, field)| {
        let name = field.name().trim_start_matches('\u{feff}').trim();
        if header {
            name.to_owned()
        } else {
            format!("column{}", index + 1)
        }
    });
    Ok(names.collect())
}

/// Reads all values of a file as marked text (see [`quotes::value_of`]), batch by batch; the
/// second argument of `see` is the line on which the batch begins.
pub(super) fn read_text(
    source: &Source,
    names: &[String],
    header: bool,
    delimiter: u8,
    see: &mut dyn FnMut(&RecordBatch, u64) -> Result<bool, SqlError>,
) -> Result<(), SqlError> {
    let fields = names
        .iter()
        .map(|name| ArrowField::new(name, ArrowType::Utf8, true));
    let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
    let delimiter = source.delimiter(delimiter);
    let bytes = Quotes::new(source.bytes()?, delimiter, names.len(), header);
    let mut reader = ReaderBuilder::new(schema)
        .with_header(header)
        .with_delimiter(delimiter)
        .with_batch_size(BATCH_ROWS)
        .build_buffered(bytes)
        .map_err(|error| source.failed(reason(&error)))?;
    let mut line = if header { 2 } else { 1 };
    for batch in &mut reader {
        let batch = batch.map_err(|error| broken_line(source, &error))?;
        if !see(&batch, line)? {
            return Ok(());
        }
        line += lines_of(&batch, batch.num_rows());
    }
    Ok(())
}

/// Lines that the first `rows` rows of a batch take.
fn lines_of(batch: &RecordBatch, rows: usize) -> u64 {
    let inner = batch
        .columns()
        .iter()
        .filter_map(|c| c.as_string_opt::<i32>())
        .map(|column| {
            let values = column.iter().take(rows).flatten();
            values
                .map(|value| value.matches('\n').count())
                .sum::<usize>()
        });
    u64::try_from(rows + inner.sum::<usize>()).unwrap_or(u64::MAX)
}

/// Reads a file into the columns of its table.
pub(super) fn read(source: &Source, reading: &Reading, sink: Sink<'_>) -> Result<(), SqlError> {
    let names = column_names(source, reading.header, reading.delimiter)?;
    let mapping = if !reading.columns.is_empty() {
        let mapping = Mapping::by_name(source, reading, &reading.columns)?;
        let (width, expected) = (names.len(), reading.columns.len());
        if width != expected {
            return Err(source.failed(format!(
                "has {width} columns where the statement names {expected}"
            )));
        }
        mapping
    } else if reading.header {
        Mapping::by_name(source, reading, &names)?
    } else {
        Mapping::by_position(source, reading, names.len())?
    };
    let output = reading.schema.to_arrow();
    read_text(
        source,
        &names,
        reading.header,
        reading.delimiter,
        &mut |batch, line| {
            let columns = reading
                .schema
                .fields
                .iter()
                .zip(output.fields())
                .enumerate()
                .map(|(index, (field, arrow))| {
                    let Some(place) = mapping.place(index) else {
                        return Ok(new_null_array(arrow.data_type(), batch.num_rows()));
                    };
                    let column = Column {
                        source,
                        batch,
                        place,
                        line,
                        field,
                    };
                    column.cast(arrow.data_type(), reading.null_text.as_deref())
                })
                .collect::<Result<Vec<_>, SqlError>>()?;
            Ok(sink(batch_of(&output, columns, batch.num_rows())))
        },
    )
}

/// One column of one batch on its way to its type.
struct Column<'a> {
    source: &'a Source,
    batch: &'a RecordBatch,
    place: usize,
    line: u64,
    field: &'a Field,
}

impl Column<'_> {
    fn cast(&self, target: &ArrowType, null_text: Option<&str>) -> Result<ArrayRef, SqlError> {
        let is_nested = matches!(
            self.field.data_type,
            DataType::Array { .. } | DataType::Map { .. } | DataType::Struct(_)
        );
        if is_nested {
            return Err(SqlError::Unsupported {
                what: format!("CSV into the nested column {}", self.field.name),
                hint: Some("import NDJSON or Parquet".to_owned()),
            });
        }
        let text = self.text(null_text)?;
        let cast = cast(&text, target).map_err(|error| self.source.failed(reason(&error)))?;
        if let Some(row) = first_lost(&text, &cast) {
            let reason = no_such(&self.field.data_type);
            return Err(self.wrong(row, text.value(row), reason));
        }
        if !self.field.nullable && cast.null_count() > 0 {
            let row = (0..cast.len()).find(|row| cast.is_null(*row)).unwrap_or(0);
            return Err(self.wrong(row, "", "NULL in a NOT NULL column".to_owned()));
        }
        Ok(cast)
    }

    /// The column as text, NULL where the file means it.
    fn text(&self, null_text: Option<&str>) -> Result<StringArray, SqlError> {
        let column = self
            .batch
            .columns()
            .get(self.place)
            .and_then(|c| c.as_string_opt::<i32>());
        let column = column.ok_or(SqlError::Internal {
            context: "reading a CSV column",
        })?;
        let value = match self.field.data_type {
            DataType::String | DataType::Binary => text_of,
            _ => value_of,
        };
        Ok(column.iter().map(|v| value(v, null_text)).collect())
    }

    fn wrong(&self, row: usize, value: &str, reason: String) -> SqlError {
        SqlError::FileValue(Box::new(FileValueError {
            file: self.source.name(),
            line: self.line + lines_of(self.batch, row),
            column: self.field.name.clone(),
            value: value.to_owned(),
            reason,
        }))
    }
}

/// What a marked value means to a column that is no text: nothing, in quotes or not, is NULL.
pub(super) fn value_of<'a>(marked: Option<&'a str>, null_text: Option<&str>) -> Option<&'a str> {
    let (value, _) = quotes::value_of(marked?);
    (!value.is_empty() && Some(value) != null_text).then_some(value)
}

/// What a marked value means to a text column: in quotes it is never NULL.
fn text_of<'a>(marked: Option<&'a str>, null_text: Option<&str>) -> Option<&'a str> {
    match quotes::value_of(marked?) {
        (value, true) => Some(value),
        (_, false) => value_of(marked, null_text),
    }
}

/// What the reader says of a broken line, with the file and the line.
fn broken_line(source: &Source, error: &ArrowError) -> SqlError {
    let reason = reason(error);
    let line = reason.split_once("line ").and_then(|(_, rest)| {
        rest.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    });
    match line {
        Some(line) => SqlError::FileValue(Box::new(FileValueError {
            file: source.name(),
            line,
            column: String::new(),
            value: String::new(),
            reason,
        })),
        None => source.failed(reason),
    }
}

fn reason(error: &ArrowError) -> String {
    let text = match error {
        ArrowError::CsvError(text) | ArrowError::ParseError(text) => text.clone(),
        ArrowError::IoError(text, _) => text.clone(),
        other => other.to_string(),
    };
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}
