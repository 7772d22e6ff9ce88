//! The history of a table: what its commits say of themselves.
//!
//! Invariant: newest first, ends at the oldest commit that is still there.
//! Spec: docs/format/log.md, "Reading a table".

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_types::{DbVersion, TableId, TableVersion, TimestampMs};

use super::log::TableLog;
use crate::error::DbError;
use crate::snapshot::Snapshot;

const PARALLEL_READS: usize = 16;

/// One version of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableHistoryEntry {
    /// The version.
    pub version: TableVersion,
    /// When it was committed.
    pub timestamp: TimestampMs,
    /// What was done, such as `WRITE`; `None` when the commit does not say.
    pub operation: Option<String>,
    /// How, by the names of the format.
    pub parameters: BTreeMap<String, String>,
    /// Figures, by the names of the format.
    pub metrics: BTreeMap<String, String>,
    /// Version of the database that made it, when a database did.
    pub db_version: Option<DbVersion>,
    /// The transaction, when the commit names it.
    pub txn: Option<String>,
    /// The program that wrote it, when the commit names it.
    pub engine: Option<String>,
}

impl Snapshot {
    /// The newest `limit` versions of a table, newest first.
    ///
    /// # Errors
    /// [`DbError::TableNotFound`]; a commit that cannot be read.
    ///
    /// # Cost
    /// 1 LIST and a GET per version.
    pub async fn table_history(
        &self,
        id: TableId,
        limit: usize,
    ) -> Result<Vec<TableHistoryEntry>, DbError> {
        let log = TableLog::load(&self.database().inner, self.entry(id)?).await?;
        let newest: Vec<TableVersion> = log.versions().iter().rev().take(limit).copied().collect();
        let log = &log;
        futures::stream::iter(newest)
            .map(|version| async move {
                let told = log.told(version).await?;
                Ok(TableHistoryEntry {
                    version,
                    timestamp: told.timestamp,
                    operation: told.info.operation,
                    parameters: told.info.operation_parameters,
                    metrics: told.info.operation_metrics,
                    db_version: told.db_version,
                    txn: told.info.txn_id,
                    engine: told.info.engine_info,
                })
            })
            .buffered(PARALLEL_READS)
            .try_collect()
            .await
    }
}
