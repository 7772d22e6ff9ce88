//! Where the database's own objects lie below its root.
//!
//! Invariant: all of them begin with `_tarndb/`, which no table's location can.
//! Spec: docs/format/log.md, "Layout".

use tarndb_storage::Path;
use tarndb_types::DbVersion;

/// Where the tables outside the root have their keys; nothing is stored under them.
pub(crate) const ELSEWHERE: &str = "_tarndb/attached";

const CHECKPOINT_SUFFIX: &str = ".json.zst";

/// Folder of everything that is ours.
pub(crate) fn own_dir() -> Path {
    Path::from("_tarndb")
}

/// Folder of the records.
pub(crate) fn log_dir() -> Path {
    Path::from("_tarndb/log")
}

/// Folder of the checkpoints.
pub(crate) fn checkpoint_dir() -> Path {
    Path::from("_tarndb/checkpoints")
}

/// The hint to the newest checkpoint.
pub(crate) fn hint_key() -> Path {
    Path::from("_tarndb/_last_checkpoint")
}

/// The checkpoint of a version.
pub(crate) fn checkpoint_key(version: DbVersion) -> Path {
    Path::from(format!(
        "_tarndb/checkpoints/{:020}{CHECKPOINT_SUFFIX}",
        version.0
    ))
}

/// The version of a checkpoint; `None` for any other key.
pub(crate) fn parse_checkpoint_key(key: &Path) -> Option<DbVersion> {
    let name = key.as_ref().strip_prefix("_tarndb/checkpoints/")?;
    let digits = name.strip_suffix(CHECKPOINT_SUFFIX)?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain {
        digits.parse().ok().map(DbVersion)
    } else {
        None
    }
}
