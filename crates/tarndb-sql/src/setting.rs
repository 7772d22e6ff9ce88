//! SET, RESET and SHOW of settings: ours (`tarndb.*`) and the engine's (`datafusion.*`).
//!
//! Invariant: a setting on which the meaning of names and types rests cannot be changed.

use datafusion::common::config::ConfigField;
use tarndb_txn::Isolation;

use crate::engine::{Engine, settings};
use crate::error::SqlError;
use crate::name::near;
use crate::options::SessionOptions;
use crate::resource;

/// The id of the open transaction, else of the last one.
pub(crate) const TRANSACTION_ID: &str = "tarndb.transaction_id";
const ISOLATION: &str = "tarndb.isolation";
const RETRY_SECONDS: &str = "tarndb.retry_seconds";
/// Whether scans leave out files and row groups that cannot hold a matching row.
const PRUNING: &str = "tarndb.pruning";
const MEMORY_LIMIT: &str = "tarndb.memory_limit";
const TEMP_DIR: &str = "tarndb.temp_dir";
const THREADS: &str = "tarndb.threads";
const STATEMENT_TIMEOUT: &str = "statement_timeout";
const OURS: &[&str] = &[
    TRANSACTION_ID,
    ISOLATION,
    RETRY_SECONDS,
    MEMORY_LIMIT,
    TEMP_DIR,
    THREADS,
    STATEMENT_TIMEOUT,
    PRUNING,
];

/// What [`PRUNING`] switches; the first of them decides about whole files too
/// (`provider::prune`).
const PRUNED_BY: &[&str] = &[
    "datafusion.execution.parquet.pruning",
    "datafusion.execution.parquet.enable_page_index",
    "datafusion.execution.parquet.bloom_filter_on_read",
    "datafusion.optimizer.enable_dynamic_filter_pushdown",
];

/// Settings of the engine that this crate relies on.
const FIXED: &[&str] = &[
    "datafusion.sql_parser.",
    "datafusion.catalog.",
    "datafusion.execution.collect_statistics",
    "datafusion.execution.parquet.pushdown_filters",
    "datafusion.execution.parquet.schema_force_view_types",
];

fn refuse(name: &str, reason: impl Into<String>) -> SqlError {
    SqlError::Setting {
        name: name.to_owned(),
        reason: reason.into(),
    }
}

/// SET.
pub(crate) fn set(
    engine: &Engine,
    options: &mut SessionOptions,
    name: &str,
    value: &str,
) -> Result<(), SqlError> {
    match name {
        TRANSACTION_ID => Err(refuse(
            name,
            "can only be shown; choose the id with --txn-id",
        )),
        ISOLATION => {
            options.isolation = match value.to_lowercase().as_str() {
                "snapshot" | "repeatable read" => Isolation::Snapshot,
                "serializable" => Isolation::Serializable,
                _ => return Err(refuse(name, "takes 'snapshot' or 'serializable'")),
            };
            Ok(())
        }
        RETRY_SECONDS => {
            let seconds = value
                .parse()
                .map_err(|_| refuse(name, "takes a number of seconds"))?;
            options.retry_for = std::time::Duration::from_secs(seconds);
            Ok(())
        }
        MEMORY_LIMIT | TEMP_DIR | THREADS | STATEMENT_TIMEOUT => {
            let changed = changed(options, name, value).map_err(|reason| refuse(name, reason))?;
            use_resources(engine, options, changed)
        }
        PRUNING => {
            let on = match value.to_lowercase().as_str() {
                "on" | "true" => "true",
                "off" | "false" => "false",
                _ => return Err(refuse(name, "takes 'on' or 'off'")),
            };
            let mut names = PRUNED_BY.iter();
            names.try_for_each(|name| set_engine(engine, name, on))
        }
        _ => set_engine(engine, name, value),
    }
}

/// The options with a resource set.
fn changed(options: &SessionOptions, name: &str, value: &str) -> Result<SessionOptions, String> {
    let mut changed = options.clone();
    match name {
        MEMORY_LIMIT => changed.memory_limit = resource::bytes(value)?,
        TEMP_DIR => changed.temp_dir = resource::folder(value)?,
        THREADS => {
            let threads = value.parse().ok().filter(|threads| *threads > 0);
            changed.target_partitions = Some(threads.ok_or("takes a number of threads")?);
        }
        _ => changed.statement_timeout = resource::duration(value)?,
    }
    Ok(changed)
}

