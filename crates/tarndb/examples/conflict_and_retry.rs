//! What a conflict looks like, and how a transaction is run again.
//!
//! Two sessions change the same row: the later to commit is told so. Changes of different
//! rows of the same file do not disturb each other.
//!
//! Run: cargo run -p tarndb --example conflict_and_retry

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tarndb::{Database, Result, Session};

#[tokio::main]
async fn main() -> Result<()> {
    let db = Database::create("memory://conflict").await?;
    let mut anna = db.session()?;
    let mut bert = db.session()?;
    anna.run("CREATE TABLE seats (seat TEXT, holder TEXT)")
        .await?;
    anna.run("INSERT INTO seats VALUES ('1A', 'free'), ('1B', 'free')")
        .await?;

    // Different rows of one data file: both commit.
    anna.run("BEGIN").await?;
    bert.run("BEGIN").await?;
    take(&mut anna, "1A", "Anna").await?;
    take(&mut bert, "1B", "Bert").await?;
    anna.run("COMMIT").await?;
    bert.run("COMMIT").await?;
    println!("different rows: both committed");

    // The same row: the second to commit is refused, and may run again.
    anna.run("BEGIN").await?;
    bert.run("BEGIN").await?;
    take(&mut anna, "1A", "Anna, with a dog").await?;
    take(&mut bert, "1A", "Bert").await?;
    anna.run("COMMIT").await?;
    let Err(error) = bert.run("COMMIT").await else {
        unreachable!("Anna changed the row first");
    };
    assert!(error.is_retryable());
    println!(
        "the same row: {error} (SQLSTATE {})",
        error.sqlstate().unwrap_or("-")
    );

    // Run again, now from what Anna left: the statement decides anew.
    let taken = loop {
        bert.run("BEGIN").await?;
        let sql = "UPDATE seats SET holder = 'Bert' WHERE seat = '1A' AND holder = 'free'";
        let taken = bert.run(sql).await?;
        match bert.run("COMMIT").await {
            Ok(_) => break taken,
            Err(error) if error.is_retryable() => continue,
            Err(error) => return Err(error),
        }
    };
    assert_eq!(taken, 0, "the seat is Anna's");
    println!("run again: Bert took {taken} seats");
    db.close().await
}

async fn take(session: &mut Session, seat: &str, holder: &str) -> Result<u64> {
    session
        .run(&format!(
            "UPDATE seats SET holder = '{holder}' WHERE seat = '{seat}'"
        ))
        .await
}
