//! `tarndb log`, `status`, `txn` and `check`: what is there, and whether it is sound.
//!
//! Invariant: these commands change nothing, beyond what an opened database does by itself; but
//! `txn` aborts a transaction that has not ended, so that its answer is definite, and a probe
//! makes an object and removes it.

use tarndb::{
    CheckReport, Database, LogEntry, Options, Progress as CheckProgress, TableStatus, TxnOutcome,
};

use super::Output;
use super::listing::Listing;
use crate::args::Format;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::render::human_bytes;

/// The newest `limit` transactions, newest first.
pub(super) async fn log(
    database: &Database,
    limit: usize,
    output: &mut Output,
) -> Result<(), Failure> {
    let entries = database.log(limit).await?;
    Listing::default()
        .number("version", entries.iter().map(|entry| Some(entry.version.0)))
        .time("time", entries.iter().map(|entry| entry.timestamp))
        .text(
            "operation",
            entries.iter().map(|entry| Some(entry.operation.clone())),
        )
        .text("tables", entries.iter().map(|entry| Some(tables_of(entry))))
        .text(
            "transaction",
            entries.iter().map(|entry| Some(entry.txn.to_string())),
        )
        .show(output)
}

/// The tables of a transaction with the versions that it made: `main.a@3, main.b@7`.
fn tables_of(entry: &LogEntry) -> String {
    let name = |change: &tarndb::TableChange| match change.version {
        Some(version) => format!("{}@{version}", change.name),
        None => change.name.clone(),
    };
    entry.tables.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Versions, tables and what is not published yet; with `probe` whether the store can be written
/// to safely.
pub(super) async fn status(
    database: &Database,
    probe: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let status = database.status().await?;
    let tables = &status.tables;
    let plain = output.format() != Format::Table;
    output.line(&format!("database {} at {}", status.database, status.url))?;
    let lag: u64 = tables.iter().map(TableStatus::unpublished).sum();
    output.line(&format!(
        "version {}, {lag} table versions not published yet",
        status.version
    ))?;
    let size = |table: &TableStatus| human_bytes(table.size_bytes);
    let listing = Listing::default()
        .text(
            "table",
            tables
                .iter()
                .map(|t| Some(format!("{}.{}", t.schema, t.name))),
        )
        .number("version", tables.iter().map(|t| Some(t.version.0)))
        .number(
            "published",
            tables.iter().map(|t| t.published.map(|version| version.0)),
        )
        .number("lag", tables.iter().map(|t| Some(t.unpublished())))
        .number("files", tables.iter().map(|t| Some(t.files)))
        .number("rows", tables.iter().map(|t| t.rows));
    let listing = match plain {
        // For programs the number itself.
        true => listing.number("bytes", tables.iter().map(|t| Some(t.size_bytes))),
        false => listing.text("size", tables.iter().map(|t| Some(size(t)))),
    };
    listing
        .text("location", tables.iter().map(|t| Some(t.location.clone())))
        .text(
            "diverged",
            tables
                .iter()
                .map(|t| t.diverged.as_ref().map(|d| d.key.clone())),
        )
        .without_empty("diverged")
        .show(output)?;
    if let Some(error) = status.background_error {
        output.line(&format!("the last background work failed: {error}"))?;
    }
    if probe {
        database.probe_store().await?;
        output.line(
            "probe: the store honours put-if-absent (it refused to create a name that existed, \
             and kept its content)",
        )?;
    }
    Ok(())
}

/// The outcome of a transaction; one that has not ended is aborted by a fence.
pub(super) async fn txn(
    database: &Database,
    reference: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let (outcome, version) = match database.resolve(reference).await? {
        TxnOutcome::Committed { version } => ("committed", version),
        TxnOutcome::Aborted { fence } => ("aborted", fence),
    };
    Listing::default()
        .text("transaction", std::iter::once(Some(reference)))
        .text("outcome", std::iter::once(Some(outcome)))
        .number("version", std::iter::once(Some(version.0)))
        .show(output)
}

/// Verifies the database; findings are listed and make the command fail.
pub(super) async fn check(
    database: &Database,
    deep: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let progress = Progress::steps("check");
    let report = database.check(deep, show(&progress)).await;
    progress.clear();
    tell(&report?, deep, database.url(), output)
}

/// Verifies the log of a database that cannot be opened because of `reason`.
pub(super) async fn check_log(
    url: &str,
    options: &Options,
    reason: tarndb::Error,
    output: &mut Output,
) -> Result<(), Failure> {
    let progress = Progress::steps("check");
    let report = Database::check_log(url, options, show(&progress)).await;
    progress.clear();
    let report = report?;
    if report.is_clean() {
        return Err(reason.into());
    }
    output.line("the database cannot be opened; only its log was checked")?;
    tell(&report, false, url, output)
}

fn show(progress: &Progress) -> impl FnMut(CheckProgress) + Send {
    |now| {
        progress.label(&now.stage);
        progress.set(now.done, now.total);
    }
}

fn tell(report: &CheckReport, deep: bool, url: &str, output: &mut Output) -> Result<(), Failure> {
    let looked_at = format!(
        "checked {} records, {} checkpoints, {} tables, {} data files{}",
        report.records,
        report.checkpoints,
        report.tables,
        report.files,
        if deep {
            format!(", {} rows", report.rows)
        } else {
            String::new()
        }
    );
    output.line(&looked_at)?;
    if report.is_clean() {
        return output.line("everything is as it was committed");
    }
    let found = &report.findings;
    Listing::default()
        .text("finding", found.iter().map(|f| Some(f.kind)))
        .text("table", found.iter().map(|f| f.table.clone()))
        .number(
            "db_version",
            found.iter().map(|f| f.db_version.map(|version| version.0)),
        )
        .number(
            "version",
            found.iter().map(|f| f.version.map(|version| version.0)),
        )
        .text("file", found.iter().map(|f| f.file.clone()))
        .text("detail", found.iter().map(|f| Some(f.detail.clone())))
        .show(output)?;
    let count = match found.len() {
        1 => "1 thing is".to_owned(),
        many => format!("{many} things are"),
    };
    Err(Failure::found(format!("check: {count} not as committed"))
        .at(url)
        .advise("keep a copy of the folder before you repair anything"))
}
