//! RESTORE: takes a table back to an earlier version, in a transaction like any change.
//!
//! Invariant: versions are those of the statement's snapshot. What is given back tells what the
//! transaction sees; the history of the table tells what its commit did.
//! Spec: docs/guide/sql.md, "Restoring a table".

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use tarndb_db::{TableTarget, Transaction};
use tarndb_table::RestoreReport;
use tarndb_types::TableVersion;

use crate::error::{SqlError, translate::translate};
use crate::function::travel::timestamp;
use crate::name::Spelling;
use crate::outcome::Outcome;
use crate::parser::{Restore, RestoreTarget};
use crate::session::Session;

/// Runs it on a table of the database.
pub(crate) async fn run(
    session: &Session,
    txn: &mut Transaction,
    restore: &Restore,
) -> Result<Outcome, SqlError> {
    let id = session.scope(txn).find(&restore.name)?;
    let to = target(&restore.to)?;
    if let TableTarget::Timestamp(_) = to {
        // Which version is the newest then.
        txn.note_read(id);
    }
    let report = txn.restore_table(id, to).await?;
    outcome(&report)
}

/// The version that is meant.
pub(crate) fn target(to: &RestoreTarget) -> Result<TableTarget, SqlError> {
    Ok(match to {
        RestoreTarget::Version(version) => TableTarget::Version(TableVersion(*version)),
        RestoreTarget::Timestamp(text) => TableTarget::Timestamp(timestamp(text)?),
    })
}

/// The figures, as other engines give them.
pub(crate) fn outcome(report: &RestoreReport) -> Result<Outcome, SqlError> {
    let figures = [
        ("table_size_after_restore", report.table_size_after_restore),
        (
            "num_of_files_after_restore",
            report.num_of_files_after_restore,
        ),
        ("num_removed_files", report.num_removed_files),
        ("num_restored_files", report.num_restored_files),
        ("removed_files_size", report.removed_files_size),
        ("restored_files_size", report.restored_files_size),
    ];
    let columns = figures.map(|(name, figure)| {
        let figure = i64::try_from(figure).ok();
        (name, Arc::new(Int64Array::from(vec![figure])) as ArrayRef)
    });
    RecordBatch::try_from_iter(columns)
        .map(Outcome::of_batch)
        .map_err(|error| translate(error.into(), &Spelling::default()))
}
