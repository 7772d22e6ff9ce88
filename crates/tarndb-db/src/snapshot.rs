//! `Snapshot`: the whole database at one version.
//!
//! Invariant: immutable; what it reads does not change, however many commits follow. Readers
//! never block writers.
//! Spec: docs/format/log.md, "Snapshots".

use std::sync::Arc;

use tarndb_table::codec::TableCodec;
use tarndb_table::{Deletion, RowSet, TableState};
use tarndb_types::{DbVersion, TableId, TimestampMs};

use crate::catalog::{Catalog, TableEntry};
use crate::database::Database;
use crate::error::DbError;

/// A snapshot; cheap to clone.
#[derive(Clone, Debug)]
pub struct Snapshot {
    database: Database,
    catalog: Arc<Catalog>,
}

impl Snapshot {
    pub(crate) fn new(database: Database, catalog: Arc<Catalog>) -> Self {
        Self { database, catalog }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Its version.
    pub fn version(&self) -> DbVersion {
        self.catalog.version()
    }

    /// Commit timestamp of its version.
    pub fn timestamp(&self) -> TimestampMs {
        self.catalog.timestamp()
    }

    /// Schemas and tables.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The table of that name, without regard to case.
    ///
    /// # Errors
    /// [`DbError::TableNotFound`].
    pub fn find(&self, schema: &str, name: &str) -> Result<&Arc<TableEntry>, DbError> {
        let not_found = || DbError::TableNotFound {
            name: format!("{schema}.{name}"),
        };
        self.catalog.find(schema, name).ok_or_else(not_found)
    }

    /// A table's catalog entry.
    ///
    /// # Errors
    /// [`DbError::TableNotFound`].
    pub fn entry(&self, id: TableId) -> Result<&Arc<TableEntry>, DbError> {
        self.catalog
            .table(id)
            .ok_or_else(|| DbError::TableNotFound {
                name: id.to_string(),
            })
    }

    /// The state of a table.
    ///
    /// # Cost
    /// None on a warm handle; else what the table's own log costs to read.
    pub async fn table(&self, id: TableId) -> Result<Arc<TableState>, DbError> {
        let entry = self.entry(id)?;
        self.database.inner.table_state(entry).await
    }

    /// The rows that a file's deletion deletes; cached.
    ///
    /// # Cost
    /// At most 1 ranged GET.
    pub async fn deleted_rows(
        &self,
        id: TableId,
        deletion: &Deletion,
    ) -> Result<Arc<RowSet>, DbError> {
        let entry = self.entry(id)?;
        self.database.inner.deleted_rows(entry, deletion).await
    }

    /// The codec of a table.
    ///
    /// # Errors
    /// [`DbError::UnknownTableFormat`].
    pub fn codec(&self, id: TableId) -> Result<&Arc<dyn TableCodec>, DbError> {
        let entry = self.entry(id)?;
        self.database
            .inner
            .codec(&entry.format, &entry.display_name())
    }
}
