//! Which files can hold a matching row, by partition values and statistics.
//!
//! Invariant: conservative. What is missing, malformed or of another type keeps the file.
//! Bounds stay valid when rows are deleted (they may only become wider than the live rows).
//! Bounds of floats count only in tables that the database created, where a file with NaN has none:
//! other writers leave NaN out of them.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, UInt64Array};
use arrow_schema::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use tarndb_table::{
    DataFile, DataType, Field, Scalar, Schema, parse_partition_value, scalar_to_array,
};

use crate::name::{fold, same};
use crate::provider::TarnTable;
use crate::provider::float_bounds::has_floats;

/// The files of `table` that may hold rows matching all `filters`, of which `limit` are asked for.
/// Only these are held at once, however many the table has.
pub(crate) fn matching(
    session: &dyn Session,
    table: &TarnTable,
    filters: &[Expr],
    limit: Option<usize>,
) -> Result<Vec<Arc<DataFile>>> {
    let state = &table.pinned.state;
    let excluding = match session.config_options().execution.parquet.pruning {
        true => filters,
        false => &[],
    };
    let Some(predicate) = of_filters(session, &table.folded, excluding)? else {
        let files = state.files.values();
        return Ok(match limit {
            Some(limit) if filters.is_empty() => enough(files, limit),
            _ => files.collect(),
        });
    };
    let columns = stored_columns(&predicate, &state.schema);
    state.files.matching(&columns, |files| {
        predicate.prune(&FileBounds {
            schema: &state.schema,
            partition_columns: &state.partition_columns,
            files,
            own: table.pinned.is_own(),
        })
    })
}

/// The first files that hold `limit` rows together, as far as their rows are counted.
fn enough(files: impl Iterator<Item = Arc<DataFile>>, limit: usize) -> Vec<Arc<DataFile>> {
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let mut rows = 0_u64;
    let mut taken = Vec::new();
    for file in files {
        if rows >= limit {
            break;
        }
        rows = rows.saturating_add(file.live_rows().unwrap_or(0));
        taken.push(file);
    }
    taken
}

/// The columns that a predicate asks about, named as files name them.
fn stored_columns(predicate: &PruningPredicate, schema: &Schema) -> Vec<String> {
    let asked = collect_columns(predicate.orig_expr());
    let is_asked = |field: &&Field| {
        let name = fold(&field.name);
        asked.iter().any(|column| column.name() == name)
    };
    let fields = schema.fields.iter().filter(is_asked);
    fields.map(|field| field.stored_name().to_owned()).collect()
}

/// What the filters exclude; `None` when that is nothing.
fn of_filters(
    session: &dyn Session,
    folded: &SchemaRef,
    filters: &[Expr],
) -> Result<Option<PruningPredicate>> {
    // A filter that the optimizer may still rewrite (a subquery) cannot be turned into a
    // physical expression, and prunes nothing.
    let plain = filters.iter().filter(|f| !has_subquery(f)).cloned();
    let Some(filter) = conjunction(plain) else {
        return Ok(None);
    };
    let schema = DFSchema::try_from(folded.as_ref().clone())?;
    let Ok(physical) = session.create_physical_expr(filter, &schema) else {
        return Ok(None);
    };
    Ok(predicate(physical, folded).ok())
}

/// What excludes files by `filter` over the columns of `schema`.
pub(crate) fn predicate(
    filter: Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Result<PruningPredicate> {
    PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(schema))
        .try_build(filter)
}

/// Whether an expression holds a query, whose rows it does not name.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    use datafusion::common::tree_node::TreeNode;
    expr.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::OuterReferenceColumn(..)
        ))
    })
    .unwrap_or(true)
}

/// What is known of files of a table.
pub(crate) struct FileBounds<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) partition_columns: &'a [String],
    pub(crate) files: &'a [Arc<DataFile>],
    /// Whether the database wrote the files.
    pub(crate) own: bool,
}

impl FileBounds<'_> {
    fn field(&self, column: &Column) -> Option<&Field> {
        self.schema
            .fields
            .iter()
            .find(|field| fold(&field.name) == column.name)
    }

    fn is_partition_column(&self, field: &Field) -> bool {
        let mut columns = self.partition_columns.iter();
        columns.any(|column| same(column, &field.name))
    }

    /// One value per file, NULL where it is unknown.
    fn values(
        &self,
        column: &Column,
        value: impl Fn(&DataFile, &Field) -> Option<Scalar>,
    ) -> Option<ArrayRef> {
        let field = self.field(column)?;
        let is_partition = self.is_partition_column(field);
        if !self.own && !is_partition && has_floats(&field.data_type.to_arrow()) {
            return None;
        }
        let scalars = self.files.iter().map(|file| {
            let scalar = if is_partition {
                partition_value(file, field).flatten()
            } else {
                value(file, field)
            };
            typed(scalar.as_ref(), &field.data_type)
        });
        let scalars = scalars.collect::<Option<Vec<_>>>()?;
        ScalarValue::iter_to_array(scalars).ok()
    }
}

/// `None`: unknown. `Some(None)`: NULL.
pub(super) fn partition_value(file: &DataFile, field: &Field) -> Option<Option<Scalar>> {
    let text = file
        .partition_values
        .iter()
        .find(|(key, _)| fold(key) == fold(field.stored_name()))?
        .1
        .as_deref();
    parse_partition_value(text, &field.data_type).ok()
}

pub(super) fn typed(scalar: Option<&Scalar>, data_type: &DataType) -> Option<ScalarValue> {
    let array = scalar_to_array(scalar, data_type, 1)
        .or_else(|_| scalar_to_array(None, data_type, 1))
        .ok()?;
    ScalarValue::try_from_array(&array, 0).ok()
}

impl PruningStatistics for FileBounds<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.values(column, |file, field| {
            file.stats.as_ref()?.top(field)?.min.clone()
        })
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.values(column, |file, field| {
            file.stats.as_ref()?.top(field)?.upper_bound()
        })
    }

    fn num_containers(&self) -> usize {
        self.files.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let field = self.field(column)?;
        let is_partition = self.is_partition_column(field);
        let counts = self.files.iter().map(|file| {
            if is_partition {
                return match partition_value(file, field)? {
                    Some(_) => Some(0),
                    None => file.num_records(),
                };
            }
            file.stats.as_ref()?.top(field)?.null_count
        });
        Some(Arc::new(counts.collect::<UInt64Array>()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(
            self.files
                .iter()
                .map(|file| file.num_records())
                .collect::<UInt64Array>(),
        ))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
