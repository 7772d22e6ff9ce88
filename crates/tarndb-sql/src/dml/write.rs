//! From a plan to the data files of a table.
//!
//! Invariant: rows reach the writer with the table's types, filled by its rules and, in a
//! partitioned table, sorted
//! by its partition columns (spilling within the memory limit), so that a writer holds few
//! files open however many partitions there are.

use std::sync::Arc;

use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, SendableRecordBatchStream, execute_stream,
};
use futures::StreamExt;
use tarndb_db::{Database, Transaction};
use tarndb_storage::{Path, Store};
use tarndb_table::{
    ChangeWriter, RowRules, Schema, Supplied, Supply, TableState, TableWriter, WriteOptions,
    Written, WrittenChange,
};
use tarndb_types::TableId;

use crate::dml::Change;
use crate::dml::conform::ConformExec;
use crate::dml::target::{ChangeTarget, Found};
use crate::engine::Engine;
use crate::error::{SqlError, translate::translate};
use crate::name::{Spelling, same};
use crate::options::SessionOptions;

/// Where rows go.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    /// `schema.name`, for messages.
    pub(crate) name: Arc<str>,
    /// Columns.
    pub(crate) schema: Arc<Schema>,
    partition_columns: Vec<String>,
    location: Path,
    /// Notes what is written, for the transaction that it is written for.
    store: Option<Store>,
    options: WriteOptions,
    /// What rows must fulfil, and what is filled in.
    pub(crate) rules: Arc<RowRules>,
    supplied: Supplied,
}

impl Destination {
    /// The table `id` as the transaction sees it.
    pub(crate) async fn of_table(
        txn: &Transaction,
        id: TableId,
        options: &SessionOptions,
    ) -> Result<Self, SqlError> {
        let state = txn.table(id).await?;
        let name = txn.entry(id)?.display_name();
        let rules = txn.row_rules(id).await?;
        let destination = Self::of_state(&name, &state, rules, txn.location(id)?, options)?;
        Ok(Self {
            store: Some(txn.store()),
            ..destination
        })
    }

    /// A table in this state.
    pub(crate) fn of_state(
        name: &str,
        state: &TableState,
        rules: RowRules,
        location: Path,
        options: &SessionOptions,
    ) -> Result<Self, SqlError> {
        let mut write = WriteOptions::of_table(state).map_err(SqlError::table(name))?;
        if let Some(bytes) = options.writer_bytes() {
            write.memory_bytes = write.memory_bytes.min(bytes);
            write.row_group_bytes = write.row_group_bytes.min(bytes);
        }
        Ok(Self {
            name: name.into(),
            schema: Arc::clone(&state.schema),
            partition_columns: state.partition_columns.clone(),
            location,
            store: None,
            options: write,
            rules: Arc::new(rules),
            supplied: Supplied::all(&state.schema),
        })
    }

    /// The same for rows whose columns come from elsewhere than from the statement alone.
    pub(crate) fn with_supplied(mut self, supplied: Supplied) -> Self {
        self.supplied = supplied;
        self
    }

    /// Where their columns come from.
    pub(crate) fn supplied(&self) -> &Supplied {
        &self.supplied
    }

    /// Adds what the rows need on their way: types, and the order of the partitions.
    pub(crate) fn prepare(
        &self,
        plan: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        let plan: Arc<dyn ExecutionPlan> = Arc::new(ConformExec::new(
            plan,
            Arc::clone(&self.name),
            Arc::clone(&self.rules),
            self.supplied.clone(),
        ));
        self.sorted(plan)
    }

    /// Adds the order of the partitions to a plan whose first columns are the table's.
    pub(crate) fn sorted(
        &self,
        plan: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        let sorts = self.partition_columns.iter().filter_map(|name| {
            let index = self
                .schema
                .fields
                .iter()
                .position(|f| same(&f.name, name))?;
            let field = self.schema.fields.get(index)?;
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(&field.name, index));
            Some(PhysicalSortExpr::new_default(column))
        });
        let Some(ordering) = LexOrdering::new(sorts) else {
            return Ok(plan);
        };
        let single: Arc<dyn ExecutionPlan> = if plan.output_partitioning().partition_count() > 1 {
            Arc::new(CoalescePartitionsExec::new(plan))
        } else {
            plan
        };
        Ok(Arc::new(SortExec::new(ordering, single)))
    }

    /// A column of these that takes its numbers from an identity while it is written.
    pub(crate) fn numbered(&self, columns: &Schema) -> Option<&str> {
        let mut fields = self.schema.fields.iter().enumerate();
        let numbered = fields.find(|(place, field)| {
            self.rules.is_identity(*place)
                && self.supplied.of(*place) == Supply::Omitted
                && columns.field(&field.name).is_some()
        });
        numbered.map(|(_, field)| field.name.as_str())
    }

    /// How its files are written.
    pub(crate) fn options(&self) -> WriteOptions {
        self.options.clone()
    }

    /// A writer of its files.
    pub(crate) fn writer(&self, db: &Database) -> TableWriter {
        let writer = self.writer_to(self.store.as_ref().unwrap_or(db.store()));
        writer.with_held(db.options().held_limits())
    }

    /// A writer of its files into a store, where each is stored at once.
    pub(crate) fn writer_to(&self, store: &Store) -> TableWriter {
        TableWriter::new(
            store.clone(),
            self.location.clone(),
            Arc::clone(&self.schema),
            self.partition_columns.clone(),
            self.options.clone(),
        )
        .with_rules(RowRules::clone(&self.rules), self.supplied.clone())
    }
}

/// Writes the new forms of rows: the first columns of a stream whose last two say which rows
/// these are.
pub(crate) async fn write_updates(
    mut writer: ChangeWriter,
    destination: &Destination,
    target: &ChangeTarget,
    mut stream: SendableRecordBatchStream,
    spelling: &Spelling,
) -> Result<(WrittenChange, Found), SqlError> {
    let own: Vec<usize> = (0..destination.schema.fields.len()).collect();
    let mut found = target.nothing_found();
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| translate(error, spelling))?;
        if batch.num_rows() == 0 {
            continue;
        }
        let origins = found.take(&batch, target.provider.kept())?;
        let rows = batch.project(&own);
        let rows = rows.map_err(|error| translate(error.into(), spelling))?;
        let written = writer.write_updated(&rows, &origins, Some(&destination.supplied));
        written.await.map_err(SqlError::table(&destination.name))?;
    }
    let written = writer.finish().await;
    Ok((written.map_err(SqlError::table(&destination.name))?, found))
}

/// Runs a plan as one stream.
pub(crate) fn stream_of(
    engine: &Engine,
    plan: Arc<dyn ExecutionPlan>,
    spelling: &Spelling,
) -> Result<SendableRecordBatchStream, SqlError> {
    execute_stream(plan, engine.context.task_ctx()).map_err(|error| translate(error, spelling))
}

/// Writes a stream of rows of the table.
pub(crate) async fn write_stream(
    change: &Change<'_>,
    destination: &Destination,
    mut stream: SendableRecordBatchStream,
    spelling: &Spelling,
) -> Result<Written, SqlError> {
    let mut writer = destination.writer(change.db);
    let failed = SqlError::table;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| translate(error, spelling))?;
        if batch.num_rows() == 0 {
            continue;
        }
        writer
            .write(&batch)
            .await
            .map_err(failed(&destination.name))?;
    }
    writer.finish().await.map_err(failed(&destination.name))
}
