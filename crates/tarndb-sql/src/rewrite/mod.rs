//! What is changed in queries and plans so that the engine computes what SQL says.
//!
//! Invariant: each rule repairs one thing and leaves the names of columns alone. Rules on plans
//! run as part of the engine's analyzer, in subqueries too, before anything is simplified.
//! Spec: docs/sql/types.md.

mod arithmetic;
mod in_list;
mod in_subquery;
mod literal;
mod number;
mod sum;
mod timestamp;
mod truth;
mod using;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;

pub(crate) use literal::{approximate_literals, double_of};

/// The engine's analyzer with our rules around its coercion of types.
pub(crate) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        Arc::new(ResolveGroupingFunction::new()),
        Arc::new(using::RefuseOuterUsing),
        Arc::new(in_subquery::NullInSubquery),
        Arc::new(number::DecimalMeetsDouble),
        Arc::new(timestamp::MicrosecondTimes),
        Arc::new(TypeCoercion::new()),
        Arc::new(in_list::NullInList),
        Arc::new(truth::TruthTests),
        Arc::new(sum::CheckedSum),
        Arc::new(arithmetic::CheckedArithmetic),
    ]
}

/// Rewrites every expression of one node bottom up; the node's columns keep their names.
fn rewrite_node(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let name = scan.table_name.clone();
        schema.merge(&DFSchema::try_from_qualified_schema(
            name,
            &scan.source.schema(),
        )?);
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|expr| rewrite(expr, &schema))?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?
    .map_data(LogicalPlan::recompute_schema)
}
