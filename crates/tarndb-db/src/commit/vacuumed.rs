//! Whether files of a transaction may be gone, or about to go, by a vacuum that it met.
//!
//! Invariant: a vacuum deletes only files that the store has had since before the time that its
//! record names, and no retained version names. So a transaction that has its new files in the
//! store since then or later, by the store's own clock, may commit after it; any other may not.
//! A file written after the snapshot was read is younger than what vacuums below the snapshot
//! delete; one written before is looked at all the same. Reads only.
//! Spec: docs/format/log.md, "Vacuum".

use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_storage::Path;
use tarndb_table::{DataFile, data_key};
use tarndb_types::{DbVersion, TableId, TimestampMs};

use crate::catalog::Catalog;
use crate::database::Inner;
use crate::error::DbError;
use crate::record::{RowMapNote, VacuumAction};
use crate::transaction::{Overlay, Transaction};
use crate::travel::check_kept_since;

/// Files looked at at the same time.
const LOOKS_PARALLEL: usize = 16;

/// A file that a transaction is about to name, and whose table it is.
struct NewFile {
    table: TableId,
    key: Path,
}

/// Checks that the vacuum in record `version` leaves alone what the transaction wrote.
///
/// # Errors
/// [`DbError::FilesVacuumed`], which is retryable; those of the store.
///
/// # Cost
/// A HEAD per new file that is stored.
pub(super) async fn check(
    inner: &Inner,
    txn: &Transaction,
    version: DbVersion,
    before: TimestampMs,
    covers: impl Fn(TableId) -> bool,
) -> Result<(), DbError> {
    let files = new_files(txn, |_| true)?;
    let files = files.into_iter().filter(|file| covers(file.table));
    look(
        inner,
        &txn.changes.catalog,
        files.collect(),
        version,
        before,
    )
    .await
}

/// Checks that the vacuum leaves alone what the transaction's clones share with their sources:
/// it keeps the files of every version since its horizon, and later ones know the clones.
///
/// # Errors
/// [`crate::TravelError::Vacuumed`]; those of the store.
///
/// # Cost
/// None for the newest version of a source, unless the snapshot is older than the horizon; else
/// the catalog at the horizon.
pub(super) async fn check_clones(
    inner: &Inner,
    txn: &Transaction,
    vacuum: &VacuumAction,
) -> Result<(), DbError> {
    let catalog = txn.snapshot.catalog();
    for (_, overlay) in txn.changes.changed_tables() {
        let Some(cloned) = overlay.cloned.as_ref().filter(|cloned| cloned.is_shared) else {
            continue;
        };
        let source = cloned.source.and_then(|id| catalog.table_or_dropped(id));
        let Some(source) = source else {
            continue;
        };
        let bases = source
            .bases
            .iter()
            .filter_map(|base| catalog.at_location(base));
        let mut folders = bases.map(|table| table.id).chain([source.id]);
        let is_newest = cloned.version == source.version;
        let at_horizon = is_newest && vacuum.horizon <= catalog.version();
        if at_horizon || !folders.any(|id| vacuum.covers(id)) {
            continue;
        }
        check_kept_since(inner, source, cloned.version, vacuum.horizon).await?;
    }
    Ok(())
}

/// Checks files that were written before the transaction began against the newest vacuum that
/// its snapshot shows.
///
/// # Errors
/// As [`check`].
///
/// # Cost
/// None, but for files that were prepared earlier: a HEAD each.
pub(super) async fn check_prepared(inner: &Inner, txn: &Transaction) -> Result<(), DbError> {
    let Some(mark) = txn.snapshot.catalog().vacuum() else {
        return Ok(());
    };
    let began = txn.began.wall().0;
    let files = new_files(txn, |file| file.modification_time_ms < began)?;
    look(
        inner,
        &txn.changes.catalog,
        files,
        mark.version,
        mark.before,
    )
    .await
}

/// Stored files that the transaction adds. What rides in its record is stored by publishing, and
/// what the commit itself stores (vectors, staged entries) is stored anew for each attempt.
fn new_files(
    txn: &Transaction,
    wanted: impl Fn(&DataFile) -> bool,
) -> Result<Vec<NewFile>, DbError> {
    let mut files = Vec::new();
    for (table, overlay) in txn.changes.changed_tables() {
        let entry = txn.entry(table)?;
        let location = &entry.location;
        let mut looked_at = false;
        let changes = overlay.change_files.iter();
        let added = overlay.adds.values().map(AsRef::as_ref).chain(changes);
        // What is shared was there before, and is judged by the version that it belongs to.
        let added = added.filter(|file| file.beside.is_none());
        for file in added.filter(|file| wanted(file)) {
            looked_at = true;
            if file.unstored().is_none() {
                let key = file.key(location);
                let key = key.map_err(DbError::table(entry.display_name()))?;
                files.push(NewFile { table, key });
            }
        }
        if let Some(path) = row_map_file(overlay).filter(|_| looked_at) {
            let key = data_key(location, path).map_err(DbError::table(entry.display_name()))?;
            files.push(NewFile { table, key });
        }
    }
    Ok(files)
}

fn row_map_file(overlay: &Overlay) -> Option<&str> {
    match overlay.moved.as_ref()?.row_map.as_ref()? {
        (_, RowMapNote::File(path)) => Some(path),
        (_, RowMapNote::Inline(_)) => None,
    }
}

async fn look(
    inner: &Inner,
    catalog: &Catalog,
    files: Vec<NewFile>,
    vacuum: DbVersion,
    before: TimestampMs,
) -> Result<(), DbError> {
    // What this handle holds in memory says nothing about what is stored.
    let store = inner.store.direct();
    futures::stream::iter(files)
        .map(|file| {
            let store = &store;
            async move {
                let info = store.head(&file.key).await?;
                if info.is_some_and(|info| info.last_modified >= before) {
                    return Ok(());
                }
                let table = catalog.table_or_dropped(file.table);
                Err(DbError::FilesVacuumed {
                    table: table.map_or_else(|| file.table.to_string(), |t| t.display_name()),
                    file: file.key.to_string(),
                    vacuum,
                })
            }
        })
        .buffer_unordered(LOOKS_PARALLEL)
        .try_collect()
        .await
}