/// Takes resources over once the engine has them.
fn use_resources(
    engine: &Engine,
    options: &mut SessionOptions,
    changed: SessionOptions,
) -> Result<(), SqlError> {
    resource::apply(engine, &changed)?;
    *options = changed;
    Ok(())
}

fn set_engine(engine: &Engine, name: &str, value: &str) -> Result<(), SqlError> {
    check_known(engine, name)?;
    if FIXED.iter().any(|fixed| name.starts_with(fixed)) {
        return Err(refuse(name, "cannot be changed"));
    }
    let state = engine.context.state_ref();
    let mut state = state.write();
    state
        .config_mut()
        .options_mut()
        .set(name, value)
        .map_err(|error| refuse(name, error.strip_backtrace().trim().to_owned()))
}

fn check_known(engine: &Engine, name: &str) -> Result<(), SqlError> {
    if engine.defaults.contains_key(name) {
        return Ok(());
    }
    let known = engine
        .defaults
        .keys()
        .map(String::as_str)
        .chain(OURS.iter().copied());
    let near = near(name, known);
    Err(refuse(
        name,
        match near.first() {
            Some(near) => format!("is not known; did you mean {near}?"),
            None => "is not known; SHOW ALL lists the settings".to_owned(),
        },
    ))
}

/// RESET.
pub(crate) fn reset(
    engine: &Engine,
    options: &mut SessionOptions,
    name: &str,
) -> Result<(), SqlError> {
    let defaults = SessionOptions::default();
    match name {
        ISOLATION => options.isolation = defaults.isolation,
        RETRY_SECONDS => options.retry_for = defaults.retry_for,
        MEMORY_LIMIT | TEMP_DIR | THREADS | STATEMENT_TIMEOUT => {
            let mut changed = options.clone();
            match name {
                MEMORY_LIMIT => changed.memory_limit = engine.given.memory_limit,
                TEMP_DIR => changed.temp_dir.clone_from(&engine.given.temp_dir),
                THREADS => changed.target_partitions = engine.given.target_partitions,
                _ => changed.statement_timeout = engine.given.statement_timeout,
            }
            use_resources(engine, options, changed)?;
        }
        PRUNING => {
            for name in PRUNED_BY {
                reset(engine, options, name)?;
            }
        }
        _ => {
            check_known(engine, name)?;
            match engine.defaults.get(name).cloned().flatten() {
                Some(value) => set_engine(engine, name, &value)?,
                None => {
                    let state = engine.context.state_ref();
                    let mut state = state.write();
                    let reset = state.config_mut().options_mut().reset(name);
                    reset.map_err(|error| refuse(name, error.strip_backtrace()))?;
                }
            }
        }
    }
    Ok(())
}

/// The value of a setting; `None` when it has none.
pub(crate) fn get(
    engine: &Engine,
    options: &SessionOptions,
    transaction: Option<String>,
    name: &str,
) -> Result<Option<String>, SqlError> {
    match name {
        TRANSACTION_ID => Ok(transaction),
        ISOLATION => Ok(Some(isolation_name(options.isolation).to_owned())),
        RETRY_SECONDS => Ok(Some(options.retry_for.as_secs().to_string())),
        MEMORY_LIMIT => Ok(options.memory_limit.map(|bytes| bytes.to_string())),
        TEMP_DIR => {
            let folder = options.temp_dir.as_deref();
            Ok(folder.map(|folder| folder.display().to_string()))
        }
        THREADS => get(
            engine,
            options,
            transaction,
            "datafusion.execution.target_partitions",
        ),
        STATEMENT_TIMEOUT => {
            let limit = options.statement_timeout;
            Ok(limit.map(|limit| format!("{}ms", limit.as_millis())))
        }
        PRUNING => {
            let state = engine.context.state();
            let on = state.config_options().execution.parquet.pruning;
            Ok(Some(if on { "on" } else { "off" }.to_owned()))
        }
        _ => {
            check_known(engine, name)?;
            let state = engine.context.state();
            Ok(settings(state.config_options()).remove(name).flatten())
        }
    }
}

/// All settings with their values.
pub(crate) fn all(
    engine: &Engine,
    options: &SessionOptions,
    transaction: Option<&str>,
) -> Vec<(String, Option<String>)> {
    let state = engine.context.state();
    let mut all = settings(state.config_options())
        .into_iter()
        .collect::<Vec<_>>();
    for name in OURS {
        let value = get(engine, options, transaction.map(str::to_owned), name);
        all.push(((*name).to_owned(), value.ok().flatten()));
    }
    all
}

fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Serializable => "serializable",
        _ => "snapshot",
    }
}
