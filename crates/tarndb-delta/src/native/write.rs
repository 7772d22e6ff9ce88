//! Appending to a native table, and overwriting it.
//!
//! Invariant: files are complete in the store before the commit that names them; a commit that
//! fails leaves only files that nobody reads.
//! Spec: docs/format/native.md, "Committing"; Delta PROTOCOL, "Add File and Remove File".

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use futures::{Stream, StreamExt as _};
use tarndb_table::{
    ChangeWriter, DataFile, Predicate, RowRules, Schema, Supplied, TableError, TableState,
    TableWriter, WriteOptions, Written, conform_batch, is_true, parse_partition_value,
    scalar_to_array,
};
use tarndb_txn::Operation;

use super::commit::{Change, NativeCommit};
use super::conflict::Reads;
use super::error::NativeError;
use super::table::NativeTable;
use crate::effects::{MODE_OVERWRITE, MODE_PARAMETER, PREDICATE_PARAMETER};
use crate::error::DeltaError;

/// The part of a table that an overwrite replaces.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplacedPartitions {
    /// A predicate over partition columns.
    pub predicate: Predicate,
    /// The same as text, for the history.
    pub text: String,
}

impl NativeTable {
    /// Writes rows as files of this table, not yet committed; columns go by position.
    ///
    /// # Errors
    /// Rows that do not fit the table; an error of the stream.
    ///
    /// # Cost
    /// One PUT (or multipart upload) per file.
    pub async fn write<S, E>(&self, batches: S) -> Result<Written, NativeError>
    where
        S: Stream<Item = Result<RecordBatch, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let schema = Arc::clone(&self.state()?.schema);
        let mut writer = self.ruled_writer(Supplied::all(&schema))?;
        let mut batches = std::pin::pin!(batches);
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(|error| NativeError::Source(error.into()))?;
            writer.write(&conform_batch(&batch, &schema)?).await?;
        }
        Ok(writer.finish().await?)
    }

    /// As [`Self::write`], for rows that have only `columns`, in that order: the others get
    /// their default or generated value, else NULL.
    ///
    /// # Errors
    /// As [`Self::write`]; a column that the table does not have.
    pub async fn write_columns<S, E>(
        &self,
        columns: &[&str],
        batches: S,
    ) -> Result<Written, NativeError>
    where
        S: Stream<Item = Result<RecordBatch, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let schema = Arc::clone(&self.state()?.schema);
        let supplied = Supplied::only(&schema, columns)?;
        let mut writer = self.ruled_writer(supplied.clone())?;
        let mut batches = std::pin::pin!(batches);
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(|error| NativeError::Source(error.into()))?;
            let rows = supplied.arrange(&batch, columns, &schema)?;
            writer.write(&rows).await?;
        }
        Ok(writer.finish().await?)
    }

    /// A writer for a change of rows; hand what it returns to [`Self::change_rows`]. `options`
    /// replace those of the table.
    ///
    /// # Errors
    /// A table property that cannot be obeyed, a rule that cannot be evaluated.
    pub fn change_writer(
        &self,
        options: Option<WriteOptions>,
    ) -> Result<ChangeWriter, NativeError> {
        let state = self.state()?;
        let options = match options {
            Some(options) => options,
            None => WriteOptions::of_table(state)?,
        };
        let rules = self.rules()?;
        let writer = || {
            let writer = self.writer_with(state, options.clone());
            writer.with_rules(rules.clone(), Supplied::all(&state.schema))
        };
        let (store, location) = (self.store.clone(), self.location.clone());
        let none = BTreeSet::new();
        Ok(ChangeWriter::new(store, location, state, writer, none))
    }

    fn rules(&self) -> Result<RowRules, NativeError> {
        let now_micros = self.store.context().now().0.saturating_mul(1000);
        Ok(RowRules::of(self.state()?.as_ref(), now_micros)?)
    }

    /// A writer that fills and checks rows by the table's rules.
    fn ruled_writer(&self, supplied: Supplied) -> Result<TableWriter, NativeError> {
        let state = self.state()?;
        let writer = self.writer_with(state, WriteOptions::of_table(state)?);
        Ok(writer.with_rules(self.rules()?, supplied))
    }

    /// May written rows be added to the table as it is now?
    pub(super) fn check_written(&self, written: &Written) -> Result<(), NativeError> {
        let checked = RowRules::check_written(self.state()?.as_ref(), written);
        Ok(checked.map_err(TableError::Rule)?)
    }

    pub(super) fn writer_with(&self, state: &TableState, options: WriteOptions) -> TableWriter {
        TableWriter::new(
            self.store.clone(),
            self.location.clone(),
            Arc::clone(&state.schema),
            state.partition_columns.clone(),
            options,
        )
    }

    /// Adds written rows, and sets application transactions with them: `None`, and nothing is
    /// committed, when the table has one of these already. `reads`: what of this table the rows
    /// were computed from.
    ///
    /// # Errors
    /// As any commit. Where nothing was read, a concurrent change of data is no conflict.
    pub async fn append(
        &mut self,
        written: Written,
        app_txns: BTreeMap<String, i64>,
        reads: Reads,
    ) -> Result<Option<NativeCommit>, NativeError> {
        self.check_written(&written)?;
        let mut change = Change::new(Operation::Append);
        change
            .parameters
            .insert(MODE_PARAMETER.to_owned(), "Append".to_owned());
        change.add(written);
        change.app_txns = app_txns;
        change.reads = reads;
        self.commit_once(change).await
    }

    /// Replaces all rows, or those of some partitions, by written ones.
    ///
    /// # Errors
    /// `Conflict` when others changed what is replaced; `OutsideOfPredicate`,
    /// `NotAPartitionColumn`.
    pub async fn overwrite(
        &mut self,
        written: Written,
        replaced: Option<ReplacedPartitions>,
    ) -> Result<NativeCommit, NativeError> {
        self.check_written(&written)?;
        let state = Arc::clone(self.state()?);
        let mut change = Change::new(Operation::Overwrite);
        let mode = (MODE_PARAMETER.to_owned(), MODE_OVERWRITE.to_owned());
        change.parameters.extend([mode]);
        match replaced {
            None => {
                change.removes = state.files.values().collect();
                change.reads = Reads::Table;
            }
            Some(ReplacedPartitions { predicate, text }) => {
                let partitions = Partitions::new(&state, &predicate)?;
                for file in state.files.values() {
                    if partitions.hold(&file)? {
                        change.removes.push(file);
                    }
                }
                for file in &written.files {
                    if !partitions.hold(file)? {
                        let partition = format!("{:?}", file.partition_values);
                        return Err(NativeError::OutsideOfPredicate { partition });
                    }
                }
                change
                    .parameters
                    .insert(PREDICATE_PARAMETER.to_owned(), text);
                let files = change.removes.iter().map(|file| file.path.clone());
                change.reads = Reads::Rows {
                    files: files.collect(),
                    partitions: Some(predicate),
                };
            }
        }
        change.add(written);
        self.commit(change).await
    }
}

