//! `tarndb vacuum` and `tarndb cleanup`: what went, or would go.

use tarndb::{Database, LogCleanupOptions, VacuumOptions, VacuumReport};

use super::Output;
use super::listing::Listing;
use crate::args::{CleanupPlan, VacuumPlan};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::render::human_bytes;

/// Vacuums the tables, or everything.
pub(super) async fn vacuum(
    plan: &VacuumPlan,
    database: &Database,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut options = VacuumOptions {
        force: plan.force,
        dry_run: plan.dry_run,
        ..VacuumOptions::default()
    };
    if let Some(retention) = plan.retention {
        options.retention = retention;
    }
    let bar = Progress::steps("vacuum");
    let progress = |done: tarndb::Progress| {
        bar.label(&done.stage);
        bar.set(done.done, done.total);
    };
    let vacuumed = database.vacuum(&plan.tables, &options, progress).await;
    bar.clear();
    tell(&vacuumed?, output)
}

fn tell(report: &VacuumReport, output: &mut Output) -> Result<(), Failure> {
    let rows: Vec<_> = report
        .tables
        .iter()
        .flat_map(|table| table.files.iter().map(move |file| (table, file)))
        .collect();
    if !rows.is_empty() {
        Listing::default()
            .text("table", rows.iter().map(|(t, _)| Some(t.name.as_str())))
            .text("file", rows.iter().map(|(_, f)| Some(f.key.to_string())))
            .number("bytes", rows.iter().map(|(_, f)| Some(f.size_bytes)))
            .time("written", rows.iter().map(|(_, f)| f.last_modified))
            .text(
                "reason",
                rows.iter().map(|(_, f)| Some(f.reason.to_string())),
            )
            .show(output)?;
    }
    for table in &report.tables {
        if let Some(why) = &table.skipped {
            output.line(&format!("{} was left alone: {why}", table.name))?;
        }
    }
    let bytes: u64 = rows.iter().map(|(_, file)| file.size_bytes).sum();
    let (files, size, horizon) = (rows.len(), human_bytes(bytes), report.horizon);
    output.line(&match report.version {
        None => {
            format!("{files} files ({size}) would be deleted; readable from version {horizon} on")
        }
        Some(_) => {
            format!("{files} files ({size}) were deleted; readable from version {horizon} on")
        }
    })
}

/// Cleans up the database log.
pub(super) async fn cleanup(
    plan: &CleanupPlan,
    database: &Database,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut options = LogCleanupOptions {
        dry_run: plan.dry_run,
        ..LogCleanupOptions::default()
    };
    if let Some(retention) = plan.retention {
        options.retention = retention;
    }
    let bar = Progress::steps("cleanup");
    let progress = |done: tarndb::Progress| bar.set(done.done, done.total);
    let cleaned = database.clean_log(&options, progress).await;
    bar.clear();
    let report = cleaned?;
    let (records, checkpoints) = (report.records, report.checkpoints);
    output.line(&match report.cut {
        None => "nothing of the log can go: no checkpoint is old enough, below what is published, \
                 and below the newest records"
            .to_owned(),
        Some(cut) if plan.dry_run => {
            format!("{records} records and {checkpoints} checkpoints below version {cut} would go")
        }
        Some(cut) => {
            format!("{records} records and {checkpoints} checkpoints below version {cut} went")
        }
    })
}
