//! Arithmetic that overflows is an error.
//!
//! Invariant: `+`, `-` and `*` of integers, and `-x`, never wrap around, wherever they stand and
//! also where constants are computed in planning; the engine's operators wrap in silence.
//! Does not: treat decimals and floats (the engine checks the first, the second have infinity).

use arrow::compute::kernels::numeric;
use arrow_array::{Array, ArrayRef, Datum};
use arrow_schema::{ArrowError, DataType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;

use super::rewrite_node;
use crate::error::{SqlError, translate::carry};

/// The rule; it runs when types are coerced.
#[derive(Debug)]
pub(super) struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| rewrite_node(plan, checked))
            .map(|plan| plan.data)
    }

    fn name(&self) -> &'static str {
        "checked_arithmetic"
    }
}

fn checked(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_integer =
        |expr: &Expr| is_checked(expr) || expr.get_type(schema).is_ok_and(|t| t.is_integer());
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let checked = match op {
                Operator::Plus => Checked::Add,
                Operator::Minus => Checked::Subtract,
                Operator::Multiply => Checked::Multiply,
                _ => {
                    return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr {
                        left,
                        op,
                        right,
                    })));
                }
            };
            // The short side of a chain first: the other may be long.
            if is_integer(&right) && is_integer(&left) {
                return Ok(Transformed::yes(checked.call(vec![*left, *right])));
            }
            Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr {
                left,
                op,
                right,
            })))
        }
        Expr::Negative(inner) if is_integer(&inner) => {
            Ok(Transformed::yes(Checked::Negate.call(vec![*inner])))
        }
        expr => Ok(Transformed::no(expr)),
    }
}

/// Whether this is what the rule has made: an integer then, and the engine, which asks all that is
/// below for its type and name, need not be asked at each link of a chain.
fn is_checked(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<Function>())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Checked {
    Add,
    Subtract,
    Multiply,
    Negate,
}

impl Checked {
    fn call(self, args: Vec<Expr>) -> Expr {
        let signature = Signature::any(args.len(), Volatility::Immutable);
        let function = ScalarUDF::new_from_impl(Function {
            operation: self,
            signature,
        });
        Expr::ScalarFunction(ScalarFunction::new_udf(function.into(), args))
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract | Self::Negate => "-",
            Self::Multiply => "*",
        }
    }

    fn text(self, args: &[String]) -> String {
        match args {
            [inner] => format!("(- {inner})"),
            [left, right] => format!("{left} {} {right}", self.symbol()),
            _ => self.symbol().to_owned(),
        }
    }
}

/// An operation as the engine calls it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    operation: Checked,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.operation {
            Checked::Add => "checked_add",
            Checked::Subtract => "checked_subtract",
            Checked::Multiply => "checked_multiply",
            Checked::Negate => "checked_negate",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names = args.iter().map(|arg| arg.schema_name().to_string());
        Ok(self.operation.text(&names.collect::<Vec<_>>()))
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        args.first().cloned().ok_or_else(no_arguments)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let binary: fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError> =
            match self.operation {
                Checked::Add => numeric::add,
                Checked::Subtract => numeric::sub,
                Checked::Multiply => numeric::mul,
                Checked::Negate => return negate(&args.args),
            };
        match args.args.as_slice() {
            [left, right] => apply(left, right, binary),
            _ => Err(no_arguments()),
        }
    }
}

fn negate(args: &[ColumnarValue]) -> Result<ColumnarValue> {
    match args {
        [ColumnarValue::Array(array)] => {
            let array: &dyn Array = array;
            Ok(ColumnarValue::Array(numeric::neg(array)?))
        }
        [ColumnarValue::Scalar(value)] => {
            let array = numeric::neg(value.to_array()?.as_ref())?;
            let value = ScalarValue::try_from_array(&array, 0)?;
            Ok(ColumnarValue::Scalar(value))
        }
        _ => Err(no_arguments()),
    }
}

fn no_arguments() -> datafusion::error::DataFusionError {
    carry(SqlError::Internal {
        context: "arithmetic with missing operands",
    })
}
