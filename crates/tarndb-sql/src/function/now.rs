//! `now()` and `current_timestamp`: microseconds, UTC.
//!
//! Invariant: one value per statement, of the type that TIMESTAMPTZ columns have; the engine's
//! own gives nanoseconds, which no table can hold without loss.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::{SqlError, translate::carry};

/// Puts our `now()` in place of the engine's.
pub(crate) fn register(context: &SessionContext) {
    context.register_udf(ScalarUDF::from(Now {
        signature: Signature::nullary(Volatility::Stable),
        aliases: vec!["current_timestamp".to_owned()],
    }));
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Now {
    signature: Signature,
    aliases: Vec<String>,
}

impl ScalarUDFImpl for Now {
    fn name(&self) -> &'static str {
        "now"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(
            TimeUnit::Microsecond,
            Some(Arc::from("UTC")),
        ))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(carry(SqlError::Internal {
            context: "now() that was not made a constant",
        }))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Some(start) = info.query_execution_start_time() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let value =
            ScalarValue::TimestampMicrosecond(Some(start.timestamp_micros()), Some("UTC".into()));
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(value, None)))
    }
}
