//! What is meant: typed arguments checked and given their types.
//!
//! Invariant: a value of `Meant` needs no further checking; every mistake in the arguments
//! is found here, before the database is opened.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tarndb::{Upkeep, Uuid};

use super::typed::{
    Command, Global, ImportArgs, OptimizeArgs, Typed, TypedFormat, TypedUpkeep, VacuumArgs,
};
use crate::failure::Failure;

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Table,
    Csv,
    Ndjson,
}

/// What is logged to stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogChoice {
    /// Only the steps of commits, one `step <name>` a line.
    Steps,
    /// A filter in the syntax of `tracing-subscriber`.
    Filter(String),
}

/// The whole command line.
#[derive(Clone, Debug)]
pub(crate) struct Meant {
    /// The database's URL; `None` where the command needs none.
    pub(crate) db: Option<String>,
    pub(crate) storage_options: BTreeMap<String, String>,
    pub(crate) format: Format,
    pub(crate) memory_limit_bytes: Option<usize>,
    pub(crate) temp_dir: Option<PathBuf>,
    pub(crate) threads: Option<usize>,
    pub(crate) upkeep: Upkeep,
    pub(crate) print_requests: bool,
    pub(crate) log: LogChoice,
    pub(crate) txn_id: Option<Uuid>,
    pub(crate) action: Action,
}

/// The command.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Init,
    Sql(SqlSource),
    Shell,
    Import(ImportPlan),
    Log { limit: usize },
    Status { probe: bool },
    Publish,
    Checkpoint,
    Optimize(OptimizePlan),
    Vacuum(VacuumPlan),
    Cleanup(CleanupPlan),
    Txn { reference: String },
    Check { deep: bool },
    Demo { keep: Option<PathBuf> },
}

/// Where SQL text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SqlSource {
    Text(String),
    File(PathBuf),
    Stdin,
}

/// Tables to compact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptimizePlan {
    /// `schema.table`, or a table of `main`.
    pub(crate) tables: Vec<String>,
    pub(crate) target_bytes: Option<u64>,
    pub(crate) all: bool,
}

/// What to vacuum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VacuumPlan {
    /// `schema.table`, or a table of `main`; none: everything.
    pub(crate) tables: Vec<String>,
    pub(crate) retention: Option<Duration>,
    pub(crate) force: bool,
    pub(crate) dry_run: bool,
}

/// How much of the log is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CleanupPlan {
    pub(crate) retention: Option<Duration>,
    pub(crate) dry_run: bool,
}

/// Files to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportPlan {
    pub(crate) tables: Vec<TableFiles>,
    pub(crate) create: bool,
    pub(crate) schema: Option<String>,
    pub(crate) shape: ImportShape,
}

/// The files of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableFiles {
    pub(crate) table: String,
    pub(crate) files: Vec<PathBuf>,
}

/// How CSV files are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportShape {
    pub(crate) null: Option<String>,
    pub(crate) delimiter: u8,
    pub(crate) header: bool,
}

/// Reads the process's arguments; prints help or a usage error and exits where clap does.
pub(crate) fn parse() -> Result<Meant, Failure> {
    meant(Typed::parse())
}

#[cfg(test)]
pub(super) fn parse_from(arguments: &[&str]) -> Result<Meant, Failure> {
    let typed = Typed::try_parse_from(arguments).map_err(|e| Failure::usage(e.to_string(), ""))?;
    meant(typed)
}

fn meant(typed: Typed) -> Result<Meant, Failure> {
    let Global {
        db,
        storage_option,
        format,
        memory_limit,
        temp_dir,
        threads,
        upkeep,
        requests,
        log,
        txn_id,
    } = typed.global;
    let action = action(typed.command)?;
    if db.is_none() && !matches!(action, Action::Demo { .. }) {
        return Err(Failure::usage(
            "no database was named",
            "give --db URL, or set TARNDB_DB (a folder, s3://bucket/prefix, gs://, az://)",
        ));
    }
    Ok(Meant {
        db,
        storage_options: storage_options(&storage_option)?,
        format: match format {
            TypedFormat::Table => Format::Table,
            TypedFormat::Csv => Format::Csv,
            TypedFormat::Ndjson => Format::Ndjson,
        },
        memory_limit_bytes: memory_limit.as_deref().map(size_bytes).transpose()?,
        temp_dir: temp_dir.map(existing).transpose()?,
        threads: threads.map(at_least_one).transpose()?,
        upkeep: match upkeep {
            TypedUpkeep::Off => Upkeep::Off,
            TypedUpkeep::Compact => Upkeep::Compact,
            TypedUpkeep::All => Upkeep::All,
        },
        print_requests: requests,
        log: log_choice(log),
        txn_id: txn_id.as_deref().map(transaction_id).transpose()?,
        action,
    })
}

