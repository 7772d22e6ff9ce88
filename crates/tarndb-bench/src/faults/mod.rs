//! Transactions of a process among others over a store that may misbehave, told one by one.
//!
//! Invariant: a transaction is told as acknowledged, aborted or unknown, once, after it ended;
//! whoever reads the tables later can compare. Each has an id of its own and leaves a row
//! `(id, process)` in both tables `t` and `u`, or in none.
//! Does not: inject faults; those are options of the store.
//! Spec: docs/guide/faults.md.

mod work;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write as _;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use tarndb_db::{Database, DbOptions, TxnOptions};
use tarndb_storage::{Context, Store, StoreOptions};
use tarndb_types::TableId;

use crate::error::BenchError;
use crate::lab::options;
use crate::scan::{create_table, pair_schema, pairs, scan};
use tarndb_db::PublishMode;

pub use work::{Ended, Work, work};

/// Ids of one process begin at its number times this.
pub const IDS_PER_PROCESS: i64 = 1_000_000;
/// Every so many transactions one is rolled back on purpose, and one updates a shared row.
pub const ROLLBACK_EVERY: u64 = 10;
/// See [`ROLLBACK_EVERY`].
pub const SHARED_EVERY: u64 = 5;

/// Where the database is, and how it is reached.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its URL.
    pub url: String,
    /// Options of the store.
    pub options: StoreOptions,
}

impl Place {
    /// A place reached with options by name.
    pub fn new(url: String, values: BTreeMap<String, String>) -> Self {
        let options = StoreOptions { values };
        Self { url, options }
    }

    fn store(&self, context: Context) -> Result<Store, BenchError> {
        Ok(tarndb_storage::open(&self.url, &self.options, context)?)
    }
}

/// The tables of the test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) first: TableId,
    pub(crate) second: TableId,
    pub(crate) shared: TableId,
}

impl Tables {
    pub(crate) fn of(db: &Database) -> Result<Self, BenchError> {
        let snapshot = db.cached_snapshot();
        let id = |name| Ok::<_, BenchError>(snapshot.find("main", name)?.id);
        Ok(Self {
            first: id("t")?,
            second: id("u")?,
            shared: id("c")?,
        })
    }
}

fn manual() -> DbOptions {
    options(PublishMode::Manual)
}

pub(crate) fn one(row: (i64, i64)) -> Result<RecordStream, BenchError> {
    Ok(futures::stream::iter([Ok(pairs([row])?)]))
}

type RecordStream = futures::stream::Iter<std::array::IntoIter<Result<RecordBatch, Infallible>, 1>>;

/// Makes the database and its tables.
///
/// # Errors
/// As [`Database::create`].
pub async fn create(place: &Place) -> Result<(), BenchError> {
    let db = Database::create(place.store(Context::system())?, manual()).await?;
    for name in ["t", "u"] {
        create_table(&db, name, pair_schema()).await?;
    }
    let shared = create_table(&db, "c", pair_schema()).await?;
    let mut txn = db.begin(TxnOptions::default()).await?;
    txn.append(shared, one((0, -1))?).await?;
    txn.commit().await?;
    Ok(())
}

/// Publishes what is not published, checks everything, and prints the ids in each table, one
/// line each, then what the check found.
///
/// # Errors
/// The store does not answer; nobody takes the lines.
pub async fn read(place: &Place) -> Result<(), BenchError> {
    let db = Database::open(place.store(Context::system())?, manual()).await?;
    let published = db.publish().await?;
    let tables = Tables::of(&db)?;
    let snapshot = db.snapshot().await?;
    let mut lines = Vec::new();
    for (name, id) in [
        ("t", tables.first),
        ("u", tables.second),
        ("c", tables.shared),
    ] {
        let parts = scan(&snapshot, id, |rows: &mut Vec<(i64, i64)>, batch| {
            let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().values();
            let both = column(0).iter().zip(column(1).iter());
            rows.extend(both.map(|(id, n)| (*id, *n)));
        });
        for (id, n) in parts.await?.into_iter().flatten() {
            lines.push(format!("row {name} {id} {n}"));
        }
    }
    for found in published.diverged {
        lines.push(format!("finding diverged {} {}", found.key, found.version));
    }
    let report = db.check(true, |_| {}).await?;
    for finding in &report.findings {
        lines.push(format!("finding {finding:?}"));
    }
    let (records, tables) = (report.records, report.tables);
    lines.push(format!("checked {records} records {tables} tables"));
    db.close().await?;
    tell(lines)
}

/// Prints lines, all of them at once.
pub(crate) fn tell(lines: impl IntoIterator<Item = String>) -> Result<(), BenchError> {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
