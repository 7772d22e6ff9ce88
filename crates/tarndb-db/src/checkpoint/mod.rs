//! Catalog checkpoints: the catalog at one version as an object of its own.
//!
//! Invariant: a checkpoint is a copy of what the records say; it is used only when its checksum
//! holds, it names the version of its file and the catalog in it keeps every invariant.
//! Anything else is an unusable checkpoint, never a wrong catalog.
//! Spec: docs/format/checkpoint.md.

mod decode;
mod encode;

use std::time::Duration;

use bytes::Bytes;
use futures::TryFutureExt as _;
use tarndb_log::hint;
use tarndb_storage::{Path, PutOutcome, Store, StoreError};
use tarndb_types::DbVersion;

pub use decode::{CheckpointError, decode};
pub use encode::encode;

use crate::catalog::Catalog;
use crate::error::DbError;
use crate::layout;

/// Attempts at writing a checkpoint that is not there, whatever the store says.
const PUT_ATTEMPTS: u32 = 5;
/// The pause after the first attempt; later ones are multiples of it.
const PUT_PAUSE: Duration = Duration::from_millis(20);

/// Writes the checkpoint of a catalog and the hint to it. A usable one that exists is left
/// alone; the hint never names one that was not seen.
///
/// # Cost
/// 2 PUTs; a GET more when somebody wrote it before.
///
/// # Errors
/// Whatever the store says; [`DbError::CheckpointUnusable`] when a damaged one is in the way.
/// Nothing is half-written.
pub async fn write(store: &Store, catalog: &Catalog) -> Result<(), DbError> {
    write_only(store, catalog).await?;
    hint::write_hint(store, &layout::hint_key(), catalog.version().0).await?;
    Ok(())
}

/// The same without the hint, which shall lead to the newest.
pub(crate) async fn write_only(store: &Store, catalog: &Catalog) -> Result<(), DbError> {
    let version = catalog.version();
    tracing::debug!(target: "tarndb::step", version = version.0, "checkpoint.begin");
    let bytes = encode(catalog)?;
    let key = layout::checkpoint_key(version);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let outcome = store.put_if_absent(&key, bytes.clone()).await?;
        if matches!(outcome, PutOutcome::Created) || read(store, version).await?.is_some() {
            break;
        }
        if attempt == PUT_ATTEMPTS {
            return Err(match outcome {
                PutOutcome::Unknown(error) => error,
                _ => StoreError::contradicted("write a checkpoint", &key),
            }
            .into());
        }
        let context = store.context();
        context.sleep(context.jittered(PUT_PAUSE * attempt)).await;
    }
    tracing::debug!(target: "tarndb::step", version = version.0, "checkpoint.end");
    Ok(())
}

/// Reads the checkpoint of a version: `Ok(None)` when it is not there.
///
/// # Cost
/// 1 GET.
///
/// # Errors
/// [`DbError::CheckpointUnusable`] when it is torn, lies or breaks an invariant.
pub async fn read(store: &Store, version: DbVersion) -> Result<Option<Catalog>, DbError> {
    let key = layout::checkpoint_key(version);
    let bytes: Option<Bytes> = store.get(&key).map_err(DbError::from).await?;
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    match decode(&bytes, version) {
        Ok(catalog) => Ok(Some(catalog)),
        Err(source) => Err(DbError::CheckpointUnusable {
            key: key.to_string(),
            source,
        }),
    }
}

/// Versions that have a checkpoint, ascending.
///
/// # Cost
/// 1 LIST.
pub async fn list(store: &Store) -> Result<Vec<DbVersion>, DbError> {
    let dir: Path = layout::checkpoint_dir();
    let objects = store.list_after(&dir, None).await?;
    Ok(objects
        .iter()
        .filter_map(|object| layout::parse_checkpoint_key(&object.key))
        .collect())
}

#[cfg(test)]
mod tests;
