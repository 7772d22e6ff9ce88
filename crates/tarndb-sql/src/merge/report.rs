//! What a MERGE did, as its result.
//!
//! Invariant: one row; the names of the first four columns are those of other engines.
//! Spec: docs/sql/merge.md, "Result".

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use tarndb_db::{MergeCounts, MergedFiles};

use crate::error::{SqlError, translate::translate};
use crate::name::Spelling;
use crate::outcome::Outcome;

/// What a MERGE did.
#[derive(Clone, Debug, Default)]
pub(crate) struct MergeReport {
    pub(crate) counts: MergeCounts,
    pub(crate) files: MergedFiles,
    pub(crate) notices: Vec<String>,
}

impl MergeReport {
    /// Rows that came, changed or went.
    pub(crate) fn affected(&self) -> u64 {
        self.counts.inserted + self.counts.updated + self.counts.deleted
    }

    /// One row of figures.
    pub(crate) fn outcome(&self) -> Result<Outcome, SqlError> {
        let figures = [
            ("num_affected_rows", self.affected()),
            ("num_updated_rows", self.counts.updated),
            ("num_deleted_rows", self.counts.deleted),
            ("num_inserted_rows", self.counts.inserted),
            ("num_copied_rows", self.files.copied),
            ("num_files_added", self.files.added),
            ("num_files_removed", self.files.removed),
            ("num_files_scanned", self.counts.files_scanned),
            ("num_files_skipped", self.counts.files_skipped),
        ];
        let fields = figures.map(|(name, _)| Field::new(name, DataType::Int64, false));
        let columns = figures.map(|(_, value)| -> ArrayRef {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            Arc::new(Int64Array::from(vec![value]))
        });
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let batch = RecordBatch::try_new(schema, columns.to_vec());
        let batch = batch.map_err(|error| translate(error.into(), &Spelling::default()))?;
        Ok(Outcome::of_batch(batch))
    }
}
