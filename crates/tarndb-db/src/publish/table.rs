//! Publishing one table.
//!
//! Invariant: version v is put only when v-1 is known to be published and the data files that
//! ride in its record are stored at their paths; the first object that is not ours ends it.
//! Spec: docs/format/publishing.md.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use tarndb_storage::{Path, PutOutcome, StoreError};
use tarndb_types::TableVersion;

use super::PublishedTable;
use super::probe::{Probed, our_file, probe_published};
use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::{DbError, Divergence};

/// Attempts at putting one version before the pass ends.
const PUT_ATTEMPTS: u32 = 5;
/// The pause after the first attempt; later ones are multiples of it.
const PUT_PAUSE: Duration = Duration::from_millis(20);

/// What putting one version came to.
enum Put {
    Written,
    WasThere,
    Foreign(String),
}

/// Versions whose data files are stored ahead of the one that is put.
const FILES_AHEAD: usize = 8;

/// Publishes all versions of a table up to the one that `table` states; `None` when it turned
/// out to be diverged.
pub(super) async fn publish(
    inner: &Inner,
    table: &TableEntry,
) -> Result<Option<PublishedTable>, DbError> {
    let Some(mut published) = skip_published(inner, table).await? else {
        return Ok(None);
    };
    let mut versions_written = 0;
    let first = published.map_or(0, |version| version.0 + 1);
    tracing::debug!(target: "tarndb::step", table = %table.id, first, "publish.begin");
    let mut result = Ok(());
    let stored = (first..=table.version.0)
        .map(TableVersion)
        .map(|version| async move { (version, store_files(inner, table, version).await) });
    let mut stored = futures::stream::iter(stored).buffered(FILES_AHEAD);
    while let Some((version, files)) = stored.next().await {
        let version_put = match files {
            Ok(Put::Foreign(key)) => Ok(Put::Foreign(key)),
            Ok(_) => put_version(inner, table, version).await,
            Err(error) => Err(error),
        };
        match version_put {
            Ok(Put::Written) => {
                versions_written += 1;
                note_checkpoint_due(inner, table, version);
            }
            Ok(Put::WasThere) => {}
            Ok(Put::Foreign(key)) => {
                diverged(
                    inner,
                    table,
                    Divergence {
                        table: table.id,
                        version,
                        key,
                    },
                );
                return Ok(None);
            }
            Err(error) => {
                result = Err(error);
                break;
            }
        }
        published = Some(version);
        inner.note_published(table.id, version);
    }
    tracing::debug!(target: "tarndb::step", table = %table.id, "publish.end");
    result?;
    let published = published.unwrap_or_default();
    forget_own(inner, table, published);
    if versions_written > 0 {
        super::beside::write(inner, table, TableVersion(first), published).await;
    }
    Ok(Some(PublishedTable {
        id: table.id,
        name: table.display_name(),
        published,
        versions_written,
    }))
}

/// What is published after a look at what others did: `None` when the table is diverged.
/// Versions that this handle committed itself are not looked for.
async fn skip_published(
    inner: &Inner,
    table: &TableEntry,
) -> Result<Option<Option<TableVersion>>, DbError> {
    let range = table.first_unpublished().0..=table.version.0;
    let newest_foreign = {
        let state = inner.publisher.lock();
        range
            .rev()
            .map(TableVersion)
            .find(|version| !state.own.contains(&(table.id, *version)))
    };
    let Some(newest_foreign) = newest_foreign else {
        return Ok(Some(table.published));
    };
    match probe_published(inner, table, newest_foreign).await? {
        Probed::UpTo(published) => {
            if let Some(version) = published {
                inner.note_published(table.id, version);
            }
            Ok(Some(published))
        }
        Probed::Diverged(found) => {
            diverged(inner, table, found);
            Ok(None)
        }
    }
}

