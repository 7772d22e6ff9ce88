//! A snapshot that stays as it is, an older version of the whole database, and a table read
//! by its path as any Delta reader does.
//!
//! Run: cargo run -p tarndb --example time_travel

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use tarndb::arrow::array::AsArray;
use tarndb::arrow::datatypes::Int64Type;
use tarndb::{Database, Result, Session};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("diary");
    let db = Database::create(&root.to_string_lossy()).await?;
    let mut session = db.session()?;
    session
        .run("CREATE TABLE days (day BIGINT, note TEXT)")
        .await?;
    session
        .run("INSERT INTO days VALUES (1, 'rain'), (2, 'rain')")
        .await?;

    // A snapshot covers all tables and does not change.
    let before = db.snapshot().await?;
    session.run("INSERT INTO days VALUES (3, 'sun')").await?;
    session.run("DELETE FROM days WHERE note = 'rain'").await?;
    assert_eq!(before.row_count("days").await?, Some(2));
    assert_eq!(db.snapshot().await?.row_count("days").await?, Some(1));

    // The same state, found again by its version.
    let again = db.snapshot_at(before.version()).await?;
    assert_eq!(again.row_count("days").await?, Some(2));
    println!("version {}: 2 rows, now: 1 row", before.version());

    // Published tables are Delta tables below the database's folder.
    db.publish().await?;
    let path = root.join(
        before
            .catalog()
            .find("main", "days")
            .map_or("", |t| t.location.as_ref()),
    );
    let newest = format!("SELECT count(*) FROM delta_scan('{}')", path.display());
    let older = format!(
        "SELECT count(*) FROM delta_scan('{}', version => 1)",
        path.display()
    );
    assert_eq!(number(&mut session, &newest).await?, 1);
    assert_eq!(number(&mut session, &older).await?, 2);
    println!("read by path: 1 row, and 2 rows at table version 1");
    Ok(db.close().await?)
}

async fn number(session: &mut Session, sql: &str) -> Result<i64> {
    let batches = session.query(sql).await?;
    let first = batches.first().and_then(|batch| batch.columns().first());
    Ok(first.map_or(0, |column| column.as_primitive::<Int64Type>().value(0)))
}
