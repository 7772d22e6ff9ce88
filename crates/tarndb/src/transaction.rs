//! `Transaction`: changes of several tables without SQL.

use arrow::record_batch::RecordBatch;
use futures::stream;
use tarndb_db::{
    CloneReport, CloneTable, Committed, NewTable, OverwriteReport, TableTarget, UpsertReport,
};
use tarndb_table::{Field, Predicate, RestoreReport, TableWriter};
use tarndb_types::{TableId, TxnRef};

use crate::error::{Error, Result};
use crate::name;

/// Changes that become visible together, or not at all. Dropping it rolls back.
#[derive(Debug)]
pub struct Transaction {
    inner: tarndb_db::Transaction,
}

impl Transaction {
    pub(crate) fn new(inner: tarndb_db::Transaction) -> Self {
        Self { inner }
    }

    /// What to keep, to ask [`Database::lookup`](crate::Database::lookup) for the outcome.
    pub fn reference(&self) -> TxnRef {
        self.inner.reference()
    }

    /// Creates a table in `schema`.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists), or
    /// [`Invalid`](crate::ErrorKind::Invalid) for columns that a table cannot have.
    pub async fn create_table(&mut self, schema: &str, table: NewTable) -> Result<TableId> {
        Ok(self.inner.create_table(schema, table).await?)
    }

    /// Creates a table in `schema` as a clone of another: its definition and its rows, at any
    /// version that is still there.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists); [`NotFound`](crate::ErrorKind::NotFound)
    /// for a version that is gone, now or, of a shallow clone, at the commit.
    ///
    /// # Cost
    /// A copy within the store per data file of a deep clone; none for the files that a shallow
    /// clone shares.
    pub async fn clone_table(
        &mut self,
        schema: &str,
        clone: &CloneTable,
    ) -> Result<(TableId, CloneReport)> {
        Ok(self.inner.clone_table(schema, clone, |_| {}).await?)
    }

    /// Adds rows to a table (`table` or `schema.table`). The batches' columns are those of the
    /// table, in order. The data files are written now and become visible with the commit.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a value that does not fit, naming the column.
    ///
    /// # Cost
    /// One PUT for each data file of about 128 MiB.
    pub async fn append(
        &mut self,
        table: &str,
        batches: impl IntoIterator<Item = RecordBatch, IntoIter: Send> + Send,
    ) -> Result<u64> {
        let id = self.table_id(table)?;
        let rows = stream::iter(batches.into_iter().map(Ok::<_, Error>));
        Ok(self.inner.append(id, rows).await?.rows)
    }

    /// Takes a table back to an earlier version of it, as a new version: its rows, columns,
    /// properties and comment. What the transaction did to it before is forgotten.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) for a version that is not there (any more).
    ///
    /// # Cost
    /// Reading the table's log up to the version; no data file is read or written.
    pub async fn restore_table(&mut self, table: &str, to: TableTarget) -> Result<RestoreReport> {
        let id = self.table_id(table)?;
        Ok(self.inner.restore_table(id, to).await?)
    }

    /// Replaces the rows whose columns `on` equal those of a given row, and inserts the other
    /// rows given. Columns go by name; those that are not given keep their value in rows that
    /// are replaced and are NULL in new ones.
    ///
    /// No key needs to be declared, and no two transactions insert the same new key: the later
    /// gets a retryable [`Conflict`](crate::ErrorKind::Conflict) at commit.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a key that is given twice or a value that does
    /// not fit, naming it; [`ResourceExhausted`](crate::ErrorKind::ResourceExhausted) for more
    /// rows than fit `upsert_bytes_max`.
    ///
    /// # Cost
    /// Two GETs for each data file that can hold a key; one PUT for each file written.
    pub async fn upsert(
        &mut self,
        table: &str,
        on: &[&str],
        batches: impl IntoIterator<Item = RecordBatch, IntoIter: Send> + Send,
    ) -> Result<UpsertReport> {
        let id = self.table_id(table)?;
        let rows = stream::iter(batches.into_iter().map(Ok::<_, Error>));
        Ok(self.inner.upsert(id, on, rows).await?)
    }

    /// Replaces the rows for which `predicate` is true by those given, which must match it too.
    /// The batches' columns are those of the table, in order.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a row that does not match, showing it.
    ///
    /// # Cost
    /// Two GETs for each data file that can hold matching rows; one PUT for each file written.
    pub async fn overwrite_where(
        &mut self,
        table: &str,
        predicate: &Predicate,
        batches: impl IntoIterator<Item = RecordBatch, IntoIter: Send> + Send,
    ) -> Result<OverwriteReport> {
        let id = self.table_id(table)?;
        let rows = stream::iter(batches.into_iter().map(Ok::<_, Error>));
        let report = self.inner.overwrite_where(id, predicate, rows, false);
        Ok(report.await?)
    }

    /// Adds a column at the end; it is NULL in the rows that are there.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a name that is taken or a NOT NULL column.
    pub async fn add_column(&mut self, table: &str, field: Field) -> Result<()> {
        let id = self.table_id(table)?;
        Ok(self.inner.add_column(id, field).await?)
    }

    /// Sets or (`None`) removes the comment of a column, or of the table.
    pub async fn set_comment(
        &mut self,
        table: &str,
        column: Option<&str>,
        text: Option<&str>,
    ) -> Result<()> {
        let id = self.table_id(table)?;
        Ok(self.inner.set_comment(id, column, text).await?)
    }

    /// Sets or (`None`) removes a property of a table.
    pub async fn set_property(
        &mut self,
        table: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<()> {
        let id = self.table_id(table)?;
        Ok(self.inner.set_property(id, key, value).await?)
    }

    /// Writes once: commits `version` of the application `app_id` with the transaction.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists), here or at commit, when an earlier
    /// attempt committed that version or a later one.
    pub async fn set_app_transaction(
        &mut self,
        table: &str,
        app_id: &str,
        version: i64,
    ) -> Result<()> {
        let id = self.table_id(table)?;
        Ok(self.inner.set_app_transaction(id, app_id, version).await?)
    }

    /// From now on the commit fails when a table that this transaction writes was changed since
    /// its snapshot. See also [`TxnOptions::read_version`](crate::TxnOptions::read_version).
    pub fn pin_reads(&mut self) {
        self.inner.pin_reads();
    }

    /// A writer for a table, for callers that drive the writing themselves.
    pub async fn writer(&self, table: &str) -> Result<TableWriter> {
        let id = self.table_id(table)?;
        Ok(self.inner.writer(id).await?)
    }

    /// Commits. In doubt the outcome can be asked for with [`Self::reference`].
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another transaction stands in the way;
    /// [`Pending`](crate::ErrorKind::Pending) when the store does not answer.
    ///
    /// # Cost
    /// One conditional PUT when nobody committed meanwhile.
    pub async fn commit(self) -> Result<Committed> {
        Ok(self.inner.commit().await?)
    }

    /// Forgets the changes. Data files already written stay as garbage, seen by nobody.
    pub fn rollback(self) {}

    /// The transaction below this cover, for everything else.
    pub fn inner(&mut self) -> &mut tarndb_db::Transaction {
        &mut self.inner
    }

    fn table_id(&self, table: &str) -> Result<TableId> {
        let (schema, name) = name::parts(table);
        let entry = self.inner.catalog().find(schema, name);
        match entry {
            Some(entry) => Ok(entry.id),
            None => {
                let name = format!("{schema}.{name}");
                Err(tarndb_db::DbError::TableNotFound { name }.into())
            }
        }
    }
}
