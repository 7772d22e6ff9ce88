//! Clients of one handle that insert single rows.
//!
//! Invariant: what is counted was acknowledged and is in the table, each row once.
//! Spec: docs/performance.md, "Group commit".

use std::sync::Arc;
use std::time::Duration;

use tarndb_db::{Database, PublishMode, TxnOptions};
use tarndb_types::TableId;

use crate::error::{BenchError, expect_equal};
use crate::lab::Lab;
use crate::report::{Report, per_second, ratio, rounded};
use crate::scan::{create_table, pair_schema, pair_sums, pairs};

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Tasks that share one handle.
    pub clients: u64,
    /// No insert begins after this time.
    pub time: Duration,
    /// Inserts of each client at most.
    pub transactions: u64,
    /// When to publish.
    pub publish: PublishMode,
}

/// Ids of one client begin at a multiple of this.
const CLIENT_ROWS: u64 = 1_000_000_000;

#[derive(Debug, Default)]
struct Written {
    acknowledged: u64,
    id_sum: u64,
    durations: Vec<Duration>,
}

/// Measures it, and checks the table.
///
/// # Errors
/// Whatever ends a transaction; a wrong result.
pub async fn measure(lab: Arc<Lab>, plan: Group) -> Result<Report, BenchError> {
    let table = create_table(&lab.create().await?, "events", pair_schema()).await?;
    let db = lab.open(plan.publish).await?;
    insert(&db, table, 0).await?;
    let (before, first) = (db.store().meter().counts(), db.cached_snapshot().version());
    let started = lab.monotonic();
    let mut tasks = Vec::new();
    for number in 1..=plan.clients {
        let (lab, db) = (Arc::clone(&lab), db.clone());
        tasks.push(tokio::spawn(async move {
            write(&lab, &db, table, plan, number, started).await
        }));
    }
    let mut all = Written::default();
    for task in tasks {
        let one = task.await??;
        all.acknowledged += one.acknowledged;
        all.id_sum += one.id_sum;
        all.durations.extend(one.durations);
    }
    let took = lab.monotonic().saturating_sub(started);
    let spent = db.store().meter().counts() - before;
    let records = db.cached_snapshot().version().0 - first.0;
    let (rows, id_sum, _) = pair_sums(&lab.inspect().await?, table).await?;
    expect_equal("rows", &(all.acknowledged + 1), &rows)?;
    let expected = i64::try_from(all.id_sum).unwrap_or(i64::MAX);
    expect_equal("sum of ids", &expected, &id_sum)?;
    Ok(Report::new("group")
        .with("clients", plan.clients)
        .with("seconds", rounded(took.as_secs_f64()))
        .with("acknowledged", all.acknowledged)
        .with("per_second", per_second(all.acknowledged, took))
        .with("records", records)
        .with("txns_per_record", ratio(all.acknowledged, records))
        .with("txns_per_record_max", db.metrics().group_txns_max)
        .with(
            "requests_per_txn",
            ratio(spent.requests(), all.acknowledged),
        )
        .with_latencies(all.durations))
}

async fn write(
    lab: &Lab,
    db: &Database,
    table: TableId,
    plan: Group,
    number: u64,
    started: Duration,
) -> Result<Written, BenchError> {
    let mut done = Written::default();
    for n in 0..plan.transactions {
        let begun = lab.monotonic();
        if begun.saturating_sub(started) >= plan.time {
            break;
        }
        let id = number * CLIENT_ROWS + n;
        insert(db, table, id).await?;
        done.acknowledged += 1;
        done.id_sum += id;
        done.durations.push(lab.monotonic().saturating_sub(begun));
    }
    Ok(done)
}

async fn insert(db: &Database, table: TableId, id: u64) -> Result<(), BenchError> {
    let options = TxnOptions {
        cached_snapshot: true,
        ..TxnOptions::default()
    };
    let mut txn = db.begin(options).await?;
    let rows = pairs([(i64::try_from(id).unwrap_or(i64::MAX), 1)])?;
    let rows = futures::stream::iter([Ok::<_, std::convert::Infallible>(rows)]);
    txn.append(table, rows).await?;
    txn.commit().await?;
    Ok(())
}
