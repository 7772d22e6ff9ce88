//! Opening a Delta table of many commits or files in this process, and what follows from it.
//!
//! Invariant: each figure is of this process alone, so that its peak memory means something;
//! the table is only read, its checkpoint is written elsewhere.
//! Spec: docs/performance.md, "Opening".

use std::fs;
use std::time::Duration;

use tarndb_delta::{DeltaCodec, NativeTarget, open_native};
use tarndb_storage::context::Context;
use tarndb_storage::{Path, Store, StoreOptions};
use tarndb_table::{Comparison, Entry, Predicate, Scalar, TableCodec, TableState, matching_files};
use tarndb_types::TableVersion;

use crate::error::BenchError;
use crate::report::{Report, rounded};

/// What to do with the table after it was opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Folder or URL of the table.
    pub table: String,
    /// Looks for the files that may hold this value of the column `id`; negative: does not.
    pub find: i64,
    /// Folder into which a checkpoint is written; empty: none.
    pub checkpoint: String,
}

/// Measures it.
///
/// # Errors
/// Whatever ends a read or a write.
pub async fn measure(plan: Opening) -> Result<Report, BenchError> {
    let context = Context::system();
    let store = tarndb_storage::open(&plan.table, &StoreOptions::default(), context.clone())?;
    let begun = context.monotonic();
    let state = open_native(&store, NativeTarget::Latest).await?;
    let first = context.monotonic().saturating_sub(begun);
    let opened_mb = peak_mb();
    let begun = context.monotonic();
    let files = state.files.paths().count();
    let listed = context.monotonic().saturating_sub(begun);
    let mut report = Report::new("open")
        .with("table", plan.table.as_str())
        .with("version", state.version.0)
        .with("files", files)
        .with("first_ms", ms(first))
        .with("list_ms", ms(listed))
        .with("opened_peak_mb", opened_mb);
    if plan.find >= 0 {
        let begun = context.monotonic();
        let kept = found(&state, plan.find);
        report = report
            .with("find_ms", ms(context.monotonic().saturating_sub(begun)))
            .with("found", kept);
    }
    let begun = context.monotonic();
    let next = DeltaCodec::default().apply(Some(&state), &one_more(&state))?;
    report = report
        .with("commit_ms", ms(context.monotonic().saturating_sub(begun)))
        .with("files_after", next.files.len());
    if !plan.checkpoint.is_empty() {
        let options = StoreOptions::default();
        let elsewhere = tarndb_storage::open(&plan.checkpoint, &options, context.clone())?;
        let begun = context.monotonic();
        let written = checkpoint(&elsewhere, &state).await?;
        report = report
            .with(
                "checkpoint_ms",
                ms(context.monotonic().saturating_sub(begun)),
            )
            .with("checkpoint_bytes", written);
    }
    Ok(report.with("peak_mb", peak_mb()))
}

fn found(state: &TableState, id: i64) -> usize {
    let predicate = Predicate::Compare {
        column: "id".to_owned(),
        op: Comparison::Equal,
        value: Scalar::Long(id),
    };
    matching_files(state, &predicate).len()
}

/// A commit that adds one file.
fn one_more(state: &TableState) -> Entry {
    let add = "{\"add\":{\"path\":\"one-more.parquet\",\"partitionValues\":{},\"size\":1,\
               \"modificationTime\":1,\"dataChange\":true}}";
    Entry {
        version: TableVersion(state.version.0 + 1),
        lines: vec![add.to_owned()],
    }
}

async fn checkpoint(store: &Store, state: &TableState) -> Result<u64, BenchError> {
    let written = DeltaCodec::default()
        .checkpoint(store, &Path::default(), state)
        .await?;
    Ok(written.size_bytes)
}

fn ms(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1e3)
}

/// The most memory that the process had so far, in MB; 0 where the system does not say.
fn peak_mb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1024
}
