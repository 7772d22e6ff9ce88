//! `ChangeWriter`: new rows, and new forms of rows, in a transaction.
//!
//! Invariant: that of `tarndb_table::ChangeWriter`; rows that the transaction added itself are
//! new rows, also after they were changed.
//! Does not: delete the old forms, or commit.
//! Spec: docs/format/delta.md, "Row tracking", "Change data feed".

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use tarndb_table::{
    ChangeWriter as Writer, Origin, Supplied, TableError, TableWriter, WriteOptions, WrittenChange,
};
use tarndb_types::TableId;

use crate::error::DbError;
use crate::transaction::feed::Image;
use crate::transaction::{Overlay, Transaction};

/// Writes rows of a change.
#[derive(Debug)]
pub struct ChangeWriter {
    name: String,
    writer: Writer,
}

impl Transaction {
    /// A writer for a change of a table's rows; hand what it returns to [`Self::add_changed`].
    /// `options` replace those of the table.
    ///
    /// # Errors
    /// A table property that cannot be obeyed.
    pub async fn change_writer(
        &self,
        id: TableId,
        options: Option<WriteOptions>,
    ) -> Result<ChangeWriter, DbError> {
        let state = self.table(id).await?;
        let entry = self.entry(id)?;
        let name = entry.display_name();
        let options = match options {
            Some(options) => options,
            None => WriteOptions::of_table(&state).map_err(DbError::table(name.as_str()))?,
        };
        let rules = self.rules_of(id, &state)?;
        let writer = || {
            TableWriter::new(
                self.inner().store.clone(),
                entry.location.clone(),
                Arc::clone(&state.schema),
                state.partition_columns.clone(),
                options.clone(),
            )
            .with_held(self.inner().options.held_limits())
            .with_rules(rules.clone(), Supplied::all(&state.schema))
        };
        let overlay = self.changes.overlays.get(&id);
        let (store, location) = (self.inner().store.clone(), entry.location.clone());
        let fresh = overlay.map(inserted_files).unwrap_or_default();
        Ok(ChangeWriter {
            writer: Writer::new(store, location, &state, writer, fresh),
            name,
        })
    }
}

/// Own files whose rows the base does not have.
fn inserted_files(overlay: &Overlay) -> BTreeSet<String> {
    let own = overlay.adds.keys();
    own.filter(|path| overlay.feed.image(path) == Image::Inserted)
        .cloned()
        .collect()
}

impl ChangeWriter {
    /// Rows that the table does not have. `supplied`: where their columns come from; `None`: all
    /// are given.
    ///
    /// # Errors
    /// As [`TableWriter::write`].
    pub async fn write_inserted(
        &mut self,
        rows: &RecordBatch,
        supplied: Option<&Supplied>,
    ) -> Result<(), DbError> {
        let written = self.writer.write_inserted(rows, supplied).await;
        written.map_err(|error| self.failed(error))
    }

    /// New forms of rows, each with the place of the row that it replaces; `supplied` as for
    /// [`Self::write_inserted`].
    ///
    /// # Errors
    /// As [`TableWriter::write`]; reading row ids.
    ///
    /// # Cost
    /// Where the table tracks rows and a file has their ids, about one ranged GET per file of
    /// the rows given.
    pub async fn write_updated(
        &mut self,
        rows: &RecordBatch,
        origins: &[Origin],
        supplied: Option<&Supplied>,
    ) -> Result<(), DbError> {
        let written = self.writer.write_updated(rows, origins, supplied).await;
        written.map_err(|error| self.failed(error))
    }

    /// Completes all files.
    ///
    /// # Errors
    /// As [`TableWriter::finish`].
    pub async fn finish(self) -> Result<WrittenChange, DbError> {
        let failed = DbError::table(self.name.as_str());
        self.writer.finish().await.map_err(failed)
    }

    fn failed(&self, error: TableError) -> DbError {
        DbError::table(self.name.as_str())(error)
    }
}
