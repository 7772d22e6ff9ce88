//! `RowPredicate`: a pure function of a row that says whether somebody read it.
//!
//! Invariant: a row counts as read exactly when the predicate is true for it, not when it is
//! NULL; whoever cannot decide that says so by an error, never by "no".
//! Does not: come from text; the query engine implements it for its own expressions.
//! Spec: docs/conflicts.md, "Isolation".

use std::fmt;

use arrow_array::{BooleanArray, RecordBatch};

use crate::error::TableError;
use crate::fragment::DataFile;
use crate::prune::{Predicate, may_match};
use crate::schema::Schema;

/// A predicate over the columns of one table. `Display` is for people; two predicates with
/// the same `Debug` text hold for the same rows.
pub trait RowPredicate: fmt::Debug + fmt::Display + Send + Sync {
    /// The columns it looks at, as `schema` has them.
    ///
    /// # Errors
    /// One of them is not there, or of a type for which it was not made.
    fn columns(&self, schema: &Schema) -> Result<Schema, TableError>;

    /// Whether `file` may hold a row, live or deleted, for which it is true, by partition
    /// values and statistics. What is not known counts as "yes".
    fn may_match(&self, file: &DataFile, schema: &Schema, partition_columns: &[String]) -> bool;

    /// Whether it holds, row by row. `batch` has at least its columns, under the names and types
    /// of `schema`.
    ///
    /// # Errors
    /// As [`Self::columns`]; a row for which it cannot be computed.
    fn matches(&self, batch: &RecordBatch, schema: &Schema) -> Result<BooleanArray, TableError>;
}

impl RowPredicate for Predicate {
    fn columns(&self, schema: &Schema) -> Result<Schema, TableError> {
        Self::columns(self, schema)
    }

    fn may_match(&self, file: &DataFile, schema: &Schema, partition_columns: &[String]) -> bool {
        may_match(self, file, schema, partition_columns)
    }

    fn matches(&self, batch: &RecordBatch, schema: &Schema) -> Result<BooleanArray, TableError> {
        self.evaluate(batch, schema)
    }
}
