//! Looking into rows that others added, deleted or replaced, for what ours read.
//!
//! Invariant: `No` only when every row that they changed was looked at, or lies in a file that
//! can hold no match by its partition values and statistics. Rows that only moved are none of
//! them. What is not looked at is answered `Unknown`, which counts as a match.
//! Does not decide; `tarndb-txn` does.
//! Spec: docs/conflicts.md, "Isolation".

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::TryStreamExt as _;
use tarndb_table::{
    DataFile, ErrorClass, ReadOptions, RowPredicate, RowSet, Schema, TableError, TableState,
    Wanted, is_true, open_file, row_text,
};
use tarndb_txn::{Answer, Removal, TableEffects};

use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;

/// Bytes that may still be read to decide about reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    whole: u64,
    left: u64,
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            whole: bytes,
            left: bytes,
        }
    }
}

/// One table right before and right after a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangedTable<'a> {
    pub(super) inner: &'a Inner,
    pub(super) table: &'a TableEntry,
    /// `None`: it made the table.
    pub(super) before: Option<&'a TableState>,
    pub(super) after: &'a TableState,
    pub(super) effects: &'a TableEffects,
}

/// What happened to rows.
#[derive(Clone, Copy, Debug)]
enum Change {
    Added,
    Deleted,
    Restored,
}

/// Changed rows of one file.
struct Changed<'a> {
    file: Arc<DataFile>,
    change: Change,
    /// Which; `None`: all live ones.
    rows: Option<RowSet>,
    /// Those that can match one of them.
    predicates: Vec<&'a Arc<dyn RowPredicate>>,
}

/// What one file told.
enum Look {
    Nothing,
    Match(String),
    Unknown(String),
}

impl<'a> ChangedTable<'a> {
    /// Whether a row that was changed matches one of the predicates.
    ///
    /// # Cost
    /// None when files can be excluded. Else a ranged GET for each vector not cached and two
    /// GETs per file, as far as the budget allows.
    pub(super) async fn find(
        &self,
        predicates: &'a [Arc<dyn RowPredicate>],
        budget: &mut Budget,
    ) -> Result<Answer, DbError> {
        let columns = match self.columns(predicates) {
            Ok(columns) => columns,
            Err(why) => return Ok(Answer::Unknown(why)),
        };
        let changed = match self.changed(predicates).await? {
            Ok(changed) => changed,
            Err(why) => return Ok(Answer::Unknown(why)),
        };
        // A match anywhere says more than a file that could not be read.
        let mut unknown = None;
        for rows in changed {
            match self.look_into(&rows, &columns, budget).await? {
                Look::Nothing => {}
                Look::Match(found) => return Ok(Answer::Yes(found)),
                Look::Unknown(why) => unknown = unknown.or(Some(why)),
            }
        }
        Ok(unknown.map_or(Answer::No, Answer::Unknown))
    }

    /// The columns of all predicates.
    fn columns(&self, predicates: &[Arc<dyn RowPredicate>]) -> Result<Schema, String> {
        let schema = &self.after.schema;
        let mut names = BTreeMap::new();
        for predicate in predicates {
            let columns = predicate.columns(schema);
            let columns =
                columns.map_err(|error| format!("{predicate} cannot be used: {error}"))?;
            for field in columns.fields {
                names.insert(field.name.clone(), field);
            }
        }
        let fields = schema.fields.iter();
        let mut used: Vec<_> = fields
            .filter(|field| names.contains_key(&field.name))
            .cloned()
            .collect();
        if used.is_empty() {
            // Rows without any column cannot be read.
            used.extend(schema.fields.first().cloned());
        }
        Ok(Schema::new(used))
    }

