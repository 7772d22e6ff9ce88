//! Filters go down a plan only where columns have names of their own.
//!
//! Invariant: the engine finds the column of a filter in a child by its name, and takes the first
//! of that name. Below a join both sides may have it, so that a filter of one column (also one
//! that a join sets while it runs) would choose rows by another and lose some. Here each part of a plan is
//! treated by itself in which no child has a name twice.
//! Does not: concern filters of the logical plan, which are found with their tables.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::equations;

/// The engine's rule, part by part.
#[derive(Debug)]
pub(crate) struct ByUniqueName(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl ByUniqueName {
    /// The rules with this one around each that pushes filters down.
    pub(crate) fn around(
        rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
    ) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
        let around = |rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>| {
            if rule.name().starts_with("FilterPushdown") {
                Arc::new(Self(rule)) as _
            } else {
                rule
            }
        };
        rules.into_iter().map(around).collect()
    }

    fn push(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.children().into_iter().all(is_told_apart) {
            return self.0.optimize(plan, config);
        }
        let pushed = plan.map_children(|child| self.push(child, config).map(Transformed::yes));
        pushed.map(|plan| plan.data)
    }
}

/// Whether no node of the plan has a name twice.
fn is_told_apart(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = plan.schema();
    let mut names = HashSet::new();
    schema
        .fields()
        .iter()
        .all(|field| names.insert(field.name()))
        && plan.children().into_iter().all(is_told_apart)
}

impl PhysicalOptimizerRule for ByUniqueName {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        equations::of_columns(self.push(plan, config)?)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        true
    }
}
