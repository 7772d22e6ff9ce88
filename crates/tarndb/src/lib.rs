//! A serverless ACID database on object storage.
//!
//! A database is a folder or a prefix in a bucket. Its tables are Delta tables that every
//! Delta reader reads; one conditional PUT commits a transaction over any number of them. No
//! server, no lock service.
//!
//! # Guide
//!
//! Create or open a [`Database`] by its URL, take a [`Session`], run SQL. Outside
//! `BEGIN .. COMMIT` each statement is a transaction of its own.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> tarndb::Result<()> {
//! use tarndb::Database;
//!
//! let db = Database::create("memory://guide").await?;
//! let mut session = db.session()?;
//! session.run("CREATE TABLE orders (id BIGINT, item TEXT)").await?;
//! session.run("CREATE TABLE stock (item TEXT, n BIGINT)").await?;
//! session.run("INSERT INTO stock VALUES ('kayak', 3)").await?;
//!
//! // Two tables, one commit.
//! session.run("BEGIN").await?;
//! session.run("INSERT INTO orders VALUES (1, 'kayak')").await?;
//! session.run("UPDATE stock SET n = n - 1 WHERE item = 'kayak'").await?;
//! session.run("COMMIT").await?;
//!
//! let batches = session.query("SELECT n FROM stock WHERE item = 'kayak'").await?;
//! assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
//! assert_eq!(db.snapshot().await?.row_count("orders").await?, Some(1));
//!
//! // Wait until other engines can see what was committed.
//! db.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Without SQL: [`Database::begin`] gives a [`Transaction`] that takes Arrow batches, and
//! [`Database::snapshot`] an immutable [`Snapshot`] of all tables.
//!
//! Errors are one type, [`Error`]; its [`ErrorKind`] says how to react. Statements run again
//! by themselves after a retryable conflict, and so does the work given to
//! [`Database::transact`]; other explicit transactions do not, because only their caller knows
//! what they depended on.
//!
//! The crates below this one (`tarndb-db`, `tarndb-sql`, ..) are its parts and promise no
//! stable interface; what is re-exported here is meant to stay.

mod database;
mod error;
mod name;
mod session;
mod snapshot;
mod transact;
mod transaction;

pub use database::{Database, Options, Upkeep};
pub use error::{ConflictKind, Error, ErrorKind, Result};
pub use session::{Outcome, RowStream, Session};
pub use snapshot::Snapshot;
pub use transact::TransactError;
pub use transaction::Transaction;

pub use arrow;
pub use tarndb_db::{
    AttachedTable, Catalog, CheckReport, CheckpointReport, CloneReport, CloneTable, Committed,
    CompactOptions, CompactReport, DetachedTable, Doomed, Finding, LogCleanupOptions,
    LogCleanupReport, LogEntry, NewTable, OverwriteReport, Progress, PublishMode, PublishReport,
    Status, TableChange, TableStatus, TableTarget, TxnOptions, TxnOutcome, TxnStatus, UpsertReport,
    VacuumOptions, VacuumReport,
};
pub use tarndb_db::{Metrics, RetryPolicy};
pub use tarndb_sql::{ImportFile, ImportOptions, ImportProgress, ImportReport, ParsedStatement};
pub use tarndb_storage::{Context, Counts};
pub use tarndb_table::prune::{Comparison, Predicate};
pub use tarndb_table::stats::Scalar;
pub use tarndb_table::{DataType, Field, RestoreReport, Schema, TableState, TableWriter};
pub use tarndb_types::{
    DatabaseId, DbVersion, TableId, TableVersion, TimestampMs, TxnId, TxnRef, Uuid,
};
