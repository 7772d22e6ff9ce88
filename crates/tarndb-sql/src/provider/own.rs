//! A scan by the tables' own reader, where the engine's would not find the right columns.
//!
//! Invariant: the same rows as `tarndb_table::read_file` gives: columns found by ids or by stored
//! names at every level, older types widened, variants whole or refused.
//! Does not: leave out row groups; the engine's own scan does, for all other tables.
//! Spec: Delta PROTOCOL, "Column Mapping", "Type Widening", "Variant Data Type".

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tarndb_table::{
    DataFile, DataType, Field, FileToRead, LiveRows, ReadOptions, Schema, TableError, Wanted,
};

use crate::error::translate::carry_table;
use crate::provider::kept::Numbered;
use crate::provider::{Pinned, TarnTable};

/// Whether the engine's scan would read a table of these columns wrongly.
pub(super) fn is_needed(schema: &Schema) -> bool {
    schema.fields.iter().any(|field| {
        field
            .physical
            .as_ref()
            .is_some_and(|physical| physical.by_id)
            || is_widened(field)
            || field.data_type.any(&|data_type| match data_type {
                DataType::Variant | DataType::Void => true,
                DataType::Struct(fields) => {
                    fields.iter().any(|f| f.physical.is_some() || is_widened(f))
                }
                _ => false,
            })
    })
}

fn is_widened(field: &Field) -> bool {
    field.metadata.contains_key("delta.typeChanges")
}

/// Where a column of the output comes from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// The column at this place of those that are read.
    Read(usize),
    /// The index of the file.
    File,
    /// The row's position in it.
    Position,
}

/// Plans the scan of the files `kept`.
pub(super) fn plan(
    table: &TarnTable,
    projection: &[usize],
    output: SchemaRef,
    kept: &[Numbered],
    partitions: usize,
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let all = &table.pinned.state.schema.fields;
    let mut fields = Vec::new();
    let mut origins = Vec::with_capacity(projection.len());
    for index in projection {
        origins.push(match all.get(*index) {
            Some(field) => {
                fields.push(field.clone());
                Origin::Read(fields.len() - 1)
            }
            None if *index == all.len() => Origin::File,
            None => Origin::Position,
        });
    }
    let schema = Arc::new(Schema::new(fields));
    let share = kept.len().div_ceil(partitions).max(1);
    let shares = kept.chunks(share).map(|files| {
        let part: Arc<dyn PartitionStream> = Arc::new(Part {
            pinned: Arc::clone(&table.pinned),
            schema: Arc::clone(&schema),
            origins: origins.clone(),
            files: files.to_vec(),
            output: Arc::clone(&output),
        });
        part
    });
    let shares = shares.collect();
    let scan = StreamingTableExec::try_new(output, shares, None, [], false, limit)?;
    Ok(Arc::new(scan))
}

/// Files that are read one after the other.
#[derive(Debug)]
struct Part {
    pinned: Arc<Pinned>,
    /// The columns that are read.
    schema: Arc<Schema>,
    origins: Vec<Origin>,
    files: Vec<(usize, Arc<DataFile>)>,
    output: SchemaRef,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.output
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (origins, output) = (self.origins.clone(), Arc::clone(&self.output));
        let reads: Vec<_> = self.files.iter().map(|file| self.rows(file)).collect();
        let rows = futures::stream::iter(reads).then(|read| read).try_flatten();
        let name = self.pinned.name.clone();
        let batches = rows.map(move |rows| {
            let (index, rows) = rows.map_err(|error| carry_table(&name, error))?;
            assemble(&rows, index, &origins, &output)
        });
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.output),
            batches.boxed(),
        ))
    }
}

type Rows = BoxStream<'static, Result<(usize, LiveRows), TableError>>;

impl Part {
    /// The rows of a file, with its index; nothing is read before the future is polled.
    fn rows(
        &self,
        (index, file): &(usize, Arc<DataFile>),
    ) -> impl Future<Output = Result<Rows, TableError>> + Send + use<> {
        let (pinned, schema) = (Arc::clone(&self.pinned), Arc::clone(&self.schema));
        let (index, file) = (*index, Arc::clone(file));
        async move {
            let deleted = pinned.deleted_rows(&file.deletion).await?;
            let (store, location) = (&pinned.store, &pinned.location);
            let columns = &pinned.state.partition_columns;
            let opened = FileToRead::open(store, location, &file, &schema, columns).await?;
            let selected = opened.select(Wanted::AllBut(&deleted), ReadOptions::default())?;
            let rows = selected.into_rows()?;
            Ok(rows.map_ok(move |rows| (index, rows)).boxed())
        }
    }
}

fn assemble(
    rows: &LiveRows,
    index: usize,
    origins: &[Origin],
    output: &SchemaRef,
) -> Result<RecordBatch> {
    let count = rows.batch.num_rows();
    let columns = origins.iter().map(|origin| -> Result<ArrayRef> {
        match origin {
            Origin::Read(place) => {
                let column = rows.batch.columns().get(*place);
                column.cloned().ok_or_else(|| {
                    DataFusionError::Internal("a column of a scan is missing".to_owned())
                })
            }
            Origin::File => {
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                Ok(Arc::new(UInt32Array::from_value(index, count)))
            }
            Origin::Position => {
                let positions = rows.positions.iter();
                let positions = positions.map(|row| i64::try_from(*row).unwrap_or(i64::MAX));
                Ok(Arc::new(positions.collect::<Int64Array>()))
            }
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(output),
        columns,
        &options,
    )?)
}
