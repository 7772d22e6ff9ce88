//! `ScanPredicate`: the filters of a scan as a predicate that the commit can evaluate.
//!
//! Invariant: it was compiled for columns of certain types; on others it refuses to answer.
//! It holds for a row exactly when the engine's own filter would keep the row.
//! Does not: keep the session or the transaction alive.
//! Spec: docs/conflicts.md, "Isolation".

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicate;
use tarndb_table::{DataFile, Field, RowPredicate, Schema, TableError};

use crate::name::fold;
use crate::provider::TarnTable;
use crate::provider::prune::{self, FileBounds};

/// The predicate.
pub(crate) struct ScanPredicate {
    text: String,
    /// Over `columns`.
    filter: Arc<dyn PhysicalExpr>,
    /// The columns it looks at, folded.
    columns: SchemaRef,
    /// `None`: no file can be excluded by it.
    pruning: Option<PruningPredicate>,
    /// Whether the database wrote all files of the table.
    own: bool,
}

impl ScanPredicate {
    /// Compiles the conjunction of `filters`, which are not empty and pure; `text` is for people.
    pub(crate) fn new(
        table: &TarnTable,
        session: &dyn Session,
        filters: Vec<Expr>,
        text: String,
    ) -> Result<Self> {
        let internal = || DataFusionError::Internal("a read predicate".to_owned());
        let filter = conjunction(filters).ok_or_else(internal)?;
        let used = filter.column_refs();
        let fields = table.folded.fields().iter();
        let columns = fields.filter(|field| used.iter().any(|c| c.name == *field.name()));
        let columns = Arc::new(arrow_schema::Schema::new(
            columns.cloned().collect::<Vec<_>>(),
        ));
        let schema = DFSchema::try_from(columns.as_ref().clone())?;
        let filter = session.create_physical_expr(filter, &schema)?;
        let pruning = prune::predicate(Arc::clone(&filter), &columns).ok();
        Ok(Self {
            text,
            filter,
            columns,
            pruning,
            own: table.pinned.is_own(),
        })
    }

    /// The table's columns in the order of ours.
    fn fields<'a>(&self, schema: &'a Schema) -> Result<Vec<&'a Field>, TableError> {
        let fields = self.columns.fields().iter().map(|column| {
            let found = schema
                .fields
                .iter()
                .find(|f| fold(&f.name) == *column.name());
            let field = found.ok_or_else(|| TableError::NoSuchColumn {
                column: column.name().clone(),
            })?;
            if field.to_arrow().data_type() != column.data_type() {
                return Err(TableError::TypeMismatch {
                    column: field.name.clone(),
                    data_type: field.data_type.to_string(),
                    given: column.data_type().to_string(),
                });
            }
            Ok(field)
        });
        fields.collect()
    }
}

// Two predicates are equal when they compute the same; how files are excluded follows from it.
impl fmt::Debug for ScanPredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanPredicate")
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for ScanPredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl RowPredicate for ScanPredicate {
    fn columns(&self, schema: &Schema) -> Result<Schema, TableError> {
        let fields = self.fields(schema)?.into_iter();
        Ok(Schema::new(fields.cloned().collect()))
    }

    fn may_match(&self, file: &DataFile, schema: &Schema, partition_columns: &[String]) -> bool {
        let Some(pruning) = &self.pruning else {
            return true;
        };
        let files = [Arc::new(file.clone())];
        let bounds = FileBounds {
            schema,
            partition_columns,
            files: &files,
            own: self.own,
        };
        let kept = pruning.prune(&bounds);
        kept.map_or(true, |kept| kept.first().copied().unwrap_or(true))
    }

    fn matches(&self, batch: &RecordBatch, schema: &Schema) -> Result<BooleanArray, TableError> {
        let columns = self.fields(schema)?.into_iter().map(|field| {
            let array = batch.column_by_name(&field.name);
            array.cloned().ok_or(TableError::Internal {
                context: "evaluating a read predicate on a batch without its columns",
            })
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let failed = |error: DataFusionError| TableError::PredicateFailed {
            reason: error.strip_backtrace(),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let own = RecordBatch::try_new_with_options(Arc::clone(&self.columns), columns, &options)
            .map_err(|error| failed(error.into()))?;
        let value = self.filter.evaluate(&own).map_err(failed)?;
        let array = value.into_array(own.num_rows()).map_err(failed)?;
        let matches = array.as_boolean_opt().ok_or(TableError::Internal {
            context: "evaluating a read predicate that is no condition",
        })?;
        Ok(matches.clone())
    }
}
