//! COPY .. TO a file.
//!
//! Invariant: the file has the columns of the query, spelled as in the tables; the format
//! follows from the statement, else from the file's name.

use datafusion::common::config::CsvOptions;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::dataframe::{DataFrame, DataFrameWriteOptions};
use datafusion::logical_expr::col;
use futures::StreamExt;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;

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
    let options = DataFrameWriteOptions::new().with_single_file_output(true);
    let path = copy.target.as_str();
    let written = match format.as_str() {
        "csv" => {
            frame
                .write_csv(path, options, Some(csv_options(copy)?))
                .await
        }
        "json" => {
            no_options(copy)?;
            frame.write_json(path, options, None).await
        }
        _ => {
            no_options(copy)?;
            frame.write_parquet(path, options, None).await
        }
    };
    let batches = written.map_err(|error| translate(error, &planned.spelling))?;
    let mut rows = 0;
    let mut batches = futures::stream::iter(batches);
    while let Some(batch) = batches.next().await {
        let count = batch
            .columns()
            .first()
            .and_then(|c| c.as_primitive_opt::<UInt64Type>());
        rows += count.map_or(0, |c| c.values().iter().sum::<u64>());
    }
    Ok((rows, planned.reads))
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

fn csv_options(copy: &Copy) -> Result<CsvOptions, SqlError> {
    let mut csv = CsvOptions {
        has_header: Some(true),
        ..Default::default()
    };
    csv.compression = if copy.target.to_lowercase().ends_with(".gz") {
        CompressionTypeVariant::GZIP
    } else {
        CompressionTypeVariant::UNCOMPRESSED
    };
    for (name, value) in &copy.options {
        let refuse = |reason: &str| SqlError::Setting {
            name: format!("COPY option {name}"),
            reason: reason.to_owned(),
        };
        match (name.as_str(), value.as_bytes()) {
            ("header", _) => {
                let header = value.to_lowercase();
                csv.has_header = Some(header.parse().map_err(|_| refuse("takes true or false"))?);
            }
            ("delimiter" | "delim" | "sep", [byte]) => csv.delimiter = *byte,
            ("quote", [byte]) => csv.quote = *byte,
            ("null" | "nullstr", _) => csv.null_value = Some(value.clone()),
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
