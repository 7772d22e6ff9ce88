//! CSV, JSON and Parquet files as tables.
//!
//! Invariant: the format follows from the name (or the function); column types follow from the
//! data; a missing file is an error that names it.

use arrow_schema::{DataType, Schema};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::execution::options::{CsvReadOptions, JsonReadOptions, ParquetReadOptions};
use datafusion::functions::core::expr_fn::nullif;
use datafusion::logical_expr::{LogicalPlan, cast, col, lit};

use crate::engine::Engine;
use crate::error::{SqlError, translate::translate};
use crate::function::{FileCall, Reader, argument_error, fold_columns};
use crate::name::Spelling;
use crate::query::Storage;

/// Rows from which the types of a text file are inferred.
const INFER_ROWS: usize = 100_000;

/// Names of the option with the text that stands for NULL.
const NULL_OPTIONS: [&str; 2] = ["null", "nullstr"];

/// Endings of file names, in lower case, and what reads them.
const ENDINGS: &[(&str, Reader)] = &[
    (".csv", Reader::Csv),
    (".csv.gz", Reader::Csv),
    (".tsv", Reader::Csv),
    (".tsv.gz", Reader::Csv),
    (".json", Reader::Json),
    (".json.gz", Reader::Json),
    (".ndjson", Reader::Json),
    (".ndjson.gz", Reader::Json),
    (".jsonl", Reader::Json),
    (".jsonl.gz", Reader::Json),
    (".parquet", Reader::Parquet),
];

/// Whether a quoted name is that of a file.
pub(crate) fn is_file_name(name: &str) -> bool {
    reader_of(name).is_some()
}

/// What reads a file of this name.
pub(super) fn reader_of(name: &str) -> Option<Reader> {
    let lower = name.to_lowercase();
    ENDINGS
        .iter()
        .find(|(ending, _)| lower.ends_with(ending))
        .map(|(_, reader)| *reader)
}

/// Opens the files of a call.
pub(super) async fn open(
    call: &FileCall,
    engine: &Engine,
    storage: &Storage,
    spelling: &mut Spelling,
) -> Result<LogicalPlan, SqlError> {
    check_there(&call.path)?;
    register_store(&call.path, engine, storage)?;
    let context = &engine.context;
    let path = call.path.as_str();
    let extension = extension(path);
    let compression = if path.to_lowercase().ends_with(".gz") {
        FileCompressionType::GZIP
    } else {
        FileCompressionType::UNCOMPRESSED
    };
    let frame = match call.reader {
        Reader::Csv => {
            let mut options = csv_options(call)?;
            options.file_extension = &extension;
            options.file_compression_type = compression;
            read_csv(context, path, options, call).await
        }
        Reader::Json => {
            no_options(call, "read_json")?;
            let options = JsonReadOptions {
                file_extension: &extension,
                file_compression_type: compression,
                schema_infer_max_records: INFER_ROWS,
                ..Default::default()
            };
            context.read_json(path, options).await
        }
        Reader::Parquet | Reader::Delta => {
            no_options(call, "read_parquet")?;
            let options = ParquetReadOptions {
                file_extension: &extension,
                ..Default::default()
            };
            context.read_parquet(path, options).await
        }
        Reader::Version | Reader::Changes => {
            return Err(SqlError::Internal {
                context: "a table of the database opened as a file",
            });
        }
    };
    let frame = frame.map_err(|error| match translate(error, spelling) {
        SqlError::Engine { message, .. } => SqlError::File {
            path: path.to_owned(),
            reason: message,
        },
        other => other,
    })?;
    fold_columns(frame.into_unoptimized_plan(), spelling)
}

/// Reads CSV. The engine knows the text for NULL only when it infers types, so with one every
/// value is read as text and cast.
async fn read_csv(
    context: &SessionContext,
    path: &str,
    options: CsvReadOptions<'_>,
    call: &FileCall,
) -> Result<DataFrame, DataFusionError> {
    let typed = context.read_csv(path, options.clone()).await?;
    let Some(null) = call
        .options
        .iter()
        .find(|(name, _)| NULL_OPTIONS.contains(&name.as_str()))
    else {
        return Ok(typed);
    };
    let fields = typed.schema().fields().clone();
    let text = fields
        .iter()
        .map(|field| field.as_ref().clone().with_data_type(DataType::Utf8));
    let text = Schema::new(text.collect::<Vec<_>>());
    let frame = context
        .read_csv(
            path,
            CsvReadOptions {
                schema: Some(&text),
                ..options
            },
        )
        .await?;
    let columns = frame.schema().columns();
    let values = columns.into_iter().zip(&fields).map(|(column, field)| {
        let value = nullif(col(column), lit(null.1.clone()));
        cast(value, field.data_type().clone()).alias(field.name())
    });
    frame.select(values.collect::<Vec<_>>())
}

