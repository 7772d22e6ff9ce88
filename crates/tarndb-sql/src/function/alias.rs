//! Names of functions that other databases have and the engine calls otherwise.

use datafusion::execution::context::SessionContext;
use datafusion::functions::math::signum;

/// Adds the names.
pub(crate) fn register(context: &SessionContext) {
    context.register_udf(signum().as_ref().clone().with_aliases(["sign"]));
}
