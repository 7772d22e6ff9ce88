//! DELETE.
//!
//! Invariant: without WHERE nothing is read; with one, exactly the rows for which it is true
//! go (not those for which it is NULL).

use futures::StreamExt;
use tarndb_txn::Operation;

use crate::dml::Change;
use crate::dml::returning::{Changed, ReturnedRows};
use crate::dml::target::{ChangeTarget, Twice};
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
    // A row that several rows are joined to goes once.
    let target = match delete.using.is_empty() {
        true => target,
        false => target.with_twice(Twice::Allowed),
    };
    if delete.filter.is_none() && delete.using.is_empty() && delete.returning.is_none() {
        return Ok((target, None));
    }
    let query = target.joined(Vec::new(), &delete.using, delete.filter.clone())?;
    let planned = scope.plan(&query, spelling, Some(target.target())).await?;
    Ok((target, Some(planned)))
}

/// Runs a DELETE.
pub(crate) async fn delete(change: &mut Change<'_>, delete: &Delete) -> Result<Changed, SqlError> {
    let (target, planned) = plan_delete(&change.scope(), delete, change.spelling).await?;
    let Some(planned) = planned else {
        return change.truncate(&delete.table).await.map(Changed::from);
    };
    let plan = change.scope().physical(&planned).await?;
    let mut stream = stream_of(change.engine, plan, &planned.spelling)?;
    let mut found = target.nothing_found();
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| translate(error, &planned.spelling))?;
        found.take(&batch, target.provider.kept())?;
    }
    change.note_reads(&planned);
    let count = found.len();
    let rows = target.by_path(found).await?;
    let returned = match &delete.returning {
        None => None,
        Some(returning) => {
            let old = ReturnedRows::live(target.provider.pinned(), &rows).await?;
            Some(change.returned(&target, old, returning).await?)
        }
    };
    let deleted = change.txn.delete_rows(target.id, rows, Operation::Delete);
    deleted.await?;
    Ok(Changed {
        rows: count,
        returned,
    })
}
