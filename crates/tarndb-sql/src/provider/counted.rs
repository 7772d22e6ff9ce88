//! A scan without columns: as many rows as the log counts.
//!
//! Invariant: no file is read, and however many files the table has, none of them is kept in
//! memory; a table with a file whose rows the log does not count is scanned instead.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::Result;
use datafusion::common::stats::Precision;
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::{TarnTable, statistics};

/// Batches of one plan at most: those of very large tables are larger.
const BATCHES: usize = 1 << 16;

/// The rows of `table`, or the first `limit`; `None` when the log does not count them.
pub(super) fn plan(
    table: &TarnTable,
    session: &dyn Session,
    limit: Option<usize>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let files = table.pinned.state.files.counted();
    let Precision::Exact(rows) = statistics::row_count(files, table.pinned.is_own()) else {
        return Ok(None);
    };
    let rows = limit.map_or(rows, |limit| rows.min(limit));
    let size = session.config_options().execution.batch_size.get();
    let schema = Arc::new(Schema::empty());
    let batches = batches(&schema, rows, size.max(rows.div_ceil(BATCHES)))?;
    let source = MemorySourceConfig::try_new_exec(&[batches], schema, None)?;
    Ok(Some(source))
}

fn batches(schema: &SchemaRef, rows: usize, size: usize) -> Result<Vec<RecordBatch>> {
    let batch = |start: usize| {
        let count = size.min(rows - start);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), vec![], &options);
        Ok(batch?)
    };
    (0..rows).step_by(size).map(batch).collect()
}
