//! Which files the retained versions of the database name.
//!
//! Invariant: per table everything that is live at the oldest version that must stay readable
//! (that of the horizon, or the newest published one when that is older), and everything that a
//! commit after it adds. That covers each version in between and the newest. Reads only.
//! Spec: docs/format/log.md, "Vacuum".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_storage::Path;
use tarndb_table::References;
use tarndb_table::codec::Entry;
use tarndb_types::{DbVersion, TableId, TableVersion};

use super::plan::{absolute_key, relative_key, split};
use crate::catalog::{Catalog, TableEntry};
use crate::database::Inner;
use crate::error::DbError;
use crate::record::{EntryBody, RowMapNote, TableEntryAction};

/// Records read at the same time.
const RECORDS_PARALLEL: usize = 16;

/// What retained versions name, by the key of the file.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) tables: BTreeMap<TableId, TableNames>,
    /// Files that some table names outside its own folder: clones share those of their sources.
    pub(super) elsewhere: BTreeSet<Path>,
}

/// What the retained versions of one table name.
#[derive(Debug, Default)]
pub(super) struct TableNames {
    pub(super) referenced: BTreeSet<Path>,
    pub(super) removed: BTreeSet<Path>,
    /// The oldest version that must stay readable; `None`: all of them.
    pub(super) oldest: Option<TableVersion>,
}

/// The span of versions in question.
#[derive(Debug)]
pub(super) struct Span<'a> {
    /// The catalog at the horizon.
    pub(super) horizon: &'a Catalog,
    /// The newest one, which knows what is published.
    pub(super) newest: &'a Arc<Catalog>,
    /// Those of tags below the horizon.
    pub(super) tagged: &'a [Catalog],
}

/// What the versions of the span name.
///
/// # Cost
/// The records after the horizon, the state of every table at the horizon.
///
/// # Errors
/// Whatever cannot be read: nothing may be deleted then.
pub(super) async fn gather(inner: &Inner, span: &Span<'_>) -> Result<Named, DbError> {
    let mut named = Named::default();
    let mut found = of_records(inner, span).await?;
    let newest = span.newest;
    for table in newest.tables().chain(newest.dropped_tables()) {
        if table.is_detached {
            continue;
        }
        let added = found.remove(&table.id).unwrap_or_default();
        let (mut references, mut oldest) = match newest.goes_at(table, span.horizon.version()) {
            true => (of_dropped(inner, table).await, None),
            false => of_table(inner, span, table, added).await?,
        };
        for tagged in span.tagged {
            let Some(then) = tagged.table(table.id) else {
                continue;
            };
            references.extend(of_version(inner, table, then.version).await?);
            oldest = Some(oldest.map_or(then.version, |oldest| oldest.min(then.version)));
        }
        let (referenced, removed, outside) = split(&table.location, references);
        for file in &outside {
            let relative = relative_key(&table.location, file);
            named.elsewhere.extend(relative);
            named.elsewhere.extend(keys_of(inner, newest, file));
        }
        let names = TableNames {
            referenced,
            removed,
            oldest,
        };
        named.tables.insert(table.id, names);
    }
    Ok(named)
}

/// The keys of a file that a table names by an absolute path: in the root, and in each table
/// outside in which it lies.
fn keys_of(inner: &Inner, newest: &Catalog, file: &str) -> Vec<Path> {
    let attached = newest.tables().filter_map(|table| {
        let url = table.attached.as_ref()?.url.as_deref()?;
        let rest = absolute_key(url, file)?;
        Path::parse(format!("{}/{rest}", table.location)).ok()
    });
    let inside = absolute_key(inner.store.url(), file);
    attached.chain(inside).collect()
}

/// What the commits of records after the horizon add, by table.
async fn of_records(
    inner: &Inner,
    span: &Span<'_>,
) -> Result<BTreeMap<TableId, References>, DbError> {
    let mut found: BTreeMap<TableId, References> = BTreeMap::new();
    let versions = span.horizon.version().0 + 1..=span.newest.version().0;
    let mut records = futures::stream::iter(versions)
        .map(|version| inner.record(DbVersion(version)))
        .buffered(RECORDS_PARALLEL);
    while let Some(record) = records.try_next().await? {
        for (_, action) in record.entries() {
            let Some(table) = span.newest.table_or_dropped(action.table) else {
                continue;
            };
            let references = of_entry(inner, table, action, record.version).await?;
            found.entry(action.table).or_default().extend(references);
        }
    }
    Ok(found)
}

