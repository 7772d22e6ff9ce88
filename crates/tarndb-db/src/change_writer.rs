//! The `ChangeWriter` of a transaction.
//!
//! Invariant: rows that the transaction added itself are new rows, also after they were changed.
//! Does not: delete the old forms, or commit.
//! Spec: docs/format/delta.md, "Row tracking", "Change data feed".

use std::collections::BTreeSet;
use std::sync::Arc;

use tarndb_table::{ChangeWriter, Supplied, TableWriter, WriteOptions};
use tarndb_types::TableId;

use crate::error::DbError;
use crate::transaction::feed::Image;
use crate::transaction::{Overlay, Transaction};

impl Transaction {
    /// A writer for a change of a table's rows; hand what it returns to [`Self::replace_rows`].
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
                self.store(),
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
        Ok(ChangeWriter::new(store, location, &state, writer, fresh))
    }
}

/// Own files whose rows the base does not have.
fn inserted_files(overlay: &Overlay) -> BTreeSet<String> {
    let own = overlay.adds.keys();
    own.filter(|path| overlay.feed.image(path) == Image::Inserted)
        .cloned()
        .collect()
}
