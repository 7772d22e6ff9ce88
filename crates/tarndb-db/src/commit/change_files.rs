//! The files of the change data feed that a commit needs.
//!
//! Invariant: written once, before the first attempt, from the snapshot's rows and own rows;
//! what others do meanwhile changes none of these, or the commit conflicts. They tell all
//! changes of the commit, for a reader then looks at nothing else.
//! Does not: write any where the commit's own files tell the changes (appends, deletions by
//! vectors or of whole files, whole overwrites, compaction).
//! Spec: docs/format/delta.md, "Change data feed"; Delta PROTOCOL, "Add CDC File".

use tarndb_table::{ChangeFiles, DataFile, RowSet, TableError, Wanted};
use tarndb_types::TableId;

use crate::error::DbError;
use crate::transaction::{Overlay, Transaction};

/// Writes the files that the transaction's changes need.
///
/// # Cost
/// None for tables without a feed, or when the commit's own files tell the changes. Else the
/// changed rows are read (about two GETs per file) and written (1 PUT per partition).
pub(super) async fn write(txn: &mut Transaction) -> Result<(), DbError> {
    let tables: Vec<TableId> = txn.changes.changed_tables().map(|(id, _)| id).collect();
    for id in tables {
        let files = match txn.changes.overlays.get(&id) {
            Some(overlay) if needs_files(overlay) => write_table(txn, id, overlay).await?,
            _ => continue,
        };
        if let Some(overlay) = txn.changes.overlays.get_mut(&id) {
            overlay.change_files = files;
        }
    }
    Ok(())
}

fn needs_files(overlay: &Overlay) -> bool {
    overlay.state.has_change_feed()
        && overlay.base.is_some()
        && overlay.overwrite.is_none()
        && overlay.moved.is_none()
        && overlay.feed.needs_files()
}

async fn write_table(
    txn: &Transaction,
    id: TableId,
    overlay: &Overlay,
) -> Result<Vec<DataFile>, DbError> {
    let entry = txn.entry(id)?;
    let failed = |error: TableError| DbError::table(entry.display_name())(error);
    let (store, location) = (txn.inner().store.clone(), entry.location.clone());
    let mut told = ChangeFiles::new(store, location, &overlay.state).map_err(failed)?;
    let base = overlay.base.as_ref();
    let deleted = overlay
        .deletions
        .iter()
        .map(|(path, rows)| (path, rows.as_ref()));
    // A file that was written anew is no longer among the deletions, but what was deleted in
    // it before that belongs to it.
    let feed = &overlay.feed;
    for (path, rows) in deleted.chain(feed.left_out()) {
        let file = base.and_then(|base| base.files.get(path));
        let file = file.ok_or(DbError::Internal {
            what: "changed rows of a file that the snapshot does not have",
        })?;
        let change = |position| feed.change_of_deleted(path, position);
        let copied = told.copy(&file, Wanted::Only(rows), change).await;
        copied.map_err(failed)?;
    }
    for (path, file) in &overlay.adds {
        let Some(change) = feed.change_of_added(path) else {
            continue;
        };
        let none = RowSet::new();
        let gone = overlay.own_deletions.get(path);
        let gone = gone.map_or(&none, |rows| rows.as_ref());
        let copied = told.copy(file, Wanted::AllBut(gone), |_| change).await;
        copied.map_err(failed)?;
    }
    told.finish().await.map_err(failed)
}
