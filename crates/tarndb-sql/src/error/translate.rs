//! The engine's errors in our words.
//!
//! Invariant: an error that we put into the engine comes out as it went in; no text that
//! reaches a user names the engine or calls a user's mistake a bug.

use std::error::Error as StdError;
use std::sync::Arc;

use arrow_schema::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use parquet::errors::ParquetError;
use tarndb_db::ErrorKind;
use tarndb_storage::StoreError;
use tarndb_table::TableError;

use crate::error::SqlError;
use crate::name::{Spelling, near};

/// An error of ours on its way through the engine.
#[derive(Debug, Clone)]
struct Carried(Arc<std::sync::Mutex<Option<SqlError>>>);

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match inner.as_ref() {
            Some(error) => error.fmt(f),
            None => f.write_str("an error that was told already"),
        }
    }
}

impl StdError for Carried {}

/// Wraps an error of ours for the engine.
pub(crate) fn carry(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(Carried(Arc::new(std::sync::Mutex::new(Some(
        error,
    ))))))
}

/// Finds the error of ours inside, or tells the engine's in our words. `spelling` gives the
/// names back their case.
pub(crate) fn translate(error: DataFusionError, spelling: &Spelling) -> SqlError {
    if let Some(ours) = find_carried(&error) {
        return ours;
    }
    if let Some(source) = find_store(&error) {
        return of_store(source);
    }
    match error.find_root() {
        DataFusionError::SchemaError(schema_error, _) => of_schema(schema_error, spelling),
        DataFusionError::ResourcesExhausted(message) => engine(
            format!(
                "the memory limit is too small for this statement: {}",
                first_line(message)
            ),
            "53200",
            ErrorKind::ResourceExhausted,
            Some("raise the memory limit (--memory-limit), or process fewer rows at a time"),
        ),
        DataFusionError::NotImplemented(message) => SqlError::Unsupported {
            what: out_of_place(message).unwrap_or_else(|| tidy(message)),
            hint: None,
        },
        DataFusionError::SQL(parser, _) => {
            engine(tidy(&parser.to_string()), "42601", ErrorKind::Invalid, None)
        }
        DataFusionError::ArrowError(arrow, _) => of_arrow(arrow),
        DataFusionError::Plan(message) => of_plan(message, spelling),
        DataFusionError::Internal(message) => {
            engine(tidy(message), "XX000", ErrorKind::Internal, None)
        }
        DataFusionError::ObjectStore(source) => of_store(source),
        DataFusionError::ParquetError(source) => match source.as_ref() {
            ParquetError::External(inner) => match inner.downcast_ref() {
                Some(source) => of_store(source),
                None => match inner.downcast_ref::<StoreError>() {
                    Some(source) => of_our_store(source),
                    None => damaged(&inner.to_string()),
                },
            },
            source => damaged(&source.to_string()),
        },
        other => of_execution(&other.to_string()),
    }
}

fn engine(
    message: String,
    sqlstate: &'static str,
    kind: ErrorKind,
    hint: Option<&str>,
) -> SqlError {
    SqlError::Engine {
        message,
        sqlstate,
        kind,
        hint: hint.map(str::to_owned),
    }
}

/// The engine shares errors behind `Arc`, so ours is taken out of its cell.
fn find_carried(error: &DataFusionError) -> Option<SqlError> {
    let mut current: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(inner) = current {
        if let Some(Carried(cell)) = inner.downcast_ref::<Carried>() {
            return cell
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .take();
        }
        current = match inner.downcast_ref::<DataFusionError>() {
            Some(DataFusionError::External(source)) => Some(source.as_ref()),
            Some(DataFusionError::ArrowError(source, _)) => Some(source.as_ref()),
            Some(DataFusionError::Context(_, source)) => Some(source.as_ref()),
            Some(DataFusionError::Shared(source)) => Some(source.as_ref()),
            _ => match inner.downcast_ref::<ArrowError>() {
                Some(ArrowError::ExternalError(source)) => Some(source.as_ref()),
                _ => inner.source(),
            },
        };
    }
    None
}

