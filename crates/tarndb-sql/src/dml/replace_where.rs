//! INSERT INTO t REPLACE WHERE condition query.
//!
//! Invariant: afterwards the rows for which the condition is true are exactly those of the
//! query; a row for which it is not true is an error. The condition is a pure function of the
//! row, compiled once: the same one finds the old rows, checks the new ones, and tells at the
//! commit whether others touched such rows.
//! Does not: take conditions that other rows decide.
//! Spec: docs/conflicts.md, "Overwrite with a predicate"; docs/sql/insert.md, "Replace where".

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::Expr;
use futures::StreamExt as _;
use tarndb_db::DbError;
use tarndb_table::{RowPredicate, Written, is_true, row_text};

use crate::dml::Change;
use crate::dml::insert::plan_insert;
use crate::dml::returning::{Changed, ReturnedRows};
use crate::dml::target::ChangeTarget;
use crate::dml::write::{Destination, stream_of};
use crate::error::{SqlError, translate::translate};
use crate::name::Spelling;
use crate::parser::Insert;
use crate::provider::predicate::ScanPredicate;
use crate::provider::reads::{is_pure, text};

/// Runs it.
pub(crate) async fn insert(
    change: &mut Change<'_>,
    insert: &Insert,
    condition: &Expr,
) -> Result<Changed, SqlError> {
    let alias = insert.alias.as_deref();
    let target = ChangeTarget::find(&change.scope(), &insert.table, alias).await?;
    let predicate = predicate(change, &target, condition).await?;
    let id = target.id;
    let destination = Destination::of_table(change.txn, id, change.options).await?;
    let (destination, planned, plan) =
        plan_insert(&change.scope(), destination, insert, change.spelling).await?;
    let looked_at = predicate.columns(&destination.schema);
    let looked_at = looked_at.map_err(SqlError::table(&destination.name))?;
    if let Some(column) = destination.numbered(&looked_at) {
        // The rows get their numbers when they are written, after they were looked at.
        return Err(SqlError::Unsupported {
            what: format!("REPLACE WHERE with a condition on {column}, an identity column"),
            hint: Some("compare other columns, or give the numbers".to_owned()),
        });
    }
    let plan = destination.prepare(plan)?;
    let stream = stream_of(change.engine, plan, &planned.spelling)?;
    let written = write(
        change,
        &destination,
        predicate.as_ref(),
        stream,
        &planned.spelling,
    );
    let written = written.await?;
    change.note_reads(&planned);
    let rows = written.rows;
    let returned = match &insert.returning {
        None => None,
        Some(returning) => {
            let new = ReturnedRows::written([&written]);
            Some(change.returned(&target, new, returning).await?)
        }
    };
    let reads_itself = planned.reads.contains(id);
    let replaced = change
        .txn
        .replace_where(id, predicate, written, reads_itself);
    replaced.await?;
    Ok(Changed { rows, returned })
}

/// Writes rows, all of which must match.
async fn write(
    change: &Change<'_>,
    destination: &Destination,
    predicate: &dyn RowPredicate,
    mut stream: SendableRecordBatchStream,
    spelling: &Spelling,
) -> Result<Written, SqlError> {
    let mut writer = destination.writer(change.db);
    let failed = || SqlError::table(&destination.name);
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| translate(error, spelling))?;
        if batch.num_rows() == 0 {
            continue;
        }
        let schema = &destination.schema;
        let matches = predicate.matches(&batch, schema).map_err(failed())?;
        if let Some(row) = (0..batch.num_rows()).find(|row| !is_true(&matches, *row)) {
            return Err(SqlError::Db(DbError::RowOutsidePredicate {
                table: destination.name.to_string(),
                predicate: predicate.to_string(),
                row: row_text(&batch, row, schema),
            }));
        }
        writer.write(&batch).await.map_err(failed())?;
    }
    writer.finish().await.map_err(failed())
}

/// The condition as a function of the row.
///
/// # Errors
/// Subqueries, functions that are not pure, and conditions that are the same for all rows.
async fn predicate(
    change: &Change<'_>,
    target: &ChangeTarget,
    condition: &Expr,
) -> Result<Arc<dyn RowPredicate>, SqlError> {
    let query = target.query(Vec::new(), Some(condition.clone()))?;
    let scope = change.scope();
    let planned = scope.plan(&query, change.spelling, Some(target.target()));
    let planned = planned.await?;
    let failed = |error| translate(error, &planned.spelling);
    let state = change.engine.context.state();
    let plan = state.optimize(&planned.plan).map_err(failed)?;
    let refused = |what: &str, hint: &str| SqlError::Unsupported {
        what: format!("REPLACE WHERE with {what}"),
        hint: Some(hint.to_owned()),
    };
    let Some(filter) = filter_of(&plan).map_err(failed)? else {
        return Err(refused(
            "a condition that is not about the row",
            "INSERT OVERWRITE replaces all rows",
        ));
    };
    if !is_pure(&filter, &target.provider) {
        return Err(refused(
            "a condition that the row alone does not decide",
            "compare columns with constants; or DELETE and INSERT in one transaction",
        ));
    }
    let text = text(&filter, &target.provider);
    let predicate = ScanPredicate::new(&target.provider, &state, vec![filter], text);
    Ok(Arc::new(predicate.map_err(failed)?))
}

/// The condition as the engine simplified it, its columns without qualifiers; `None` when it is
/// not decided by one filter over the scan.
fn filter_of(plan: &LogicalPlan) -> datafusion::common::Result<Option<PlanExpr>> {
    let (mut filter, mut scans, mut others) = (None, 0, 0);
    plan.apply(|node| {
        match node {
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {}
            LogicalPlan::Filter(found) if filter.is_none() => {
                filter = Some(found.predicate.clone());
            }
            LogicalPlan::TableScan(_) => scans += 1,
            _ => others += 1,
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let Some(filter) = filter.filter(|_| scans == 1 && others == 0) else {
        return Ok(None);
    };
    let plain = filter.transform(|expr| match expr {
        PlanExpr::Column(mut column) => {
            column.relation = None;
            Ok(Transformed::yes(PlanExpr::Column(column)))
        }
        expr => Ok(Transformed::no(expr)),
    });
    plain.map(|plain| Some(plain.data))
}