    /// The changed rows that can match; the inner error says why they are not known.
    async fn changed(
        &self,
        predicates: &'a [Arc<dyn RowPredicate>],
    ) -> Result<Result<Vec<Changed<'a>>, String>, DbError> {
        let mut changed = Vec::new();
        for path in &self.effects.added_files {
            let Some(file) = self.after.files.get(path) else {
                return Ok(Err(format!("file {path} is not known")));
            };
            changed.extend(self.can_match(&file, self.after, Change::Added, predicates));
        }
        // All that a replacement of the data dropped was deleted by it.
        let all = self.effects.overwrites_all();
        for (path, removal) in &self.effects.removes {
            if *removal == Removal::Moved && !all {
                continue;
            }
            let before = self
                .before
                .and_then(|state| Some((state, state.files.get(path)?)));
            let Some((state, file)) = before else {
                return Ok(Err(format!("file {path} is not known")));
            };
            changed.extend(self.can_match(&file, state, Change::Deleted, predicates));
        }
        for path in self.effects.deletions.keys() {
            let before = self
                .before
                .and_then(|state| Some((state, state.files.get(path)?)));
            let (Some((state, old)), Some(new)) = (before, self.after.files.get(path)) else {
                return Ok(Err(format!("file {path} is not known")));
            };
            for (file, state, other, change) in [
                (&old, state, &new, Change::Deleted),
                (&new, self.after, &old, Change::Restored),
            ] {
                let Some(mut rows) = self.can_match(file, state, change, predicates) else {
                    continue;
                };
                let gone = self.inner.deleted_rows(self.table, &other.deletion).await?;
                let had = self.inner.deleted_rows(self.table, &file.deletion).await?;
                let differs = gone.as_ref() - had.as_ref();
                if !differs.is_empty() {
                    rows.rows = Some(differs);
                    changed.push(rows);
                }
            }
        }
        Ok(Ok(changed))
    }

    fn can_match(
        &self,
        file: &Arc<DataFile>,
        state: &TableState,
        change: Change,
        predicates: &'a [Arc<dyn RowPredicate>],
    ) -> Option<Changed<'a>> {
        let may = |predicate: &&Arc<dyn RowPredicate>| {
            predicate.may_match(file, &state.schema, &state.partition_columns)
        };
        let predicates: Vec<_> = predicates.iter().filter(may).collect();
        (!predicates.is_empty()).then(|| Changed {
            file: Arc::clone(file),
            change,
            rows: None,
            predicates,
        })
    }

    async fn look_into(
        &self,
        changed: &Changed<'_>,
        columns: &Schema,
        budget: &mut Budget,
    ) -> Result<Look, DbError> {
        let path = &changed.file.path;
        let deleted = self
            .inner
            .deleted_rows(self.table, &changed.file.deletion)
            .await?;
        let wanted = match &changed.rows {
            Some(rows) => Wanted::Only(rows),
            None => Wanted::AllBut(&deleted),
        };
        let looked = async {
            let opened = open_file(
                &self.inner.store,
                &self.table.location,
                &changed.file,
                columns,
                &self.after.partition_columns,
                wanted,
                ReadOptions::default(),
            );
            let mut opened = opened.await?;
            if opened.bytes > budget.left {
                return Ok(Look::Unknown(budget.exceeded(opened.bytes, path)));
            }
            budget.left -= opened.bytes;
            while let Some(rows) = opened.rows.try_next().await? {
                match self.matching(&rows.batch, columns, changed) {
                    Look::Nothing => {}
                    found => return Ok(found),
                }
            }
            Ok(Look::Nothing)
        };
        match looked.await {
            // Vacuumed after the table moved on: what was in it cannot be known any more.
            Err(error) if TableError::class(&error) == ErrorClass::NotFound => {
                Ok(Look::Unknown(format!("file {path} is gone")))
            }
            other => other.map_err(DbError::table(self.table.display_name())),
        }
    }

    fn matching(&self, batch: &RecordBatch, columns: &Schema, changed: &Changed<'_>) -> Look {
        for predicate in &changed.predicates {
            let matches = match predicate.matches(batch, &self.after.schema) {
                Ok(matches) => matches,
                Err(error) => return Look::Unknown(format!("{predicate} failed: {error}")),
            };
            if let Some(row) = (0..batch.num_rows()).find(|row| is_true(&matches, *row)) {
                let change = changed.change.word();
                let (row, path) = (row_text(batch, row, columns), &changed.file.path);
                return Look::Match(format!(
                    "{row} in file {path} was {change} and matches {predicate}"
                ));
            }
        }
        Look::Nothing
    }
}

impl Budget {
    fn exceeded(&self, bytes: u64, path: &str) -> String {
        let (whole, left) = (self.whole, self.left);
        format!(
            "looking at the changed rows of file {path} takes {bytes} bytes, and of the budget of \
             {whole} bytes {left} are left (serializable_read_budget_bytes)"
        )
    }
}

impl Change {
    const fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Deleted => "deleted",
            Self::Restored => "restored",
        }
    }
}
