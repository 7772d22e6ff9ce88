//! Vacuum: deleting the files that no retained version needs.
//!
//! Invariant: what is deleted was announced by a record first, so that a transaction that could
//! still name one of the files meets it and runs again; of what the record announces only files
//! go that the retained versions do not name. A vacuum that stops anywhere, is woken late or
//! runs twice deletes nothing else. A dry run does all but to announce and to delete.
//! Does not: clean up the database log (`cleanup`).
//! Spec: docs/format/log.md, "Vacuum"; docs/guide/maintenance.md.

mod announce;
pub(crate) mod horizon;
mod plan;
mod references;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_storage::{ObjectInfo, Path};
use tarndb_table::OwnFile;
use tarndb_table::codec::LogRequest;
use tarndb_table::own_file;
use tarndb_types::{DbVersion, TableId, TableVersion, TimestampMs};

pub use plan::{Doomed, Reason};

use crate::catalog::TableEntry;
use crate::check::Progress;
use crate::database::{Database, Inner};
use crate::error::DbError;
use crate::{clock, open};
use announce::{Announced, announce};
use plan::{TableView, plan};
use references::{Named, Span, gather, row_maps};

/// What a vacuum's own transaction says that it did.
pub(crate) const OPERATION: &str = "VACUUM";

/// The retention unless another is asked for.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
/// Files deleted at the same time.
const DELETIONS_PARALLEL: usize = 8;

/// What to vacuum.
#[derive(Clone, Debug)]
pub struct VacuumOptions {
    /// Versions that were current within this time stay readable, and no younger file goes.
    pub retention: Duration,
    /// Allows a retention below an hour (4 times [`crate::DbOptions::head_expiry`]). No commit is
    /// lost then either, but readers may lose the files of their snapshot.
    pub force: bool,
    /// Deletes nothing and tells what would go.
    pub dry_run: bool,
    /// The tables; `None`: all, and the folders of dropped ones.
    pub tables: Option<BTreeSet<TableId>>,
}

impl Default for VacuumOptions {
    fn default() -> Self {
        Self {
            retention: RETENTION,
            force: false,
            dry_run: false,
            tables: None,
        }
    }
}

/// What a vacuum did, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VacuumReport {
    /// The record that announced it; `None` for a dry run.
    pub version: Option<DbVersion>,
    /// The oldest database version that stays readable.
    pub horizon: DbVersion,
    /// No file that the store has had since this time or later went.
    pub before: TimestampMs,
    /// Per table, in the order of their ids.
    pub tables: Vec<TableVacuum>,
}

impl VacuumReport {
    /// Every file that went, or would go.
    pub fn files(&self) -> impl Iterator<Item = &Doomed> {
        self.tables.iter().flat_map(|table| &table.files)
    }
}

/// One table of a vacuum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableVacuum {
    /// The table.
    pub id: TableId,
    /// `schema.name`.
    pub name: String,
    /// Whether its folder goes because it was dropped.
    pub dropped: bool,
    /// Why it was left alone, if it was.
    pub skipped: Option<String>,
    /// The files that went, or would go, in that order.
    pub files: Vec<Doomed>,
}

impl Database {
    /// Deletes the files that no retained version needs.
    ///
    /// # Errors
    /// [`DbError::RetentionTooShort`]; damage, after which nothing was deleted; those of the
    /// store, after which some files may be. Running it again goes on.
    ///
    /// # Cancel safety
    /// A dropped call deleted some of the files.
    ///
    /// # Cost
    /// The records and table states that are retained, a record, a LIST per table and a DELETE
    /// per file.
    pub async fn vacuum(
        &self,
        options: &VacuumOptions,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<VacuumReport, DbError> {
        self.inner.check_open()?;
        self.check_retention(options)?;
        let begun = announce(self, options).await?;
        let vacuum = Vacuum::prepare(&self.inner, options, begun).await?;
        let mut tables = Vec::new();
        for table in vacuum.tables() {
            let vacuumed = vacuum.table(&table, &mut progress).await?;
            tables.extend(vacuumed);
        }
        Ok(VacuumReport {
            version: vacuum.begun.version,
            horizon: vacuum.begun.horizon,
            before: vacuum.begun.before,
            tables,
        })
    }

    fn check_retention(&self, options: &VacuumOptions) -> Result<(), DbError> {
        let min = self.inner.options.retention_min();
        if options.retention < min && !options.force {
            return Err(DbError::RetentionTooShort {
                asked_s: options.retention.as_secs(),
                min_s: min.as_secs(),
                forcible: true,
            });
        }
        Ok(())
    }
}

/// A vacuum that was announced, with all that retained versions name.
struct Vacuum<'a> {
    inner: &'a Arc<Inner>,
    options: &'a VacuumOptions,
    begun: Announced,
    named: Named,
}

