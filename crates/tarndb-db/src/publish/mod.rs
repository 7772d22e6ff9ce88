//! Publishing: committed table versions become files of the tables' own logs.
//!
//! Invariant: per table in version order, put-if-absent of the exact bytes in the record, so
//! that anyone may do it, twice, concurrently, after any crash. A file with other content is
//! never overwritten: the table is diverged and holds back nothing else. Publishing never
//! decides whether something is committed, and its failure never fails a commit.
//! Spec: docs/format/publishing.md.

mod beside;
mod due;
pub(crate) mod probe;
mod table;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use tarndb_types::{DbVersion, TableId, TableVersion};

use crate::catalog::{Catalog, TableEntry};
use crate::database::{Database, Inner};
use crate::error::{DbError, Divergence};
use crate::options::PublishMode;
use crate::transaction::Committed;
use crate::upkeep;

pub use due::CheckpointReport;
pub(crate) use due::learn_published;
pub(crate) use probe::{Probed, probe_published};

/// Tables published at the same time.
const TABLES_AT_ONCE: usize = 8;

/// What a publishing pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishReport {
    /// Per table, in the order of their ids.
    pub tables: Vec<PublishedTable>,
    /// Tables that a foreign writer changed.
    pub diverged: Vec<Divergence>,
}

impl PublishReport {
    /// Versions written by this pass.
    pub fn versions_written(&self) -> u64 {
        self.tables.iter().map(|table| table.versions_written).sum()
    }
}

/// One table of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedTable {
    /// The table.
    pub id: TableId,
    /// `schema.name`.
    pub name: String,
    /// Published up to here.
    pub published: TableVersion,
    /// Versions written by this pass; others were there already.
    pub versions_written: u64,
}

/// What a handle knows about publishing.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    state: Mutex<State>,
    wake: Arc<tokio::sync::Notify>,
    /// One pass, or one round of due checkpoints, at a time.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    diverged: BTreeMap<TableId, Divergence>,
    /// Versions that this handle committed: nobody else is likely to publish them first.
    own: BTreeSet<(TableId, TableVersion)>,
    /// What an opening handle found unpublished is still to be published.
    found_due: bool,
    worker_started: bool,
    committed_any: bool,
    catalog_checkpoint_due: bool,
    table_checkpoints_due: BTreeMap<TableId, TableVersion>,
    last_error: Option<String>,
}

impl Publisher {
    pub(crate) fn divergence(&self, id: TableId) -> Option<Divergence> {
        self.lock().diverged.get(&id).cloned()
    }

    pub(crate) fn note_divergence(&self, found: Divergence) {
        self.lock().diverged.entry(found.table).or_insert(found);
    }

    /// The last failure of background work, if nothing succeeded since.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.lock().last_error.clone()
    }

    /// The table as of its newest version that this handle committed; `None` when there is
    /// none to publish.
    fn up_to_own(&self, mut table: Arc<TableEntry>) -> Option<Arc<TableEntry>> {
        let range = (table.id, table.first_unpublished())..=(table.id, table.version);
        let newest = self
            .lock()
            .own
            .range(range)
            .next_back()
            .map(|(_, version)| *version)?;
        Arc::make_mut(&mut table).version = newest;
        Some(table)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Database {
    /// Publishes every table version that is not published yet.
    ///
    /// # Errors
    /// The first failure of the store, after all tables were tried. Diverged tables are in the
    /// report, not an error.
    ///
    /// # Cost
    /// A refresh; per table with something to do a GET or LIST to see what others published,
    /// and a PUT per version.
    pub async fn publish(&self) -> Result<PublishReport, DbError> {
        self.inner.check_open()?;
        self.inner.refresh().await?;
        crate::commit::check_writable(&self.inner.head.catalog())?;
        let report = pass(&self.inner, Scope::Everything).await?;
        let _turn = self.inner.publisher.turn.lock().await;
        due::write_table_checkpoints(&self.inner).await;
        Ok(report)
    }

    /// Writes a checkpoint of the catalog at the newest version, and of every table whose
    /// newest checkpoint is as many published versions old as the options say.
    ///
    /// # Cost
    /// 2 PUTs; per table a GET of its hint, its checkpoint, and a GET or LIST when it is not
    /// known to be published.
    pub async fn checkpoint(&self) -> Result<CheckpointReport, DbError> {
        self.inner.check_open()?;
        self.inner.refresh().await?;
        due::checkpoint_all(&self.inner).await
    }
}

impl Database {
    /// Publishes a table and writes a checkpoint of its newest version, due or not; the
    /// catalog's too.
    ///
    /// # Errors
    /// [`DbError::TableNotFound`]; [`DbError::Diverged`]; those of the store.
    ///
    /// # Cost
    /// That of publishing, and the PUTs of two checkpoints.
    pub async fn checkpoint_table(&self, id: TableId) -> Result<CheckpointReport, DbError> {
        self.inner.check_open()?;
        self.snapshot().await?.entry(id)?;
        publish_now(&self.inner, id).await?;
        due::checkpoint_one(&self.inner, id).await
    }
}

/// How much a pass publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// All that the head knows.
    Everything,
    /// Versions up to the newest that this handle committed: later ones are their
    /// committers' to publish.
    Own,
}