/// Stores the data files that ride in the record of a version.
async fn store_files(
    inner: &Inner,
    table: &TableEntry,
    version: TableVersion,
) -> Result<Put, DbError> {
    let mut all = Put::WasThere;
    for (key, bytes) in inner.inline_files(table, version).await? {
        tracing::debug!(target: "tarndb::step", key = %key, "inline_file.begin");
        let one = put(inner, &key, bytes).await?;
        tracing::debug!(target: "tarndb::step", key = %key, "inline_file.end");
        match one {
            Put::Written => all = Put::Written,
            Put::WasThere => {}
            Put::Foreign(key) => return Ok(Put::Foreign(key)),
        }
    }
    Ok(all)
}

async fn put_version(
    inner: &Inner,
    table: &TableEntry,
    version: TableVersion,
) -> Result<Put, DbError> {
    let (key, bytes) = our_file(inner, table, version).await?;
    put(inner, &key, bytes).await
}

/// Puts one object. A store may say "exists" of what it does not hold (two requests at once),
/// or nothing at all: what it holds decides, and the same bytes are sent again.
async fn put(inner: &Inner, key: &Path, bytes: Bytes) -> Result<Put, DbError> {
    // What this handle holds in memory says nothing about what is stored.
    let store = inner.store.direct();
    let mut attempt = 0;
    loop {
        attempt += 1;
        let outcome = store.put_if_absent(key, bytes.clone()).await?;
        if let PutOutcome::Created = outcome {
            return Ok(Put::Written);
        }
        match store.get(key).await? {
            Some(found) if found == bytes => return Ok(Put::WasThere),
            Some(_) => return Ok(Put::Foreign(key.to_string())),
            None if attempt < PUT_ATTEMPTS => {
                let pause = inner.context().jittered(PUT_PAUSE * attempt);
                inner.context().sleep(pause).await;
            }
            // The next pass goes on here.
            None => {
                return Err(match outcome {
                    PutOutcome::Unknown(error) => error.into(),
                    _ => StoreError::contradicted("publish an object", key).into(),
                });
            }
        }
    }
}

fn diverged(inner: &Inner, table: &TableEntry, found: Divergence) {
    tracing::error!(
        table = table.display_name(),
        version = found.version.0,
        key = found.key,
        "a foreign writer changed the table; it is not published any further"
    );
    inner.publisher.note_divergence(found);
}

/// Versions between two checkpoints of a table: its property, where its state is in memory, else
/// this handle's option; 0 where the option turns them off.
pub(super) fn checkpoint_interval(inner: &Inner, table: &TableEntry, version: TableVersion) -> u64 {
    let option = inner.options.table_checkpoint_interval;
    let told = property(inner, table, version, "delta.checkpointInterval");
    match told {
        Some(interval) if option > 0 && interval > 0 => interval,
        _ => option,
    }
}

/// The version before which checkpoints are kept: one of itself lets readers begin there.
const PROTECTED_BEFORE: &str = "delta.requireCheckpointProtectionBeforeVersion";

fn property(inner: &Inner, table: &TableEntry, version: TableVersion, key: &str) -> Option<u64> {
    let state = inner.caches.state(table.id, version)?;
    state.properties.get(key)?.trim().parse().ok()
}

fn note_checkpoint_due(inner: &Inner, table: &TableEntry, version: TableVersion) {
    let interval = checkpoint_interval(inner, table, version);
    let is_kept = inner.options.table_checkpoint_interval > 0
        && property(inner, table, version, PROTECTED_BEFORE) == Some(version.0);
    if is_kept || (interval > 0 && version.0 > 0 && version.0.is_multiple_of(interval)) {
        inner
            .publisher
            .lock()
            .table_checkpoints_due
            .insert(table.id, version);
    }
}

fn forget_own(inner: &Inner, table: &TableEntry, published: TableVersion) {
    let mut state = inner.publisher.lock();
    state
        .own
        .retain(|(id, version)| *id != table.id || *version > published);
}
