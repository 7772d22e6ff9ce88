//! A stream of small inserts from one process into a folder, and what comes after it.
//!
//! Invariant: fsync is on; a step's figures hold only that step's requests; every query is
//! checked against the rows that were acknowledged.
//! Spec: docs/performance.md, "Streaming".

mod rows;

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tarndb_db::{CompactOptions, Database, PublishMode, TxnOptions};
use tarndb_storage::{Context, Counts, StoreOptions};
use tarndb_types::TableId;

use crate::error::{BenchError, expect_equal};
use crate::lab::options;
use crate::report::{Report, per_second, ratio, rounded};
use crate::scan::{create_table, scan};

use rows::Sums;

/// The stream's table.
const TABLE: &str = "events";

/// How the stream is written.
#[derive(Clone, Debug)]
pub struct Stream {
    /// A folder that does not exist yet.
    pub folder: String,
    /// Tasks that share one handle.
    pub tasks: u64,
    /// Rows of each transaction.
    pub rows: i64,
    /// When to publish.
    pub publish: PublishMode,
}

/// One thing to do and to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many transactions.
    Append(i64),
    /// Publish all that is committed.
    Publish,
    /// Few large files in place of the many small ones.
    Compact,
    /// Sums over all rows.
    Query,
    /// Sums over all rows by a handle that opens the database for it.
    ColdQuery,
}

impl FromStr for Step {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split_once(':') {
            Some(("append", count)) => count.parse().map(Self::Append).map_err(|_| ()),
            None if text == "publish" => Ok(Self::Publish),
            None if text == "compact" => Ok(Self::Compact),
            None if text == "query" => Ok(Self::Query),
            None if text == "cold-query" => Ok(Self::ColdQuery),
            _ => Err(()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Append(_) => "append",
            Self::Publish => "publish",
            Self::Compact => "compact",
            Self::Query => "query",
            Self::ColdQuery => "cold-query",
        })
    }
}

/// A stream under way.
#[derive(Debug)]
pub struct Streaming {
    plan: Stream,
    context: Context,
    db: Database,
    table: TableId,
    transactions: i64,
}

impl Streaming {
    /// Creates the database and its table.
    ///
    /// # Errors
    /// The folder holds a database, or cannot be written.
    pub async fn start(plan: Stream) -> Result<Self, BenchError> {
        let context = Context::system();
        let store = tarndb_storage::open(&plan.folder, &StoreOptions::default(), context.clone())?;
        let db = Database::create(store, options(plan.publish)).await?;
        let table = create_table(&db, TABLE, rows::schema()).await?;
        Ok(Self {
            plan,
            context,
            db,
            table,
            transactions: 0,
        })
    }

    /// Does one step and measures it.
    ///
    /// # Errors
    /// Whatever the database answers; a wrong result.
    pub async fn step(&mut self, step: Step) -> Result<Report, BenchError> {
        let before = self.db.store().meter().counts();
        let started = self.context.monotonic();
        let report = Report::new("stream").with("step", step.to_string());
        let report = match step {
            Step::Append(count) => self.append(count, report).await?,
            Step::Publish => self.publish(report).await?,
            Step::Compact => self.compact(report).await?,
            Step::Query => self.query(&self.db, report).await?,
            Step::ColdQuery => self.cold_query(report).await?,
        };
        let took = self.context.monotonic().saturating_sub(started);
        let spent = self.db.store().meter().counts() - before;
        Ok(with_requests(report, spent).with("seconds", rounded(took.as_secs_f64())))
    }

    /// Ends the background work.
    ///
    /// # Errors
    /// As [`Database::close`].
    pub async fn close(self) -> Result<(), BenchError> {
        Ok(self.db.close().await?)
    }

