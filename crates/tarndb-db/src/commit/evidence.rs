//! Looking into rows that others changed, where effects alone do not decide.
//!
//! Invariant: `No` only when every row that they added was looked at, or lies in a file that
//! cannot hold a match by its partition values and statistics. What is not looked at is
//! answered `Unknown`, which counts as a match.
//! Does not decide; `tarndb-txn` does.
//! Spec: docs/conflicts.md, "Evidence".

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::TryStreamExt as _;
use tarndb_table::parquet::read::read_file;
use tarndb_table::{
    DataFile, ErrorClass, Field, KeyColumns, RowPredicate, Schema, TableError, TableState, is_true,
    key_hash, row_text,
};
use tarndb_txn::{Answer, Effects, Evidence, Isolation, Question, TableEffects, questions};
use tarndb_types::{TableId, TableVersion};

use super::reads::{Budget, ChangedTable};
use crate::catalog::{Catalog, TableEntry};
use crate::database::Inner;
use crate::error::DbError;
use crate::record::{Action, RecordTxn};
use crate::transaction::{TableRead, Transaction, overlay::OverwrittenRows};
use crate::upsert::KeysLooked;

/// What a transaction relies on in one table.
#[derive(Clone, Debug, Default)]
struct Relied {
    keys: Option<KeysLooked>,
    overwritten: Option<OverwrittenRows>,
    /// Of a serializable one; empty when it read the whole table.
    reads: Vec<Arc<dyn RowPredicate>>,
}

/// What a transaction relies on, kept for all verdicts of its commit.
#[derive(Clone, Debug)]
pub(super) struct Looker {
    tables: BTreeMap<TableId, Relied>,
    budget: Budget,
}

impl Looker {
    pub(super) fn of(txn: &Transaction) -> Self {
        let mut tables: BTreeMap<TableId, Relied> = BTreeMap::new();
        for (id, overlay) in &txn.changes.overlays {
            if overlay.keys.is_some() || overlay.overwritten.is_some() {
                let relied = tables.entry(*id).or_default();
                relied.keys.clone_from(&overlay.keys);
                relied.overwritten.clone_from(&overlay.overwritten);
            }
        }
        if txn.isolation == Isolation::Serializable {
            for (id, read) in txn.changes.reads.iter() {
                if let TableRead::Rows(predicates) = read {
                    tables.entry(id).or_default().reads.clone_from(predicates);
                }
            }
        }
        let bytes = txn.inner().options.serializable_read_budget_bytes;
        Self {
            tables,
            budget: Budget::new(bytes),
        }
    }

    /// Answers what has to be known of `txn`, which did `theirs`; `after` is the catalog right
    /// after its record.
    ///
    /// # Cost
    /// None when effects decide. Else two GETs for each file that the transaction added to a
    /// table and that can hold a match, up to `DbOptions::evidence_bytes_max` per table; for
    /// reads, also for files in which it deleted, up to
    /// `DbOptions::serializable_read_budget_bytes` per commit.
    pub(super) async fn look(
        &mut self,
        inner: &Inner,
        after: &Catalog,
        txn: &RecordTxn,
        ours: &Effects,
        theirs: &Effects,
    ) -> Result<Evidence, DbError> {
        let mut evidence = Evidence::none();
        for (id, relied) in &self.tables {
            let (Some(mine), Some(added)) = (ours.tables.get(id), theirs.tables.get(id)) else {
                continue;
            };
            let asked = questions(mine, added, ours.isolation);
            if asked.is_empty() {
                continue;
            }
            let Some((table, state)) = state_after(inner, after, txn, *id).await? else {
                continue;
            };
            let rows = AddedRows {
                inner,
                table: &table,
                state: &state,
                added,
            };
            if asked.contains(&Question::AddedKeys)
                && let Some(keys) = &relied.keys
            {
                evidence.note(*id, Question::AddedKeys, rows.with_key(keys).await?);
            }
            if asked.contains(&Question::AddedInOverwrite)
                && let Some(overwritten) = &relied.overwritten
            {
                let answer = rows.matching_any(&overwritten.predicates).await?;
                evidence.note(*id, Question::AddedInOverwrite, answer);
            }
            if asked.contains(&Question::ChangedInReads) && !relied.reads.is_empty() {
                let before = state_before(inner, &table).await?;
                let changed = ChangedTable {
                    inner,
                    table: &table,
                    before: before.as_deref(),
                    after: &state,
                    effects: added,
                };
                let answer = changed.find(&relied.reads, &mut self.budget).await?;
                evidence.note(*id, Question::ChangedInReads, answer);
            }
        }
        Ok(evidence)
    }
}

/// A table as the transaction left it; `None` when it did not write it or the table is gone.
async fn state_after(
    inner: &Inner,
    after: &Catalog,
    txn: &RecordTxn,
    id: TableId,
) -> Result<Option<(TableEntry, Arc<TableState>)>, DbError> {
    let version = txn.actions.iter().find_map(|action| match action {
        Action::Entry(entry) if entry.table == id => Some(entry.version),
        _ => None,
    });
    let (Some(version), Some(table)) = (version, after.table(id)) else {
        return Ok(None);
    };
    // A record may hold several versions of the table.
    let mut table = TableEntry::clone(table);
    table.version = version;
    let state = inner.table_state(&table).await?;
    Ok(Some((table, state)))
}

/// The table one version earlier; `None` when there is none.
async fn state_before(
    inner: &Inner,
    after: &TableEntry,
) -> Result<Option<Arc<TableState>>, DbError> {
    let Some(version) = after.version.0.checked_sub(1) else {
        return Ok(None);
    };
    let mut table = TableEntry::clone(after);
    table.version = TableVersion(version);
    Ok(Some(inner.table_state(&table).await?))
}

