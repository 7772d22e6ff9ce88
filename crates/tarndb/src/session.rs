//! `Session`: SQL statements, one after the other, with transactions.

use futures::StreamExt;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use tarndb_sql::{ImportOptions, ImportProgress, ImportReport, ParsedStatement};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use tarndb_types::TxnRef;

use crate::error::{Error, Result};

/// Batches of rows as they come.
pub type RowStream = BoxStream<'static, Result<RecordBatch>>;

/// What a statement gave.
pub enum Outcome {
    /// Rows, read as the stream is polled.
    Rows {
        /// Names and types of the columns.
        schema: SchemaRef,
        /// The rows.
        stream: RowStream,
    },
    /// A number of rows changed.
    Count {
        /// `INSERT`, `UPDATE`, ..
        tag: &'static str,
        /// How many.
        rows: u64,
    },
    /// Done, with nothing to show.
    Done {
        /// `CREATE TABLE`, `COMMIT`, ..
        tag: &'static str,
    },
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rows { schema, .. } => f.debug_struct("Rows").field("schema", schema).finish(),
            Self::Count { tag, rows } => write!(f, "{tag} {rows}"),
            Self::Done { tag } => f.write_str(tag),
        }
    }
}

/// Statements in order. Outside BEGIN .. COMMIT each is a transaction of its own, which runs
/// again by itself after a retryable conflict.
#[derive(Debug)]
pub struct Session {
    inner: tarndb_sql::Session,
}

impl Session {
    pub(crate) fn new(inner: tarndb_sql::Session) -> Self {
        Self { inner }
    }

    /// Cuts a script into statements and parses each.
    ///
    /// # Errors
    /// The first syntax error, with its position; then nothing of the script is returned.
    pub fn parse(text: &str) -> Result<Vec<ParsedStatement>> {
        Ok(tarndb_sql::parse(text)?)
    }

    /// Whether `text` ends inside a statement: no `;`, or an open quote or comment. For line
    /// editors.
    pub fn is_incomplete(text: &str) -> bool {
        tarndb_sql::is_incomplete(text)
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// Inside a transaction an error fails the transaction: until ROLLBACK every statement is
    /// refused. An error in the rows of an outcome comes later; [`Self::fail`] tells it.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the statement; nothing of an autocommit statement becomes
    /// visible unless its commit was already on its way.
    pub async fn execute(&mut self, statement: &ParsedStatement) -> Result<Outcome> {
        let ran = self.inner.execute(statement).await;
        Ok(outcome(
            ran.map_err(|error| Error::of_statement(error, statement))?,
        ))
    }

    /// Runs every statement of `text` and gives what the last one gave.
    ///
    /// # Errors
    /// Stops at the first error.
    pub async fn sql(&mut self, text: &str) -> Result<Outcome> {
        Ok(outcome(self.inner.sql(text).await?))
    }

    /// Runs every statement of `text`, and gives the rows of the last one.
    ///
    /// # Errors
    /// As [`Self::execute`], and those of reading the rows.
    pub async fn query(&mut self, text: &str) -> Result<Vec<RecordBatch>> {
        match self.sql(text).await? {
            Outcome::Rows { stream, .. } => {
                let rows = stream.try_collect().await;
                rows.inspect_err(|_| self.fail())
            }
            Outcome::Count { .. } | Outcome::Done { .. } => Ok(Vec::new()),
        }
    }

    /// Runs every statement of `text`, and gives the number of rows that the last one
    /// changed or returned.
    ///
    /// # Errors
    /// As [`Self::execute`], and those of reading the rows.
    pub async fn run(&mut self, text: &str) -> Result<u64> {
        match self.sql(text).await? {
            Outcome::Rows { mut stream, .. } => {
                let mut rows = 0;
                while let Some(batch) = stream.next().await {
                    rows += batch.inspect_err(|_| self.fail())?.num_rows() as u64;
                }
                Ok(rows)
            }
            Outcome::Count { rows, .. } => Ok(rows),
            Outcome::Done { .. } => Ok(0),
        }
    }

    /// Fails the open transaction, as the error of a statement does: until ROLLBACK every
    /// statement is refused. For callers that read the rows of an [`Outcome`] themselves and
    /// meet an error there.
    pub fn fail(&mut self) {
        self.inner.fail();
    }

    /// Loads files into tables, all in one transaction (the open one, if there is one).
    ///
    /// # Errors
    /// A value that does not fit names file, line and column; nothing is loaded then.
    pub async fn import(
        &mut self,
        options: &ImportOptions,
        progress: &mut (dyn FnMut(&ImportProgress) + Send),
    ) -> Result<ImportReport> {
        Ok(self.inner.import(options, progress).await?)
    }

    /// Whether BEGIN was said, and neither COMMIT nor ROLLBACK since.
    pub fn in_transaction(&self) -> bool {
        self.inner.in_transaction()
    }

    /// Whether the open transaction has failed and waits for ROLLBACK.
    pub fn is_failed(&self) -> bool {
        self.inner.is_failed()
    }

    /// What to ask [`Database::lookup`](crate::Database::lookup) with: the open transaction,
    /// else the last one that this session tried to commit.
    pub fn transaction(&self) -> Option<TxnRef> {
        self.inner.transaction()
    }

    /// What is worth saying about the statements since the last call.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.inner.take_notices()
    }

    /// Ends the session; an open transaction is rolled back.
    pub async fn close(self) -> Result<()> {
        Ok(self.inner.close().await?)
    }
}

fn outcome(outcome: tarndb_sql::Outcome) -> Outcome {
    match outcome {
        tarndb_sql::Outcome::Rows { schema, stream } => Outcome::Rows {
            schema,
            stream: stream.map_err(Error::from).boxed(),
        },
        tarndb_sql::Outcome::Count { tag, rows } => Outcome::Count { tag, rows },
        tarndb_sql::Outcome::Done { tag } => Outcome::Done { tag },
    }
}
