//! `tarndb import`: files into tables, all in one transaction.
//!
//! Invariant: every table is loaded, or none.

use tarndb::{Context, Database, ImportFile, ImportOptions, ImportProgress};

use super::{Output, Runner};
use crate::args::ImportPlan;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Interrupted};
use crate::progress::Progress;
use crate::render::{human_bytes, human_duration};

/// Loads the files of the plan.
pub(super) async fn run(
    plan: &ImportPlan,
    database: &Database,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<(), Failure> {
    // Seen before anything is written: a mistyped path should not cost an import.
    for file in plan.tables.iter().flat_map(|table| &table.files) {
        std::fs::metadata(file).map_err(|error| Failure::file(file, &error))?;
    }
    let mut runner = Runner::new(database, interrupt)?;
    let result = load(plan, &mut runner, output).await;
    runner.finish(result).await
}
async fn load(plan: &ImportPlan, runner: &mut Runner, output: &mut Output) -> Result<(), Failure> {
    let clock = Context::system();
    let started = clock.monotonic();
    let progress = Progress::bytes("import");
    let mut show = |now: &ImportProgress| {
        let file = now
            .path
            .file_name()
            .unwrap_or(now.path.as_os_str())
            .to_string_lossy();
        let work = if now.inferring { "columns of " } else { "" };
        progress.label(&format!("{work}{file}"));
        progress.set(now.bytes_read, Some(now.bytes_total));
    };
    let options = options(plan);
    let interrupt = runner.interrupt.clone();
    let result = interrupt
        .guard(runner.session.import(&options, &mut show))
        .await;
    progress.clear();
    let report = result.map_err(|Interrupted| Failure::interrupted(false))??;
    runner.tell_notices();
    for (table, rows) in &report.tables {
        output.line(&format!("IMPORT {rows} into {table}"))?;
    }
    let time = clock.monotonic().saturating_sub(started);
    output.line(&format!(
        "{} in {} data {}, {}",
        human_bytes(report.bytes),
        report.files,
        if report.files == 1 { "file" } else { "files" },
        human_duration(time)
    ))
}

fn options(plan: &ImportPlan) -> ImportOptions {
    let file = |table: &str, path: &std::path::PathBuf| ImportFile {
        table: table.to_owned(),
        path: path.clone(),
    };
    ImportOptions {
        files: plan
            .tables
            .iter()
            .flat_map(|table| table.files.iter().map(|path| file(&table.table, path)))
            .collect(),
        create: plan.create,
        schema: plan.schema.clone(),
        null_text: plan.shape.null.clone(),
        delimiter: plan.shape.delimiter,
        header: plan.shape.header,
        ..ImportOptions::default()
    }
}
