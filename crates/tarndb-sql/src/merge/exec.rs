//! A plan node that brings rows of a MERGE into the types of the table, clause by clause.
//!
//! Invariant: the rows of each clause that writes come out with the table's types, filled by its
//! rules and without NULL where the table has none, or the stream ends with an error that names
//! the column. Rules are asked about rows that will be written, never about rows of the join.
//! The order of the rows of a batch is not kept.

use std::fmt;
use std::sync::Arc;

use arrow::compute::kernels::cmp::eq;
use arrow::compute::{concat_batches, filter_record_batch};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int32Array, RecordBatch, RecordBatchOptions, Scalar, new_null_array};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    SendableRecordBatchStream,
};
use futures::StreamExt;
use tarndb_table::{RowRules, Supplied, conform_batch};

use super::plan::Layout;
use crate::error::SqlError;
use crate::error::translate::{carry, carry_table};

/// What the node needs to know.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) table: Arc<str>,
    pub(super) rules: Arc<RowRules>,
    pub(super) layout: Layout,
    /// Per clause, where the columns of its rows come from; `None` for one that writes none.
    pub(super) supplied: Vec<Option<Supplied>>,
}

/// The node.
#[derive(Debug)]
pub(super) struct MergeExec {
    input: Arc<dyn ExecutionPlan>,
    rules: Arc<Rules>,
    properties: Arc<PlanProperties>,
}

impl MergeExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, rules: Arc<Rules>) -> Self {
        let own = rules.rules.schema().to_arrow();
        let own = own.fields().iter().map(|field| {
            // Rows that go have no values.
            Arc::new(ArrowField::clone(field).with_nullable(true))
        });
        let given = input.schema();
        let others = given.fields().iter().skip(rules.layout.width).cloned();
        let output = Arc::new(ArrowSchema::new(own.chain(others).collect::<Vec<_>>()));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(output),
            input.output_partitioning().clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            input,
            rules,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for MergeExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MergeExec: table={}", self.rules.table)
    }
}

impl ExecutionPlan for MergeExec {
    fn name(&self) -> &str {
        "MergeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else {
            return Err(carry(internal()));
        };
        Ok(Arc::new(Self::new(input, Arc::clone(&self.rules))))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let (rules, output) = (Arc::clone(&self.rules), self.schema());
        let schema = Arc::clone(&output);
        let stream = input.map(move |batch| rules.batch(&batch?, &schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(output, stream)))
    }
}

impl Rules {
    fn batch(&self, batch: &RecordBatch, output: &SchemaRef) -> Result<RecordBatch> {
        let mut done = Vec::new();
        for (clause, rows) in by_clause(batch, &self.layout, self.supplied.len())? {
            done.push(self.rows(clause, &rows, output)?);
        }
        Ok(concat_batches(output, &done)?)
    }

    fn rows(&self, clause: usize, rows: &RecordBatch, output: &SchemaRef) -> Result<RecordBatch> {
        let width = self.layout.width;
        let supplied = self.supplied.get(clause).and_then(Option::as_ref);
        let mut columns: Vec<ArrayRef> = match supplied {
            None => {
                let own = output.fields().iter().take(width);
                own.map(|field| new_null_array(field.data_type(), rows.num_rows()))
                    .collect()
            }
            Some(supplied) => {
                let failed = |error| carry_table(&self.table, error);
                let own = rows.project(&(0..width).collect::<Vec<_>>())?;
                let schema = supplied.input_schema(self.rules.schema());
                let own = conform_batch(&own, &schema).map_err(failed)?;
                let own = self.rules.fill(&own, supplied).map_err(failed)?;
                own.columns().to_vec()
            }
        };
        columns.extend(rows.columns().iter().skip(width).cloned());
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(output),
            columns,
            &options,
        )?)
    }
}

/// The rows of each clause that has some.
pub(super) fn by_clause(
    batch: &RecordBatch,
    layout: &Layout,
    clauses: usize,
) -> Result<Vec<(usize, RecordBatch)>> {
    let actions = batch.columns().get(layout.action());
    let actions = actions.and_then(|actions| actions.as_primitive_opt::<Int32Type>());
    let actions = actions.ok_or_else(|| carry(internal()))?;
    let mut parts = Vec::new();
    for (clause, number) in (0..clauses).zip(0_i32..) {
        let of_clause = eq(actions, &Scalar::new(Int32Array::from(vec![number])))?;
        match of_clause.true_count() {
            0 => {}
            all if all == batch.num_rows() => return Ok(vec![(clause, batch.clone())]),
            _ => parts.push((clause, filter_record_batch(batch, &of_clause)?)),
        }
    }
    Ok(parts)
}

fn internal() -> SqlError {
    SqlError::Internal {
        context: "the rows of a MERGE",
    }
}
