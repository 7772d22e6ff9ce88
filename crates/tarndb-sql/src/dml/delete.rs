//! DELETE.
//!
//! Invariant: without WHERE nothing is read; with one, exactly the rows for which it is true
//! go (not those for which it is NULL).

use futures::StreamExt;
use tarndb_txn::Operation;

use crate::dml::Change;
use crate::dml::target::{ChangeTarget, Found};
use crate::dml::write::stream_of;
use crate::error::{SqlError, translate::translate};
use crate::parser::Delete;
use crate::query::{Planned, Scope};

/// The plan that finds the rows; `None` without WHERE.
pub(crate) async fn plan_delete(
    scope: &Scope<'_>,
    delete: &Delete,
    spelling: &crate::name::Spelling,
) -> Result<(ChangeTarget, Option<Planned>), SqlError> {
    let target = ChangeTarget::find(scope, &delete.table, delete.alias.as_deref()).await?;
    let Some(filter) = delete.filter.clone() else {
        return Ok((target, None));
    };
    let query = target.query(Vec::new(), Some(filter))?;
    let planned = scope.plan(&query, spelling, Some(target.target())).await?;
    Ok((target, Some(planned)))
}

/// Runs a DELETE; how many rows went.
pub(crate) async fn delete(change: &mut Change<'_>, delete: &Delete) -> Result<u64, SqlError> {
    let (target, planned) = plan_delete(&change.scope(), delete, change.spelling).await?;
    let Some(planned) = planned else {
        return change.truncate(&delete.table).await;
    };
    let plan = change.scope().physical(&planned).await?;
    let mut stream = stream_of(change.engine, plan, &planned.spelling)?;
    let mut found = Found::default();
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| translate(error, &planned.spelling))?;
        found.take(&batch, target.provider.kept())?;
    }
    change.note_reads(&planned);
    let count = found.len();
    change
        .txn
        .delete_rows(target.id, target.by_path(found).await?, Operation::Delete)
        .await?;
    Ok(count)
}
