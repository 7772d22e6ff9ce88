//! What is there: versions, tables, publishing lag, files, bytes.
//!
//! Invariant: one snapshot; only what is published is looked up in the store as it is now.

use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TimestampMs};

use crate::catalog::TableEntry;
use crate::database::{Database, Inner};
use crate::error::{DbError, Divergence};
use crate::publish::{Probed, probe_published};

/// Tables looked at at the same time.
const TABLES_AT_ONCE: usize = 8;

/// The state of a database.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Where it lies, without secrets.
    pub url: String,
    /// Its identity.
    pub database: DatabaseId,
    /// Its version.
    pub version: DbVersion,
    /// When that was committed.
    pub timestamp: TimestampMs,
    /// Schemas, by folded name.
    pub schemas: Vec<String>,
    /// Live tables, by schema and name.
    pub tables: Vec<TableStatus>,
    /// The last failure of this handle's background work.
    pub background_error: Option<String>,
}

/// The state of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableStatus {
    /// Its identity.
    pub id: TableId,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its format.
    pub format: String,
    /// Folder of its files: relative to the root, or the URL of one outside.
    pub location: String,
    /// Its version.
    pub version: TableVersion,
    /// The version that foreign readers see; `None`: they see no table yet.
    pub published: Option<TableVersion>,
    /// What a foreign writer did, if anything.
    pub diverged: Option<Divergence>,
    /// When it was last changed.
    pub timestamp: TimestampMs,
    /// Live data files.
    pub files: u64,
    /// Live rows, when every file says how many it has.
    pub rows: Option<u64>,
    /// Bytes of the live data files.
    pub size_bytes: u64,
}

impl TableStatus {
    /// Committed versions that foreign readers do not see yet.
    pub fn unpublished(&self) -> u64 {
        match self.published {
            Some(published) => self.version.0.saturating_sub(published.0),
            None => self.version.0 + 1,
        }
    }
}

impl Database {
    /// The state of the database and its tables.
    ///
    /// # Cost
    /// A refresh; per table what its state costs, and a GET or LIST when it is not known to be
    /// published.
    pub async fn status(&self) -> Result<Status, DbError> {
        let snapshot = self.snapshot().await?;
        let catalog = snapshot.catalog();
        let mut entries = Vec::new();
        for schema in catalog.schemas() {
            entries.extend(catalog.tables_in(&schema.name).into_iter().cloned());
        }
        let inner = &self.inner;
        let tables = futures::stream::iter(entries)
            .map(|table| async move { table_status(inner, &table).await })
            .buffered(TABLES_AT_ONCE)
            .try_collect()
            .await?;
        Ok(Status {
            url: inner.store.url().to_owned(),
            database: catalog.database(),
            version: catalog.version(),
            timestamp: catalog.timestamp(),
            schemas: catalog
                .schemas()
                .map(|schema| schema.name.clone())
                .collect(),
            tables,
            background_error: inner.publisher.last_error(),
        })
    }
}

async fn table_status(inner: &Inner, table: &TableEntry) -> Result<TableStatus, DbError> {
    let (published, diverged) = published(inner, table).await?;
    let state = inner.table_state(table).await?;
    Ok(TableStatus {
        id: table.id,
        schema: table.schema.clone(),
        name: table.name.clone(),
        format: table.format.clone(),
        location: table.place().to_owned(),
        version: table.version,
        published,
        diverged,
        timestamp: table.timestamp,
        files: state.files.len() as u64,
        rows: state.live_rows(),
        size_bytes: state.size_bytes(),
    })
}

async fn published(
    inner: &Inner,
    table: &TableEntry,
) -> Result<(Option<TableVersion>, Option<Divergence>), DbError> {
    if let Some(found) = inner.publisher.divergence(table.id) {
        return Ok((found.version.previous(), Some(found)));
    }
    match probe_published(inner, table, table.version).await? {
        Probed::UpTo(published) => Ok((published, None)),
        Probed::Diverged(found) => {
            inner.publisher.note_divergence(found.clone());
            Ok((found.version.previous(), Some(found)))
        }
    }
}
