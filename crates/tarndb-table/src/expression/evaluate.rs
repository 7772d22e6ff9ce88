//! The value of an expression for every row of a batch.
//!
//! Invariant: three-valued logic, and Spark's meaning with ANSI off: whole numbers wrap, a
//! division by zero is NULL, NaN equals NaN and is above every number, -0.0 equals 0.0.
//! Spec: docs/expressions.md.

use std::sync::Arc;

use ::arrow::compute::kernels::cmp;
use ::arrow::compute::kernels::comparison::like;
use ::arrow::compute::kernels::numeric;
use ::arrow::compute::kernels::zip::zip;
use ::arrow::compute::{and_kleene, is_not_null, is_null, not, nullif, or_kleene};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, Scalar, StringArray,
};

use super::cast::{cast, doubles, narrow};
use super::node::{Arithmetic, Node, Typed};
use super::{function_value, types};
use crate::partition::scalar_to_array;
use crate::prune::Comparison;
use crate::schema::DataType;
use crate::stats::Scalar as Constant;

/// What an expression is evaluated over.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// Rows with the columns of the schema that the expression was made for.
    pub(super) batch: &'a RecordBatch,
    /// The time of the statement, microseconds since 1970 UTC.
    pub(super) now_micros: i64,
}

/// The values of a node; the error says for which value there is none.
pub(super) fn evaluate(typed: &Typed, rows: Rows<'_>) -> Result<ArrayRef, String> {
    let of = |inner: &Typed| evaluate(inner, rows);
    let truth = |inner: &Typed| condition(inner, rows);
    let len = rows.batch.num_rows();
    let values: BooleanArray = match &typed.node {
        Node::Column(places) => return column(rows.batch, places),
        Node::Literal(value) => return constant(value.as_ref(), &typed.data_type, len),
        Node::Now => {
            let now = Constant::TimestampMicros(rows.now_micros);
            return constant(Some(&now), &typed.data_type, len);
        }
        Node::Cast(inner) => return cast(&of(inner)?, &inner.data_type, &typed.data_type),
        Node::Arithmetic(operation, a, b) => {
            return arithmetic(*operation, &of(a)?, &of(b)?, &typed.data_type);
        }
        Node::Negate(inner) => {
            return numeric::neg_wrapping(&of(inner)?).map_err(|e| e.to_string());
        }
        Node::Case(branches, last) => return case(branches, last, rows),
        Node::Coalesce(list) => {
            let mut value = constant(None, &typed.data_type, len)?;
            for item in list {
                let there = is_not_null(&value).map_err(|e| e.to_string())?;
                value = zip(&there, &value, &of(item)?).map_err(|e| e.to_string())?;
            }
            return Ok(value);
        }
        Node::Call(function, arguments) => {
            let values = arguments.iter().map(of).collect::<Result<Vec<_>, _>>()?;
            return function_value::call(function, &values, arguments, &typed.data_type);
        }
        Node::Not(inner) => not(&truth(inner)?).map_err(|e| e.to_string())?,
        Node::And(a, b) => and_kleene(&truth(a)?, &truth(b)?).map_err(|e| e.to_string())?,
        Node::Or(a, b) => or_kleene(&truth(a)?, &truth(b)?).map_err(|e| e.to_string())?,
        Node::Compare(comparison, a, b) => compare(*comparison, &of(a)?, &of(b)?)?,
        Node::SameAs(a, b) => {
            cmp::not_distinct(&ordered(&of(a)?), &ordered(&of(b)?)).map_err(|e| e.to_string())?
        }
        Node::IsNull(inner) => is_null(&of(inner)?).map_err(|e| e.to_string())?,
        Node::Is(wanted, inner) => {
            let values = truth(inner)?;
            let values = values.iter().map(|value| Some(value == Some(*wanted)));
            values.collect()
        }
        Node::In(value, list) => {
            let value = of(value)?;
            let mut found = BooleanArray::from(vec![false; len]);
            for item in list {
                let equal = compare(Comparison::Equal, &value, &of(item)?)?;
                found = or_kleene(&found, &equal).map_err(|e| e.to_string())?;
            }
            found
        }
        Node::Like(inner, pattern) => {
            let pattern = Scalar::new(StringArray::from(vec![pattern.as_str()]));
            like(&of(inner)?, &pattern).map_err(|e| e.to_string())?
        }
    };
    Ok(Arc::new(values))
}

/// The values of a condition.
pub(super) fn condition(typed: &Typed, rows: Rows<'_>) -> Result<BooleanArray, String> {
    let values = evaluate(typed, rows)?;
    let values = values.as_boolean_opt();
    values
        .cloned()
        .ok_or_else(|| format!("{} where a condition must stand", typed.data_type))
}

