//! Parquet footers do not prune REAL and DOUBLE columns.
//!
//! Invariant: the bounds of a footer leave NaN out, which the engine orders above all other
//! values; so what a scan prunes by holds no conjunct over a column with floats, also none of
//! the filters that a join or a top-n sets while it runs. Rows are filtered above the scan all
//! the same.
//! Does not: concern whole files of our own tables, whose statistics know of NaN (`prune`).

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// The rule; it runs when filters have reached the scans.
#[derive(Debug)]
pub(crate) struct NoFloatBounds;

impl PhysicalOptimizerRule for NoFloatBounds {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| {
            Ok(
                match narrowed(&node, |part, schema| !reads_floats(part, schema)) {
                    Some(scan) => Transformed::yes(scan),
                    None => Transformed::no(node),
                },
            )
        });
        plan.map(|plan| plan.data)
    }

    fn name(&self) -> &'static str {
        "no_float_bounds"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan with those conjuncts of its predicate that are kept; `None` when that is all of them.
/// The filter above the scan has all in any case.
pub(super) fn narrowed(
    node: &Arc<dyn ExecutionPlan>,
    keep: impl Fn(&Arc<dyn PhysicalExpr>, &SchemaRef) -> bool,
) -> Option<Arc<dyn ExecutionPlan>> {
    let scan = node.downcast_ref::<DataSourceExec>()?;
    let config = scan.data_source().downcast_ref::<FileScanConfig>()?;
    let source = config.file_source().downcast_ref::<ParquetSource>()?;
    let predicate = config.file_source().filter()?;
    let schema = Arc::clone(config.file_source().table_schema().table_schema());
    let parts = split_conjunction(&predicate);
    let kept = parts.iter().filter(|part| keep(part, &schema));
    let kept = kept.map(|part| Arc::clone(part)).collect::<Vec<_>>();
    if kept.len() == parts.len() {
        return None;
    }
    let source = source.with_predicate(conjunction(kept));
    let config = FileScanConfigBuilder::from(config.clone())
        .with_source(Arc::new(source))
        .build();
    Some(DataSourceExec::from_data_source(config))
}

fn reads_floats(part: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> bool {
    collect_columns(part).iter().any(|column| {
        let field = schema.field_with_name(column.name());
        field.map_or(true, |field| has_floats(field.data_type()))
    })
}

/// Whether values of this type hold floats.
pub(super) fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => true,
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
            has_floats(field.data_type())
        }
        DataType::FixedSizeList(field, _) => has_floats(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::Dictionary(_, value) => has_floats(value),
        _ => false,
    }
}
