//! COPY .. TO a file.
//!
//! Invariant: the file has the columns of the query, spelled as in the tables; the format
//! follows from the statement, else from the file's name.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use datafusion::dataframe::{DataFrame, DataFrameWriteOptions};
use datafusion::logical_expr::col;

use crate::copy_text::{CsvForm, Form, write};
use crate::error::{SqlError, translate::translate};
use crate::function;
use crate::name::Spelling;
use crate::parser::Copy;
use crate::provider::reads::Reads;
use crate::query::{Planned, Scope, output_name};

/// Runs COPY; how many rows were written, and what was read.
pub(crate) async fn copy(
    scope: &Scope<'_>,
    copy: &Copy,
    spelling: &Spelling,
) -> Result<(u64, Reads), SqlError> {
    let planned = scope.plan(&copy.query, spelling, None).await?;
    check_folder(&copy.target)?;
    check_outside(&copy.target, scope.db.store().url())?;
    function::register_store(&copy.target, scope.engine, scope.storage)?;
    let format = format_of(copy)?;
    let frame = renamed(scope, &planned)?;
    let form = match format.as_str() {
        "csv" => Form::Csv(csv_form(copy)?),
        "json" => {
            no_options(copy)?;
            Form::Json
        }
        _ => {
            no_options(copy)?;
            let rows = write_parquet(frame, &copy.target, &planned.spelling).await?;
            return Ok((rows, planned.reads));
        }
    };
    let rows = write(scope.engine, frame, &copy.target, &form, &planned.spelling).await?;
    Ok((rows, planned.reads))
}

/// Writes the rows to a file of Parquet; how many.
async fn write_parquet(
    frame: DataFrame,
    target: &str,
    spelling: &Spelling,
) -> Result<u64, SqlError> {
    let options = DataFrameWriteOptions::new().with_single_file_output(true);
    let written = frame.write_parquet(target, options, None).await;
    let batches = written.map_err(|error| translate(error, spelling))?;
    let counts = batches.iter().filter_map(|batch| {
        let column = batch.columns().first()?;
        column.as_primitive_opt::<UInt64Type>()
    });
    Ok(counts.map(|c| c.values().iter().sum::<u64>()).sum())
}

fn renamed(scope: &Scope<'_>, planned: &Planned) -> Result<DataFrame, SqlError> {
    let columns = planned.plan.schema().columns();
    let exprs = columns.into_iter().map(|column| {
        let name = output_name(&column.name, &planned.spelling).to_owned();
        col(column).alias(name)
    });
    DataFrame::new(scope.engine.context.state(), planned.plan.clone())
        .select(exprs.collect::<Vec<_>>())
        .map_err(|error| translate(error, &planned.spelling))
}

/// The folder of a local target must be there and take files: the engine would make missing
/// folders of a mistyped path, and tries for ever where no file can be made.
fn check_folder(target: &str) -> Result<(), SqlError> {
    let failed = |reason: String| SqlError::File {
        path: target.to_owned(),
        reason,
    };
    if target.contains(['*', '?', '[']) {
        // The engine takes such a target for a pattern and would write to the folder before it.
        return Err(failed("a name to write to holds none of * ? [".to_owned()));
    }
    let path = target.strip_prefix("file://").unwrap_or(target);
    if path.contains("://") {
        return Ok(());
    }
    let path = std::path::Path::new(path);
    let (Some(name), Some(folder)) = (path.file_name(), path.parent()) else {
        return Err(failed("names no file".to_owned()));
    };
    let folder = match folder.as_os_str().is_empty() {
        true => std::path::Path::new("."),
        false => folder,
    };
    if !folder.is_dir() {
        return Err(failed(format!("there is no folder {}", folder.display())));
    }
    let probe = folder.join(format!(".{}.tarndb-probe", name.to_string_lossy()));
    let made = std::fs::File::create(&probe).and_then(|_| std::fs::remove_file(&probe));
    made.map_err(|error| failed(format!("no file can be made there: {error}")))
}

/// # Errors
/// A target inside of the database, whose files are its own.
fn check_outside(target: &str, database: &str) -> Result<(), SqlError> {
    let inside = |target: &str, root: &str| {
        let root = root.trim_end_matches('/');
        target
            .strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let path = target.strip_prefix("file://").unwrap_or(target);
    let is_inside = match path.contains("://") {
        true => inside(target, database),
        false => match local_root(database) {
            Some(root) => {
                let root = std::fs::canonicalize(&root).unwrap_or(root);
                let folder = std::path::Path::new(path).parent();
                let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or_else(|| std::path::Path::new("."));
                let folder = std::fs::canonicalize(folder);
                folder.is_ok_and(|folder| folder.starts_with(root))
            }
            None => false,
        },
    };
    match is_inside {
        false => Ok(()),
        true => Err(SqlError::File {
            path: target.to_owned(),
            reason: "is inside the database's own folder, whose files are its tables".to_owned(),
        }),
    }
}

/// The folder of a database that is in one.
fn local_root(database: &str) -> Option<std::path::PathBuf> {
    match database.starts_with("file://") {
        true => url::Url::parse(database).ok()?.to_file_path().ok(),
        false => (!database.contains("://")).then(|| database.into()),
    }
}

fn format_of(copy: &Copy) -> Result<String, SqlError> {
    let said = copy.format.clone();
    let format = said.or_else(|| {
        let lower = copy.target.to_lowercase();
        let name = lower.trim_end_matches(".gz");
        let ending = name.rsplit('.').next()?;
        Some(ending.to_owned())
    });
    match format.as_deref() {
        Some("csv") => Ok("csv".to_owned()),
        Some("json" | "ndjson" | "jsonl") => Ok("json".to_owned()),
        Some("parquet") => Ok("parquet".to_owned()),
        other => Err(SqlError::Unsupported {
            what: format!("COPY in the format {:?}", other.unwrap_or_default()),
            hint: Some("say (FORMAT csv), (FORMAT json) or (FORMAT parquet)".to_owned()),
        }),
    }
}

fn csv_form(copy: &Copy) -> Result<CsvForm, SqlError> {
    let mut csv = CsvForm {
        header: true,
        delimiter: ',',
        quote: '"',
        null_text: String::new(),
    };
    for (name, value) in &copy.options {
        let refuse = |reason: &str| SqlError::Setting {
            name: format!("COPY option {name}"),
            reason: reason.to_owned(),
        };
        match (name.as_str(), value.as_bytes()) {
            ("header", _) => {
                let header = value.to_lowercase();
                csv.header = header.parse().map_err(|_| refuse("takes true or false"))?;
            }
            ("delimiter" | "delim" | "sep", [byte]) => csv.delimiter = char::from(*byte),
            ("quote", [byte]) => csv.quote = char::from(*byte),
            ("null" | "nullstr", _) => csv.null_text.clone_from(value),
            ("delimiter" | "delim" | "sep" | "quote", _) => {
                return Err(refuse("takes one character of one byte"));
            }
            _ => {
                return Err(refuse(
                    "is not known; CSV has header, delimiter, quote, null",
                ));
            }
        }
    }
    Ok(csv)
}

fn no_options(copy: &Copy) -> Result<(), SqlError> {
    match copy.options.first() {
        Some((name, _)) => Err(SqlError::Setting {
            name: format!("COPY option {name}"),
            reason: "is not known for this format".to_owned(),
        }),
        None => Ok(()),
    }
}
