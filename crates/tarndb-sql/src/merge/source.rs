//! The source of a MERGE: read first, and kept when it is small.
//!
//! Invariant: what the join reads is either all of the rows that were read here, or the query
//! itself; never a part of them. A source that is kept takes at most the budget.
//! Spec: docs/sql/merge.md, "Memory".

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use futures::StreamExt as _;

use crate::dml::write::stream_of;
use crate::error::{SqlError, translate::translate};
use crate::function::SOURCE;
use crate::options::SessionOptions;
use crate::query::{Planned, Scope};

/// A column of the source that is true in each of its rows, and NULL where no row matched.
pub(super) const PRESENT: &str = "\u{1}present";
/// Bytes of a source that is kept when there is no memory limit.
const BUDGET: usize = 256 << 20;

/// The rows of the source.
#[derive(Debug)]
pub(super) enum Rows {
    /// All of them.
    Kept(Vec<RecordBatch>),
    /// Too many to keep; they are read again by the join.
    Many,
}

/// Bytes that a source may take to be kept.
pub(super) fn budget(options: &SessionOptions) -> usize {
    options.pool_bytes().map_or(BUDGET, |pool| pool / 4)
}

/// Reads the source, until it is read or too large.
pub(super) async fn read(
    scope: &Scope<'_>,
    planned: &Planned,
    budget: usize,
) -> std::result::Result<Rows, SqlError> {
    let physical = scope.physical(planned).await?;
    let mut stream = stream_of(scope.engine, physical, &planned.spelling)?;
    let (mut batches, mut bytes) = (Vec::new(), 0_usize);
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| translate(error, &planned.spelling))?;
        if batch.num_rows() == 0 {
            continue;
        }
        bytes = bytes.saturating_add(batch.get_array_memory_size());
        if bytes > budget {
            return Ok(Rows::Many);
        }
        batches.push(batch);
    }
    Ok(Rows::Kept(batches))
}

/// The plan that stands for the source in the join.
pub(super) fn plan(planned: &Planned, rows: &Rows) -> std::result::Result<LogicalPlan, SqlError> {
    let failed = |error| translate(error, &planned.spelling);
    let builder = match rows {
        Rows::Many => LogicalPlanBuilder::from(planned.plan.clone()),
        Rows::Kept(batches) => {
            let schema = match batches.first() {
                Some(batch) => batch.schema(),
                None => Arc::new(planned.plan.schema().as_arrow().clone()),
            };
            let table = MemTable::try_new(schema, vec![batches.clone()]).map_err(failed)?;
            let source = provider_as_source(Arc::new(table));
            LogicalPlanBuilder::scan(SOURCE, source, None).map_err(failed)?
        }
    };
    let columns = builder.schema().columns();
    let mut items: Vec<Expr> = columns
        .into_iter()
        .map(|column| {
            let name = column.name.clone();
            Expr::Column(column).alias(name)
        })
        .collect();
    items.push(lit(true).alias(PRESENT));
    let project = builder.project(items).and_then(LogicalPlanBuilder::build);
    project.map_err(failed)
}

/// The rows as the join sees them.
pub(super) fn present(batches: &[RecordBatch], schema: &DFSchema) -> Result<Vec<RecordBatch>> {
    let arrow = schema.inner();
    let present = |batch: &RecordBatch| {
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(BooleanArray::from(vec![true; batch.num_rows()])));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(arrow),
            columns,
            &options,
        )?)
    };
    batches.iter().map(present).collect()
}

/// The columns of the source, folded.
pub(super) fn columns(planned: &Planned) -> Vec<Column> {
    planned.plan.schema().columns()
}
