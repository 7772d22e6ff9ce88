//! The rows of a MERGE on their way into the table.
//!
//! Invariant: a row of the table is changed at most once; one that two rows of the source would
//! change ends the statement, unless all that can happen to it is that it goes. Held are bitmaps
//! of positions and one batch, never the rows.
//! Spec: docs/sql/merge.md, "Rows that match twice".

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::Schema as ArrowSchema;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt as _;
use tarndb_db::{MergeCounts, MergeKeys};
use tarndb_table::{ChangeWriter, Origin, RowSet, Supplied, WrittenChange, conform_batch};

use super::clause::{Act, Clause};
use super::exec::by_clause;
use super::plan::Layout;
use crate::dml::target::{ChangeTarget, Found};
use crate::dml::write::Destination;
use crate::error::{SqlError, translate::translate};
use crate::name::Spelling;

/// Takes the rows of a MERGE.
pub(super) struct Merger<'a> {
    pub(super) target: &'a ChangeTarget,
    pub(super) destination: &'a Destination,
    pub(super) clauses: &'a [Clause],
    pub(super) layout: Layout,
    pub(super) spelling: &'a Spelling,
    pub(super) writer: ChangeWriter,
    /// `None`: the statement inserts nothing.
    pub(super) keys: Option<MergeKeys>,
    /// Rows that go, those with a new form included.
    pub(super) found: Found,
    pub(super) gone: BTreeMap<u32, RowSet>,
    pub(super) counts: MergeCounts,
}

/// What was done.
pub(super) struct Done {
    pub(super) found: Found,
    pub(super) gone: BTreeMap<u32, RowSet>,
    pub(super) written: WrittenChange,
    pub(super) keys: Option<MergeKeys>,
    pub(super) counts: MergeCounts,
}

impl Merger<'_> {
    /// Takes all rows of a stream.
    pub(super) async fn run(
        mut self,
        mut stream: SendableRecordBatchStream,
    ) -> Result<Done, SqlError> {
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(|error| translate(error, self.spelling))?;
            let parts = by_clause(&batch, &self.layout, self.clauses.len());
            let parts = parts.map_err(|error| translate(error, self.spelling))?;
            for (number, rows) in parts {
                let clause = self.clauses.get(number).ok_or_else(internal)?;
                match &clause.act {
                    Act::Nothing => {}
                    Act::Delete => self.delete(&rows)?,
                    Act::Update(_) => self.update(&rows, &clause.supplied).await?,
                    Act::Insert(_) => self.insert(&rows, &clause.supplied).await?,
                }
            }
        }
        let written = self.writer.finish().await;
        let mut counts = self.counts;
        counts.deleted = self.gone.values().map(RowSet::len).sum();
        Ok(Done {
            written: written.map_err(SqlError::table(&self.destination.name))?,
            found: self.found,
            gone: self.gone,
            keys: self.keys,
            counts,
        })
    }

    fn delete(&mut self, rows: &RecordBatch) -> Result<(), SqlError> {
        for (file, position) in places(rows, &self.layout)? {
            self.found.insert(file, position)?;
            self.gone.entry(file).or_default().insert(position);
        }
        Ok(())
    }

    async fn update(&mut self, rows: &RecordBatch, supplied: &Supplied) -> Result<(), SqlError> {
        let kept = self.target.provider.kept();
        let mut origins = Vec::with_capacity(rows.num_rows());
        for (file, position) in places(rows, &self.layout)? {
            self.found.insert(file, position)?;
            origins.push(Origin {
                file: kept.file(file).ok_or_else(internal)?,
                position,
            });
        }
        let own = self.own(rows, supplied)?;
        self.note_written(&own)?;
        self.counts.updated += rows.num_rows() as u64;
        let written = self.writer.write_updated(&own, &origins, Some(supplied));
        written
            .await
            .map_err(SqlError::table(&self.destination.name))
    }

    async fn insert(&mut self, rows: &RecordBatch, supplied: &Supplied) -> Result<(), SqlError> {
        let own = self.own(rows, supplied)?;
        self.note_written(&own)?;
        self.note_sought(rows)?;
        self.counts.inserted += rows.num_rows() as u64;
        let written = self.writer.write_inserted(&own, Some(supplied));
        written
            .await
            .map_err(SqlError::table(&self.destination.name))
    }

    /// The columns of the table.
    fn own(&self, rows: &RecordBatch, supplied: &Supplied) -> Result<RecordBatch, SqlError> {
        let own = rows.project(&(0..self.layout.width).collect::<Vec<_>>());
        let own = own.map_err(|error| translate(error.into(), self.spelling))?;
        let schema = supplied.input_schema(&self.destination.schema);
        conform_batch(&own, &schema).map_err(SqlError::table(&self.destination.name))
    }

    fn note_written(&mut self, own: &RecordBatch) -> Result<(), SqlError> {
        match &mut self.keys {
            None => Ok(()),
            Some(keys) => keys
                .note(own)
                .map_err(SqlError::table(&self.destination.name)),
        }
    }

    /// Notes the keys that new rows were looked for by, which need not be those that they have.
    fn note_sought(&mut self, rows: &RecordBatch) -> Result<(), SqlError> {
        let Some(keys) = &mut self.keys else {
            return Ok(());
        };
        let mut schema = keys.schema();
        // Numbers that an identity column gives are not looked for by anything.
        if schema.fields.is_empty() {
            return Ok(());
        }
        let first = self.layout.first_key();
        let columns = rows.columns().iter().skip(first).take(self.layout.keys);
        let columns: Vec<ArrayRef> = columns.cloned().collect();
        for field in &mut schema.fields {
            field.nullable = true;
        }
        let arrow: Arc<ArrowSchema> = schema.to_arrow();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let batch = RecordBatch::try_new_with_options(arrow, columns, &options);
        let batch = batch.map_err(|error| translate(error.into(), self.spelling))?;
        keys.note(&batch)
            .map_err(SqlError::table(&self.destination.name))
    }
}

/// Where the rows of the table are.
fn places(rows: &RecordBatch, layout: &Layout) -> Result<Vec<(u32, u64)>, SqlError> {
    let columns = rows.columns();
    let files = columns.get(layout.file());
    let files = files.and_then(|files| files.as_primitive_opt::<UInt32Type>());
    let positions = columns.get(layout.position());
    let positions = positions.and_then(|positions| positions.as_primitive_opt::<Int64Type>());
    let (Some(files), Some(positions)) = (files, positions) else {
        return Err(internal());
    };
    let pairs = files.iter().zip(positions.iter());
    let places = pairs.map(|(file, position)| Some((file?, u64::try_from(position?).ok()?)));
    places.collect::<Option<Vec<_>>>().ok_or_else(internal)
}

fn internal() -> SqlError {
    SqlError::Internal {
        context: "the rows of a MERGE",
    }
}
