//! Two transactions upsert the same new key: it is inserted once, whoever is first.
//!
//! Run: cargo run -p tarndb --example upsert_race
//!
//! With arguments it is one of many processes that do so at the same time
//! (`scripts/upsert_race.py`): `upsert_race URL TABLE WRITER KEYS` upserts keys 0 to KEYS into a
//! table whose columns but the last, `writer`, are the key.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;

use tarndb::arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use tarndb::arrow::record_batch::RecordBatch;
use tarndb::{DataType, Database, Result};

type AnyError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => two_of_one_key().await,
        [url, table, writer, keys] => worker(url, table, writer.parse()?, keys.parse()?).await,
        _ => Err("usage: upsert_race [URL TABLE WRITER KEYS]".into()),
    }
}

async fn two_of_one_key() -> Result<(), AnyError> {
    let db = Database::create("memory://upserts").await?;
    let mut session = db.session()?;
    session
        .run("CREATE TABLE t (id BIGINT, writer BIGINT)")
        .await?;
    let row = |writer| batch(&[("id", DataType::Long)], 9, writer);

    // Both look for the key 9 and do not find it.
    let mut first = db.begin().await?;
    let mut second = db.begin().await?;
    assert_eq!(first.upsert("t", &["id"], [row(1)?]).await?.inserted, 1);
    assert_eq!(second.upsert("t", &["id"], [row(2)?]).await?.inserted, 1);
    first.commit().await?;
    let Err(error) = second.commit().await else {
        return Err("the key was inserted twice".into());
    };
    assert!(error.is_retryable());
    println!("the second: {error}");

    // Run again it finds the row, and replaces it.
    let mut again = db.begin().await?;
    let report = again.upsert("t", &["id"], [row(2)?]).await?;
    assert_eq!((report.inserted, report.updated), (0, 1));
    again.commit().await?;
    assert_eq!(db.snapshot().await?.row_count("t").await?, Some(1));
    println!("run again: updated, one row");
    db.close().await?;
    Ok(())
}

/// Upserts all keys, each in a transaction of its own that runs again after a conflict.
async fn worker(url: &str, table: &str, writer: i64, keys: i64) -> Result<(), AnyError> {
    let db = Database::open(url).await?;
    let state = db.snapshot().await?.table(table).await?;
    let columns = state.schema.fields.iter();
    let columns: Vec<(&str, DataType)> = columns
        .map(|field| (field.name.as_str(), field.data_type.clone()))
        .collect();
    let (_, key) = columns.split_last().ok_or("the table has no columns")?;
    let on: Vec<&str> = key.iter().map(|(name, _)| *name).collect();
    // All begin together, when they are told to.
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let mut conflicts = 0;
    for n in 0..keys {
        let row = batch(key, n, writer)?;
        loop {
            let mut txn = db.begin().await?;
            txn.upsert(table, &on, [row.clone()]).await?;
            match txn.commit().await {
                Ok(_) => break,
                Err(error) if error.is_retryable() => conflicts += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
    db.close().await?;
    println!("upserted {keys} conflicts {conflicts}");
    Ok(())
}

/// One row with the key `n` and the writer.
fn batch(key: &[(&str, DataType)], n: i64, writer: i64) -> Result<RecordBatch, AnyError> {
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    for (name, data_type) in key {
        let column: ArrayRef = match data_type {
            DataType::Long => Arc::new(Int64Array::from(vec![n])),
            DataType::Double => Arc::new(Float64Array::from(vec![n as f64 / 3.0])),
            DataType::String => Arc::new(StringArray::from(vec![format!("key {n}")])),
            other => return Err(format!("no keys of type {other}").into()),
        };
        columns.push((*name, column));
    }
    columns.push(("writer", Arc::new(Int64Array::from(vec![writer]))));
    Ok(RecordBatch::try_from_iter(columns)?)
}
