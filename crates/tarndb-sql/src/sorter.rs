//! Sorting rows for a clustering with the engine's external sort.
//!
//! Invariant: memory is bounded by the engine's pool; what does not fit is spilled, and the files
//! of that go with the stream, also when it is dropped half-way. An error of the rows comes
//! out as it went in.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{SendableRecordBatchStream, execute_stream};
use futures::StreamExt;
use tarndb_db::{DbError, RowSorter, SortedRows};

use crate::error::SqlError;
use crate::error::translate::{carry, translate};
use crate::name::Spelling;

/// Columns that rows are sorted by: the last ones.
const KEY_COLUMNS: usize = 3;

/// Sorts within one task of the engine.
pub(crate) struct EngineSorter(pub(crate) Arc<TaskContext>);

impl fmt::Debug for EngineSorter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineSorter")
    }
}

#[async_trait]
impl RowSorter for EngineSorter {
    async fn sort(&self, schema: SchemaRef, rows: SortedRows) -> Result<SortedRows, DbError> {
        let sorted = plan(schema, rows).and_then(|plan| execute_stream(plan, Arc::clone(&self.0)));
        let sorted = sorted.map_err(failed)?;
        Ok(sorted.map(|batch| batch.map_err(failed)).boxed())
    }
}

fn plan(schema: SchemaRef, rows: SortedRows) -> Result<Arc<SortExec>> {
    let width = schema.fields().len();
    let keys = width.saturating_sub(KEY_COLUMNS)..width;
    let keys = keys.zip(
        schema
            .fields()
            .iter()
            .skip(width.saturating_sub(KEY_COLUMNS)),
    );
    let keys = keys.map(|(at, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
        PhysicalSortExpr::new_default(column)
    });
    let Some(ordering) = LexOrdering::new(keys) else {
        return Err(carry(SqlError::Internal {
            context: "sorting rows without keys",
        }));
    };
    let input = StreamingTableExec::try_new(
        Arc::clone(&schema),
        vec![Arc::new(OnceRows {
            schema: Arc::clone(&schema),
            rows: Mutex::new(Some(rows)),
        })],
        None,
        [],
        false,
        None,
    )?;
    Ok(Arc::new(SortExec::new(ordering, Arc::new(input))))
}

/// Rows that can be read once.
struct OnceRows {
    schema: SchemaRef,
    rows: Mutex<Option<SortedRows>>,
}

impl fmt::Debug for OnceRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceRows")
    }
}

impl PartitionStream for OnceRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self
            .rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let schema = Arc::clone(&self.schema);
        let Some(rows) = rows else {
            let twice = carry(SqlError::Internal {
                context: "reading the rows of a clustering twice",
            });
            let error = futures::stream::iter([Err(twice)]);
            return Box::pin(RecordBatchStreamAdapter::new(schema, error));
        };
        let rows = rows.map(|batch| batch.map_err(|error| carry(error.into())));
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

/// An error of the rows comes out as it went in, one of the sort as a source's.
fn failed(error: DataFusionError) -> DbError {
    match translate(error, &Spelling::default()) {
        SqlError::Db(error) => error,
        other => DbError::Source(Box::new(other)),
    }
}

/// What [`failed`] made of an error, made good again.
pub(crate) fn unfailed(error: DbError) -> SqlError {
    match error {
        DbError::Source(source) => match source.downcast::<SqlError>() {
            Ok(error) => *error,
            Err(source) => DbError::Source(source).into(),
        },
        other => other.into(),
    }
}
