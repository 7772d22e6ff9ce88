//! The files of one table as the leaf of a plan.
//!
//! Invariant: files are read one after the other in a blocking task, a few batches ahead of
//! the writer; dropping the stream stops the task.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use tokio::sync::mpsc;

use crate::error::{SqlError, translate::carry};
use crate::import::source::{Format, Reading, Source};
use crate::import::{csv, json, parquet_file};

/// Batches read ahead.
const READ_AHEAD: usize = 2;

/// Which file is being read.
#[derive(Clone, Debug, Default)]
pub(super) struct Position(Arc<AtomicUsize>);

impl Position {
    /// The file and how much of it was read.
    pub(super) fn now<'a>(&self, sources: &'a [Source]) -> Option<(&'a Source, u64)> {
        let source = sources.get(self.0.load(Ordering::Relaxed))?;
        Some((source, source.bytes_read()))
    }
}

/// Where batches go; false when nobody wants them any more.
pub(super) type Sink<'a> = &'a mut dyn FnMut(Result<RecordBatch, SqlError>) -> bool;

/// The plan that reads the files.
pub(super) fn plan(
    sources: Vec<Source>,
    reading: Reading,
    position: Position,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = reading.schema.to_arrow();
    // Values reach the table's types and NULL rules in the node above.
    let fields = schema
        .fields()
        .iter()
        .map(|f| f.as_ref().clone().with_nullable(true));
    let schema = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
    let files = Files {
        schema: Arc::clone(&schema),
        work: Mutex::new(Some((sources, reading))),
        position,
    };
    let exec = StreamingTableExec::try_new(schema, vec![Arc::new(files)], None, [], false, None)?;
    Ok(Arc::new(exec))
}

#[derive(Debug)]
struct Files {
    schema: SchemaRef,
    work: Mutex<Option<(Vec<Source>, Reading)>>,
    position: Position,
}

impl PartitionStream for Files {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let work = self
            .work
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let (sender, receiver) = mpsc::channel(READ_AHEAD);
        let position = self.position.clone();
        tokio::task::spawn_blocking(move || {
            let send = |batch: Result<RecordBatch, SqlError>| {
                sender.blocking_send(batch.map_err(carry)).is_ok()
            };
            match work {
                Some((sources, reading)) => read_all(&sources, &reading, &position, send),
                None => {
                    send(Err(SqlError::Internal {
                        context: "reading the same files twice",
                    }));
                }
            }
        });
        let stream = futures::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|batch| (batch, receiver))
        });
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            stream,
        ))
    }
}

fn read_all(
    sources: &[Source],
    reading: &Reading,
    position: &Position,
    mut send: impl FnMut(Result<RecordBatch, SqlError>) -> bool,
) {
    for (index, source) in sources.iter().enumerate() {
        position.0.store(index, Ordering::Relaxed);
        let mut open = true;
        let mut sink = |batch: Result<RecordBatch, SqlError>| {
            open = open && send(batch);
            open
        };
        let result = match source.format {
            Format::Csv => csv::read(source, reading, &mut sink),
            Format::Json => json::read(source, reading, &mut sink),
            Format::Parquet => parquet_file::read(source, reading, &mut sink),
        };
        if let Err(error) = result {
            sink(Err(error));
            return;
        }
        if !open {
            return;
        }
    }
}
