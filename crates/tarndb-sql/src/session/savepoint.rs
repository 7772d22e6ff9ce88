//! SAVEPOINT, ROLLBACK TO and RELEASE.
//!
//! Invariant: going back to a savepoint forgets the changes made after it, also those of a
//! statement that failed; what was read stays noted, so that serializable transactions are
//! judged by all they saw. A name may be used again: the newest counts.
//! Spec: docs/sql/transactions.md, "Savepoints".

use tarndb_db::{Mark, Transaction};

use crate::error::SqlError;
use crate::name::same;

/// The savepoints of a transaction, oldest first.
#[derive(Debug, Default)]
pub(super) struct Savepoints(Vec<(String, Mark)>);

impl Savepoints {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// SAVEPOINT.
    pub(super) fn set(&mut self, name: &str, txn: &Transaction) {
        self.0.push((name.to_owned(), txn.mark()));
    }

    /// ROLLBACK TO: the savepoint stays, later ones go.
    ///
    /// # Errors
    /// `UnknownSavepoint`; nothing has changed then.
    pub(super) fn back_to(&mut self, name: &str, txn: &mut Transaction) -> Result<(), SqlError> {
        let at = self.find(name)?;
        self.0.truncate(at + 1);
        if let Some((_, mark)) = self.0.last() {
            txn.rewind(mark.clone());
        }
        Ok(())
    }

    /// RELEASE: the savepoint and later ones go, their changes stay.
    ///
    /// # Errors
    /// `UnknownSavepoint`.
    pub(super) fn release(&mut self, name: &str) -> Result<(), SqlError> {
        let at = self.find(name)?;
        self.0.truncate(at);
        Ok(())
    }

    fn find(&self, name: &str) -> Result<usize, SqlError> {
        let found = self.0.iter().rposition(|(known, _)| same(known, name));
        found.ok_or_else(|| SqlError::UnknownSavepoint {
            name: name.to_owned(),
        })
    }
}