/// A predicate decided by partition values.
struct Partitions<'a> {
    schema: Schema,
    predicate: &'a Predicate,
}

impl<'a> Partitions<'a> {
    fn new(state: &TableState, predicate: &'a Predicate) -> Result<Self, NativeError> {
        let named = predicate.columns(&state.schema)?;
        let other = named
            .fields
            .iter()
            .find(|field| !state.is_partition_column(&field.name));
        if let Some(field) = other {
            let column = field.name.clone();
            return Err(NativeError::NotAPartitionColumn { column });
        }
        Ok(Self {
            schema: named,
            predicate,
        })
    }

    /// Are the rows of `file` those of the predicate?
    fn hold(&self, file: &DataFile) -> Result<bool, NativeError> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        for field in &self.schema.fields {
            let text = file.partition_values.get(&field.name);
            let text = text.and_then(|value| value.as_deref());
            let value = parse_partition_value(text, &field.data_type)?;
            columns.push(scalar_to_array(value.as_ref(), &field.data_type, 1)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(self.schema.to_arrow(), columns, &options)
            .map_err(|source| {
                DeltaError::from_table(TableError::Arrow {
                    context: "partition values as a row",
                    source,
                })
            })?;
        let holds = self.predicate.evaluate(&row, &self.schema)?;
        Ok(is_true(&holds, 0))
    }
}