fn action(command: Command) -> Result<Action, Failure> {
    Ok(match command {
        Command::Init => Action::Init,
        Command::Sql { statements, file } => Action::Sql(sql_source(statements, file)?),
        Command::Shell => Action::Shell,
        Command::Import(arguments) => Action::Import(import_plan(arguments)?),
        Command::Log { limit } => Action::Log { limit },
        Command::Status { probe } => Action::Status { probe },
        Command::Publish => Action::Publish,
        Command::Checkpoint => Action::Checkpoint,
        Command::Optimize(arguments) => Action::Optimize(optimize_plan(arguments)?),
        Command::Vacuum(arguments) => Action::Vacuum(vacuum_plan(arguments)?),
        Command::Cleanup(arguments) => Action::Cleanup(CleanupPlan {
            retention: retention(arguments.retain.as_deref())?,
            dry_run: arguments.dry_run,
        }),
        Command::Txn { id } => Action::Txn { reference: id },
        Command::Check { deep } => Action::Check { deep },
        Command::Demo { keep } => Action::Demo { keep },
    })
}

fn sql_source(statements: Option<String>, file: Option<PathBuf>) -> Result<SqlSource, Failure> {
    match (statements, file) {
        (Some(text), None) if text == "-" => Ok(SqlSource::Stdin),
        (Some(text), None) => Ok(SqlSource::Text(text)),
        (None, Some(file)) if file.as_os_str() == "-" => Ok(SqlSource::Stdin),
        (None, Some(file)) => Ok(SqlSource::File(file)),
        _ => Err(Failure::usage(
            "no statements were given",
            "give them as an argument, with -f FILE, or \"-\" for standard input",
        )),
    }
}

fn vacuum_plan(arguments: VacuumArgs) -> Result<VacuumPlan, Failure> {
    let full_name = |table: String| match &arguments.schema {
        Some(schema) if !table.contains('.') => format!("{schema}.{table}"),
        _ => table,
    };
    Ok(VacuumPlan {
        retention: retention(arguments.retain.as_deref())?,
        force: arguments.force,
        dry_run: arguments.dry_run,
        tables: arguments.tables.into_iter().map(full_name).collect(),
    })
}

/// `7d`, `48h`, `90m`, `30s`, `1500ms`.
fn retention(text: Option<&str>) -> Result<Option<Duration>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms: Option<u64> = match text.strip_prefix(digits).unwrap_or("") {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(24 * 3_600_000),
        _ => None,
    };
    let parsed = digits.parse::<u64>().ok().zip(unit_ms);
    let ms = parsed.and_then(|(number, unit)| number.checked_mul(unit));
    match ms {
        Some(ms) => Ok(Some(Duration::from_millis(ms))),
        None => Err(Failure::usage(
            format!("not a time: {text:?}"),
            "give a number with d, h, m, s or ms, such as 7d or 48h",
        )),
    }
}

fn optimize_plan(arguments: OptimizeArgs) -> Result<OptimizePlan, Failure> {
    let full_name = |table: String| match &arguments.schema {
        Some(schema) if !table.contains('.') => format!("{schema}.{table}"),
        _ => table,
    };
    let target = arguments.target_size.as_deref();
    Ok(OptimizePlan {
        target_bytes: target
            .map(size_bytes)
            .transpose()?
            .map(|bytes| bytes as u64),
        all: arguments.all,
        tables: arguments.tables.into_iter().map(full_name).collect(),
    })
}

