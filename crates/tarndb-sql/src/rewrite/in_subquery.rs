//! IN and EXISTS over a query, wherever they stand.
//!
//! Invariant: `x IN (query)` is true when the query has an equal value, else NULL when `x` or one of
//! the values is NULL (and the query has rows), else false. The engine gives false for NULL when IN
//! stands below OR, NOT or CASE, so that NOT IN is true where it should be NULL; it refuses
//! a correlated NOT IN, and both outside of WHERE and HAVING. There the missing NULL is added
//! by a count of the query's rows, and the subquery becomes EXISTS, or a count in a SELECT list.
//! `x > ANY (query)` and its like are the engine's, over a query under a name of its own: a column
//! of both sides with one name would be compared with itself.
//! Does not: touch what the engine does right, a NOT IN that is a condition of its own (its
//! null-aware anti join), and IN where only truth counts.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, case, exists,
    lit, not, scalar_subquery, when,
};
use datafusion::optimizer::AnalyzerRule;

/// Under which a query stands beside the rows it is compared with.
const NAME: &str = "__in";

/// The rule; it runs before types are coerced.
#[derive(Debug)]
pub(super) struct NullInSubquery;

impl AnalyzerRule for NullInSubquery {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Filter(filter) => in_filter(filter),
            LogicalPlan::Projection(_) => in_projection(plan),
            other => Ok(Transformed::no(other)),
        })
        .map(|plan| plan.data)
    }

    fn name(&self) -> &'static str {
        "null_in_subquery"
    }
}

fn in_filter(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(filter.input.schema());
    let compared = filter.predicate.transform_up(named_comparison)?;
    let predicate = compared.transform_data(|predicate| truth(predicate, true, &schema))?;
    predicate.map_data(|predicate| {
        let filter = Filter::try_new(predicate, filter.input)?;
        Ok(LogicalPlan::Filter(filter))
    })
}

fn in_projection(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|expr| match expr {
            Expr::InSubquery(within) => three_valued(within, Place::Projection, &schema),
            Expr::SetComparison(_) => named_comparison(expr),
            Expr::Exists(within) => {
                let found = has_rows(&within.subquery.subquery)?;
                let found = if within.negated { not(found) } else { found };
                Ok(Transformed::yes(found))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?
    .map_data(LogicalPlan::recompute_schema)
}

/// Rewrites what stands where NULL and false are alike; `alone`: only ANDs are above.
fn truth(expr: Expr, alone: bool, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::And | Operator::Or) =>
        {
            let alone = alone && op == Operator::And;
            let left = truth(*left, alone, schema)?;
            let right = truth(*right, alone, schema)?;
            let changed = left.transformed || right.transformed;
            let expr = BinaryExpr::new(Box::new(left.data), op, Box::new(right.data));
            let make = if changed {
                Transformed::yes
            } else {
                Transformed::no
            };
            Ok(make(Expr::BinaryExpr(expr)))
        }
        Expr::InSubquery(within) if !within.negated => {
            Ok(Transformed::no(Expr::InSubquery(within)))
        }
        Expr::InSubquery(within) if alone && !is_correlated(&within.subquery) => {
            Ok(Transformed::no(Expr::InSubquery(within)))
        }
        Expr::Not(inner) if alone && is_plain_in(&inner) => Ok(Transformed::no(Expr::Not(inner))),
        other => other.transform_up(|expr| match expr {
            Expr::InSubquery(within) => three_valued(within, Place::Filter, schema),
            other => Ok(Transformed::no(other)),
        }),
    }
}

/// Whether an expression is an IN that the engine turns into an anti join below NOT.
fn is_plain_in(expr: &Expr) -> bool {
    matches!(expr, Expr::InSubquery(within) if !within.negated && !is_correlated(&within.subquery))
}

fn is_correlated(subquery: &Subquery) -> bool {
    !subquery.outer_ref_columns.is_empty()
}

/// Where an expression stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Filter,
    Projection,
}

