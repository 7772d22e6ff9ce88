//! Deletion vectors that a commit stored, kept for its next attempt.
//!
//! Invariant: a stored vector is used again only for the same rows of the same file with the very
//! same vector at the head.

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_table::codec::TableCodec;
use tarndb_table::{Deletion, DvDescriptor, RowSet};
use tarndb_types::TableId;

use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;

/// A vector to store: all deleted rows of one file.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) path: String,
    pub(crate) at_head: Deletion,
    pub(crate) rows: Arc<RowSet>,
}

/// What earlier attempts stored.
#[derive(Debug, Default)]
pub(crate) struct StoredVectors {
    stored: BTreeMap<(TableId, String), StoredVector>,
}

#[derive(Debug)]
struct StoredVector {
    at_head: Deletion,
    /// Those of an own new file may differ although nothing was at the head.
    rows: Arc<RowSet>,
    descriptor: DvDescriptor,
}

impl StoredVectors {
    /// Descriptors in the order of `wanted`; only what is not stored yet is written.
    ///
    /// # Cost
    /// At most 1 PUT.
    pub(crate) async fn store(
        &mut self,
        inner: &Inner,
        codec: &dyn TableCodec,
        table: &TableEntry,
        wanted: &[Wanted],
    ) -> Result<Vec<DvDescriptor>, DbError> {
        let missing: Vec<&Wanted> = wanted
            .iter()
            .filter(|wanted| self.known(table.id, wanted).is_none())
            .collect();
        if !missing.is_empty() {
            let rows: Vec<Arc<RowSet>> = missing
                .iter()
                .map(|wanted| Arc::clone(&wanted.rows))
                .collect();
            let stored = codec
                .store_deletions(&inner.store, &table.location, &rows)
                .await
                .map_err(DbError::table(table.display_name()))?;
            for (wanted, descriptor) in missing.into_iter().zip(stored) {
                inner.put_deletion(table.id, &descriptor, Arc::clone(&wanted.rows));
                let stored = StoredVector {
                    at_head: wanted.at_head.clone(),
                    rows: Arc::clone(&wanted.rows),
                    descriptor,
                };
                self.stored.insert((table.id, wanted.path.clone()), stored);
            }
        }
        let found = wanted
            .iter()
            .map(|wanted| self.known(table.id, wanted).cloned());
        found.collect::<Option<Vec<_>>>().ok_or(DbError::Internal {
            what: "a stored deletion vector is not known",
        })
    }

    fn known(&self, id: TableId, wanted: &Wanted) -> Option<&DvDescriptor> {
        let stored = self.stored.get(&(id, wanted.path.clone()))?;
        (stored.at_head == wanted.at_head && stored.rows == wanted.rows)
            .then_some(&stored.descriptor)
    }
}