    async fn append(&mut self, count: i64, report: Report) -> Result<Report, BenchError> {
        let before = self.db.store().meter().counts();
        let first = self.db.cached_snapshot().version();
        let next = Arc::new(AtomicI64::new(self.transactions));
        let end = self.transactions + count;
        let started = self.context.monotonic();
        let mut tasks = Vec::new();
        for _ in 0..self.plan.tasks {
            let (db, next, context) = (self.db.clone(), Arc::clone(&next), self.context.clone());
            let (table, rows) = (self.table, self.plan.rows);
            tasks.push(tokio::spawn(async move {
                let mut durations = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        return Ok::<_, BenchError>(durations);
                    }
                    let begun = context.monotonic();
                    insert(&db, table, number, rows).await?;
                    durations.push(context.monotonic().saturating_sub(begun));
                }
            }));
        }
        let mut durations: Vec<Duration> = Vec::new();
        for task in tasks {
            durations.extend(task.await??);
        }
        let took = self.context.monotonic().saturating_sub(started);
        self.transactions = end;
        let (count, rows) = (
            count.unsigned_abs(),
            (count * self.plan.rows).unsigned_abs(),
        );
        let records = self.db.cached_snapshot().version().0 - first.0;
        let spent: Counts = self.db.store().meter().counts() - before;
        Ok(report
            .with("transactions", count)
            .with("transactions_per_second", per_second(count, took))
            .with("rows_per_second", per_second(rows, took))
            .with("txns_per_record", ratio(count, records))
            .with("requests_per_txn", ratio(spent.requests(), count))
            .with_latencies(durations))
    }

    async fn publish(&self, report: Report) -> Result<Report, BenchError> {
        let published = self.db.publish().await?;
        Ok(report.with("versions_written", published.versions_written()))
    }

    async fn compact(&self, report: Report) -> Result<Report, BenchError> {
        let options = CompactOptions::default();
        let compacted = self.db.compact(self.table, &options).await?;
        Ok(report
            .with("files_before", compacted.files_before)
            .with("files_after", compacted.files_after)
            .with("rows_moved", compacted.rows_moved)
            .with("commits", compacted.versions.len()))
    }

    async fn cold_query(&self, report: Report) -> Result<Report, BenchError> {
        let options = options(PublishMode::Manual);
        let context = self.context.clone();
        let store = tarndb_storage::open(&self.plan.folder, &StoreOptions::default(), context)?;
        let db = Database::open(store, options).await?;
        let report = self.query(&db, report).await?;
        Ok(report.with("own_requests", db.store().meter().counts().requests()))
    }

    async fn query(&self, db: &Database, report: Report) -> Result<Report, BenchError> {
        let started = self.context.monotonic();
        let snapshot = db.snapshot().await?;
        let parts: Vec<Sums> = scan(&snapshot, self.table, Sums::add).await?;
        let sums = parts.into_iter().fold(Sums::default(), Sums::merge);
        let took = self.context.monotonic().saturating_sub(started);
        let expected = Sums::of_first(self.transactions * self.plan.rows)?;
        expect_equal("sums per kind", &expected, &sums)?;
        let files = snapshot.table(self.table).await?.files.len();
        Ok(report
            .with("files", files)
            .with("query_seconds", rounded(took.as_secs_f64())))
    }
}

async fn insert(db: &Database, table: TableId, number: i64, rows: i64) -> Result<(), BenchError> {
    let options = TxnOptions {
        cached_snapshot: true,
        ..TxnOptions::default()
    };
    let mut txn = db.begin(options).await?;
    let batch = rows::batch(number * rows..(number + 1) * rows)?;
    let batches = futures::stream::iter([Ok::<_, Infallible>(batch)]);
    txn.append(table, batches).await?;
    txn.commit().await?;
    Ok(())
}

fn with_requests(report: Report, spent: Counts) -> Report {
    report
        .with("requests", spent.requests())
        .with("put_if_absent", spent.put_if_absent)
        .with("put", spent.put)
        .with(
            "reads",
            spent.get + spent.get_range + spent.head + spent.list,
        )
        .with("bytes_written", spent.bytes_written)
}
