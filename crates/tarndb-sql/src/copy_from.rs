//! COPY .. FROM files.
//!
//! Invariant: all rows of all files or none. Local files go the way of an import, so an error
//! names file, line and column; what is behind a URL is read by the engine. Columns go by name
//! where the file names them, else, and where the statement names columns, by position.
//! Does not: create the table.
//! Spec: docs/sql/insert.md, "Copy from".

use std::path::PathBuf;

use tarndb_db::Transaction;

use crate::error::SqlError;
use crate::function::files::missing;
use crate::import::{Format, ImportFile, ImportOptions};
use crate::name::Spelling;
use crate::outcome::Outcome;
use crate::parser::{self, CopyFrom, Statement};
use crate::session::Session;

/// Files of one pattern at most.
const FILES_MAX: usize = 100_000;

/// Runs COPY .. FROM in a transaction.
pub(crate) async fn run(
    session: &Session,
    txn: &mut Transaction,
    copy: &CopyFrom,
    spelling: &Spelling,
) -> Result<Outcome, SqlError> {
    // An unknown table is told before an unknown file.
    session.scope(txn).find(&copy.table)?;
    let local = copy.source.strip_prefix("file://").unwrap_or(&copy.source);
    let rows = match local.contains("://") {
        false => {
            let options = import_options(copy, local)?;
            let report = session.import_into(txn, &options, &mut |_| {}).await?;
            report.tables.values().sum()
        }
        true => {
            let statement = insert_of(copy)?;
            let mut change = session.change(txn, spelling);
            change.run(&statement).await?.1.rows
        }
    };
    Ok(Outcome::Count { tag: "COPY", rows })
}

/// The import that the statement says.
fn import_options(copy: &CopyFrom, local: &str) -> Result<ImportOptions, SqlError> {
    let format = format_of(copy)?;
    let mut options = ImportOptions {
        schema: None,
        format,
        columns: copy.columns.clone(),
        ..ImportOptions::default()
    };
    for (name, value) in &copy.options {
        let refuse = |reason: &str| wrong_option(name, reason);
        let is_csv = format.is_none_or(|format| format == Format::Csv);
        match (name.as_str(), value.as_bytes()) {
            _ if !is_csv => return Err(refuse("is not known for this format")),
            ("header", _) => {
                let header = value.to_lowercase().parse();
                options.header = header.map_err(|_| refuse("takes true or false"))?;
            }
            ("delimiter" | "delim" | "sep", [byte]) => options.delimiter = *byte,
            ("delimiter" | "delim" | "sep", b"\\t") => options.delimiter = b'\t',
            ("delimiter" | "delim" | "sep", _) => {
                return Err(refuse("takes one character of one byte"));
            }
            ("null" | "nullstr", _) => options.null_text = Some(value.clone()),
            ("quote", b"\"") => {}
            ("quote", _) => return Err(refuse("takes the double quote only")),
            _ => return Err(refuse("is not known; CSV has header, delimiter, null")),
        }
    }
    let table = copy.table.to_string();
    let paths = paths(&copy.source, local)?;
    options.files = paths
        .into_iter()
        .map(|path| ImportFile {
            table: table.clone(),
            path,
        })
        .collect();
    Ok(options)
}

fn wrong_option(name: &str, reason: &str) -> SqlError {
    SqlError::Setting {
        name: format!("COPY option {name}"),
        reason: reason.to_owned(),
    }
}

/// The format that was said.
fn format_of(copy: &CopyFrom) -> Result<Option<Format>, SqlError> {
    let format = match copy.format.as_deref() {
        None => return Ok(None),
        Some("csv" | "tsv") => Format::Csv,
        Some("json" | "ndjson" | "jsonl") => Format::Json,
        Some("parquet") => Format::Parquet,
        Some(other) => {
            return Err(SqlError::Unsupported {
                what: format!("COPY in the format {other:?}"),
                hint: Some("say (FORMAT csv), (FORMAT json) or (FORMAT parquet)".to_owned()),
            });
        }
    };
    if format != Format::Csv && !copy.columns.is_empty() {
        return Err(columns_refused());
    }
    Ok(Some(format))
}

/// Columns named for files that name their columns.
pub(crate) fn columns_refused() -> SqlError {
    SqlError::Unsupported {
        what: "a column list in COPY .. FROM of JSON or Parquet".to_owned(),
        hint: Some(
            "their columns go by name; or INSERT INTO t (a, b) SELECT .. FROM '..'".to_owned(),
        ),
    }
}

/// The files that a path means, in the order of their names. Hidden ones only when the pattern
/// says the dot.
fn paths(source: &str, local: &str) -> Result<Vec<PathBuf>, SqlError> {
    let failed = |reason: String| SqlError::File {
        path: source.to_owned(),
        reason,
    };
    let path = PathBuf::from(local);
    // A file may be called like a pattern.
    if !local.contains(['*', '?', '[']) || path.is_file() {
        return match path.exists() {
            true => Ok(vec![path]),
            false => Err(missing(source)),
        };
    }
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..glob::MatchOptions::default()
    };
    let found = glob::glob_with(local, options).map_err(|error| failed(error.to_string()))?;
    let mut files = Vec::new();
    for path in found {
        let path = path.map_err(|error| failed(error.to_string()))?;
        if path.is_file() {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            return Err(failed(format!("means more than {FILES_MAX} files")));
        }
    }
    match files.is_empty() {
        true => Err(missing(source)),
        false => Ok(files),
    }
}

/// `INSERT INTO table BY NAME SELECT * FROM read_..('url', options)`.
fn insert_of(copy: &CopyFrom) -> Result<Statement, SqlError> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let text = |value: &str| format!("'{}'", value.replace('\'', "''"));
    let table = match &copy.table.schema {
        Some(schema) => format!("{}.{}", quoted(schema), quoted(&copy.table.name)),
        None => quoted(&copy.table.name),
    };
    let lower = copy.source.to_lowercase();
    let name = lower.trim_end_matches(".gz");
    let format = match format_of(copy)? {
        Some(format) => format,
        None if name.ends_with("json") || name.ends_with("jsonl") => Format::Json,
        None if name.ends_with(".parquet") => Format::Parquet,
        None => Format::Csv,
    };
    let function = match format {
        Format::Csv => "read_csv",
        Format::Json => "read_json",
        Format::Parquet => "read_parquet",
    };
    let mut by_name = format != Format::Csv;
    let mut header = true;
    let mut call = format!("{function}({}", text(&copy.source));
    for (name, value) in &copy.options {
        let known = [
            "header",
            "delimiter",
            "delim",
            "sep",
            "quote",
            "null",
            "nullstr",
        ];
        if format != Format::Csv || !known.contains(&name.as_str()) {
            return Err(wrong_option(name, "is not known for this format"));
        }
        if name == "header" {
            header = value.eq_ignore_ascii_case("true");
        }
        call.push_str(&format!(", {name} => {}", text(value)));
    }
    by_name |= header && copy.columns.is_empty();
    let columns = match copy.columns.is_empty() {
        true if by_name => "BY NAME".to_owned(),
        true => String::new(),
        false => {
            let columns = copy.columns.iter().map(|name| quoted(name));
            format!("({})", columns.collect::<Vec<_>>().join(", "))
        }
    };
    let script = format!("INSERT INTO {table} {columns} SELECT * FROM {call})");
    let mut parsed = parser::parse(&script)?;
    parsed
        .pop()
        .map(|one| one.statement)
        .ok_or(SqlError::Internal {
            context: "building the INSERT of a COPY",
        })
}