/// Publishes what is in the scope and not published yet.
async fn pass(inner: &Inner, scope: Scope) -> Result<PublishReport, DbError> {
    let _turn = inner.publisher.turn.lock().await;
    let catalog = inner.head.catalog();
    let todo: Vec<Arc<TableEntry>> = unpublished(&catalog)
        .filter(|table| inner.publisher.divergence(table.id).is_none())
        .filter_map(|table| match scope {
            Scope::Everything => Some(table),
            Scope::Own => inner.publisher.up_to_own(table),
        })
        .collect();
    let mut results: Vec<_> = futures::stream::iter(todo)
        .map(|table| async move { (table.display_name(), publish_table(inner, &table).await) })
        .buffer_unordered(TABLES_AT_ONCE)
        .collect()
        .await;
    results.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut report = PublishReport::default();
    let mut failed = Vec::new();
    let mut first = None;
    for (name, result) in results {
        match result {
            Ok(Some(published)) => report.tables.push(published),
            Ok(None) => {}
            Err(error) => {
                failed.push(name);
                first = first.or(Some(error));
            }
        }
    }
    report.diverged = inner.publisher.lock().diverged.values().cloned().collect();
    match first {
        None => {
            inner.publisher.lock().last_error = None;
            Ok(report)
        }
        Some(error) => {
            inner.publisher.lock().last_error = Some(error.to_string());
            Err(DbError::PublishFailed {
                tables: failed.join(", "),
                source: Box::new(error),
            })
        }
    }
}

/// Publishes one table. Where the record of a version is gone the version was published, by
/// somebody whose checkpoint says so: then what is left is known anew.
async fn publish_table(
    inner: &Inner,
    table: &TableEntry,
) -> Result<Option<PublishedTable>, DbError> {
    match table::publish(inner, table).await {
        Err(DbError::RecordMissing { missing, .. }) if inner.adopt_checkpoint(missing).await? => {
            let catalog = inner.head.catalog();
            match catalog.table_or_dropped(table.id) {
                Some(known) if known.unpublished() > 0 => table::publish(inner, known).await,
                _ => Ok(None),
            }
        }
        other => other,
    }
}

/// Publishes all that is committed of one table, whatever the options say.
///
/// # Errors
/// The store's; [`DbError::Diverged`].
pub(crate) async fn publish_now(inner: &Inner, id: TableId) -> Result<(), DbError> {
    let _turn = inner.publisher.turn.lock().await;
    let catalog = inner.head.catalog();
    let Some(table) = catalog.table_or_dropped(id) else {
        return Ok(());
    };
    if inner.publisher.divergence(id).is_none() && table.unpublished() > 0 {
        publish_table(inner, table).await?;
    }
    match inner.publisher.divergence(id) {
        None => Ok(()),
        Some(found) => Err(DbError::Diverged {
            table: table.display_name(),
            version: found.version,
            key: found.key,
        }),
    }
}

/// Tables with versions not known to be published, dropped ones included.
fn unpublished(catalog: &Catalog) -> impl Iterator<Item = Arc<TableEntry>> {
    let tables = catalog.tables().chain(catalog.dropped_tables());
    tables
        .filter(|table| table.unpublished() > 0)
        .map(Arc::clone)
}

/// Sees that a commit gets published.
pub(crate) async fn after_commit(
    inner: &Arc<Inner>,
    mut committed: Committed,
) -> Result<Committed, DbError> {
    if committed.attempts == 0 {
        return Ok(committed);
    }
    match inner.options.publish {
        // The leader of the commit woke the worker.
        PublishMode::Async | PublishMode::Manual => {}
        PublishMode::Sync => {
            if let Err(error) = work(inner).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "publishing failed"
                );
                committed
                    .notices
                    .push(format!("committed, but not published yet: {error}"));
            }
        }
    }
    Ok(committed)
}

/// Sees to publishing in the background after a commit.
pub(crate) fn wake(inner: &Arc<Inner>) {
    if inner.options.publish == PublishMode::Async {
        worker::wake(inner);
    }
}

/// Notes what a commit made, for publishing; before anything else can happen to its caller.
pub(crate) fn note_commit(
    inner: &Inner,
    version: DbVersion,
    entries: impl IntoIterator<Item = (TableId, TableVersion)>,
) {
    let entries: Vec<_> = entries.into_iter().collect();
    upkeep::note_commit(inner, version, entries.iter().copied());
    let interval = inner.options.checkpoint_interval;
    let mut state = inner.publisher.lock();
    state.committed_any = true;
    state.own.extend(entries);
    if interval > 0 && version.0.is_multiple_of(interval) {
        state.catalog_checkpoint_due = true;
    }
}

/// Publishes and writes what checkpoints are due.
async fn work(inner: &Inner) -> Result<(), DbError> {
    let found_due = inner.publisher.lock().found_due;
    let scope = if found_due {
        Scope::Everything
    } else {
        Scope::Own
    };
    let published = pass(inner, scope).await;
    if found_due && published.is_ok() {
        inner.publisher.lock().found_due = false;
    }
    due::write_due(inner).await;
    published.map(|_| ())
}

/// Notes what an opening handle found unpublished: it is published in the background, or with
/// the first commit when the handle is to do nothing by itself before.
pub(crate) fn after_open(inner: &Arc<Inner>) {
    if !inner.head.catalog().has_unpublished() {
        return;
    }
    inner.publisher.lock().found_due = true;
    if inner.options.background && inner.options.publish == PublishMode::Async {
        worker::wake(inner);
    }
}

/// Ends the background work of a handle: all that it committed is published, or an error.
pub(crate) async fn flush(inner: &Inner) -> Result<(), DbError> {
    let committed_any = inner.publisher.lock().committed_any;
    inner.publisher.wake.notify_one();
    if !committed_any || inner.options.publish == PublishMode::Manual {
        return Ok(());
    }
    work(inner).await?;
    let diverged = inner.publisher.lock().diverged.values().next().cloned();
    match diverged {
        None => Ok(()),
        Some(found) => {
            let catalog = inner.head.catalog();
            let table = catalog.table_or_dropped(found.table);
            let table = table.map_or_else(|| found.table.to_string(), |t| t.display_name());
            Err(DbError::Diverged {
                table,
                version: found.version,
                key: found.key,
            })
        }
    }
}