fn column(batch: &RecordBatch, places: &[usize]) -> Result<ArrayRef, String> {
    let missing = || "a column is missing from the rows".to_owned();
    let (first, inner) = places.split_first().ok_or_else(missing)?;
    let mut array = Arc::clone(batch.columns().get(*first).ok_or_else(missing)?);
    for place in inner {
        let parent = array.as_struct_opt().ok_or_else(missing)?;
        let child = parent.columns().get(*place).ok_or_else(missing)?;
        // A field of a struct that is NULL is NULL.
        array = match parent.nulls() {
            None => Arc::clone(child),
            Some(_) => {
                let gone = is_null(parent).map_err(|e| e.to_string())?;
                nullif(child, &gone).map_err(|e| e.to_string())?
            }
        };
    }
    Ok(array)
}

fn constant(
    value: Option<&Constant>,
    data_type: &DataType,
    len: usize,
) -> Result<ArrayRef, String> {
    scalar_to_array(value, data_type, len).map_err(|error| error.to_string())
}

fn compare(comparison: Comparison, a: &ArrayRef, b: &ArrayRef) -> Result<BooleanArray, String> {
    let (a, b) = (ordered(a), ordered(b));
    let kernel = match comparison {
        Comparison::Equal => cmp::eq,
        Comparison::NotEqual => cmp::neq,
        Comparison::Less => cmp::lt,
        Comparison::LessOrEqual => cmp::lt_eq,
        Comparison::Greater => cmp::gt,
        Comparison::GreaterOrEqual => cmp::gt_eq,
    };
    kernel(&a, &b).map_err(|error| error.to_string())
}

/// Floats so that Arrow's total order is Spark's: one zero, one NaN.
pub(crate) fn ordered(array: &ArrayRef) -> ArrayRef {
    if let Some(values) = array.as_primitive_opt::<Float64Type>() {
        let one = |value: f64| {
            if value.is_nan() {
                f64::NAN
            } else {
                value + 0.0
            }
        };
        return Arc::new(values.unary::<_, Float64Type>(one));
    }
    if let Some(values) = array.as_primitive_opt::<Float32Type>() {
        let one = |value: f32| {
            if value.is_nan() {
                f32::NAN
            } else {
                value + 0.0
            }
        };
        return Arc::new(values.unary::<_, Float32Type>(one));
    }
    Arc::clone(array)
}

fn arithmetic(
    operation: Arithmetic,
    a: &ArrayRef,
    b: &ArrayRef,
    result: &DataType,
) -> Result<ArrayRef, String> {
    let kernel = match operation {
        Arithmetic::Add => numeric::add_wrapping,
        Arithmetic::Subtract => numeric::sub_wrapping,
        Arithmetic::Multiply => numeric::mul_wrapping,
        Arithmetic::Divide => return doubly(a, b, result, |a, b| a / b),
        Arithmetic::Remainder if types::is_float(result) => {
            return doubly(a, b, result, |a, b| a % b);
        }
        Arithmetic::Remainder => return remainder(a, b, result),
    };
    kernel(a, b).map_err(|error| error.to_string())
}

/// An operation of doubles that is NULL where the second is zero.
fn doubly(
    a: &ArrayRef,
    b: &ArrayRef,
    result: &DataType,
    operation: impl Fn(f64, f64) -> f64,
) -> Result<ArrayRef, String> {
    let (a, b) = (doubles(a)?, doubles(b)?);
    let values = a.iter().zip(b.iter()).map(|(a, b)| {
        let (a, b) = (a?, b?);
        (b != 0.0).then(|| operation(a, b))
    });
    let values: ArrayRef = Arc::new(values.collect::<Float64Array>());
    super::cast::plain(&values, result)
}

fn remainder(a: &ArrayRef, b: &ArrayRef, result: &DataType) -> Result<ArrayRef, String> {
    let long = |array: &ArrayRef| super::cast::plain(array, &DataType::Long);
    let (a, b) = (long(a)?, long(b)?);
    let (a, b) = (a.as_primitive::<Int64Type>(), b.as_primitive::<Int64Type>());
    let values = a.iter().zip(b.iter()).map(|(a, b)| {
        let (a, b) = (a?, b?);
        (b != 0).then(|| a.wrapping_rem(b))
    });
    narrow(&values.collect::<Int64Array>(), result)
}

fn case(branches: &[(Typed, Typed)], last: &Typed, rows: Rows<'_>) -> Result<ArrayRef, String> {
    let mut value = evaluate(last, rows)?;
    for (test, branch) in branches.iter().rev() {
        let test = condition(test, rows)?;
        // NULL is not true.
        let test: BooleanArray = test.iter().map(|flag| Some(flag == Some(true))).collect();
        let branch = evaluate(branch, rows)?;
        value = zip(&test, &branch, &value).map_err(|error| error.to_string())?;
    }
    Ok(value)
}
