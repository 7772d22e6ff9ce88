//! `tarndb optimize`: compacts tables and tells what came of it, a row per table.

use tarndb::{CompactOptions, CompactReport, Database, DbVersion};

use super::Output;
use super::listing::Listing;
use crate::args::{Format, OptimizePlan};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::render::human_bytes;

/// Compacts the tables one after the other. Those before a failing one stay compacted.
pub(super) async fn run(
    plan: &OptimizePlan,
    database: &Database,
    output: &mut Output,
) -> Result<(), Failure> {
    let options = CompactOptions {
        target_file_bytes: plan.target_bytes,
        all: plan.all,
        ..CompactOptions::default()
    };
    let progress = Progress::steps("optimize");
    let mut reports = Vec::new();
    for table in &plan.tables {
        progress.label(table);
        let mut drawn = |done: tarndb::Progress| progress.set(done.done, done.total);
        match database.compact_with(table, &options, &mut drawn).await {
            Ok(report) => reports.push((table, report)),
            Err(error) => {
                progress.clear();
                tell(&reports, output)?;
                return Err(error.into());
            }
        }
    }
    progress.clear();
    tell(&reports, output)
}

fn tell(reports: &[(&String, CompactReport)], output: &mut Output) -> Result<(), Failure> {
    if reports.is_empty() {
        return Ok(());
    }
    let number = |value: fn(&CompactReport) -> u64| {
        let values: Vec<_> = reports.iter().map(|(_, r)| Some(value(r))).collect();
        values.into_iter()
    };
    let text = |value: fn(&CompactReport) -> Option<String>| {
        let values: Vec<_> = reports.iter().map(|(_, r)| value(r)).collect();
        values.into_iter()
    };
    // For programs the number itself.
    let plain = output.format() != Format::Table;
    let mut listing = Listing::default()
        .text(
            "table",
            reports.iter().map(|(table, _)| Some(table.as_str())),
        )
        .number("files_before", number(|r| r.files_before))
        .number("files_after", number(|r| r.files_after));
    listing = if plain {
        listing
            .number("bytes_before", number(|r| r.bytes_before))
            .number("bytes_after", number(|r| r.bytes_after))
    } else {
        listing
            .text("size_before", text(|r| Some(human_bytes(r.bytes_before))))
            .text("size_after", text(|r| Some(human_bytes(r.bytes_after))))
    };
    listing
        .number("rewritten", number(|r| r.files_rewritten))
        .number("written", number(|r| r.files_written))
        .number("rows_moved", number(|r| r.rows_moved))
        .number("rows_dropped", number(|r| r.rows_dropped))
        .number("skipped", number(|r| r.files_skipped + r.files_given_up))
        .number("retries", number(|r| r.retries))
        .text("versions", text(|r| versions(&r.versions)))
        .text("row_map", text(|r| row_map(r).map(str::to_owned)))
        .show(output)?;
    for (table, report) in reports {
        for notice in &report.notices {
            output.line(notice)?;
        }
        if report.versions.is_empty() {
            output.line(&format!("{table}: nothing to do"))?;
        }
        if report.files_given_up > 0 {
            output.line(&format!(
                "{table}: {} files were changed again and again; run it again when fewer write",
                report.files_given_up
            ))?;
        }
    }
    Ok(())
}

/// `7`, `7..9` (others may have committed in between); nothing when none was made.
fn versions(made: &[DbVersion]) -> Option<String> {
    match made {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{first}..{last}")),
    }
}

/// Where the row maps are.
fn row_map(report: &CompactReport) -> Option<&'static str> {
    match (report.row_maps_in_record, report.row_maps_in_file) {
        (0, 0) => None,
        (_, 0) => Some("record"),
        (0, _) => Some("file"),
        _ => Some("record, file"),
    }
}