/// The store's error inside, however the engine wrapped it: writers pass it on as one of IO.
fn find_store(error: &DataFusionError) -> Option<&object_store::Error> {
    let mut current: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(inner) = current {
        if let Some(found) = inner.downcast_ref::<object_store::Error>() {
            return Some(found);
        }
        current = match inner.downcast_ref::<std::io::Error>() {
            Some(io) => io.get_ref().map(|inner| inner as &(dyn StdError + 'static)),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(DataFusionError::External(source)) => Some(source.as_ref()),
                Some(DataFusionError::IoError(io)) => Some(io),
                Some(DataFusionError::ArrowError(source, _)) => Some(source.as_ref()),
                Some(DataFusionError::ParquetError(source)) => Some(source.as_ref()),
                Some(DataFusionError::ObjectStore(source)) => Some(source.as_ref()),
                Some(DataFusionError::Context(_, source)) => Some(source.as_ref()),
                Some(DataFusionError::Shared(source)) => Some(source.as_ref()),
                Some(_) => None,
                None => match inner.downcast_ref::<ArrowError>() {
                    Some(ArrowError::IoError(_, io)) => Some(io),
                    Some(ArrowError::ExternalError(source)) => Some(source.as_ref()),
                    _ => match inner.downcast_ref::<ParquetError>() {
                        Some(ParquetError::External(source)) => Some(source.as_ref()),
                        _ => inner.source(),
                    },
                },
            },
        };
    }
    None
}

fn of_schema(error: &SchemaError, spelling: &Spelling) -> SqlError {
    match error {
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => {
            // A table that is not in FROM is what is missing, not its column.
            if let Some(relation) = &field.relation {
                let there = valid_fields.iter().filter_map(|f| f.relation.as_ref());
                let there = there.map(|r| spelling.of(r.table())).collect::<Vec<_>>();
                let table = spelling.of(relation.table());
                if !there.is_empty() && !there.contains(&table) {
                    return SqlError::UnknownTable {
                        name: table.to_owned(),
                        near: near(table, there),
                    };
                }
            }
            let known = valid_fields
                .iter()
                .map(|f| spelling.of(&f.name))
                .collect::<Vec<_>>();
            let mut near = near(&field.name, known.iter().copied());
            if near.is_empty() && valid_fields.is_empty() {
                near = Vec::new();
            }
            SqlError::UnknownColumn {
                name: spelling.of(&field.name).to_owned(),
                table: field
                    .relation
                    .as_ref()
                    .map(|r| spelling.of(r.table()).to_owned()),
                near,
            }
        }
        SchemaError::AmbiguousReference { field } => SqlError::AmbiguousColumn {
            name: spelling.of(&field.name).to_owned(),
        },
        SchemaError::DuplicateQualifiedField { name, .. }
        | SchemaError::DuplicateUnqualifiedField { name } => SqlError::DuplicateColumn {
            name: spelling.of(name).to_owned(),
        },
    }
}

fn of_store(error: &object_store::Error) -> SqlError {
    if let Some(short) = StoreError::find_short_read(error) {
        return damaged(&short.to_string());
    }
    let (sqlstate, kind) = match error {
        object_store::Error::NotFound { .. } => ("58P01", ErrorKind::NotFound),
        _ => ("58030", ErrorKind::Unavailable),
    };
    engine(tidy(&error.to_string()), sqlstate, kind, None)
}

fn of_our_store(error: &StoreError) -> SqlError {
    let (sqlstate, kind) = match error {
        StoreError::ShortRead { .. } => return damaged(&error.to_string()),
        StoreError::NotFound { .. } => ("58P01", ErrorKind::NotFound),
        _ => ("58030", ErrorKind::Unavailable),
    };
    engine(tidy(&error.to_string()), sqlstate, kind, None)
}

fn damaged(message: &str) -> SqlError {
    engine(tidy(message), "XX001", ErrorKind::Corrupt, None)
}

fn of_arrow(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::DivideByZero => engine(
            "division by zero".to_owned(),
            "22012",
            ErrorKind::Invalid,
            None,
        ),
        ArrowError::ArithmeticOverflow(message) => engine(
            format!("a number is out of range: {message}"),
            "22003",
            ErrorKind::Invalid,
            None,
        ),
        ArrowError::ComputeError(message) if message.to_lowercase().contains("overflow") => engine(
            format!("a number is out of range: {}", lower_first(&tidy(message))),
            "22003",
            ErrorKind::Invalid,
            None,
        ),
        ArrowError::CastError(message) if is_out_of_range(message) => engine(
            lower_first(&tidy(message)),
            "22003",
            ErrorKind::Invalid,
            None,
        ),
        ArrowError::CastError(message) | ArrowError::ParseError(message) => engine(
            lower_first(&tidy(message)),
            "22P02",
            ErrorKind::Invalid,
            None,
        ),
        ArrowError::ParquetError(message) => damaged(message),
        ArrowError::CsvError(message) | ArrowError::JsonError(message) => {
            engine(tidy(message), "22P04", ErrorKind::Invalid, None)
        }
        other => engine(tidy(&other.to_string()), "22000", ErrorKind::Invalid, None),
    }
}

/// Whether a value has the form of a number and is too large or small for the type.
fn is_out_of_range(message: &str) -> bool {
    let value = message.strip_prefix("Can't cast value ");
    let value = value.and_then(|rest| rest.split_whitespace().next());
    value.is_some_and(|value| value.parse::<f64>().is_ok())
}

/// What of an expression the engine runs in some places only; it shows its inner form.
fn out_of_place(message: &str) -> Option<String> {
    let rest = message
        .split_once("does not support logical expression ")?
        .1;
    let what = match rest.split_once('(')?.0 {
        "InSubquery" | "Exists" | "ScalarSubquery" | "SetComparison" => "a subquery",
        "WindowFunction" => "a window function",
        "AggregateFunction" => "an aggregate function",
        _ => return None,
    };
    Some(format!("{what} in this place"))
}

