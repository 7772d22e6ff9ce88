//! Publishing one table.
//!
//! Invariant: version v is put only when v-1 is known to be published; the first file that is
//! not ours ends it.
//! Spec: docs/format/publishing.md.

use tarndb_storage::PutOutcome;
use tarndb_types::TableVersion;

use super::PublishedTable;
use super::probe::{Probed, is_ours, our_file, probe_published};
use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::{DbError, Divergence};

/// What putting one version came to.
enum Put {
    Written,
    WasThere,
    Foreign(String),
}

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
    for version in (first..=table.version.0).map(TableVersion) {
        match put(inner, table, version).await {
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
        inner.head.note_published(table.id, version);
    }
    tracing::debug!(target: "tarndb::step", table = %table.id, "publish.end");
    result?;
    let published = published.unwrap_or_default();
    forget_own(inner, table, published);
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
                inner.head.note_published(table.id, version);
            }
            Ok(Some(published))
        }
        Probed::Diverged(found) => {
            diverged(inner, table, found);
            Ok(None)
        }
    }
}

async fn put(inner: &Inner, table: &TableEntry, version: TableVersion) -> Result<Put, DbError> {
    let (key, bytes) = our_file(inner, table, version).await?;
    let outcome = inner.store.put_if_absent(&key, bytes).await?;
    if let PutOutcome::Created = outcome {
        return Ok(Put::Written);
    }
    match (is_ours(inner, table, version).await?, outcome) {
        (Some(true), _) => Ok(Put::WasThere),
        (Some(false), _) => Ok(Put::Foreign(key.to_string())),
        // Not there: the next pass sends the same bytes again.
        (None, PutOutcome::Unknown(error)) => Err(error.into()),
        (None, _) => Err(tarndb_storage::StoreError::NotFound {
            key: key.to_string(),
        }
        .into()),
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

fn note_checkpoint_due(inner: &Inner, table: &TableEntry, version: TableVersion) {
    let interval = inner.options.table_checkpoint_interval;
    if interval > 0 && version.0 > 0 && version.0.is_multiple_of(interval) {
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
