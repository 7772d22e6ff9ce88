//! `version()`: this product and its version, not the engine's.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};

/// Puts our `version()` in place of the engine's.
pub(crate) fn register(context: &SessionContext) {
    let text = concat!("TarnDB ", env!("CARGO_PKG_VERSION"));
    context.register_udf(create_udf(
        "version",
        vec![],
        DataType::Utf8,
        Volatility::Immutable,
        Arc::new(move |_| Ok(ColumnarValue::Scalar(ScalarValue::from(text)))),
    ));
}
