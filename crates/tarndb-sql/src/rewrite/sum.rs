//! Sums of BIGINT that overflow are an error.
//!
//! Invariant: `sum` of a BIGINT is a BIGINT and exact, or the query fails; the engine's sum
//! wraps in silence. The sum is taken in DECIMAL, which no number of rows overflows, and turned
//! back at the end, so that values may go out of range on the way.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::Decimal128Type;
use arrow_array::Int64Array;
use arrow_array::cast::AsArray;
use arrow_schema::{ArrowError, DataType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::WindowFunctionDefinition;
use datafusion::logical_expr::{
    Aggregate, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Projection,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, Window, cast,
};
use datafusion::optimizer::AnalyzerRule;

use crate::error::{SqlError, translate::carry};

/// The type in which a sum is taken: 19 digits hold every BIGINT, and `sum` adds 10.
const WIDE: DataType = DataType::Decimal128(20, 0);

/// The rule; it runs when types are coerced.
#[derive(Debug)]
pub(super) struct CheckedSum;

impl AnalyzerRule for CheckedSum {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(checked_node)
            .map(|plan| plan.data)
    }

    fn name(&self) -> &'static str {
        "checked_sum"
    }
}

fn checked_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Aggregate(node) => {
            let names = node.aggr_expr.iter();
            let names = names
                .map(|e| e.schema_name().to_string())
                .collect::<Vec<_>>();
            let (exprs, wide) = widen_all(node.aggr_expr, node.input.schema())?;
            let first = node.schema.fields().len() - exprs.len();
            let plan = Aggregate::try_new(node.input, node.group_expr, exprs)?;
            narrow(LogicalPlan::Aggregate(plan), first, &names, &wide)
        }
        LogicalPlan::Window(node) => {
            let names = node.window_expr.iter();
            let names = names
                .map(|e| e.schema_name().to_string())
                .collect::<Vec<_>>();
            let (exprs, wide) = widen_all(node.window_expr, node.input.schema())?;
            let first = node.schema.fields().len() - exprs.len();
            let plan = Window::try_new(exprs, node.input)?;
            narrow(LogicalPlan::Window(plan), first, &names, &wide)
        }
        plan => plan.recompute_schema().map(Transformed::no),
    }
}

/// Widens the sums among `exprs`; which ones these are.
fn widen_all(exprs: Vec<Expr>, schema: &DFSchema) -> Result<(Vec<Expr>, BTreeSet<usize>)> {
    let mut wide = BTreeSet::new();
    let mut widened = Vec::new();
    for (index, expr) in exprs.into_iter().enumerate() {
        let name = expr.schema_name().to_string();
        let expr = expr.transform_up(|expr| widen(expr, schema))?;
        if expr.transformed {
            wide.insert(index);
            widened.push(expr.data.unalias().alias(name));
        } else {
            widened.push(expr.data);
        }
    }
    Ok((widened, wide))
}

fn widen(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let args = match &mut expr {
        Expr::AggregateFunction(call) if call.func.name() == "sum" => &mut call.params.args,
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) if function.name() == "sum" => {
                &mut call.params.args
            }
            _ => return Ok(Transformed::no(expr)),
        },
        _ => return Ok(Transformed::no(expr)),
    };
    let Some(arg) = args.first_mut() else {
        return Ok(Transformed::no(expr));
    };
    if arg.get_type(schema)? != DataType::Int64 || is_narrow(arg, schema)? {
        return Ok(Transformed::no(expr));
    }
    *arg = cast(arg.clone(), WIDE);
    Ok(Transformed::yes(expr))
}

/// Whether a BIGINT was an INT: 4 billion rows of these cannot overflow the sum.
fn is_narrow(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let Expr::Cast(Cast { expr, .. }) = expr else {
        return Ok(false);
    };
    let inner = expr.get_type(schema)?;
    Ok(matches!(
        inner,
        DataType::Int8 | DataType::Int16 | DataType::Int32
    ))
}

/// Casts the sums back over `plan`, whose columns from `first` on are the functions' results.
fn narrow(
    plan: LogicalPlan,
    first: usize,
    names: &[String],
    wide: &BTreeSet<usize>,
) -> Result<Transformed<LogicalPlan>> {
    if wide.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let to_bigint = ScalarUDF::new_from_impl(ToBigint {
        signature: Signature::any(1, Volatility::Immutable),
    });
    let columns = plan.schema().iter().enumerate();
    let exprs = columns.map(|(index, (qualifier, field))| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let place = index.checked_sub(first);
        match place.and_then(|p| Some((wide.get(&p)?, names.get(p)?))) {
            Some((_, name)) => to_bigint.call(vec![column]).alias(name),
            None => column,
        }
    });
    let exprs = exprs.collect::<Vec<_>>();
    let plan = Projection::try_new(exprs, Arc::new(plan))?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}

/// A sum in DECIMAL as a BIGINT.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToBigint {
    signature: Signature,
}

impl ScalarUDFImpl for ToBigint {
    fn name(&self) -> &'static str {
        "bigint_sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let sums = arrays
            .first()
            .and_then(|a| a.as_primitive_opt::<Decimal128Type>());
        let sums = sums.ok_or_else(|| {
            carry(SqlError::Internal {
                context: "a sum that is no decimal",
            })
        })?;
        let narrowed: Int64Array = sums.try_unary(|sum| {
            i64::try_from(sum).map_err(|_| ArrowError::from_external_error(out_of_range(sum)))
        })?;
        Ok(ColumnarValue::Array(Arc::new(narrowed)))
    }
}

fn out_of_range(sum: i128) -> Box<dyn std::error::Error + Send + Sync> {
    Box::new(carry(SqlError::Engine {
        message: format!("a number is out of range: the sum {sum} is no BIGINT"),
        sqlstate: "22003",
        kind: tarndb_db::ErrorKind::Invalid,
        hint: Some("sum a DECIMAL: sum(CAST(x AS DECIMAL(20, 0)))".to_owned()),
    }))
}
