//! A plan node that turns a query's columns into a table's.
//!
//! Invariant: the first columns come out with exactly the table's types and NULL rules, those
//! that are left out filled by the table's rules (but for identity columns), or the stream ends with an error that names the column; columns after them pass unchanged.

use std::fmt;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema as ArrowSchema, SchemaRef};
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
use tarndb_table::{RowRules, Schema, Supplied, conform_batch};

use crate::error::SqlError;
use crate::error::translate::{carry, carry_table};

/// The node.
#[derive(Debug)]
pub(crate) struct ConformExec {
    input: Arc<dyn ExecutionPlan>,
    table: Arc<str>,
    rules: Arc<RowRules>,
    supplied: Supplied,
    properties: Arc<PlanProperties>,
}

impl ConformExec {
    /// Columns of `input` in the order of the table's, extra ones behind.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        table: Arc<str>,
        rules: Arc<RowRules>,
        supplied: Supplied,
    ) -> Self {
        let schema = supplied.input_schema(rules.schema());
        let mut fields = schema.to_arrow().fields().to_vec();
        fields.extend(input.schema().fields().iter().skip(fields.len()).cloned());
        let output = Arc::new(ArrowSchema::new(fields));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(output),
            input.output_partitioning().clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            input,
            table,
            rules,
            supplied,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for ConformExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConformExec: table={}", self.table)
    }
}

impl ExecutionPlan for ConformExec {
    fn name(&self) -> &str {
        "ConformExec"
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
            return Err(carry(SqlError::Internal {
                context: "a plan node without its input",
            }));
        };
        Ok(Arc::new(Self::new(
            input,
            Arc::clone(&self.table),
            Arc::clone(&self.rules),
            self.supplied.clone(),
        )))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let output = self.schema();
        let conform = Conform {
            table: Arc::clone(&self.table),
            schema: self.supplied.input_schema(self.rules.schema()),
            rules: Arc::clone(&self.rules),
            supplied: self.supplied.clone(),
            output: Arc::clone(&output),
        };
        let stream = input.map(move |batch| conform.batch(&batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(output, stream)))
    }
}

/// What turns batches into the table's.
struct Conform {
    table: Arc<str>,
    schema: Schema,
    rules: Arc<RowRules>,
    supplied: Supplied,
    output: SchemaRef,
}

impl Conform {
    fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let failed = |error| carry_table(&self.table, error);
        let width = self.schema.fields.len();
        let own = batch.project(&(0..width).collect::<Vec<_>>())?;
        let own = conform_batch(&own, &self.schema).map_err(failed)?;
        // The numbers of identity columns come later, from one stream.
        let own = self.rules.fill(&own, &self.supplied).map_err(failed)?;
        let mut columns = own.columns().to_vec();
        columns.extend(batch.columns().iter().skip(width).cloned());
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.output),
            columns,
            &options,
        )?)
    }
}
