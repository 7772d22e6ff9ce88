//! `Snapshot`: the whole database at one version, without SQL.

use std::sync::Arc;

use tarndb_db::Catalog;
use tarndb_table::TableState;
use tarndb_types::{DbVersion, TimestampMs};

use crate::error::Result;
use crate::name;

/// The whole database at one version. What it reads does not change, however many commits
/// follow.
#[derive(Clone, Debug)]
pub struct Snapshot {
    inner: tarndb_db::Snapshot,
}

impl Snapshot {
    pub(crate) fn new(inner: tarndb_db::Snapshot) -> Self {
        Self { inner }
    }

    /// The database version.
    pub fn version(&self) -> DbVersion {
        self.inner.version()
    }

    /// When that version was committed.
    pub fn timestamp(&self) -> TimestampMs {
        self.inner.timestamp()
    }

    /// Schemas and tables.
    pub fn catalog(&self) -> &Catalog {
        self.inner.catalog()
    }

    /// The state of a table (`table` or `schema.table`): columns, files, properties.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound).
    ///
    /// # Cost
    /// None on a warm handle; else what reading the table's log costs.
    pub async fn table(&self, table: &str) -> Result<Arc<TableState>> {
        let (schema, name) = name::parts(table);
        let id = self.inner.find(schema, name)?.id;
        Ok(self.inner.table(id).await?)
    }

    /// The number of rows of a table, from its log alone; `None` when a file without
    /// statistics is among its files.
    pub async fn row_count(&self, table: &str) -> Result<Option<u64>> {
        Ok(self.table(table).await?.live_rows())
    }

    /// The snapshot below this cover.
    pub fn inner(&self) -> &tarndb_db::Snapshot {
        &self.inner
    }
}
