//! Upserts that their caller decides: it looks the keys up and says what becomes of each row.
//!
//! Invariant: the keys of the whole source are noted with the change, so that a row with one of
//! them that others add before the commit is a conflict; no key column of a row that changes
//! gets another value.
//! Does not: look anything up; the query engine does.
//! Spec: docs/conflicts.md, "Keys".

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use arrow_array::RecordBatch;
use futures::Stream;
use tarndb_table::{KeyColumns, RowSet, WrittenChange};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use super::source::Source;
use crate::error::DbError;
use crate::transaction::Transaction;

/// What is done with a row whose key the source has given before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubledKeys {
    /// It is an error.
    Refused,
    /// The first one counts, later ones are left out.
    FirstCounts,
}

/// The rows of a source and their keys, in memory.
pub struct SoughtKeys(pub(super) Source);

impl fmt::Debug for SoughtKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SoughtKeys").field(&self.columns()).finish()
    }
}

impl SoughtKeys {
    /// The rows, in the table's types; columns are those that the source gave.
    pub fn batches(&self) -> &[RecordBatch] {
        self.0.batches()
    }

    /// The columns of the key, as the table spells them.
    pub fn columns(&self) -> Vec<String> {
        self.0.key().names()
    }
}

impl Transaction {
    /// Reads the source of an upsert by the columns `on`: columns go by name. Rows with NULL in
    /// a key column have no key.
    ///
    /// # Errors
    /// As [`Self::upsert`].
    ///
    /// # Cost
    /// No store request.
    pub async fn seek_keys<S, E>(
        &self,
        id: TableId,
        on: &[&str],
        doubled: DoubledKeys,
        source: S,
    ) -> Result<SoughtKeys, DbError>
    where
        S: Stream<Item = Result<RecordBatch, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let name = self.entry(id)?.display_name();
        let state = self.table(id).await?;
        let key = KeyColumns::new(&state.schema, on).map_err(DbError::table(name.as_str()))?;
        self.check_key(id, &key)?;
        let bytes_max = self.inner().options.upsert_bytes_max;
        let mut collected = Source::new(key, bytes_max, doubled);
        collected.collect(&name, &state.schema, source).await?;
        Ok(SoughtKeys(collected))
    }

    /// Deletes rows and adds what was written for them and for new ones, decided by looking up
    /// keys; how many rows were deleted. The key of a row that was written anew is what it was,
    /// and that of a new row is in the source.
    ///
    /// # Errors
    /// As [`Self::replace_rows`].
    pub async fn replace_sought(
        &mut self,
        id: TableId,
        sought: SoughtKeys,
        rows: BTreeMap<String, RowSet>,
        written: WrittenChange,
    ) -> Result<u64, DbError> {
        self.make_room(id, &written.parts()).await?;
        let count = self.delete_rows(id, rows, Operation::Upsert).await?;
        self.add_upserted(id, written, sought.0.into_looked())
            .await?;
        Ok(count)
    }

    /// # Errors
    /// An upsert of the table by other columns came before.
    pub(super) fn check_key(&self, id: TableId, key: &KeyColumns) -> Result<(), DbError> {
        match self.keys_looked(id) {
            Some(earlier) if earlier.key.names() != key.names() => Err(DbError::SecondKey {
                table: self.entry(id)?.display_name(),
                first: earlier.key.names().join(", "),
                second: key.names().join(", "),
            }),
            _ => Ok(()),
        }
    }
}
