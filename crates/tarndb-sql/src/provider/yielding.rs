//! Joins that make many rows of few give the processor back.
//!
//! Invariant: a task that only polls a join's output returns to its runtime after a bounded number
//! of batches, so a statement's time-out and Ctrl-C are seen. The engine counts batches where they
//! are read; a join of two small inputs may make millions of batches of one.
//! Does not: interrupt a join that looks for long without finding anything.
//! Spec: docs/guide/sql.md, "Resources".

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};

/// The rule; it runs last, for others look for joins by their type.
#[derive(Debug)]
pub(crate) struct YieldingJoins;

impl PhysicalOptimizerRule for YieldingJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| {
            Ok(if multiplies(&node) {
                Transformed::yes(Arc::new(CooperativeExec::new(node)))
            } else {
                Transformed::no(node)
            })
        });
        plan.map(|plan| plan.data)
    }

    fn name(&self) -> &'static str {
        "yielding_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether the node may make more rows than it reads.
fn multiplies(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<CrossJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<HashJoinExec>()
        || node.is::<SortMergeJoinExec>()
}
