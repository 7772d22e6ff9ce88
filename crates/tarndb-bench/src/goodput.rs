//! Writers with handles of their own that update different rows of one data file.
//!
//! Invariant: an update is decided anew after a retryable conflict; what is counted was
//! acknowledged, and the table's sums are those of the acknowledged updates.
//! Spec: docs/performance.md, "Goodput".

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tarndb_db::{Database, PublishMode, RetryPolicy, Transaction, TxnOptions};
use tarndb_table::RowSet;
use tarndb_txn::Operation;
use tarndb_types::TableId;

use crate::error::{BenchError, expect_equal};
use crate::lab::Lab;
use crate::report::{Report, per_second, ratio, rounded};
use crate::scan::{create_table, pair_schema, pair_sums, pairs};

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Goodput {
    /// Tasks, each with a handle of its own.
    pub writers: u64,
    /// No update begins after this time.
    pub time: Duration,
    /// Updates of each writer at most, which is also how many rows it has.
    pub transactions: u64,
}

/// What one writer did.
#[derive(Debug, Default)]
struct Written {
    acknowledged: u64,
    reexecutions: u64,
    lost_puts: u64,
    requests: u64,
    durations: Vec<Duration>,
    finished: Duration,
}

/// The one file that everybody updates.
#[derive(Clone, Debug)]
struct Target {
    table: TableId,
    file: String,
}

/// Measures it, and checks the table.
///
/// # Errors
/// Whatever ends a transaction but a retryable conflict; a wrong result.
pub async fn measure(lab: Arc<Lab>, plan: Goodput) -> Result<Report, BenchError> {
    let target = prepare(&lab, plan).await?;
    let mut handles = Vec::new();
    for _ in 0..plan.writers {
        handles.push(lab.open(PublishMode::Manual).await?);
    }
    let started = lab.monotonic();
    let mut tasks = Vec::new();
    for (number, db) in (0..).zip(handles) {
        let (lab, target) = (Arc::clone(&lab), target.clone());
        tasks.push(tokio::spawn(async move {
            write(&lab, &db, &target, plan, number, started).await
        }));
    }
    let mut all = Written::default();
    for task in tasks {
        let one = task.await??;
        all.acknowledged += one.acknowledged;
        all.reexecutions += one.reexecutions;
        all.lost_puts += one.lost_puts;
        all.requests += one.requests;
        all.durations.extend(one.durations);
        all.finished = all.finished.max(one.finished);
    }
    check(&lab, plan, &target, all.acknowledged).await?;
    let took = all.finished.saturating_sub(started);
    Ok(Report::new("goodput")
        .with("writers", plan.writers)
        .with("seconds", rounded(took.as_secs_f64()))
        .with("acknowledged", all.acknowledged)
        .with("per_second", per_second(all.acknowledged, took))
        .with(
            "reexecutions_per_txn",
            ratio(all.reexecutions, all.acknowledged),
        )
        .with("lost_puts_per_txn", ratio(all.lost_puts, all.acknowledged))
        .with("requests_per_txn", ratio(all.requests, all.acknowledged))
        .with_latencies(all.durations))
}

/// A table with one file that has a row for each update: row `r` is `(r, 0)`.
async fn prepare(lab: &Lab, plan: Goodput) -> Result<Target, BenchError> {
    let db = lab.create().await?;
    let table = create_table(&db, "counters", pair_schema()).await?;
    let mut txn = db.begin(TxnOptions::default()).await?;
    let rows = pairs(ids(plan).map(|id| (id, 0)))?;
    let written = txn.append(table, one(rows)).await?;
    txn.commit().await?;
    expect_equal("files to update", &1, &written.files.len())?;
    let file = written.files.into_iter().next();
    let file = file.map(|file| file.path).unwrap_or_default();
    Ok(Target { table, file })
}

fn ids(plan: Goodput) -> impl Iterator<Item = i64> {
    let rows = plan.writers.saturating_mul(plan.transactions);
    0..i64::try_from(rows).unwrap_or(i64::MAX)
}

fn one<T>(item: T) -> impl futures::Stream<Item = Result<T, Infallible>> {
    futures::stream::iter([Ok(item)])
}

async fn write(
    lab: &Lab,
    db: &Database,
    target: &Target,
    plan: Goodput,
    number: u64,
    started: Duration,
) -> Result<Written, BenchError> {
    let mut done = Written::default();
    let before = db.store().meter().counts();
    let first = number * plan.transactions;
    for row in first..first + plan.transactions {
        let begun = lab.monotonic();
        if begun.saturating_sub(started) >= plan.time {
            break;
        }
        let (options, policy) = (TxnOptions::default(), RetryPolicy::default());
        let updated = db.transact(options, policy, |txn| update(txn, target, row));
        updated.await?;
        done.acknowledged += 1;
        done.durations.push(lab.monotonic().saturating_sub(begun));
    }
    done.finished = lab.monotonic();
    let metrics = db.metrics();
    done.reexecutions = metrics.reexecutions;
    done.lost_puts = metrics.lost_puts;
    done.requests = (db.store().meter().counts() - before).requests();
    Ok(done)
}

/// Sets `n` of one row from 0 to 1.
async fn update(
    mut txn: Transaction,
    target: &Target,
    row: u64,
) -> Result<(Transaction, ()), BenchError> {
    let mut positions = RowSet::default();
    positions.insert(row);
    let rows = BTreeMap::from([(target.file.clone(), positions)]);
    let operation = Operation::Update;
    txn.delete_rows(target.table, rows, operation).await?;
    let mut writer = txn.writer(target.table).await?;
    let id = i64::try_from(row).unwrap_or(i64::MAX);
    writer.write(&pairs([(id, 1)])?).await?;
    let written = writer.finish().await?;
    txn.add_files(target.table, written, operation).await?;
    Ok((txn, ()))
}

/// Each row is there once, and as many are updated as were acknowledged.
async fn check(
    lab: &Lab,
    plan: Goodput,
    target: &Target,
    acknowledged: u64,
) -> Result<(), BenchError> {
    let db = lab.inspect().await?;
    let (rows, id_sum, n_sum) = pair_sums(&db, target.table).await?;
    expect_equal("rows", &(plan.writers * plan.transactions), &rows)?;
    expect_equal("sum of ids", &ids(plan).sum(), &id_sum)?;
    let acknowledged = i64::try_from(acknowledged).unwrap_or(i64::MAX);
    expect_equal("updated rows", &acknowledged, &n_sum)
}
