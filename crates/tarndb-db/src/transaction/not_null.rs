//! Whether a column has a NULL in the rows that the transaction sees.
//!
//! Invariant: every row is accounted for, by the statistics of its file or by being read, deleted
//! ones too: readers see their columns before they see that they are deleted. What others add
//! meanwhile is for the commit to judge.
//! Spec: docs/conflicts.md, "Schema and properties".

use std::sync::Arc;

use futures::TryStreamExt as _;
use tarndb_table::{
    ColumnPath, DataFile, DataType, Deletion, Field, Schema, TableError, TableState, conform_batch,
};
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
        let Some((path, field)) = state.schema.field_at(column) else {
            let column = column.to_string();
            return Err(error(TableError::NoSuchColumn { column }));
        };
        if !field.nullable {
            return Ok(());
        }
        let (present, required) = schemas(&state, &path).ok_or(DbError::Internal {
            what: "a column that was found is not there",
        })?;
        let files = state.files.values();
        let files: Vec<_> = files
            .filter(|file| may_hold_null(file, &path, field))
            .collect();
        let scan = Scan {
            table: entry,
            columns: &present,
            partition_columns: &state.partition_columns,
        };
        if let Some(found) = self.null_in(scan, files.clone(), &required).await? {
            return Err(error(found));
        }
        let is_deleted = |file: &Arc<DataFile>| file.deletion != Deletion::None;
        let whole = files.into_iter().filter(is_deleted).map(|file| {
            let file = DataFile::clone(&file);
            Arc::new(DataFile {
                deletion: Deletion::None,
                ..file
            })
        });
        match self.null_in(scan, whole.collect(), &required).await? {
            None => Ok(()),
            Some(_) => Err(DbError::NullInDeletedRow {
                column: path.to_string(),
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

/// The one column of the table in which the path lies, as it is and as it is to be.
fn schemas(state: &TableState, path: &ColumnPath) -> Option<(Schema, Schema)> {
    let top = path.parts().next()?;
    let (_, field) = state.schema.field(top)?;
    let present = Schema::new(vec![field.clone()]);
    let mut required = present.clone();
    let siblings = required.fields_at_mut(path.parents())?;
    let field = siblings
        .iter_mut()
        .find(|field| field.name == path.leaf())?;
    field.nullable = false;
    Some((present, required))
}

/// Statistics that count no NULL rule it out; those of a field inside of another one also count
/// where the other is NULL, and then say more than there is.
fn may_hold_null(file: &Arc<DataFile>, path: &ColumnPath, field: &Field) -> bool {
    if let Some(value) = file.partition_values.get(field.stored_name())
        && path.is_top()
    {
        return value.is_none();
    }
    if field.data_type.is_nested() || matches!(field.data_type, DataType::Void) || !path.is_top() {
        return true;
    }
    let stats = file.stats.as_ref();
    let column = stats.and_then(|stats| stats.columns.get(&vec![field.stored_name().to_owned()]));
    column.and_then(|column| column.null_count) != Some(0)
}