/// The rows that one transaction added to one table.
struct AddedRows<'a> {
    inner: &'a Inner,
    table: &'a TableEntry,
    state: &'a TableState,
    added: &'a TableEffects,
}

/// How the look at one file ended early.
enum Stop {
    Found(String),
    Unknown(String),
}

/// Looks at rows: what it found.
type Test<'a> = &'a (dyn Fn(&RecordBatch) -> Result<Option<String>, TableError> + Send + Sync);

impl AddedRows<'_> {
    /// Whether one of them has one of our keys.
    async fn with_key(&self, keys: &KeysLooked) -> Result<Answer, DbError> {
        if keys.any {
            return self.any_row(&keys.bounds).await;
        }
        let names = keys.key.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let Ok(key) = KeyColumns::new(&self.state.schema, &names) else {
            return Ok(Answer::Unknown("the key columns changed".to_owned()));
        };
        self.look(&keys.bounds, &key.schema(), &|batch| {
            let read = key.of(batch)?;
            let mut bytes = Vec::new();
            let holds = |row: &usize| {
                read.read(*row, &mut bytes) && keys.hashes.contains(&key_hash(&bytes))
            };
            let found = (0..batch.num_rows()).find(holds);
            Ok(found.map(|row| read.describe(row)))
        })
        .await
    }

    /// Whether one of them matches one of the predicates.
    async fn matching_any(&self, predicates: &[Arc<dyn RowPredicate>]) -> Result<Answer, DbError> {
        for predicate in predicates {
            match self.matching(predicate.as_ref()).await? {
                Answer::No => {}
                answer => return Ok(answer),
            }
        }
        Ok(Answer::No)
    }

    /// Whether there is one in a file that `bounds` does not exclude.
    async fn any_row(&self, bounds: &dyn RowPredicate) -> Result<Answer, DbError> {
        let is_stored = |field: &&Field| !self.state.partition_columns.contains(&field.name);
        let schema = &self.state.schema;
        let Some(first) = schema.fields.iter().find(is_stored) else {
            return Ok(Answer::Unknown("the table has no column".to_owned()));
        };
        let first = Schema::new(vec![first.clone()]);
        self.look(bounds, &first, &|batch| {
            Ok((batch.num_rows() > 0).then(|| row_text(batch, 0, &first)))
        })
        .await
    }

    /// Whether one of them matches.
    async fn matching(&self, predicate: &dyn RowPredicate) -> Result<Answer, DbError> {
        let schema = &self.state.schema;
        let Ok(columns) = predicate.columns(schema) else {
            return Ok(Answer::Unknown(
                "the columns of the predicate changed".to_owned(),
            ));
        };
        self.look(predicate, &columns, &|batch| {
            let matches = predicate.matches(batch, schema)?;
            let found = (0..batch.num_rows()).find(|row| is_true(&matches, *row));
            Ok(found.map(|row| row_text(batch, row, &columns)))
        })
        .await
    }

    /// Runs `test` over the columns of all rows in files that `bounds` does not exclude, until
    /// it finds something.
    async fn look(
        &self,
        bounds: &dyn RowPredicate,
        columns: &Schema,
        test: Test<'_>,
    ) -> Result<Answer, DbError> {
        let mut files = Vec::new();
        for path in &self.added.added_files {
            let Some(file) = self.state.files.get(path) else {
                return Ok(Answer::Unknown(format!("file {path} is not known")));
            };
            if bounds.may_match(&file, &self.state.schema, &self.state.partition_columns) {
                files.push(file);
            }
        }
        let bytes: u64 = files.iter().map(|file| file.size_bytes).sum();
        let budget = self.inner.options.evidence_bytes_max;
        if bytes > budget {
            return Ok(Answer::Unknown(format!(
                "files with added rows have {bytes} bytes, more than the {budget} that are looked at"
            )));
        }
        for file in files {
            match self.look_into(&file, columns, test).await {
                Ok(None) => {}
                Ok(Some(Stop::Found(found))) => {
                    return Ok(Answer::Yes(format!("{found} in file {}", file.path)));
                }
                Ok(Some(Stop::Unknown(why))) => return Ok(Answer::Unknown(why)),
                Err(error) => return Err(error),
            }
        }
        Ok(Answer::No)
    }

    async fn look_into(
        &self,
        file: &DataFile,
        columns: &Schema,
        test: Test<'_>,
    ) -> Result<Option<Stop>, DbError> {
        let name = self.table.display_name();
        let deleted = self.inner.deleted_rows(self.table, &file.deletion).await?;
        let rows = read_file(
            &self.inner.store,
            &self.table.location,
            file,
            columns,
            &self.state.partition_columns,
            Some(&deleted),
        );
        let found = async {
            let mut rows = rows.await?;
            while let Some(batch) = rows.try_next().await? {
                if let Some(found) = test(&batch)? {
                    return Ok(Some(Stop::Found(found)));
                }
            }
            Ok(None)
        };
        match found.await {
            // Vacuumed after the table moved on: what was in it cannot be known any more.
            Err(error) if TableError::class(&error) == ErrorClass::NotFound => {
                Ok(Some(Stop::Unknown(format!("file {} is gone", file.path))))
            }
            // What a predicate makes of rows of others is no error of this transaction.
            Err(error @ TableError::PredicateFailed { .. }) => {
                Ok(Some(Stop::Unknown(error.to_string())))
            }
            other => other.map_err(DbError::table(name)),
        }
    }
}