fn import_plan(arguments: ImportArgs) -> Result<ImportPlan, Failure> {
    let mut tables: Vec<TableFiles> = Vec::new();
    let mut bare: Vec<String> = Vec::new();
    for text in arguments.table {
        let Some((table, file)) = text.split_once('=') else {
            bare.push(text);
            continue;
        };
        let file = PathBuf::from(file);
        match tables.iter_mut().find(|t| t.table == table) {
            Some(known) => known.files.push(file),
            None => tables.push(TableFiles {
                table: table.to_owned(),
                files: vec![file],
            }),
        }
    }
    match bare.as_slice() {
        [] if arguments.files.is_empty() => {}
        [] => {
            return Err(Failure::usage(
                "files were given without a table",
                "write --table TABLE FILE.., or --table TABLE=FILE for each table",
            ));
        }
        [table] if !arguments.files.is_empty() => {
            let files = arguments.files;
            match tables.iter_mut().find(|t| t.table == *table) {
                Some(known) => known.files.extend(files),
                None => tables.push(TableFiles {
                    table: table.clone(),
                    files,
                }),
            }
        }
        [table] => {
            return Err(Failure::usage(
                format!("no file was given for the table {table}"),
                "write import FILE.. --table TABLE",
            ));
        }
        _ => {
            return Err(Failure::usage(
                "several tables were given without files of their own",
                "write --table TABLE=FILE for each of them",
            ));
        }
    }
    Ok(ImportPlan {
        tables,
        create: arguments.create,
        schema: arguments.schema,
        shape: ImportShape {
            null: arguments.null,
            delimiter: delimiter(&arguments.delimiter)?,
            header: !arguments.no_header,
        },
    })
}

fn delimiter(text: &str) -> Result<u8, Failure> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        b"\\t" | b"tab" => Ok(b'\t'),
        _ => Err(Failure::usage(
            format!("not a delimiter: {text:?}"),
            "give one ASCII character, or \\t",
        )),
    }
}

fn storage_options(typed: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut options = BTreeMap::new();
    for text in typed {
        let Some((key, value)) = text.split_once('=') else {
            return Err(Failure::usage(
                // It may be a secret that was written with another separator.
                format!(
                    "not a store option ({} characters without =)",
                    text.chars().count()
                ),
                "write --storage-option KEY=VALUE",
            ));
        };
        options.insert(key.to_owned(), value.to_owned());
    }
    Ok(options)
}

/// Bytes of a size such as `64MB` (decimal) or `64MiB` (binary).
/// A folder that is there.
fn existing(folder: PathBuf) -> Result<PathBuf, Failure> {
    match folder.is_dir() {
        true => Ok(folder),
        false => Err(Failure::usage(
            format!("{} is no folder", folder.display()),
            "--temp-dir takes a folder that is there",
        )),
    }
}

fn at_least_one(threads: usize) -> Result<usize, Failure> {
    match threads {
        0 => Err(Failure::usage(
            "no thread at all",
            "--threads takes 1 or more",
        )),
        _ => Ok(threads),
    }
}

fn size_bytes(text: &str) -> Result<usize, Failure> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = text
        .strip_prefix(digits)
        .unwrap_or("")
        .trim()
        .to_ascii_lowercase();
    let factor: Option<u64> = match unit.as_str() {
        "" | "b" => Some(1),
        "k" | "kb" => Some(1_000),
        "m" | "mb" => Some(1_000_000),
        "g" | "gb" => Some(1_000_000_000),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        "gib" => Some(1 << 30),
        _ => None,
    };
    digits
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor))
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| {
            Failure::usage(
                format!("not a size: {text:?}"),
                "write it as 512MB, 2GB or 256MiB",
            )
        })
}

fn log_choice(text: String) -> LogChoice {
    match text.as_str() {
        "step" => LogChoice::Steps,
        // A plain level is for our own crates; the libraries below stay at warnings.
        "info" | "debug" | "trace" => LogChoice::Filter(format!("warn,tarndb={text}")),
        _ => LogChoice::Filter(text),
    }
}

fn transaction_id(text: &str) -> Result<Uuid, Failure> {
    Uuid::parse_str(text).map_err(|_| {
        Failure::usage(
            format!("not a transaction id: {text:?}"),
            "give a UUID, such as 0198c0de-0000-7000-8000-000000000001",
        )
    })
}
