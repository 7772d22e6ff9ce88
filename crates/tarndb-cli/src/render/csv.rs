//! CSV by RFC 4180, with lines ended by a line feed.
//!
//! Invariant: NULL is an empty field, an empty text is `""`; a reader that knows this gets
//! back what was written.

use std::io::Write;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::cell::Cells;

pub(super) fn header(out: &mut impl Write, schema: &SchemaRef) -> std::io::Result<()> {
    let names: Vec<String> = schema.fields().iter().map(|f| field(f.name())).collect();
    writeln!(out, "{}", names.join(","))
}

pub(super) fn rows(out: &mut impl Write, batch: &RecordBatch) -> Result<(), ArrowError> {
    let columns = batch
        .columns()
        .iter()
        .map(Cells::new)
        .collect::<Result<Vec<_>, _>>()?;
    let mut line = String::new();
    for row in 0..batch.num_rows() {
        line.clear();
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                line.push(',');
            }
            if let Some(text) = column.text(row)? {
                line.push_str(&field(&text));
            }
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn field(text: &str) -> String {
    let plain = !text.is_empty()
        && !text.contains([',', '"', '\n', '\r'])
        && !text.starts_with(' ')
        && !text.ends_with(' ');
    if plain {
        text.to_owned()
    } else {
        format!("\"{}\"", text.replace('"', "\"\""))
    }
}
