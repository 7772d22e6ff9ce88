//! Whether a column has a NULL in the rows that the transaction sees.
//!
//! Invariant: every row is accounted for, by the statistics of its file or by being read, deleted
//! ones too: readers see their columns before they see that they are deleted. What others add
//! meanwhile is for the commit to judge.
//! Spec: docs/conflicts.md, "Schema and properties".

use std::sync::Arc;

use futures::TryStreamExt as _;
use tarndb_table::{ColumnPath, DataFile, NotNullCheck, Schema, TableError, conform_batch};
use tarndb_types::TableId;

use super::Transaction;
use crate::error::DbError;
use crate::scan::{Scan, Scanned};

impl Transaction {
    /// # Errors
    /// The first row that has NULL in the column, also a deleted one; a column that is not
    /// there.
    pub(super) async fn check_no_null(
        &self,
        id: TableId,
        column: &ColumnPath,
    ) -> Result<(), DbError> {
        let state = self.table(id).await?;
        let entry = self.entry(id)?;
        let name = entry.display_name();
        let error = |error: TableError| DbError::table(name.as_str())(error);
        let Some(check) = NotNullCheck::new(&state, column).map_err(error)? else {
            return Ok(());
        };
        let scan = Scan {
            table: entry,
            columns: &check.present,
            partition_columns: &state.partition_columns,
        };
        let (whole, required) = (check.whole(), &check.required);
        if let Some(found) = self.null_in(scan, check.files, required).await? {
            return Err(error(found));
        }
        match self.null_in(scan, whole, required).await? {
            None => Ok(()),
            Some(_) => Err(DbError::NullInDeletedRow {
                column: check.column.to_string(),
                table: name,
            }),
        }
    }

    /// What is wrong with the first row that does not fit.
    async fn null_in(
        &self,
        scan: Scan<'_>,
        files: Vec<Arc<DataFile>>,
        required: &Schema,
    ) -> Result<Option<TableError>, DbError> {
        let name = scan.table.display_name();
        let mut scanned = self.inner().scan(scan, files);
        while let Some(Scanned { mut rows, .. }) = scanned.try_next().await? {
            while let Some(rows) = rows
                .try_next()
                .await
                .map_err(DbError::table(name.as_str()))?
            {
                if let Err(found) = conform_batch(&rows.batch, required) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }
}
