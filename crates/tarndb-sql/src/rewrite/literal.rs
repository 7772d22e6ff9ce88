//! Number literals with an exponent are DOUBLE.
//!
//! Invariant: such a literal has the value that its text says, rounded once; one beyond the
//! range of DOUBLE is an error.
//! Does not: touch literals with a point only, which the engine reads as decimals.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Query, Value, ValueWithSpan, VisitMut, VisitorMut,
};

use crate::error::SqlError;

/// Gives the literals with an exponent their type.
pub(crate) fn approximate_literals(query: &mut Query) -> Result<(), SqlError> {
    match query.visit(&mut Literals) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Literals;

impl VisitorMut for Literals {
    type Break = Box<SqlError>;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let Expr::Value(value) = expr else {
            return ControlFlow::Continue(());
        };
        let Value::Number(text, _) = &value.value else {
            return ControlFlow::Continue(());
        };
        if !text.contains(['e', 'E']) {
            return ControlFlow::Continue(());
        }
        match double(text, value) {
            Ok(cast) => {
                *expr = cast;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// `CAST('text' AS DOUBLE)` in the place of the literal `at`.
fn double(text: &str, at: &ValueWithSpan) -> Result<Expr, SqlError> {
    let digits = text.replace('_', "");
    if !digits.parse::<f64>().is_ok_and(f64::is_finite) {
        return Err(SqlError::Engine {
            message: format!("a number is out of range: {text} is no DOUBLE"),
            sqlstate: "22003",
            kind: tarndb_db::ErrorKind::Invalid,
            hint: None,
        });
    }
    Ok(double_of(digits, at))
}

/// The cast of `digits`, a number, to DOUBLE.
pub(crate) fn double_of(digits: String, at: &ValueWithSpan) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(digits),
            span: at.span,
        })),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    }
}
