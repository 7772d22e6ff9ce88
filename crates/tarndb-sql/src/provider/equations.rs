//! A scan takes no equation for known but those of columns.
//!
//! Invariant: where a predicate says `f(a) = 'x'`, the engine's scan of Parquet would let `f(a)` stand
//! for every `'x'` of the plan, also for one in the order that a window asks for, and its check would
//! then refuse the plan. Such an equation prunes nothing; the filter above the scan has it still.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::float_bounds::narrowed;

/// The plan with scans that know of columns only what they are equal to.
pub(super) fn of_columns(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        Ok(match narrowed(&node, |part, _| !is_of_expression(part)) {
            Some(scan) => Transformed::yes(scan),
            None => Transformed::no(node),
        })
    });
    plan.map(|plan| plan.data)
}

/// Whether it is an equation with a side that is more than a column or a value.
fn is_of_expression(part: &Arc<dyn PhysicalExpr>) -> bool {
    let plain = |side: &Arc<dyn PhysicalExpr>| side.is::<Column>() || side.is::<Literal>();
    part.downcast_ref::<BinaryExpr>().is_some_and(|part| {
        *part.op() == Operator::Eq && !(plain(part.left()) && plain(part.right()))
    })
}
