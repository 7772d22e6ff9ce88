//! COPY .. TO a file of CSV or NDJSON.
//!
//! Invariant: COPY .. FROM gives back what was written, or nothing is written: in CSV nothing is
//! NULL and `""` the empty text; a number that JSON does not have is an error. The file is there
//! when all of it is.
//! Spec: docs/sql/insert.md, "Copy to".

use std::io::Write;

use arrow::json::LineDelimitedWriter;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType as ArrowType, Schema as ArrowSchema};
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::listing::ListingTableUrl;
use flate2::{Compression, write::GzEncoder};
use futures::StreamExt;
use object_store::buffered::BufWriter;

use crate::engine::Engine;
use crate::error::{SqlError, translate::translate};
use crate::name::Spelling;

/// How rows become text.
#[derive(Debug)]
pub(crate) enum Form {
    /// CSV.
    Csv(CsvForm),
    /// One object per line.
    Json,
}

/// How rows become CSV.
#[derive(Debug)]
pub(crate) struct CsvForm {
    pub(crate) header: bool,
    pub(crate) delimiter: char,
    pub(crate) quote: char,
    pub(crate) null_text: String,
}

/// Writes the rows to a file; how many.
pub(crate) async fn write(
    engine: &Engine,
    frame: DataFrame,
    target: &str,
    form: &Form,
    spelling: &Spelling,
) -> Result<u64, SqlError> {
    let failed = |error| translate(error, spelling);
    let url = ListingTableUrl::parse(target).map_err(failed)?;
    let store = engine.context.runtime_env().object_store(&url);
    let mut writer = BufWriter::new(store.map_err(failed)?, url.prefix().clone());
    let written = write_rows(frame, target, form, spelling, &mut writer).await;
    if written.is_err() {
        // What was put so far is no file yet; a store that cannot drop it says no more than that.
        let _ = writer.abort().await;
    }
    written
}

async fn write_rows(
    frame: DataFrame,
    target: &str,
    form: &Form,
    spelling: &Spelling,
    writer: &mut BufWriter,
) -> Result<u64, SqlError> {
    let failed = |error| translate(error, spelling);
    let io = |error: std::io::Error| SqlError::File {
        path: target.to_owned(),
        reason: error.to_string(),
    };
    let mut packed = match target.to_lowercase().ends_with(".gz") {
        true => Packed::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::default()))),
        false => Packed::Plain(Vec::new()),
    };
    let schema = frame.schema().as_arrow().clone();
    if let Form::Csv(csv) = form {
        csv.begin(&schema, &mut packed)?;
    }
    let mut stream = frame.execute_stream().await.map_err(failed)?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(failed)?;
        let encoded = match form {
            Form::Csv(csv) => csv.rows(&batch, &mut packed),
            Form::Json => {
                check_finite(&batch)?;
                let mut json = LineDelimitedWriter::new(&mut packed);
                json.write(&batch).and_then(|()| json.finish())
            }
        };
        encoded.map_err(|error| failed(error.into()))?;
        put(writer, packed.take(), spelling).await?;
        rows += u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
    }
    put(writer, packed.finish().map_err(io)?, spelling).await?;
    tokio::io::AsyncWriteExt::shutdown(writer)
        .await
        .map_err(io)?;
    Ok(rows)
}

async fn put(writer: &mut BufWriter, bytes: Vec<u8>, spelling: &Spelling) -> Result<(), SqlError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let put = writer.put(Bytes::from(bytes)).await;
    put.map_err(|error| translate(DataFusionError::from(error), spelling))
}