fn no_options(call: &FileCall, function: &str) -> Result<(), SqlError> {
    match call.options.keys().next() {
        Some(name) => Err(argument_error(function, &format!("no option {name}"))),
        None => Ok(()),
    }
}

fn csv_options(call: &FileCall) -> Result<CsvReadOptions<'static>, SqlError> {
    let mut options = CsvReadOptions::new();
    options.schema_infer_max_records = INFER_ROWS;
    options.newlines_in_values = true;
    if call
        .path
        .to_lowercase()
        .trim_end_matches(".gz")
        .ends_with(".tsv")
    {
        options.delimiter = b'\t';
    }
    for (name, value) in &call.options {
        match name.as_str() {
            "header" => options.has_header = flag(value)?,
            "delimiter" | "delim" | "sep" => options.delimiter = byte(name, value)?,
            "quote" => options.quote = byte(name, value)?,
            "escape" => options.escape = Some(byte(name, value)?),
            "comment" => options.comment = Some(byte(name, value)?),
            name if NULL_OPTIONS.contains(&name) => options.null_regex = Some(exact_regex(value)),
            other => {
                let known = "header, delimiter, quote, escape, comment, null";
                let reason = format!("no option {other}: there are {known}");
                return Err(argument_error("read_csv", &reason));
            }
        }
    }
    Ok(options)
}

fn flag(value: &str) -> Result<bool, SqlError> {
    value
        .to_lowercase()
        .parse()
        .map_err(|_| argument_error("read_csv", "header takes true or false"))
}

fn byte(name: &str, value: &str) -> Result<u8, SqlError> {
    match value.as_bytes() {
        [byte] => Ok(*byte),
        b"\\t" => Ok(b'\t'),
        _ => Err(argument_error(
            "read_csv",
            &format!("{name} takes one character of one byte"),
        )),
    }
}

/// A pattern that matches exactly `text`.
pub(crate) fn exact_regex(text: &str) -> String {
    let mut pattern = String::from("^");
    for c in text.chars() {
        if !c.is_alphanumeric() && c.is_ascii() {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('$');
    pattern
}

/// The ending that the files of a path have, from the first dot of the last segment.
fn extension(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or(path);
    let lower = last.to_lowercase();
    let double = lower.ends_with(".gz");
    let mut dots = last
        .match_indices('.')
        .map(|(at, _)| at)
        .collect::<Vec<_>>();
    let outer = dots.pop();
    let at = if double { dots.pop().or(outer) } else { outer };
    at.and_then(|at| last.get(at..))
        .unwrap_or_default()
        .to_owned()
}

/// A local file that is not there gets a better error than an empty listing.
fn check_there(path: &str) -> Result<(), SqlError> {
    let local = path.strip_prefix("file://").unwrap_or(path);
    let is_pattern = local.contains(['*', '?', '[']);
    if local.contains("://") || is_pattern || std::path::Path::new(local).exists() {
        return Ok(());
    }
    Err(missing(path))
}

/// No file is called so, and none is meant by the pattern.
pub(crate) fn missing(path: &str) -> SqlError {
    SqlError::Engine {
        message: format!("file {path}: no such file"),
        sqlstate: "58P01",
        kind: tarndb_db::ErrorKind::NotFound,
        hint: None,
    }
}

/// Makes the bucket of a URL known to the engine.
pub(crate) fn register_store(
    path: &str,
    engine: &Engine,
    storage: &Storage,
) -> Result<(), SqlError> {
    let failed = |reason: String| SqlError::File {
        path: path.to_owned(),
        reason,
    };
    let Some((scheme, rest)) = path.split_once("://") else {
        return Ok(());
    };
    if scheme == "file" {
        return Ok(());
    }
    let bucket = rest.split('/').next().unwrap_or_default();
    let root = format!("{scheme}://{bucket}");
    if engine.functions.knows_root(&root) {
        return Ok(());
    }
    let store = tarndb_storage::open(&root, &storage.options, storage.context.clone())
        .map_err(|error| failed(error.to_string()))?;
    let url = url::Url::parse(&root).map_err(|error| failed(error.to_string()))?;
    engine.context.register_object_store(&url, store.objects());
    // Not before: what could not be opened is tried again.
    engine.functions.root_number(&root);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_keep_the_compression() {
        assert_eq!(extension("a/b.x.csv.gz"), ".csv.gz");
        assert_eq!(extension("a/b.csv"), ".csv");
        assert_eq!(extension("plain"), "");
    }

    #[test]
    fn exact_patterns_escape_what_is_special() {
        assert_eq!(exact_regex("N/A."), "^N\\/A\\.$");
        assert_eq!(exact_regex(""), "^$");
    }
}
