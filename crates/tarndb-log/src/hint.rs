//! The file that names a recent checkpoint.
//!
//! Invariant: a hint only saves work. It may be stale, missing, torn or wrong, and whoever
//! reads it must come to the same answer without it.
//! Spec: docs/format/log.md, "_last_checkpoint".

use bytes::Bytes;
use object_store::path::Path;
use tarndb_storage::{Store, StoreError};

/// The version that a hint names; `None` for anything unreadable. One request.
pub async fn read_hint(store: &Store, key: &Path) -> Option<u64> {
    let bytes = match store.get(key).await {
        Ok(bytes) => bytes?,
        Err(error) => {
            tracing::debug!(%key, %error, "hint not read");
            return None;
        }
    };
    parse_hint(&bytes)
}

/// The number under the key `version` of a JSON object; `None` for anything else.
pub fn parse_hint(bytes: &[u8]) -> Option<u64> {
    let value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    value.get("version")?.as_u64()
}

/// Writes a hint, replacing the last one. One request.
///
/// # Errors
/// The store did not take it. Callers may go on: a hint is only a hint.
pub async fn write_hint(store: &Store, key: &Path, version: u64) -> Result<(), StoreError> {
    store
        .put(key, Bytes::from(format!("{{\"version\":{version}}}\n")))
        .await
}

#[cfg(test)]
mod tests;