/// What the engine's planner refuses with words of its own.
fn of_known_plan(lower: &str) -> Option<SqlError> {
    const WIDTHS: &[&str] = &[
        "inconsistent data length across values",
        "queries have different number of columns",
        "subquery should only return one column",
    ];
    if WIDTHS.iter().any(|words| lower.contains(words)) {
        let message = lower.to_owned();
        return Some(engine(message, "42601", ErrorKind::Invalid, None));
    }
    if lower.contains("correlated scalar subquery must be aggregated") {
        return Some(SqlError::Unsupported {
            what: "a correlated subquery as a value that may give several rows".to_owned(),
            hint: Some("select max(..) or another aggregate in it".to_owned()),
        });
    }
    None
}

fn of_plan(message: &str, spelling: &Spelling) -> SqlError {
    let text = tidy(message);
    let lower = text.to_lowercase();
    if let Some(rest) = lower.strip_prefix("table '")
        && let Some((name, _)) = rest.split_once('\'')
    {
        let name = name.strip_prefix("tarndb.").unwrap_or(name);
        return SqlError::UnknownTable {
            name: name.to_owned(),
            near: Vec::new(),
        };
    }
    if let Some(rest) = text.strip_prefix("Invalid function '")
        && let Some((name, rest)) = rest.split_once('\'')
    {
        let meant = rest
            .split_once("mean '")
            .and_then(|(_, r)| r.split_once('\''))
            .map(|p| p.0);
        return SqlError::UnknownFunction {
            name: spelling.of(name).to_owned(),
            near: meant.map(str::to_owned).into_iter().collect(),
        };
    }
    if let Some(error) = of_known_plan(&lower) {
        return error;
    }
    if lower.contains("table function") && lower.contains("not found") {
        return engine(text, "42883", ErrorKind::Invalid, None);
    }
    if let Some((_, reasons)) = text.split_once("failed to match any signature, errors: ") {
        let first = reasons.split(".,").next().unwrap_or(reasons);
        let first = first.split(",Function ").next().unwrap_or(first);
        return engine(lower_first(first), "42883", ErrorKind::Invalid, None);
    }
    if let Some((before, _)) = text.split_once(" No function matches the given name") {
        let before = before.trim_end_matches('.');
        return engine(lower_first(before), "42883", ErrorKind::Invalid, None);
    }
    if let Some((before, _)) = text.split_once(" must appear in the GROUP BY clause")
        && let Some((_, column)) = before.rsplit_once("olumn ")
    {
        let message =
            format!("column {column} must be in GROUP BY or inside an aggregate function");
        return engine(message, "42803", ErrorKind::Invalid, None);
    }
    let is_type = ["coerce", "type mismatch", "cannot be cast", "incompatible"]
        .iter()
        .any(|word| lower.contains(word));
    engine(
        lower_first(&text),
        if is_type { "42804" } else { "42000" },
        ErrorKind::Invalid,
        None,
    )
}

fn of_execution(message: &str) -> SqlError {
    let text = tidy(message);
    let lower = text.to_lowercase();
    if lower.contains("scalar subquery")
        && (lower.contains("more than one") || lower.contains("row"))
    {
        return SqlError::SubqueryRows;
    }
    if lower.contains("divide by zero") {
        return engine(
            "division by zero".to_owned(),
            "22012",
            ErrorKind::Invalid,
            None,
        );
    }
    engine(lower_first(&text), "22000", ErrorKind::Invalid, None)
}

const NOISE: &[&str] = &[
    "DataFusion error: ",
    "Error during planning: ",
    "Execution error: ",
    "Arrow error: ",
    "External error: ",
    "Optimizer rule failed: ",
    "Schema error: ",
    "SQL error: ",
    "Cast error: ",
    "Parser error: ",
    "Compute error: ",
    "Invalid argument error: ",
    "This feature is not implemented: ",
    "Internal error: ",
];

/// The engine's text without its own name, prefixes, back trace and call for bug reports.
fn tidy(message: &str) -> String {
    let mut text = message;
    if let Some((before, _)) = text.split_once("\n\nbacktrace:") {
        text = before;
    }
    if let Some((before, _)) = text.split_once("This issue was likely caused by a bug") {
        text = before;
    }
    let mut text = text.trim().trim_end_matches('.').to_owned();
    for noise in NOISE {
        text = text.replace(noise, "");
    }
    text.replace("DataFusion", "the engine").trim().to_owned()
}

fn first_line(message: &str) -> String {
    tidy(message.lines().next().unwrap_or_default())
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' || second == '\'' => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

/// A table's error on its way through the engine.
pub(crate) fn carry_table(table: &str, error: TableError) -> DataFusionError {
    carry(SqlError::of_table(table.to_owned(), error))
}