/// Bytes on their way, packed where the name of the file says so.
enum Packed {
    Plain(Vec<u8>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

impl Packed {
    /// The bytes that are ready.
    fn take(&mut self) -> Vec<u8> {
        match self {
            Self::Plain(bytes) => std::mem::take(bytes),
            Self::Gzip(encoder) => std::mem::take(encoder.get_mut()),
        }
    }

    /// The last bytes.
    fn finish(self) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Plain(bytes) => Ok(bytes),
            Self::Gzip(encoder) => (*encoder).finish(),
        }
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(all) => all.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl CsvForm {
    /// Refuses what CSV cannot hold, and writes the header.
    fn begin(&self, schema: &ArrowSchema, out: &mut Packed) -> Result<(), SqlError> {
        if let Some(field) = schema.fields().iter().find(|f| f.data_type().is_nested()) {
            return Err(SqlError::Unsupported {
                what: format!("CSV of the nested column {}", field.name()),
                hint: Some("write JSON or Parquet".to_owned()),
            });
        }
        if self.null_text.contains(|c| self.is_special(c)) {
            return Err(SqlError::Setting {
                name: "COPY option null".to_owned(),
                reason: "holds the delimiter, the quote or a line break".to_owned(),
            });
        }
        if self.header {
            let names = schema.fields().iter().map(|f| self.value(f.name()));
            let line = names.collect::<Vec<_>>().join(&self.delimiter.to_string());
            writeln!(out, "{line}").map_err(|_| SqlError::Internal {
                context: "writing the header of a CSV file",
            })?;
        }
        Ok(())
    }

    fn rows(&self, batch: &RecordBatch, out: &mut Packed) -> Result<(), ArrowError> {
        let options = FormatOptions::default();
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        let mut line = String::new();
        for row in 0..batch.num_rows() {
            line.clear();
            for (index, (column, format)) in batch.columns().iter().zip(&columns).enumerate() {
                if index > 0 {
                    line.push(self.delimiter);
                }
                match column.is_null(row) {
                    true => line.push_str(&self.null_text),
                    false => line.push_str(&self.value(&format.value(row).try_to_string()?)),
                }
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    /// A value, in quotes where it would be read as something else.
    fn value(&self, text: &str) -> String {
        let plain =
            !text.is_empty() && text != self.null_text && !text.contains(|c| self.is_special(c));
        if plain {
            return text.to_owned();
        }
        let quote = self.quote.to_string();
        format!("{quote}{}{quote}", text.replace(&quote, &quote.repeat(2)))
    }

    fn is_special(&self, c: char) -> bool {
        c == self.delimiter || c == self.quote || c == '\n' || c == '\r'
    }
}

/// # Errors
/// A column with NaN or infinity, which would become NULL.
fn check_finite(batch: &RecordBatch) -> Result<(), SqlError> {
    let fields = batch.schema_ref().fields().iter();
    match fields
        .zip(batch.columns())
        .find(|(_, column)| !is_finite(column))
    {
        None => Ok(()),
        Some((field, _)) => Err(SqlError::Unsupported {
            what: format!("NaN or infinity in JSON, of column {}", field.name()),
            hint: Some("write CSV or Parquet".to_owned()),
        }),
    }
}

fn is_finite(array: &dyn Array) -> bool {
    let mut valid = (0..array.len()).filter(|row| array.is_valid(*row));
    match array.data_type() {
        ArrowType::Float16 => {
            let column = array.as_primitive::<Float16Type>();
            column.iter().flatten().all(|value| value.is_finite())
        }
        ArrowType::Float32 => {
            let column = array.as_primitive::<Float32Type>();
            column.iter().flatten().all(f32::is_finite)
        }
        ArrowType::Float64 => {
            let column = array.as_primitive::<Float64Type>();
            column.iter().flatten().all(f64::is_finite)
        }
        ArrowType::List(field) if holds_floats(field.data_type()) => {
            let lists = array.as_list::<i32>();
            valid.all(|row| is_finite(&lists.value(row)))
        }
        ArrowType::LargeList(field) if holds_floats(field.data_type()) => {
            let lists = array.as_list::<i64>();
            valid.all(|row| is_finite(&lists.value(row)))
        }
        ArrowType::Map(field, _) if holds_floats(field.data_type()) => {
            let maps = array.as_map();
            valid.all(|row| is_finite(&maps.value(row)))
        }
        ArrowType::Struct(_) => array.as_struct().columns().iter().all(|c| is_finite(c)),
        _ => true,
    }
}

/// Whether values of the type may be or hold a float.
fn holds_floats(data_type: &ArrowType) -> bool {
    data_type.is_floating() || data_type.is_nested()
}
