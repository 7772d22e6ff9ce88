//! The commit of a restored table: what of an earlier version is missing at the head, and whether
//! its files are still there.
//!
//! Invariant: the difference is taken from the head of each attempt anew; a file that is live with
//! the very vector that it had stays out of it. A version of which a vacuum may have deleted files
//! is never committed. Reads only.
//! Spec: docs/format/log.md, "Restoring a table" and "Vacuum".

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_table::restore::has;
use tarndb_table::{DataFile, Difference, RestoreReport, TableState, time_text};
use tarndb_types::TableId;

use super::encode::FileChanges;
use crate::catalog::Catalog;
use crate::database::Inner;
use crate::error::DbError;
use crate::record::Action;
use crate::transaction::restore::Restored;
use crate::transaction::tag::check_above_horizon;
use crate::transaction::undrop;
use crate::transaction::{Overlay, Transaction};
use crate::travel::check_kept_by;

/// What goes and comes when the head becomes what the transaction made of the version. Files in
/// which it deleted rows come without them, which is not told here.
pub(super) fn difference(overlay: &Overlay, restored: &Restored, head: &TableState) -> Difference {
    let mut difference = Difference::of(&head.files, &restored.files);
    for path in overlay.own_deletions.keys() {
        let Some(file) = restored.files.get(path) else {
            continue;
        };
        if let Some(live) = head
            .files
            .get(path)
            .filter(|live| has(&restored.files, live))
        {
            difference.goes.push(live);
            difference.comes.push(file);
        }
    }
    difference
}

/// The version that was meant, as other engines tell it.
pub(super) fn parameters(restored: &Restored) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::from([("version".to_owned(), restored.to.version.to_string())]);
    if let Some(at) = restored.at {
        parameters.insert("timestamp".to_owned(), time_text(at.0));
    }
    parameters
}

/// As other engines tell them of a RESTORE.
pub(super) fn metrics(files: &FileChanges, head: &TableState) -> BTreeMap<String, String> {
    let bytes = |files: &mut dyn Iterator<Item = &DataFile>| -> u64 {
        files.map(|file| file.size_bytes).sum()
    };
    let removed = bytes(&mut files.removes.iter().map(Arc::as_ref));
    let added = bytes(&mut files.adds.iter());
    let count = (head.files.len() + files.adds.len()).saturating_sub(files.removes.len());
    let report = RestoreReport {
        version: head.version,
        table_size_after_restore: (head.size_bytes() + added).saturating_sub(removed),
        num_of_files_after_restore: count as u64,
        num_removed_files: files.removes.len() as u64,
        num_restored_files: files.adds.len() as u64,
        removed_files_size: removed,
        restored_files_size: added,
    };
    let metrics = report.metrics().into_iter();
    metrics
        .map(|(key, value)| (key.to_owned(), value.to_string()))
        .collect()
}

/// Checks that the vacuums that `catalog` shows left alone the versions that the transaction
/// restores.
///
/// # Errors
/// [`crate::TravelError::Vacuumed`], which running the transaction again does not mend.
///
/// # Cost
/// None where nothing is restored; else the catalog at the vacuum's horizon.
pub(super) async fn check_kept(
    inner: &Inner,
    txn: &Transaction,
    catalog: &Catalog,
    covers: impl Fn(TableId) -> bool,
) -> Result<(), DbError> {
    for (id, overlay) in txn.changes.changed_tables() {
        if let Some(restored) = overlay.restored.as_ref().filter(|_| covers(id)) {
            let tagged = restored.tagged;
            if tagged.is_some_and(|version| catalog.is_version_tagged(version)) {
                continue;
            }
            check_kept_by(inner, catalog, txn.entry(id)?, restored.to.version).await?;
        }
    }
    Ok(())
}

/// Checks that the vacuums that `catalog` shows left alone what the transaction tags, and the
/// tables that it brings back.
///
/// # Errors
/// [`crate::ObjectError`], which running the transaction again does not mend.
pub(super) fn check_objects(txn: &Transaction, catalog: &Catalog) -> Result<(), DbError> {
    for action in &txn.changes.actions {
        match action {
            Action::CreateTag(tag) => check_above_horizon(catalog, tag.version)?,
            Action::UndropTable(undrop) => {
                if let Some(table) = catalog.table_or_dropped(undrop.id) {
                    undrop::check_kept(table)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
