//! Aligned columns for reading.
//!
//! Invariant: widths are fixed by the names and the first `SAMPLE_ROWS` rows; a later value
//! that is wider shifts its own line and is never cut.

use std::io::Write;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use unicode_width::UnicodeWidthStr;

use super::cell::{Cells, is_number};

const SAMPLE_ROWS: usize = 1000;
const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

pub(super) struct Table {
    columns: Vec<Column>,
    styled: bool,
    /// The first rows, until the widths are fixed; `None` afterwards.
    held: Option<Vec<Vec<Option<String>>>>,
}

struct Column {
    name: String,
    right: bool,
    width: usize,
}

impl Table {
    pub(super) fn new(schema: &SchemaRef, styled: bool) -> Self {
        let columns = schema
            .fields()
            .iter()
            .map(|field| {
                let name = shown(field.name());
                Column {
                    width: name.width(),
                    name,
                    right: is_number(field.data_type()),
                }
            })
            .collect();
        Self {
            columns,
            styled,
            held: Some(Vec::new()),
        }
    }

    pub(super) fn batch(
        &mut self,
        out: &mut impl Write,
        batch: &RecordBatch,
    ) -> Result<(), ArrowError> {
        let cells = batch
            .columns()
            .iter()
            .map(Cells::new)
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let texts = cells
                .iter()
                .map(|c| c.text(row).map(|text| text.map(|text| cell_text(&text))))
                .collect::<Result<Vec<_>, _>>()?;
            match &mut self.held {
                Some(held) => {
                    held.push(texts);
                    if held.len() >= SAMPLE_ROWS {
                        self.release(out)?;
                    }
                }
                None => self.row(out, &texts)?,
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, out: &mut impl Write) -> Result<(), ArrowError> {
        self.release(out)
    }

    /// Fixes the widths and writes the header and the rows held back.
    fn release(&mut self, out: &mut impl Write) -> Result<(), ArrowError> {
        let Some(held) = self.held.take() else {
            return Ok(());
        };
        for texts in &held {
            for (column, text) in self.columns.iter_mut().zip(texts) {
                column.width = column.width.max(text.as_deref().unwrap_or("NULL").width());
            }
        }
        self.header(out)?;
        for texts in &held {
            self.row(out, texts)?;
        }
        Ok(())
    }

    fn header(&self, out: &mut impl Write) -> Result<(), ArrowError> {
        let mut line = String::new();
        let mut rule = String::new();
        for (index, column) in self.columns.iter().enumerate() {
            if index > 0 {
                line.push('|');
                rule.push('+');
            }
            line.push_str(&self.padded(&column.name, column, Some(BOLD)));
            rule.push_str(&"-".repeat(column.width + 2));
        }
        writeln!(out, "{}\n{rule}", line.trim_end())?;
        Ok(())
    }

    fn row(&self, out: &mut impl Write, texts: &[Option<String>]) -> Result<(), ArrowError> {
        let mut line = String::new();
        for (index, (column, text)) in self.columns.iter().zip(texts).enumerate() {
            if index > 0 {
                line.push('|');
            }
            line.push_str(&match text {
                Some(text) => self.padded(text, column, None),
                None => self.padded("NULL", column, Some(DIM)),
            });
        }
        writeln!(out, "{}", line.trim_end())?;
        Ok(())
    }

    fn padded(&self, text: &str, column: &Column, style: Option<&str>) -> String {
        let space = " ".repeat(column.width.saturating_sub(text.width()));
        let text = match style.filter(|_| self.styled) {
            Some(style) => format!("{style}{text}{PLAIN}"),
            None => text.to_owned(),
        };
        if column.right {
            format!(" {space}{text} ")
        } else {
            format!(" {text}{space} ")
        }
    }
}

/// A value that is there: control characters escaped, and quoted where it looks like NULL.
fn cell_text(text: &str) -> String {
    if text == "NULL" {
        "'NULL'".to_owned()
    } else {
        shown(text)
    }
}

fn shown(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| {
            if c.is_control() {
                c.escape_default().to_string()
            } else {
                c.to_string()
            }
        })
        .collect()
}
