//! `Snapshot`: the whole database at one version.
//!
//! Invariant: immutable; what it reads does not change, however many commits follow. Readers
//! never block writers.
//! Spec: docs/format/log.md, "Snapshots".

use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_table::codec::TableCodec;
use tarndb_table::{DataFile, Deletion, LiveRows, RowSet, Schema, TableState};
use tarndb_types::{DbVersion, TableId, TimestampMs};

use crate::catalog::{Catalog, TableEntry};
use crate::database::Database;
use crate::error::DbError;
use crate::open;
use crate::options::TxnOptions;
use crate::scan::{Scan, Scanned};
use crate::transaction::Transaction;

/// Live rows of the files of a scan, each batch with its file.
pub type ScannedRows<'a> = BoxStream<'a, Result<(Arc<DataFile>, LiveRows), DbError>>;

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

    /// A transaction that reads this snapshot, however old it is. Where it changes something, the
    /// commit judges all that was committed since.
    pub fn transaction(&self, options: TxnOptions) -> Transaction {
        Transaction::new(self.clone(), options)
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
    /// [`DbError::TableNotFound`]; [`DbError::TableDropped`].
    pub fn entry(&self, id: TableId) -> Result<&Arc<TableEntry>, DbError> {
        self.catalog
            .table(id)
            .ok_or_else(|| match self.catalog.table_or_dropped(id) {
                Some(dropped) => DbError::TableDropped {
                    name: dropped.display_name(),
                },
                None => DbError::TableNotFound {
                    name: id.to_string(),
                },
            })
    }

    /// A table's catalog entry, also of one that is dropped: a transaction may bring it back.
    fn any_entry(&self, id: TableId) -> Result<&Arc<TableEntry>, DbError> {
        let found = self.catalog.table_or_dropped(id);
        found.ok_or_else(|| DbError::TableNotFound {
            name: id.to_string(),
        })
    }

    /// The state of a table.
    ///
    /// # Cost
    /// None on a warm handle; else what the table's own log costs to read.
    ///
    /// # Errors
    /// [`DbError::TableNotFound`]; [`DbError::VersionVacuumed`] when a vacuum may have deleted
    /// files of the version.
    pub async fn table(&self, id: TableId) -> Result<Arc<TableState>, DbError> {
        let entry = self.entry(id)?;
        self.check_not_vacuumed(entry).await?;
        self.database.inner.table_state(entry).await
    }

    /// A vacuum that this handle knows of left the table's files at this version.
    async fn check_not_vacuumed(&self, entry: &TableEntry) -> Result<(), DbError> {
        let inner = &self.database.inner;
        let head = inner.head.catalog();
        let Some(newest) = head.table_or_dropped(entry.id) else {
            return Ok(());
        };
        let Some(horizon) = newest.vacuumed.filter(|horizon| *horizon > self.version()) else {
            return Ok(());
        };
        // No vacuum touches what a tag keeps.
        if head.is_version_tagged(self.version()) {
            return Ok(());
        }
        // Where nothing changed up to the horizon, its files are those that stay.
        if newest.version == entry.version && !newest.is_purged() {
            return Ok(());
        }
        let refused = || DbError::VersionVacuumed {
            table: entry.display_name(),
            wanted: self.version(),
            horizon,
        };
        let opened = open::load_at(&inner.store, &inner.log, horizon, head.version()).await;
        let at_horizon = opened.map_err(|_| refused())?.catalog;
        let kept = at_horizon.table(entry.id).map(|table| table.version);
        match kept == Some(entry.version) {
            true => Ok(()),
            false => Err(refused()),
        }
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
        let entry = self.any_entry(id)?;
        self.database.inner.deleted_rows(entry, deletion).await
    }

    /// The live rows of `files`, some or all of those of `state`, in that order; of them
    /// `columns`. Files are opened and fetched ahead, within a bound of memory.
    ///
    /// # Cost
    /// One ranged GET for each file up to 256 KiB; for a larger one a GET of its footer, unless
    /// this handle knows it, and about one ranged GET for each row group (64 MiB). One ranged
    /// GET for each stored deletion vector that this handle does not know. 16 files take two
    /// rounds of requests together.
    ///
    /// # Errors
    /// [`DbError::TableNotFound`]; in the stream those of the store, and damage.
    pub fn scan<'a>(
        &'a self,
        id: TableId,
        state: &'a TableState,
        columns: &'a Schema,
        files: Vec<Arc<DataFile>>,
    ) -> Result<ScannedRows<'a>, DbError> {
        let table = self.any_entry(id)?;
        let scan = Scan {
            table,
            columns,
            partition_columns: &state.partition_columns,
        };
        let scanned = self.database.inner.scan(scan, files);
        let rows = scanned.map_ok(move |Scanned { file, rows }| {
            rows.map(move |rows| match rows {
                Ok(rows) => Ok((Arc::clone(&file), rows)),
                Err(error) => Err(DbError::table(table.display_name())(error)),
            })
        });
        Ok(rows.try_flatten().boxed())
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