impl<'a> Vacuum<'a> {
    async fn prepare(
        inner: &'a Arc<Inner>,
        options: &'a VacuumOptions,
        begun: Announced,
    ) -> Result<Self, DbError> {
        let newest = begun.newest.version();
        let horizon = open::load_at(&inner.store, &inner.log, begun.horizon, newest).await?;
        let mut tagged = Vec::new();
        let versions = begun.newest.tags().map(|tag| tag.version);
        for version in versions.filter(|version| *version < begun.horizon) {
            let mut catalog = open::load_at(&inner.store, &inner.log, version, newest)
                .await?
                .catalog;
            catalog.adopt_published(&begun.newest);
            tagged.push(catalog);
        }
        let span = Span {
            horizon: &horizon.catalog,
            newest: &begun.newest,
            tagged: &tagged,
        };
        let named = gather(inner, &span).await?;
        Ok(Self {
            inner,
            options,
            begun,
            named,
        })
    }

    /// The tables in question, by their ids.
    fn tables(&self) -> Vec<Arc<TableEntry>> {
        let catalog = &self.begun.newest;
        let all = catalog.tables().chain(catalog.dropped_tables());
        let wanted = |table: &&Arc<TableEntry>| match &self.options.tables {
            Some(tables) => tables.contains(&table.id),
            None => true,
        };
        // What was given back is nobody's to clean up.
        let ours = all.filter(|table| !table.is_detached);
        let mut tables: Vec<_> = ours.filter(wanted).cloned().collect();
        tables.sort_by_key(|table| table.id);
        tables
    }

    /// One table; `None` for one that was purged before and left nothing.
    async fn table(
        &self,
        table: &TableEntry,
        progress: &mut (impl FnMut(Progress) + Send),
    ) -> Result<Option<TableVacuum>, DbError> {
        let name = table.display_name();
        let mut vacuumed = TableVacuum {
            id: table.id,
            name: name.clone(),
            dropped: self.begun.newest.goes_at(table, self.begun.horizon),
            skipped: None,
            files: Vec::new(),
        };
        if let Some(found) = self.inner.publisher.divergence(table.id) {
            let why = format!("a foreign writer changed it: {}", found.key);
            vacuumed.skipped = Some(why);
            return Ok(Some(vacuumed));
        }
        let listing = self.inner.store.list_after(&table.location, None).await?;
        vacuumed.files = self.doomed(table, &listing).await?;
        if vacuumed.dropped && vacuumed.files.is_empty() {
            return Ok(None);
        }
        if !self.options.dry_run {
            self.delete(&name, &vacuumed.files, progress).await?;
        }
        Ok(Some(vacuumed))
    }