/// `found OR CASE state WHEN 2 THEN NULL WHEN 1 THEN x = x ELSE false END`.
fn three_valued(within: InSubquery, place: Place, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(outer) = as_outer(&within.expr, schema)? else {
        return Ok(Transformed::no(Expr::InSubquery(within)));
    };
    let InSubquery {
        expr,
        subquery,
        negated,
    } = within;
    let query = &if !is_correlated(&subquery) {
        named(&subquery.subquery)?
    } else if is_ambiguous(&subquery.subquery, schema) {
        return Ok(Transformed::no(Expr::InSubquery(InSubquery {
            expr,
            subquery,
            negated,
        })));
    } else {
        // Under another name its own condition would not find its columns.
        Arc::clone(&subquery.subquery)
    };
    let found = if place == Place::Filter && !is_correlated(&subquery) {
        Expr::InSubquery(InSubquery::new(expr.clone(), subquery.clone(), false))
    } else {
        let equal = first_column(query).eq(outer);
        let equals = LogicalPlanBuilder::from(Arc::unwrap_or_clone(Arc::clone(query)))
            .filter(equal)?
            .build()?;
        match place {
            Place::Filter => exists(Arc::new(equals)),
            Place::Projection => has_rows(&Arc::new(equals))?,
        }
    };
    let null = || lit(ScalarValue::Boolean(None));
    let of_null = when(expr.is_null(), null()).otherwise(lit(false))?;
    let missing = case(null_state(query)?)
        .when(lit(2_i64), null())
        .when(lit(1_i64), of_null)
        .otherwise(lit(false))?;
    let is_in = found.or(missing);
    Ok(Transformed::yes(if negated { not(is_in) } else { is_in }))
}

/// A query under a name that no other has.
fn named(query: &Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(Arc::clone(query)))
        .alias(NAME)?
        .build()?;
    Ok(Arc::new(plan))
}

/// Names the query of a comparison with ANY or ALL.
fn named_comparison(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::SetComparison(mut comparison) = expr else {
        return Ok(Transformed::no(expr));
    };
    comparison.subquery.subquery = named(&comparison.subquery.subquery)?;
    Ok(Transformed::yes(Expr::SetComparison(comparison)))
}

/// Whether the rows around have a column of the very name of the query's.
fn is_ambiguous(query: &LogicalPlan, schema: &DFSchema) -> bool {
    let columns = query.schema().columns();
    columns
        .first()
        .is_none_or(|column| schema.has_column(column))
}

fn first_column(query: &LogicalPlan) -> Expr {
    Expr::from(query.schema().columns().swap_remove(0))
}

/// The expression as a subquery sees it; `None` when it cannot be put there.
fn as_outer(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let is_query = |e: &Expr| {
        matches!(
            e,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_)
        )
    };
    if expr.is_volatile() || expr.contains_outer() || expr.exists(|e| Ok(is_query(e)))? {
        return Ok(None);
    }
    let outer = expr.clone().transform(|expr| match expr {
        Expr::Column(column) => {
            let (_, field) = schema.qualified_field_from_column(&column)?;
            let field = Arc::clone(field);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(Some(outer.data))
}

/// `(SELECT count(*) FROM query) > 0`.
fn has_rows(query: &Arc<LogicalPlan>) -> Result<Expr> {
    let one = count(lit(1_i64)).alias("n");
    let counted = LogicalPlanBuilder::from(Arc::unwrap_or_clone(Arc::clone(query)))
        .aggregate(Vec::<Expr>::new(), vec![one])?
        .build()?;
    Ok(scalar_subquery(Arc::new(counted)).gt(lit(0_i64)))
}

/// A subquery that gives 2 when a value is NULL, 1 when there are only others, 0 without rows.
fn null_state(query: &Arc<LogicalPlan>) -> Result<Expr> {
    let rows = count(lit(1_i64)).alias("rows");
    let values = count(first_column(query)).alias("values");
    let column = |name: &str| Expr::Column(Column::from_name(name));
    let state = when(column("rows").gt(column("values")), lit(2_i64))
        .when(column("rows").gt(lit(0_i64)), lit(1_i64))
        .otherwise(lit(0_i64))?;
    let counted = LogicalPlanBuilder::from(Arc::unwrap_or_clone(Arc::clone(query)))
        .aggregate(Vec::<Expr>::new(), vec![rows, values])?
        .project(vec![state.alias("state")])?
        .build()?;
    Ok(scalar_subquery(Arc::new(counted)))
}
