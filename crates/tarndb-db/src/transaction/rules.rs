//! Rules of a table's rows within a transaction: writers that keep them, and changes of them.
//!
//! Invariant: no row is added to a table that was not checked against the rules that the
//! transaction sees; a rule that others make meanwhile is a conflict. Values of identity
//! columns go on from the mark that the transaction sees, and two transactions that take from
//! one mark are in conflict.
//! Spec: docs/expressions.md; docs/conflicts.md, "Properties and features".

use std::error::Error;

use arrow_array::RecordBatch;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use tarndb_table::codec::MetadataChange;
use tarndb_table::{RowRules, RuleChange, Supplied, TableError, TableState, TableWriter, Written};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use super::Transaction;
use crate::error::DbError;
use crate::scan::{Scan, Scanned};

impl Transaction {
    /// The rules that rows of the table fulfil, as the transaction sees it now.
    ///
    /// # Errors
    /// A rule that this build cannot evaluate: the table takes no rows.
    pub async fn row_rules(&self, id: TableId) -> Result<RowRules, DbError> {
        let state = self.table(id).await?;
        self.rules_of(id, &state)
    }

    pub(crate) fn rules_of(&self, id: TableId, state: &TableState) -> Result<RowRules, DbError> {
        let now_micros = self.inner().context().now().0.saturating_mul(1000);
        RowRules::of(state, now_micros).map_err(DbError::table(self.entry(id)?.display_name()))
    }

    /// A writer that fills and checks rows by the table's rules.
    pub(crate) async fn ruled_writer(
        &self,
        id: TableId,
        supplied: Option<Supplied>,
    ) -> Result<TableWriter, DbError> {
        let state = self.table(id).await?;
        let rules = self.rules_of(id, &state)?;
        let supplied = supplied.unwrap_or_else(|| Supplied::all(&state.schema));
        Ok(self.writer_for(id, &state)?.with_rules(rules, supplied))
    }

    /// Appends rows that have only some of the table's columns, in the order of `columns`; the
    /// others get their default, their generated value or the next number, else NULL.
    ///
    /// # Errors
    /// As [`Self::append`], and for columns that the table does not have.
    pub async fn append_columns<S, E>(
        &mut self,
        id: TableId,
        columns: &[&str],
        batches: S,
    ) -> Result<Written, DbError>
    where
        S: Stream<Item = Result<RecordBatch, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let name = self.entry(id)?.display_name();
        let error = |error: TableError| DbError::table(name.as_str())(error);
        let state = self.table(id).await?;
        let supplied = Supplied::only(&state.schema, columns).map_err(error)?;
        let mut writer = self.ruled_writer(id, Some(supplied.clone())).await?;
        let mut batches = std::pin::pin!(batches);
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(|error| DbError::Source(error.into()))?;
            let rows = supplied
                .arrange(&batch, columns, &state.schema)
                .map_err(error)?;
            writer.write(&rows).await.map_err(error)?;
        }
        let written = writer.finish().await.map_err(error)?;
        self.add_files(id, written.clone(), Operation::Append)
            .await?;
        Ok(written)
    }

    /// Makes a rule that every row fulfils; rows that are there are read and checked first.
    /// Others that add rows before the commit are a retryable conflict.
    ///
    /// # Errors
    /// A name that is taken, an expression that cannot be evaluated, a row for which it is not
    /// true (NULL is not).
    ///
    /// # Cost
    /// Two GETs for each data file of the table.
    pub async fn add_constraint(
        &mut self,
        id: TableId,
        name: &str,
        expression: &str,
    ) -> Result<(), DbError> {
        let state = self.table(id).await?;
        let change = RuleChange::AddConstraint {
            name: name.to_owned(),
            expression: expression.to_owned(),
        };
        let mark = self.mark();
        self.change_metadata(id, MetadataChange::Rule(change))
            .await?;
        let checked = self.check_rows(id, &state, name, expression).await;
        if checked.is_err() {
            self.rewind(mark);
        }
        checked
    }

    /// Drops a CHECK constraint.
    ///
    /// # Errors
    /// There is none of that name.
    pub async fn drop_constraint(&mut self, id: TableId, name: &str) -> Result<(), DbError> {
        let name = name.to_owned();
        let change = RuleChange::DropConstraint { name };
        self.change_metadata(id, MetadataChange::Rule(change)).await
    }

    /// Sets or (`None`) drops the default of a column; rows that are there stay as they are.
    ///
    /// # Errors
    /// A column that is not there, generated or an identity; an expression that cannot be
    /// evaluated.
    pub async fn set_default(
        &mut self,
        id: TableId,
        column: &str,
        expression: Option<&str>,
    ) -> Result<(), DbError> {
        let column = column.to_owned();
        let change = match expression {
            Some(expression) => RuleChange::SetDefault {
                column,
                expression: expression.to_owned(),
            },
            None => RuleChange::DropDefault { column },
        };
        self.change_metadata(id, MetadataChange::Rule(change)).await
    }

    /// Whether the condition is true for every row that is there.
    async fn check_rows(
        &self,
        id: TableId,
        state: &TableState,
        constraint: &str,
        expression: &str,
    ) -> Result<(), DbError> {
        let entry = self.entry(id)?;
        let error = |error: TableError| DbError::table(entry.display_name())(error);
        let rules = RowRules::of_new_constraint(&state.schema, constraint, expression);
        let rules = rules.map_err(error)?;
        let scan = Scan {
            table: entry,
            columns: &state.schema,
            partition_columns: &state.partition_columns,
        };
        let files = state.files.values().collect();
        let mut scanned = self.inner().scan(scan, files);
        while let Some(Scanned { mut rows, .. }) = scanned.try_next().await? {
            while let Some(rows) = rows.try_next().await.map_err(error)? {
                rules.check_conditions(&rows.batch).map_err(error)?;
            }
        }
        Ok(())
    }

    /// Whether written rows may be added: they were checked against the rules of the table as
    /// it is now, and nobody else in the transaction took their numbers.
    pub(crate) async fn check_written(
        &self,
        id: TableId,
        written: &Written,
    ) -> Result<(), DbError> {
        if written.files.is_empty() {
            return Ok(());
        }
        let state = self.table(id).await?;
        let name = self.entry(id)?.display_name();
        RowRules::check_written(&state, written).map_err(|error| DbError::table(name)(error.into()))
    }

    /// Moves the marks of the identity columns from which written rows have their numbers.
    pub(crate) async fn take_identities(
        &mut self,
        id: TableId,
        written: &Written,
    ) -> Result<(), DbError> {
        if written.files.is_empty() || written.identities.is_empty() {
            return Ok(());
        }
        let codec = self.codec(id)?;
        let name = self.entry(id)?.display_name();
        let overlay = self.overlay(id).await?;
        overlay
            .take_identities(codec.as_ref(), &written.identities)
            .map_err(DbError::table(name))
    }
}