/// What an entry names: what it adds, where its own lines are, its row map.
async fn of_entry(
    inner: &Inner,
    table: &TableEntry,
    action: &TableEntryAction,
    position: DbVersion,
) -> Result<References, DbError> {
    let lines = match &action.body {
        EntryBody::Inline(entry) => Arc::clone(entry),
        EntryBody::Staged(_) => inner.entry_at(table, action.version, position).await?,
    };
    let mut references = of_lines(inner, table, &lines)?;
    if let EntryBody::Staged(staged) = &action.body {
        references.files.insert(staged.path.clone());
    }
    references.files.extend(row_map(action));
    Ok(references)
}

fn of_lines(inner: &Inner, table: &TableEntry, entry: &Entry) -> Result<References, DbError> {
    let name = table.display_name();
    let codec = inner.codec(&table.format, &name)?;
    let references = codec.entry_references(entry);
    references.map_err(DbError::table(name))
}

/// The file of an entry's row map.
fn row_map(action: &TableEntryAction) -> Option<String> {
    match action.notes.as_ref()?.row_map.as_ref()? {
        RowMapNote::File(path) => Some(path.clone()),
        RowMapNote::Inline(_) => None,
    }
}

/// Everything that retained versions of a table name; `added`: what records after the horizon
/// add to it.
async fn of_table(
    inner: &Inner,
    span: &Span<'_>,
    table: &Arc<TableEntry>,
    added: References,
) -> Result<(References, Option<TableVersion>), DbError> {
    let mut references = added;
    let at_horizon = span.horizon.table_or_dropped(table.id);
    let at_horizon = at_horizon.map(|table| table.version);
    let oldest = at_horizon.and_then(|version| Some(version.min(table.published?)));
    if let Some(oldest) = oldest {
        references.extend(of_version(inner, table, oldest).await?);
    }
    // What was not published at the horizon is in records that were kept for it.
    let Some(at_horizon) = at_horizon else {
        return Ok((references, oldest));
    };
    let first = oldest.map_or(0, |oldest| oldest.0 + 1);
    for version in (first..=at_horizon.0).map(TableVersion) {
        let position = table.position(version).ok_or(DbError::Internal {
            what: "the record of an unpublished version is not known",
        })?;
        let record = inner.record(position).await?;
        let action = record.entry(table.id, version).ok_or(DbError::Internal {
            what: "a record lacks the version the catalog found",
        })?;
        references.extend(of_entry(inner, table, action, position).await?);
    }
    Ok((references, oldest))
}

/// What is live at a version of a table, or removed and known.
async fn of_version(
    inner: &Inner,
    table: &Arc<TableEntry>,
    version: TableVersion,
) -> Result<References, DbError> {
    let mut then = TableEntry::clone(table);
    then.version = version;
    let state = inner.table_state(&Arc::new(then)).await?;
    let name = table.display_name();
    let codec = inner.codec(&table.format, &name)?;
    codec.references(&state).map_err(DbError::table(name))
}

/// The files that a dropped table's log knows, all of them removed now; none when its log is
/// gone already.
async fn of_dropped(inner: &Inner, table: &Arc<TableEntry>) -> References {
    let known = async {
        let state = inner.table_state(table).await?;
        let name = table.display_name();
        let codec = inner.codec(&table.format, &name)?;
        codec.references(&state).map_err(DbError::table(name))
    };
    match known.await {
        Ok(known) => References {
            files: BTreeSet::new(),
            removed: known.files.into_iter().chain(known.removed).collect(),
        },
        Err(error) => {
            tracing::debug!(table = table.display_name(), %error, "the log of a dropped table is gone");
            References::default()
        }
    }
}

/// The keys of the row maps of `table` that records still name.
///
/// # Cost
/// Every record that is there and not cached.
pub(super) async fn row_maps(
    inner: &Inner,
    table: &TableEntry,
    (oldest, newest): (DbVersion, DbVersion),
) -> Result<BTreeSet<Path>, DbError> {
    let mut keys = BTreeSet::new();
    let mut records = futures::stream::iter(oldest.0.max(1)..=newest.0)
        .map(|version| async move {
            match inner.record(DbVersion(version)).await {
                // The record of the oldest version itself need not be there.
                Err(DbError::RecordMissing { .. }) => Ok(None),
                other => other.map(Some),
            }
        })
        .buffered(RECORDS_PARALLEL);
    while let Some(record) = records.try_next().await? {
        let Some(record) = record else { continue };
        let entries = record.entries().map(|(_, action)| action);
        for action in entries.filter(|action| action.table == table.id) {
            if let Some(path) = row_map(action) {
                let key = tarndb_table::data_key(&table.location, &path);
                keys.extend(key.ok());
            }
        }
    }
    Ok(keys)
}
