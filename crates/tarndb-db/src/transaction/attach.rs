//! The catalog changes of attaching and detaching, each alone in its transaction.
//!
//! Invariant: a table that is detached gets its last version in the same transaction.
//! Spec: docs/format/log.md, "Attached tables".

use tarndb_table::codec::MetadataChange;
use tarndb_txn::Operation;
use tarndb_types::TableId;

use super::Transaction;
use crate::attach::error::AttachError;
use crate::catalog::TableEntry;
use crate::error::DbError;
use crate::record::{Action, AttachAction};

/// The folders in which a shallow clone names files.
fn shares_with(table: &TableEntry) -> Option<String> {
    let folders: Vec<&str> = table.bases.iter().map(AsRef::as_ref).collect();
    (!folders.is_empty()).then(|| folders.join(", "))
}

impl Transaction {
    /// Takes a marked table into the catalog.
    pub(crate) fn attach(&mut self, action: AttachAction) -> Result<(), DbError> {
        self.act(Action::AttachTable(action), Operation::AttachTable)
    }

    /// Gives a table back. It stays in what the transaction sees, which ends here.
    pub(crate) async fn detach(&mut self, id: TableId) -> Result<(), DbError> {
        let codec = self.codec(id)?;
        let entry = self.entry(id)?;
        let name = entry.display_name();
        let clone = self.snapshot.catalog().sharing(&entry.location);
        let shared = clone.map(|clone| clone.display_name());
        if let Some(with) = shared.or_else(|| shares_with(entry)) {
            return Err(AttachError::SharesFiles { table: name, with }.into());
        }
        let overlay = self.overlay(id).await?;
        overlay
            .change_metadata(
                codec.as_ref(),
                MetadataChange::Release,
                Operation::DetachTable,
            )
            .map_err(DbError::table(name))?;
        self.changes.actions.push(Action::DetachTable { id });
        self.changes.did(Operation::DetachTable);
        Ok(())
    }
}
