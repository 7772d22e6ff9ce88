//! IS TRUE, IS FALSE and IS UNKNOWN, and their opposites, are comparisons that know NULL.
//!
//! Invariant: a plan and what runs of it agree whether a value may be NULL. The engine says of
//! `x IS TRUE` that it may not be, and computes it by a comparison of which it says that it may; a query
//! that uses it twice, as in two FILTERs, fails. Here it is that comparison from the beginning.
//! Spec: docs/sql/types.md.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, binary_expr, lit};
use datafusion::optimizer::AnalyzerRule;

use super::rewrite_node;

/// The rule.
#[derive(Debug)]
pub(super) struct TruthTests;

impl AnalyzerRule for TruthTests {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| rewrite_node(plan, compared))
            .map(|plan| plan.data)
    }

    fn name(&self) -> &'static str {
        "truth_tests"
    }
}

fn compared(expr: Expr, _schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is = |value: Expr, truth| binary_expr(value, Operator::IsNotDistinctFrom, lit(truth));
    let is_not = |value: Expr, truth| binary_expr(value, Operator::IsDistinctFrom, lit(truth));
    Ok(Transformed::yes(match expr {
        Expr::IsTrue(value) => is(*value, true),
        Expr::IsFalse(value) => is(*value, false),
        Expr::IsNotTrue(value) => is_not(*value, true),
        Expr::IsNotFalse(value) => is_not(*value, false),
        Expr::IsUnknown(value) => Expr::IsNull(value),
        Expr::IsNotUnknown(value) => Expr::IsNotNull(value),
        other => return Ok(Transformed::no(other)),
    }))
}
