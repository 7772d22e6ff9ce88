//! Changing the definition of a native table: columns, properties, rules, features.
//!
//! Invariant: a rule that is made holds for every row of the version that the commit follows:
//! rows are looked at first, and others that add rows meanwhile are a conflict.
//! Spec: docs/format/native.md, "Changing a table"; Delta PROTOCOL, "Change Metadata".

use arrow_array::RecordBatch;
use futures::TryStreamExt as _;
use tarndb_table::{
    ColumnPath, DataFile, MetadataChange, NewColumn, NotNullCheck, ReadOptions, RowRules,
    RuleChange, Schema, TableError, conform_batch, read_file_rows,
};
use tarndb_txn::Operation;

use super::commit::{Change, NativeCommit};
use super::conflict::Reads;
use super::error::NativeError;
use super::table::NativeTable;
use crate::effects::deleted_rows;

impl NativeTable {
    /// Changes schema, properties, rules, features or comments, all in one commit.
    ///
    /// # Errors
    /// What the format or a property forbids; a row that a new rule does not allow; `Conflict`
    /// when others changed the definition too, or added rows that a new rule was not asked about.
    ///
    /// # Cost
    /// For a new CHECK constraint two GETs per data file; for SET NOT NULL the same for files
    /// whose statistics do not rule NULL out; else none but the commit's.
    pub async fn change_metadata(
        &mut self,
        mut metadata: Vec<MetadataChange>,
    ) -> Result<NativeCommit, NativeError> {
        let mut change = Change::new(operation(&metadata));
        for one in &mut metadata {
            if let MetadataChange::AddColumn(NewColumn { seed, .. })
            | MetadataChange::ReplaceSchema { seed, .. } = one
            {
                *seed = self.store.context().uuid();
            }
            if self.needs_no_newer_rows(one).await? {
                change.reads = Reads::Table;
            }
        }
        change.metadata = metadata;
        self.commit(change).await
    }

    /// Looks at the rows that are there, as far as the change asks something of them; whether
    /// rows that others add meanwhile are in its way.
    async fn needs_no_newer_rows(&self, change: &MetadataChange) -> Result<bool, NativeError> {
        match change {
            // Rows that others add meanwhile have the old columns.
            MetadataChange::ReplaceSchema { .. } => Ok(true),
            MetadataChange::Rule(RuleChange::AddConstraint { name, expression }) => {
                self.check_condition(name, expression).await?;
                Ok(true)
            }
            MetadataChange::SetNullable {
                column,
                nullable: false,
            } => {
                self.check_no_null(column).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Whether the condition is true for every row that is there.
    async fn check_condition(&self, name: &str, expression: &str) -> Result<(), NativeError> {
        let state = self.state()?;
        let rules = RowRules::of_new_constraint(&state.schema, name, expression)?;
        let files: Vec<_> = state.files.values().collect();
        for file in files {
            self.check_rows(&file, &state.schema, Asked::Conditions(&rules))
                .await?;
        }
        Ok(())
    }

    /// Whether the column has no NULL, in rows that are deleted neither: readers see a column
    /// before they see that rows are deleted.
    async fn check_no_null(&self, column: &ColumnPath) -> Result<(), NativeError> {
        let state = self.state()?;
        let Some(check) = NotNullCheck::new(state, column)? else {
            return Ok(());
        };
        let asked = Asked::Conforms(&check.required);
        for file in &check.files {
            self.check_rows(file, &check.present, asked).await?;
        }
        for file in check.whole() {
            let whole = self.check_rows(&file, &check.present, asked);
            if let Err(NativeError::Table(TableError::NullInNotNull { .. })) = whole.await {
                let column = check.column.to_string();
                return Err(NativeError::NullInDeletedRow { column });
            }
        }
        Ok(())
    }

    /// Asks the live rows of a file.
    async fn check_rows(
        &self,
        file: &DataFile,
        columns: &Schema,
        asked: Asked<'_>,
    ) -> Result<(), NativeError> {
        let deleted = deleted_rows(&self.store, &self.location, &file.deletion).await?;
        let partition_columns = self.state()?.partition_columns.clone();
        let rows = read_file_rows(
            &self.store,
            &self.location,
            file,
            columns,
            &partition_columns,
            Some(&deleted),
            ReadOptions::default(),
        );
        let mut rows = rows.await?;
        while let Some(rows) = rows.try_next().await? {
            asked.of(&rows.batch)?;
        }
        Ok(())
    }
}

/// What rows must be like.
#[derive(Clone, Copy)]
enum Asked<'a> {
    /// The conditions are true for them.
    Conditions(&'a RowRules),
    /// They fit the columns.
    Conforms(&'a Schema),
}

impl Asked<'_> {
    fn of(self, rows: &RecordBatch) -> Result<(), TableError> {
        match self {
            Self::Conditions(rules) => rules.check_conditions(rows),
            Self::Conforms(schema) => conform_batch(rows, schema).map(|_| ()),
        }
    }
}

/// Under which name the change goes.
fn operation(metadata: &[MetadataChange]) -> Operation {
    let all = |test: fn(&MetadataChange) -> bool| metadata.iter().all(test);
    if all(|change| matches!(change, MetadataChange::AddColumn(_))) {
        return Operation::Merge;
    }
    let moves_columns = |change: &MetadataChange| {
        matches!(
            change,
            MetadataChange::RenameColumn { .. }
                | MetadataChange::DropColumn { .. }
                | MetadataChange::WidenColumn { .. }
                | MetadataChange::SetNullable { .. }
        )
    };
    if all(moves_columns) {
        return Operation::Project;
    }
    Operation::UpdateConfig
}