    async fn doomed(
        &self,
        table: &TableEntry,
        listing: &[ObjectInfo],
    ) -> Result<Vec<Doomed>, DbError> {
        let before = self.begun.before;
        let names = self.named.tables.get(&table.id).ok_or(DbError::Internal {
            what: "a table whose files were not looked up",
        })?;
        let is_purged = self.begun.newest.goes_at(table, self.begun.horizon);
        let referenced = names.referenced.union(&self.named.elsewhere);
        let mut view = TableView {
            location: &table.location,
            referenced: referenced.cloned().collect(),
            removed: names.removed.clone(),
            row_maps: None,
            is_purged,
        };
        if has_old_row_map(&view, listing, before) {
            let versions = (self.begun.oldest, self.begun.newest.version());
            view.row_maps = Some(row_maps(self.inner, table, versions).await?);
        }
        let mut doomed = plan(&view, listing, before);
        let is_shared = |object: &ObjectInfo| self.named.elsewhere.contains(&object.key);
        if is_purged && listing.iter().any(is_shared) {
            // Its log tells which files were its own, when the clones that need some are gone.
            doomed.retain(|file| !is_log(file));
        }
        if let Some(oldest) = names.oldest.filter(|_| !is_purged) {
            doomed.extend(self.expired_log(table, oldest, listing).await?);
        }
        Ok(doomed)
    }

    /// What of the table's own log goes.
    async fn expired_log(
        &self,
        table: &TableEntry,
        keep_from: TableVersion,
        listing: &[ObjectInfo],
    ) -> Result<Vec<Doomed>, DbError> {
        let name = table.display_name();
        let codec = self.inner.codec(&table.format, &name)?;
        let newest = self.inner.table_state(table).await?;
        let request = LogRequest {
            properties: &newest.properties,
            listing,
            keep_from,
            before: self.begun.before,
        };
        let planned = codec.plan_log_cleanup(&self.inner.store, &table.location, request);
        let planned = planned.await.map_err(DbError::table(name))?;
        let doomed = planned.files.into_iter().map(|object| Doomed {
            key: object.key,
            size_bytes: object.size_bytes,
            last_modified: object.last_modified,
            reason: Reason::ExpiredLog,
        });
        Ok(doomed.collect())
    }

    /// Data files some at a time, then what stands in the log one after the other, in its order:
    /// what is left of a log begins later and has no holes.
    async fn delete(
        &self,
        name: &str,
        files: &[Doomed],
        progress: &mut (impl FnMut(Progress) + Send),
    ) -> Result<(), DbError> {
        let store = &self.inner.store;
        let total = Some(files.len() as u64);
        let mut done = 0;
        let mut tell = || {
            done += 1;
            let stage = name.to_owned();
            progress(Progress { stage, done, total });
        };
        let data = files.iter().filter(|file| !is_log(file));
        let data: Vec<Path> = data.map(|file| file.key.clone()).collect();
        let mut deleted = futures::stream::iter(data)
            .map(|key| async move {
                tracing::debug!(target: "tarndb::step", %key, "vacuum_file.begin");
                store.delete(&key).await?;
                tracing::debug!(target: "tarndb::step", %key, "vacuum_file.end");
                Ok::<_, DbError>(())
            })
            .buffer_unordered(DELETIONS_PARALLEL);
        while deleted.try_next().await?.is_some() {
            tell();
        }
        for file in files.iter().filter(|file| is_log(file)) {
            tracing::debug!(target: "tarndb::step", key = %file.key, "vacuum_log.begin");
            store.delete(&file.key).await?;
            tracing::debug!(target: "tarndb::step", key = %file.key, "vacuum_log.end");
            tell();
        }
        Ok(())
    }
}

fn is_log(file: &Doomed) -> bool {
    file.key.as_ref().contains("/_delta_log/")
}

fn has_old_row_map(view: &TableView<'_>, listing: &[ObjectInfo], before: TimestampMs) -> bool {
    let prefix = format!("{}/", view.location);
    listing.iter().any(|object| {
        let path = object.key.as_ref().strip_prefix(&prefix);
        let is_map = path.and_then(own_file) == Some(OwnFile::RowMap);
        is_map && object.last_modified < before && !view.referenced.contains(&object.key)
    })
}

/// The store's time less the retention.
pub(crate) async fn time_before(
    inner: &Inner,
    retention: Duration,
) -> Result<TimestampMs, DbError> {
    let now = clock::store_time(&inner.store)
        .await?
        .ok_or(DbError::Internal {
            what: "the store does not show an object just written",
        })?;
    let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
    Ok(TimestampMs(now.0.saturating_sub(retention)))
}
