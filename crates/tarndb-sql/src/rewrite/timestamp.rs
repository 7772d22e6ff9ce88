//! Times are compared in microseconds.
//!
//! Invariant: where a timestamp is compared with a date or with a text, or `now()` with either, both become
//! timestamps in microseconds. The engine alone takes nanoseconds, which end in the year 2262, so that
//! `ts < '9999-12-31'` and a date of the year 1 would be errors. What has more than six digits of
//! a second stays with the engine.
//! Spec: docs/sql/types.md, "What goes into a column".

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;

use super::rewrite_node;

/// Digits of a second that microseconds hold.
const DIGITS: usize = 6;

/// The rule; it runs before types are coerced.
#[derive(Debug)]
pub(super) struct MicrosecondTimes;

impl AnalyzerRule for MicrosecondTimes {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| rewrite_node(plan, compared))
            .map(|plan| plan.data)
    }

    fn name(&self) -> &'static str {
        "microsecond_times"
    }
}

fn compared(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(mut binary) if binary.op.supports_propagation() => {
            match aligned(&[&binary.left, &binary.right], schema) {
                Some(mut parts) => {
                    if let (Some(right), Some(left)) = (parts.pop(), parts.pop()) {
                        (*binary.left, *binary.right) = (left, right);
                    }
                    Transformed::yes(Expr::BinaryExpr(binary))
                }
                None => Transformed::no(Expr::BinaryExpr(binary)),
            }
        }
        Expr::Between(mut between) => {
            match aligned(&[&between.expr, &between.low, &between.high], schema) {
                Some(mut parts) => {
                    if let (Some(high), Some(low), Some(expr)) =
                        (parts.pop(), parts.pop(), parts.pop())
                    {
                        (*between.expr, *between.low, *between.high) = (expr, low, high);
                    }
                    Transformed::yes(Expr::Between(between))
                }
                None => Transformed::no(Expr::Between(between)),
            }
        }
        Expr::InList(mut list) => {
            let parts: Vec<&Expr> = std::iter::once(list.expr.as_ref())
                .chain(&list.list)
                .collect();
            match aligned(&parts, schema) {
                Some(parts) => {
                    let mut parts = parts.into_iter();
                    if let Some(expr) = parts.next() {
                        *list.expr = expr;
                    }
                    list.list = parts.collect();
                    Transformed::yes(Expr::InList(list))
                }
                None => Transformed::no(Expr::InList(list)),
            }
        }
        other => Transformed::no(other),
    })
}

/// The parts of a comparison as timestamps in microseconds; `None` when that is not wanted.
fn aligned(parts: &[&Expr], schema: &DFSchema) -> Option<Vec<Expr>> {
    let types = parts.iter().map(|part| part.get_type(schema).ok());
    let types = types.collect::<Option<Vec<_>>>()?;
    let zone = types.iter().find_map(|data_type| match data_type {
        DataType::Timestamp(_, zone) => Some(zone.clone()),
        _ => None,
    })?;
    let fits = |part: &Expr, data_type: &DataType| match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => is_now(part),
        DataType::Timestamp(..) | DataType::Date32 | DataType::Null => true,
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => {
            text(part).is_some_and(is_micros)
        }
        _ => false,
    };
    let mut pairs = parts.iter().zip(&types);
    if !pairs.clone().all(|(part, data_type)| fits(part, data_type)) {
        return None;
    }
    let stays = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Null
                | DataType::Timestamp(
                    TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond,
                    _
                )
        )
    };
    if pairs.all(|(_, data_type)| stays(data_type)) {
        return None;
    }
    let parts = parts.iter().zip(&types).map(|(part, data_type)| {
        let part = Expr::clone(part);
        match data_type {
            data_type if stays(data_type) => part,
            // An instant keeps its zone, also beside what has none.
            DataType::Timestamp(_, own) => cast(
                part,
                DataType::Timestamp(TimeUnit::Microsecond, own.clone()),
            ),
            _ => cast(
                part,
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            ),
        }
    });
    Some(parts.collect())
}

fn is_now(part: &Expr) -> bool {
    matches!(part, Expr::ScalarFunction(call) if call.func.name() == "now")
}

fn text(part: &Expr) -> Option<&str> {
    match part {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
            _,
        ) => Some(text),
        _ => None,
    }
}

/// Whether a time has no more digits than microseconds hold.
fn is_micros(text: &str) -> bool {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.chars().take_while(char::is_ascii_digit);
    digits.count() <= DIGITS
}
