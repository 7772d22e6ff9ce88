//! Results as text: aligned tables, CSV and NDJSON.
//!
//! Invariant: rows are written as they come; at most the first rows of a table are held back,
//! to find the widths of its columns. NULL never looks like a text: it is `NULL` in a table
//! (a text of that spelling is quoted there), an unquoted empty field in CSV (an empty text
//! is `""`), and `null` in NDJSON.

mod cell;
mod csv;
mod table;

use std::io::{self, Write};

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use arrow::record_batch::RecordBatch;

use crate::args::Format;
use crate::failure::Failure;

pub(crate) use cell::{human_bytes, human_duration};

/// Writes one result at a time to `out`.
pub(crate) struct Renderer<W: Write> {
    out: W,
    format: Format,
    /// Whether NULL and headings may be set off by terminal attributes.
    styled: bool,
    results: usize,
}

/// One result being written.
pub(crate) struct Rows<'r, W: Write> {
    renderer: &'r mut Renderer<W>,
    table: table::Table,
    rows: u64,
}

impl<W: Write> Renderer<W> {
    /// A renderer; `styled` when `out` is a terminal.
    pub(crate) fn new(out: W, format: Format, styled: bool) -> Self {
        Self {
            out,
            format,
            styled,
            results: 0,
        }
    }

    /// Starts a result with the columns of `schema`.
    pub(crate) fn rows(&mut self, schema: SchemaRef) -> Result<Rows<'_, W>, Failure> {
        if self.results > 0 && self.format != Format::Ndjson {
            writeln!(self.out)?;
        }
        self.results += 1;
        if self.format == Format::Csv {
            csv::header(&mut self.out, &schema)?;
        }
        let table = table::Table::new(&schema, self.styled);
        Ok(Rows {
            renderer: self,
            table,
            rows: 0,
        })
    }

    /// Writes a whole result.
    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let mut rows = self.rows(batch.schema())?;
        rows.batch(batch)?;
        rows.finish()
    }

    /// Writes a line that is not data; only between tables.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        if self.format == Format::Table {
            writeln!(self.out, "{text}")?;
            self.out.flush()?;
            // A remark directly below a table needs no empty line before the next table.
            self.results = 0;
        }
        Ok(())
    }

    /// Begins anew: the next result needs no empty line before it.
    pub(crate) fn begin(&mut self) {
        self.results = 0;
    }

    /// The format that was chosen.
    pub(crate) fn format(&self) -> Format {
        self.format
    }
}

impl<W: Write> Rows<'_, W> {
    /// Writes the rows of `batch`.
    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.rows += batch.num_rows() as u64;
        let out = &mut self.renderer.out;
        match self.renderer.format {
            Format::Table => self.table.batch(out, batch).map_err(failure),
            Format::Csv => csv::rows(out, batch).map_err(failure),
            Format::Ndjson => ndjson(out, batch).map_err(failure),
        }
    }

    /// Writes what was held back, and in a table the number of rows.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let out = &mut self.renderer.out;
        if self.renderer.format == Format::Table {
            self.table.finish(out).map_err(failure)?;
            match self.rows {
                1 => writeln!(out, "(1 row)")?,
                rows => writeln!(out, "({rows} rows)")?,
            }
        }
        out.flush()?;
        Ok(())
    }
}

fn ndjson(out: &mut impl Write, batch: &RecordBatch) -> Result<(), ArrowError> {
    let mut writer = WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, LineDelimited>(&mut *out);
    writer.write(batch)?;
    writer.finish()
}

fn failure(error: ArrowError) -> Failure {
    match error {
        ArrowError::IoError(_, source) => Failure::from(source),
        ArrowError::ExternalError(source) => match source.downcast::<io::Error>() {
            Ok(source) => Failure::from(*source),
            Err(other) => Failure::from(io::Error::other(other)),
        },
        other => Failure::from(io::Error::other(other)),
    }
}

#[cfg(test)]
mod tests;
