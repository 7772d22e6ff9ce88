//! RIGHT and FULL JOIN with USING or NATURAL.
//!
//! Invariant: none is run: the engine takes the key of the left side for the one key of the
//! result, which is NULL in rows of the right side alone.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinConstraint, JoinType, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;

use crate::error::{SqlError, translate::carry};

/// The rule; it changes nothing.
#[derive(Debug)]
pub(super) struct RefuseOuterUsing;

impl AnalyzerRule for RefuseOuterUsing {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| match node {
            LogicalPlan::Join(join)
                if join.join_constraint == JoinConstraint::Using
                    && matches!(join.join_type, JoinType::Right | JoinType::Full) =>
            {
                Err(carry(SqlError::Unsupported {
                    what: format!(
                        "{} JOIN with USING or NATURAL",
                        join.join_type.to_string().to_uppercase()
                    ),
                    hint: Some("say ON a.k = b.k, and coalesce(a.k, b.k) for the key".to_owned()),
                }))
            }
            _ => Ok(TreeNodeRecursion::Continue),
        })?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "refuse_outer_using"
    }
}
