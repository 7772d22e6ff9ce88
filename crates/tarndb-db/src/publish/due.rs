//! Checkpoints that are due: of the catalog and of tables.
//!
//! Invariant: a table checkpoint is of a published version only; the catalog's may be of any.
//! They save work and carry no promise: a failure is logged and the next one is tried later.
//! Spec: docs/format/checkpoint.md.

use std::sync::Arc;

use tarndb_log::hint;
use tarndb_storage::Path;
use tarndb_table::codec::CheckpointInfo;
use tarndb_types::{DbVersion, TableId, TableVersion};

use super::table::checkpoint_interval;
use super::{Probed, probe_published};
use crate::catalog::{Catalog, TableEntry};
use crate::checkpoint;
use crate::database::Inner;
use crate::error::DbError;

/// What `Database::checkpoint` wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Version of the catalog checkpoint.
    pub catalog: DbVersion,
    /// Table checkpoints, with the tables' names.
    pub tables: Vec<(String, CheckpointInfo)>,
}

/// Writes what commits and publishing made due.
pub(super) async fn write_due(inner: &Inner) {
    // Whoever closes the handle waits here for a checkpoint that the worker is writing.
    let _turn = inner.publisher.turn.lock().await;
    let due = std::mem::take(&mut inner.publisher.lock().catalog_checkpoint_due);
    if due && let Err(error) = write_catalog(inner).await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "a catalog checkpoint could not be written"
        );
    }
    write_table_checkpoints(inner).await;
}

/// What others published is asked before: a checkpoint must not say for long that the newest
/// version of a table is in a record that a cleanup may remove.
async fn write_catalog(inner: &Inner) -> Result<(), DbError> {
    learn_published(inner).await?;
    checkpoint::write(&inner.store, &inner.head.catalog()).await
}

pub(super) async fn write_table_checkpoints(inner: &Inner) {
    let due = std::mem::take(&mut inner.publisher.lock().table_checkpoints_due);
    let catalog = inner.head.catalog();
    for (id, version) in due {
        // Nobody needs a checkpoint of a dropped table.
        let Some(table) = catalog.table(id) else {
            continue;
        };
        if let Err(error) = checkpoint_table(inner, table, version).await {
            tracing::warn!(
                table = table.display_name(),
                error = &error as &dyn std::error::Error,
                "a table checkpoint could not be written"
            );
        }
    }
}

/// Writes the catalog's checkpoint and those of tables that are far behind.
pub(super) async fn checkpoint_all(inner: &Inner) -> Result<CheckpointReport, DbError> {
    crate::commit::check_writable(&inner.head.catalog())?;
    learn_published(inner).await?;
    let catalog: Arc<Catalog> = inner.head.catalog();
    checkpoint::write(&inner.store, &catalog).await?;
    let mut tables = Vec::new();
    for table in catalog.tables() {
        let Some(published) = table.published else {
            continue;
        };
        if is_due(inner, table, published).await {
            let info = checkpoint_table(inner, table, published).await?;
            tables.push((table.display_name(), info));
        }
    }
    Ok(CheckpointReport {
        catalog: catalog.version(),
        tables,
    })
}

/// Writes the catalog's checkpoint and that of a table at its newest published version.
pub(super) async fn checkpoint_one(
    inner: &Inner,
    id: TableId,
) -> Result<CheckpointReport, DbError> {
    crate::commit::check_writable(&inner.head.catalog())?;
    let catalog: Arc<Catalog> = inner.head.catalog();
    checkpoint::write(&inner.store, &catalog).await?;
    let mut tables = Vec::new();
    if let Some(table) = catalog.table(id)
        && let Some(published) = table.published
    {
        let info = checkpoint_table(inner, table, published).await?;
        tables.push((table.display_name(), info));
    }
    Ok(CheckpointReport {
        catalog: catalog.version(),
        tables,
    })
}

/// Looks at what others published, so that the checkpoint does not hold on to old records.
pub(crate) async fn learn_published(inner: &Inner) -> Result<(), DbError> {
    let catalog = inner.head.catalog();
    for table in catalog.tables().chain(catalog.dropped_tables()) {
        let probed = match probe_published(inner, table, table.version).await {
            // Cleaned up, and so published.
            Err(DbError::RecordMissing { missing, .. })
                if inner.adopt_checkpoint(missing).await? =>
            {
                continue;
            }
            other => other?,
        };
        match probed {
            Probed::UpTo(Some(version)) => inner.note_published(table.id, version),
            Probed::UpTo(None) => {}
            Probed::Diverged(found) => inner.publisher.note_divergence(found),
        }
    }
    Ok(())
}

async fn is_due(inner: &Inner, table: &TableEntry, published: TableVersion) -> bool {
    let interval = checkpoint_interval(inner, table, published);
    if interval == 0 || published.0 < interval {
        return false;
    }
    let Ok(hint_key) = Path::parse(format!("{}/_delta_log/_last_checkpoint", table.location))
    else {
        return false;
    };
    // A hint above what we published is a foreign client's; ours is written all the same.
    match hint::read_hint(&inner.store, &hint_key).await {
        Some(last) if last <= published.0 => published.0 - last >= interval,
        _ => true,
    }
}

async fn checkpoint_table(
    inner: &Inner,
    table: &TableEntry,
    version: TableVersion,
) -> Result<CheckpointInfo, DbError> {
    let name = table.display_name();
    let codec = inner.codec(&table.format, &name)?;
    let mut at_version = table.clone();
    at_version.version = version;
    let state = inner.table_state(&at_version).await?;
    let info = codec
        .checkpoint(&inner.store, &table.location, &state)
        .await
        .map_err(DbError::table(name))?;
    Ok(info)
}
