//! Preconditions: what must not have happened for a transaction to commit.
//!
//! Invariant: a precondition is judged against every record after the version at which it was
//! read, like a conflict; nothing that it covers slips between check and commit.
//! Spec: docs/conflicts.md, "Preconditions".

use tarndb_types::{DbVersion, TableId};

use super::Transaction;
use crate::error::DbError;

/// What a transaction read is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    /// The version that it read.
    pub(crate) version: DbVersion,
    /// The caller read it before the transaction began, so only it can decide to run again.
    pub(crate) read_before: bool,
}

impl Transaction {
    /// From now on the commit fails when anything was committed since the snapshot that changed
    /// data or definition of a table that this transaction writes or noted as read
    /// ([`Self::note_read`]), or the meaning of a name it looked up. Compactions do not count.
    pub fn pin_reads(&mut self) {
        if self.pin.is_none() {
            self.pin = Some(Pin {
                version: self.snapshot.version(),
                read_before: false,
            });
        }
    }

    /// Writes once: the commit stores `version` for the application `app_id` in the table, and
    /// fails when one as high is there. Versions of one application grow.
    ///
    /// # Errors
    /// [`DbError::AppTransactionCommitted`] when it is there already: an earlier attempt was
    /// successful. The commit returns the same when another attempt is first.
    pub async fn set_app_transaction(
        &mut self,
        id: TableId,
        app_id: &str,
        version: i64,
    ) -> Result<(), DbError> {
        let table = self.entry(id)?.display_name();
        let overlay = self.overlay(id).await?;
        let base = overlay.base.as_ref();
        let committed = base.and_then(|base| base.app_txns.get(app_id).copied());
        if let Some(committed) = committed.filter(|committed| *committed >= version) {
            return Err(DbError::AppTransactionCommitted {
                table,
                app_id: app_id.to_owned(),
                version,
                committed,
                at: None,
            });
        }
        overlay.set_app_transaction(app_id, version);
        Ok(())
    }

    /// The version that an application committed last in a table; `None` when it never did.
    ///
    /// # Cost
    /// As [`Self::table`].
    pub async fn app_transaction(&self, id: TableId, app_id: &str) -> Result<Option<i64>, DbError> {
        Ok(self.table(id).await?.app_txns.get(app_id).copied())
    }
}
