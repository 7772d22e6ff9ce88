//! Arithmetic that overflows is an error.
//!
//! Invariant: in what a query computes and filters by, `+`, `-` and `*` of integers never wrap
//! around; the engine's default is to wrap in silence.
//! Does not: reach constants that the optimiser has folded, and sums.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;

/// Rewrites the plan before any other rule, while its expressions stand in nodes of their own.
#[derive(Debug)]
pub(crate) struct CheckedArithmetic;

impl PhysicalOptimizerRule for CheckedArithmetic {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(checked_node).map(|plan| plan.data)
    }

    fn name(&self) -> &'static str {
        "checked_arithmetic"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn checked_node(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let mut changed = false;
        let mut exprs = Vec::new();
        for item in projection.expr() {
            let expr = checked(Arc::clone(&item.expr))?;
            changed |= expr.transformed;
            exprs.push((expr.data, item.alias.clone()));
        }
        if changed {
            let input = Arc::clone(projection.input());
            return Ok(Transformed::yes(Arc::new(ProjectionExec::try_new(
                exprs, input,
            )?)));
        }
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>()
        && filter.projection().is_none()
    {
        let predicate = checked(Arc::clone(filter.predicate()))?;
        if predicate.transformed {
            let input = Arc::clone(filter.input());
            return Ok(Transformed::yes(Arc::new(FilterExec::try_new(
                predicate.data,
                input,
            )?)));
        }
    }
    Ok(Transformed::no(plan))
}

fn checked(expr: Arc<dyn PhysicalExpr>) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    use datafusion::logical_expr::Operator::{Minus, Multiply, Plus};
    expr.transform_up(|expr| match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) if matches!(binary.op(), Plus | Minus | Multiply) => {
            let (left, right) = (Arc::clone(binary.left()), Arc::clone(binary.right()));
            let checked = BinaryExpr::new(left, *binary.op(), right).with_fail_on_overflow(true);
            Ok(Transformed::yes(Arc::new(checked)))
        }
        _ => Ok(Transformed::no(expr)),
    })
}
