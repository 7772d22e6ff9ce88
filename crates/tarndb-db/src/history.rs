//! What was committed: the log for people, and the outcome of one transaction.
//!
//! Invariant: reads records only; a record that is gone ends the history, it is not an error.
//! Spec: docs/format/log.md, "Records".

use std::collections::BTreeMap;

use serde_json::Value;
use tarndb_types::{DbVersion, TableId, TableVersion, TimestampMs, TxnId, TxnRef};

use crate::catalog::error::ObjectError;
use crate::commit;
use crate::database::Database;
use crate::error::{DbError, TxnOutcome, TxnStatus};
use crate::record::{Action, AttachAction, RecordTxn, UndropAction};
use crate::states::Ended;

/// One committed transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// The version that it made.
    pub version: DbVersion,
    /// Its id.
    pub txn: TxnId,
    /// The snapshot it read.
    pub read_version: DbVersion,
    /// When it was committed.
    pub timestamp: TimestampMs,
    /// Its isolation level.
    pub isolation: String,
    /// What it did.
    pub operation: String,
    /// The tables that it changed.
    pub tables: Vec<TableChange>,
    /// As the user gave it.
    pub user_metadata: BTreeMap<String, Value>,
}

/// A table that a transaction changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableChange {
    /// The table.
    pub id: TableId,
    /// `schema.name` as of now, or as of its end.
    pub name: String,
    /// The version that the transaction made; `None` when only the catalog changed.
    pub version: Option<TableVersion>,
}

impl Database {
    /// Committed transactions, newest first.
    ///
    /// # Cost
    /// A refresh and a GET per record that is not cached.
    pub async fn log(&self, limit: usize) -> Result<Vec<LogEntry>, DbError> {
        self.inner.check_open()?;
        self.inner.refresh().await?;
        let newest = self.inner.head.catalog().version();
        self.log_at(newest, limit).await
    }

    /// Those up to a version, newest first.
    ///
    /// # Cost
    /// A GET per record that is not cached.
    pub async fn log_at(&self, newest: DbVersion, limit: usize) -> Result<Vec<LogEntry>, DbError> {
        self.inner.check_open()?;
        let catalog = self.inner.head.catalog();
        let name = |id: TableId| {
            let table = catalog.table_or_dropped(id);
            table.map_or_else(|| id.to_string(), |table| table.display_name())
        };
        let mut entries = Vec::new();
        let mut next = Some(newest);
        while let Some(version) = next.filter(|_| entries.len() < limit) {
            let record = match self.inner.record(version).await {
                Err(DbError::RecordMissing { .. }) => break,
                other => other?,
            };
            for txn in record.txns.iter().rev().take(limit - entries.len()) {
                entries.push(LogEntry {
                    version,
                    txn: txn.id,
                    read_version: txn.read_version,
                    timestamp: txn.timestamp,
                    isolation: txn.isolation.clone(),
                    operation: txn.operation.clone(),
                    tables: changed_tables(txn, &name),
                    user_metadata: txn.user_metadata.clone(),
                });
            }
            next = version.previous();
        }
        Ok(entries)
    }

    /// The version that was the newest at a time.
    ///
    /// # Errors
    /// [`ObjectError::NoVersionAt`]: a time before the oldest record that is there, or one that
    /// is yet to come.
    ///
    /// # Cost
    /// A refresh and a GET per step of a binary search.
    pub async fn version_at(&self, at: TimestampMs) -> Result<DbVersion, DbError> {
        self.inner.check_open()?;
        self.inner.refresh().await?;
        let head = self.inner.head.catalog();
        let now = self.inner.context().now();
        let refused = |first| ObjectError::NoVersionAt {
            wanted: at,
            first,
            last: head.timestamp(),
        };
        if at > now.max(head.timestamp()) {
            return Err(refused(None).into());
        }
        let (mut low, mut high) = (0, head.version().0 + 1);
        let (mut found, mut first) = (None, None);
        // Those that are there at all are there up to the newest.
        while low < high {
            let middle = low + (high - low) / 2;
            match self.inner.record(DbVersion(middle)).await {
                Err(DbError::RecordMissing { .. }) => low = middle + 1,
                Ok(record) if record.timestamp <= at => {
                    found = Some(DbVersion(middle));
                    low = middle + 1;
                }
                Ok(record) => {
                    first = Some(record.timestamp);
                    high = middle;
                }
                Err(other) => return Err(other),
            }
        }
        found.ok_or_else(|| refused(first).into())
    }

    /// How a transaction ended, if it did. Writes nothing: a writer that is still at it may
    /// commit it afterwards; [`Self::resolve`] puts an end to that.
    ///
    /// # Errors
    /// [`DbError::OutcomeExpired`] when records after its base were cleaned up.
    ///
    /// # Cost
    /// A refresh and a GET per record after its base that is not cached.
    pub async fn lookup(&self, txn: TxnRef) -> Result<TxnStatus, DbError> {
        self.inner.check_open()?;
        self.inner.refresh().await?;
        let head = self.inner.head.catalog().version();
        let found = commit::find(&self.inner, txn, head).await?;
        Ok(match found {
            Some(Ended::Committed(version)) => TxnStatus::Committed { version },
            Some(Ended::Fenced(fence)) => TxnStatus::Aborted { fence },
            None => TxnStatus::NotCommitted { head },
        })
    }

    /// How a transaction ended, for good: one that is in no record is aborted by a fence, even
    /// if its writer is still at it. The answer never changes.
    ///
    /// # Errors
    /// [`DbError::Pending`] while the store does not answer; [`DbError::OutcomeExpired`] when
    /// records after its base were cleaned up; [`DbError::VersionNotFound`] for a base above
    /// the newest version, which no transaction of this database has.
    ///
    /// # Cost
    /// As [`Self::lookup`], and 1 PUT for a transaction that has not ended.
    pub async fn resolve(&self, txn: TxnRef) -> Result<TxnOutcome, DbError> {
        self.inner.check_open()?;
        commit::resolve(&self.inner, txn).await
    }
}

fn changed_tables(txn: &RecordTxn, name: &impl Fn(TableId) -> String) -> Vec<TableChange> {
    let mut versions: BTreeMap<TableId, Option<TableVersion>> = BTreeMap::new();
    for action in &txn.actions {
        match action {
            Action::Entry(entry) => {
                versions.insert(entry.table, Some(entry.version));
            }
            Action::CreateTable { id, .. }
            | Action::DropTable { id }
            | Action::DetachTable { id }
            | Action::AttachTable(AttachAction { id, .. })
            | Action::UndropTable(UndropAction { id, .. })
            | Action::RenameTable { id, .. } => {
                versions.entry(*id).or_default();
            }
            _ => {}
        }
    }
    let changed = versions.into_iter();
    changed
        .map(|(id, version)| TableChange {
            id,
            name: name(id),
            version,
        })
        .collect()
}
