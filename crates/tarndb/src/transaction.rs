//! `Transaction`: changes of several tables without SQL.

use arrow::record_batch::RecordBatch;
use futures::stream;
use tarndb_db::{Committed, NewTable};
use tarndb_table::TableWriter;
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
