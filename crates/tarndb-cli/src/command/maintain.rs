//! `tarndb init`, `publish` and `checkpoint`: what they did, in one line each.

use tarndb::Database;

use super::Output;
use super::listing::Listing;
use crate::failure::Failure;

/// Says what `init` created.
pub(super) fn report_created(database: &Database, output: &mut Output) -> Result<(), Failure> {
    output.line(&format!(
        "created database {} at {}",
        database.id(),
        database.url()
    ))
}

/// Publishes what is not published yet.
pub(super) async fn publish(database: &Database, output: &mut Output) -> Result<(), Failure> {
    let report = database.publish().await?;
    // The others were published already.
    let written = report
        .tables
        .iter()
        .filter(|table| table.versions_written > 0);
    let tables: Vec<_> = written.collect();
    if !tables.is_empty() {
        Listing::default()
            .text("table", tables.iter().map(|table| Some(table.name.clone())))
            .number(
                "published",
                tables.iter().map(|table| Some(table.published.0)),
            )
            .number(
                "written",
                tables.iter().map(|table| Some(table.versions_written)),
            )
            .show(output)?;
    }
    output.line(&format!(
        "{} table versions were published now",
        report.versions_written()
    ))?;
    match report.diverged.first() {
        Some(divergence) => Err(Failure::diverged(&divergence.key, divergence.version.0)),
        None => Ok(()),
    }
}

/// Writes the catalog checkpoint and the table checkpoints that are due.
pub(super) async fn checkpoint(database: &Database, output: &mut Output) -> Result<(), Failure> {
    let report = database.checkpoint().await?;
    output.line(&format!("catalog checkpoint at version {}", report.catalog))?;
    for (table, info) in &report.tables {
        output.line(&format!(
            "checkpoint of {table} at its version {}",
            info.version
        ))?;
    }
    Ok(())
}
