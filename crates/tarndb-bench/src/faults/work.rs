//! The transactions of one process, one after the other.
//!
//! Invariant: a transaction that left this process is told as what the database says of it:
//! acknowledged only when it said "committed", aborted only when it said that it is not and
//! never will be. What is in doubt is asked for until it is told.

use std::fmt;

use tarndb_db::{Database, DbError, PublishMode, Transaction, TxnOptions, TxnOutcome};
use tarndb_storage::Context;
use tarndb_types::TxnRef;

use super::{IDS_PER_PROCESS, Place, ROLLBACK_EVERY, SHARED_EVERY, Tables, one, tell};
use crate::error::BenchError;
use crate::lab::options;

/// Times that an outcome is asked for before it counts as unknown.
const ASK_MAX: u32 = 50;
/// Attempts at opening and closing a handle.
const HANDLE_ATTEMPTS: u32 = 20;

/// What a process does.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Its number.
    pub process: i64,
    /// Its transactions.
    pub transactions: u64,
    /// Transactions of one handle, before a new one is opened.
    pub per_handle: u64,
    /// Where random numbers start.
    pub seed: u64,
}

/// How a transaction ended.
#[derive(Debug)]
pub enum Ended {
    /// The database said that it is committed.
    Acknowledged,
    /// It said that it is not, or the transaction was never committed.
    Aborted(String),
    /// It said neither.
    Unknown(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_line = |text: &str| text.replace('\n', " ");
        match self {
            Self::Acknowledged => f.write_str("acknowledged"),
            Self::Aborted(why) => write!(f, "aborted {}", one_line(why)),
            Self::Unknown(why) => write!(f, "unknown {}", one_line(why)),
        }
    }
}

/// Runs all transactions and prints a line `<id> <how it ended>` for each.
///
/// # Errors
/// No handle could be opened or closed; nobody takes the lines.
pub async fn work(place: &Place, work: Work) -> Result<(), BenchError> {
    let mut handle: Option<(Database, Tables)> = None;
    for number in 0..work.transactions {
        if number % work.per_handle == 0
            && let Some((db, _)) = handle.take()
        {
            close(&db).await?;
        }
        let (db, tables) = match &handle {
            Some(handle) => handle,
            None => {
                // The seeds of all handles differ: their random names must.
                let process = u64::try_from(work.process).unwrap_or(0);
                let seed = work.seed ^ (process << 32) ^ (number << 40);
                handle.insert(open(place, seed).await?)
            }
        };
        let id = work.process * IDS_PER_PROCESS + i64::try_from(number).unwrap_or(0);
        let ended = transaction(db, tables, (id, work.process), number).await;
        tell([format!("{id} {ended}")])?;
    }
    match handle {
        Some((db, _)) => close(&db).await,
        None => Ok(()),
    }
}

async fn open(place: &Place, seed: u64) -> Result<(Database, Tables), BenchError> {
    let mut options_now = place.options.clone();
    if options_now.values.contains_key("fault.seed") {
        options_now = options_now.with("fault.seed", &seed.to_string());
    }
    let store = tarndb_storage::open(&place.url, &options_now, Context::system())?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        match Database::open(store.clone(), options(PublishMode::Async)).await {
            Ok(db) => {
                let tables = Tables::of(&db)?;
                return Ok((db, tables));
            }
            Err(error) if attempt < HANDLE_ATTEMPTS => tell([format!("# open: {error}")])?,
            Err(error) => return Err(error.into()),
        }
    }
}

async fn close(db: &Database) -> Result<(), BenchError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match db.close().await {
            Ok(()) => return Ok(()),
            Err(error) if attempt < HANDLE_ATTEMPTS => tell([format!("# close: {error}")])?,
            Err(error) => return Err(error.into()),
        }
    }
}

async fn transaction(db: &Database, tables: &Tables, row: (i64, i64), number: u64) -> Ended {
    let txn = match stage(db, tables, row, number).await {
        Ok(txn) => txn,
        Err(error) => return Ended::Aborted(format!("before its commit: {error}")),
    };
    if number % ROLLBACK_EVERY == ROLLBACK_EVERY - 1 {
        drop(txn);
        return Ended::Aborted("rolled back".to_owned());
    }
    match txn.commit().await {
        Ok(_) => Ended::Acknowledged,
        Err(DbError::Pending { txn }) => ask(db, txn).await,
        Err(error) => Ended::Aborted(format!("by its commit: {error}")),
    }
}

/// Everything that the transaction does.
async fn stage(
    db: &Database,
    tables: &Tables,
    row: (i64, i64),
    number: u64,
) -> Result<Transaction, BenchError> {
    let mut txn = db.begin(TxnOptions::default()).await?;
    txn.append(tables.first, one(row)?).await?;
    txn.append(tables.second, one(row)?).await?;
    if number.is_multiple_of(SHARED_EVERY) {
        let shared = one((0, row.0))?;
        txn.upsert(tables.shared, &["id"], shared).await?;
    }
    Ok(txn)
}

/// Asks for the outcome until it is told.
async fn ask(db: &Database, txn: TxnRef) -> Ended {
    let mut last = String::new();
    for _ in 0..ASK_MAX {
        match db.resolve(txn).await {
            Ok(TxnOutcome::Committed { .. }) => return Ended::Acknowledged,
            Ok(TxnOutcome::Aborted { .. }) => return Ended::Aborted("by a fence".to_owned()),
            Err(error) => last = error.to_string(),
        }
    }
    Ended::Unknown(last)
}
