//! Row maps on disk: in the record when small, else in a file beside the table's data.
//!
//! Invariant: a file is durable before a record names it and never changes. A map that cannot
//! be had is as good as none: the verdict is then the stricter one, never a guess.
//! Spec: docs/format/log.md, "Conflict notes".

use std::io::Read as _;
use std::sync::Arc;

use bytes::Bytes;
use tarndb_storage::{Path, Store};
use tarndb_table::data_key;
use tarndb_txn::RowMap;
use tarndb_types::Uuid;

use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;
use crate::record::{Notes, RowMapNote, encode_row_map, parse_row_map};

/// Bytes of JSON up to which a map travels in the record.
const INLINE_MAX: usize = 64 << 10;
/// Bytes of JSON that a file may hold: more than any rewrite's, less than memory.
const JSON_MAX: u64 = 1 << 30;
const ZSTD_LEVEL: i32 = 3;

/// Puts a map where it belongs.
///
/// # Cost
/// Nothing for a small map, else 1 PUT.
pub(super) async fn store(
    store: &Store,
    location: &Path,
    map: &RowMap,
) -> Result<RowMapNote, DbError> {
    let json = encode_row_map(map);
    if json.len() <= INLINE_MAX {
        return Ok(RowMapNote::Inline(map.clone()));
    }
    let packed = zstd::encode_all(json.as_slice(), ZSTD_LEVEL);
    let packed = packed.map_err(|_| DbError::Internal {
        what: "compressing a row map failed",
    })?;
    let path = file_path(store.context().uuid());
    let key = Path::from(format!("{location}/{path}"));
    store.put(&key, Bytes::from(packed)).await?;
    Ok(RowMapNote::File(path))
}

/// The map that an entry's notes tell; `None` when they tell none or its file is gone or
/// damaged.
///
/// # Errors
/// Those of the store.
///
/// # Cost
/// 1 GET for a map in a file.
pub(crate) async fn load(
    inner: &Inner,
    table: &TableEntry,
    notes: Option<&Notes>,
) -> Result<Option<Arc<RowMap>>, DbError> {
    let path = match notes.and_then(|notes| notes.row_map.as_ref()) {
        None => return Ok(None),
        Some(RowMapNote::Inline(map)) => return Ok(Some(Arc::new(map.clone()))),
        Some(RowMapNote::File(path)) => path,
    };
    let unusable = |reason: &str| {
        let table = table.display_name();
        tracing::warn!(%table, file = %path, reason, "a row map cannot be used");
        Ok(None)
    };
    let Ok(key) = data_key(&table.location, path) else {
        return unusable("its path is not one of the table's");
    };
    let Some(bytes) = inner.store.get(&key).await? else {
        return unusable("its file is missing");
    };
    match unpack(&bytes) {
        Ok(map) => Ok(Some(Arc::new(map))),
        Err(reason) => unusable(&reason),
    }
}

fn unpack(bytes: &[u8]) -> Result<RowMap, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut json = Vec::new();
    let decoder = zstd::Decoder::new(bytes).map_err(failed)?;
    let read = decoder.take(JSON_MAX).read_to_end(&mut json);
    read.map_err(failed)?;
    parse_row_map(&json)
}

/// A folder that begins with `_` is no concern of other engines, their cleaning included.
fn file_path(id: Uuid) -> String {
    format!("_tarndb/rowmap-{id}.json.zst")
}
