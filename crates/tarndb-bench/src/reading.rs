//! Reading a column of many files of a store at a distance: one file after the other, and as a
//! scan does it.
//!
//! Invariant: each way reads every row.
//! Spec: docs/performance.md, "Reading".

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use futures::TryStreamExt as _;
use tarndb_db::{Database, PublishMode, Snapshot};
use tarndb_storage::Counts;
use tarndb_table::{Schema, TableState, WriteOptions, read_file};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use crate::error::{BenchError, expect_equal};
use crate::lab::Lab;
use crate::report::{Report, ratio, rounded};
use crate::scan::{create_table, pair_schema, pairs};

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Data files.
    pub files: u64,
    /// Rows of each: 50,000 make about 600 KB.
    pub rows: u64,
}

/// A way of reading, measured.
#[derive(Clone, Copy, Debug)]
struct Measured {
    took: Duration,
    spent: Counts,
}

/// Measures it.
///
/// # Errors
/// A wrong result; whatever ends a read.
pub async fn measure(lab: Arc<Lab>, plan: Reading) -> Result<Report, BenchError> {
    let table = write(&lab.create().await?, plan).await?;
    let db = lab.open(PublishMode::Manual).await?;
    let singly = timed(&lab, &db, table, plan, Way::Singly).await?;
    let db = lab.open(PublishMode::Manual).await?;
    let first = timed(&lab, &db, table, plan, Way::Scan).await?;
    let again = timed(&lab, &db, table, plan, Way::Scan).await?;
    let ms = |measured: &Measured| rounded(measured.took.as_secs_f64() * 1e3);
    let times = |measured: &Measured| {
        rounded(singly.took.as_secs_f64() / measured.took.as_secs_f64().max(1e-9))
    };
    let mut report = Report::new("reading")
        .with("files", plan.files)
        .with("rows", plan.rows);
    for (name, measured) in [("singly", &singly), ("scan", &first), ("again", &again)] {
        report = report
            .with(&format!("{name}_ms"), ms(measured))
            .with(&format!("{name}_times"), times(measured))
            .with(
                &format!("{name}_requests_per_file"),
                ratio(measured.spent.requests(), plan.files),
            );
    }
    Ok(report)
}

/// A table of two numbers, one file after the other, of which one does not compress.
async fn write(db: &Database, plan: Reading) -> Result<TableId, BenchError> {
    let table = create_table(db, "numbers", pair_schema()).await?;
    let mut txn = db.begin(Default::default()).await?;
    let mut noise = 1_u64;
    for file in 0..plan.files {
        let rows = (0..plan.rows).map(|row| {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let id = i64::try_from(file * plan.rows + row).unwrap_or(i64::MAX);
            (id, (noise ^ (noise >> 33)).cast_signed())
        });
        let batch = pairs(rows)?;
        let state = txn.table(table).await?;
        let mut writer = tarndb_table::TableWriter::new(
            db.store().clone(),
            txn.location(table)?,
            Arc::clone(&state.schema),
            Vec::new(),
            WriteOptions::default(),
        );
        writer.write(&batch).await?;
        let written = writer.finish().await?;
        txn.add_files(table, written, Operation::Append).await?;
    }
    txn.commit().await?;
    db.publish().await?;
    Ok(table)
}

#[derive(Clone, Copy)]
enum Way {
    Singly,
    Scan,
}

async fn timed(
    lab: &Lab,
    db: &Database,
    table: TableId,
    plan: Reading,
    way: Way,
) -> Result<Measured, BenchError> {
    let snapshot = db.snapshot().await?;
    let state = snapshot.table(table).await?;
    let (_, field) = state.schema.field("n").ok_or_else(|| BenchError::Wrong {
        what: "column",
        expected: "n".to_owned(),
        found: "none".to_owned(),
    })?;
    let columns = Schema::new(vec![field.clone()]);
    let (before, begun) = (db.store().meter().counts(), lab.monotonic());
    let rows = match way {
        Way::Singly => singly(&snapshot, table, &state, &columns).await?,
        Way::Scan => scan(&snapshot, table, &state, &columns).await?,
    };
    let took = lab.monotonic().saturating_sub(begun);
    expect_equal("rows", &(plan.files * plan.rows), &rows)?;
    let spent = db.store().meter().counts() - before;
    Ok(Measured { took, spent })
}

async fn singly(
    snapshot: &Snapshot,
    table: TableId,
    state: &TableState,
    columns: &Schema,
) -> Result<u64, BenchError> {
    let location = snapshot.entry(table)?.location.clone();
    let store = snapshot.database().store();
    let mut rows = 0;
    for file in state.files.values() {
        let mut batches = read_file(store, &location, &file, columns, &[], None).await?;
        while let Some(batch) = batches.try_next().await? {
            rows += values(&batch);
        }
    }
    Ok(rows)
}

async fn scan(
    snapshot: &Snapshot,
    table: TableId,
    state: &TableState,
    columns: &Schema,
) -> Result<u64, BenchError> {
    let files = state.files.values().collect();
    let mut read = snapshot.scan(table, state, columns, files)?;
    let mut rows = 0;
    while let Some((_, live)) = read.try_next().await? {
        rows += values(&live.batch);
    }
    Ok(rows)
}

/// Numbers in the only column.
fn values(batch: &RecordBatch) -> u64 {
    let values = batch.column(0).as_primitive::<Int64Type>();
    values.iter().flatten().count() as u64
}
