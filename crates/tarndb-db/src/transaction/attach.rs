//! The catalog changes of attaching and detaching, each alone in its transaction.
//!
//! Invariant: a table that is detached gets its last version in the same transaction.
//! Spec: docs/format/log.md, "Attached tables".

use tarndb_table::codec::MetadataChange;
use tarndb_txn::Operation;
use tarndb_types::TableId;

use super::Transaction;
use crate::error::DbError;
use crate::record::{Action, AttachAction};

impl Transaction {
    /// Takes a marked table into the catalog.
    pub(crate) fn attach(&mut self, action: AttachAction) -> Result<(), DbError> {
        self.act(Action::AttachTable(action), Operation::AttachTable)
    }

    /// Gives a table back. It stays in what the transaction sees, which ends here.
    pub(crate) async fn detach(&mut self, id: TableId) -> Result<(), DbError> {
        let codec = self.codec(id)?;
        let name = self.entry(id)?.display_name();
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
