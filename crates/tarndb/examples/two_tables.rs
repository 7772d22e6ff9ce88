//! One transaction over two tables, without SQL: both changes are there, or neither.
//!
//! Run: cargo run -p tarndb --example two_tables

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;

use tarndb::arrow::array::{ArrayRef, Int64Array, StringArray};
use tarndb::arrow::error::ArrowError;
use tarndb::arrow::record_batch::RecordBatch;
use tarndb::{Database, Result};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let db = Database::create(&folder.path().join("shop").to_string_lossy()).await?;
    let mut session = db.session()?;
    session
        .run("CREATE TABLE orders (id BIGINT, item TEXT)")
        .await?;
    session
        .run("CREATE TABLE shipments (order_id BIGINT, city TEXT)")
        .await?;

    // Rows are Arrow batches; their files are written now and seen by nobody yet.
    let mut txn = db.begin().await?;
    txn.append("orders", [batch("id", [1, 2], "item", ["kayak", "oar"])?])
        .await?;
    txn.append(
        "shipments",
        [batch("order_id", [1, 2], "city", ["Bergen", "Oslo"])?],
    )
    .await?;
    assert_eq!(
        rows(&db).await?,
        (0, 0),
        "nothing is visible before the commit"
    );

    let committed = txn.commit().await?;
    assert_eq!(rows(&db).await?, (2, 2), "both tables are visible after it");
    let version = committed.version.unwrap_or_default();
    println!("committed both tables as database version {version}");

    // A transaction that is dropped leaves nothing behind.
    let mut txn = db.begin().await?;
    txn.append("orders", [batch("id", [3, 4], "item", ["rope", "tent"])?])
        .await?;
    txn.rollback();
    assert_eq!(rows(&db).await?, (2, 2));
    println!(
        "a rolled back transaction left (orders, shipments) = {:?}",
        rows(&db).await?
    );
    Ok(db.close().await?)
}

fn batch(a: &str, numbers: [i64; 2], b: &str, texts: [&str; 2]) -> Result<RecordBatch, ArrowError> {
    let numbers = Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef;
    let texts = Arc::new(StringArray::from_iter_values(texts)) as ArrayRef;
    RecordBatch::try_from_iter([(a, numbers), (b, texts)])
}

async fn rows(db: &Database) -> Result<(u64, u64)> {
    let snapshot = db.snapshot().await?;
    let orders = snapshot.row_count("orders").await?.unwrap_or_default();
    let shipments = snapshot.row_count("shipments").await?.unwrap_or_default();
    Ok((orders, shipments))
}
