//! IN lists with NULL.
//!
//! Invariant: `x IN (a, NULL)` is true for `a`, else NULL, also where the engine combines lists:
//! it takes the members of two lists as sets, which holds only without NULL. What may become
//! NULL when constants are computed leaves the list as an equality of its own.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, lit};
use datafusion::optimizer::AnalyzerRule;

use super::rewrite_node;

/// The rule; it runs when types are coerced.
#[derive(Debug)]
pub(super) struct NullInList;

impl AnalyzerRule for NullInList {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            rewrite_node(plan, |expr, _| Ok(without_null(expr)))
        })
        .map(|plan| plan.data)
    }

    fn name(&self) -> &'static str {
        "null_in_list"
    }
}

/// What is known of a member of a list.
#[derive(PartialEq, Eq)]
enum Member {
    Value,
    Null,
    Computed,
}

impl Member {
    fn of(expr: &Expr) -> Self {
        match expr {
            Expr::Literal(value, _) if value.is_null() => Self::Null,
            Expr::Literal(..) => Self::Value,
            Expr::Cast(Cast { expr, .. }) => Self::of(expr),
            // A column is no constant and no set is made of it.
            expr if expr.any_column_refs() => Self::Value,
            _ => Self::Computed,
        }
    }
}

fn without_null(expr: Expr) -> Transformed<Expr> {
    let Expr::InList(list) = expr else {
        return Transformed::no(expr);
    };
    if list.list.iter().all(|e| Member::of(e) == Member::Value) {
        return Transformed::no(Expr::InList(list));
    }
    if list.expr.is_volatile() {
        return Transformed::no(Expr::InList(list));
    }
    let mut values = Vec::new();
    let mut terms = Vec::new();
    let mut has_null = false;
    for member in list.list {
        match Member::of(&member) {
            Member::Value => values.push(member),
            Member::Null => has_null = true,
            Member::Computed => terms.push((*list.expr).clone().eq(member)),
        }
    }
    if !values.is_empty() {
        terms.insert(0, Expr::InList(InList::new(list.expr, values, false)));
    }
    if has_null {
        terms.push(lit(ScalarValue::Boolean(None)));
    }
    let any = terms.into_iter().reduce(Expr::or);
    let any = any.unwrap_or_else(|| lit(false));
    Transformed::yes(if list.negated {
        Expr::Not(Box::new(any))
    } else {
        any
    })
}
