//! Looking back from a late hour: is the log still the one that was read?
//!
//! Invariant: reads only. A cleanup removes records in ascending order, so a record that is
//! still there proves that those after it were not removed; nothing else does. Where the log
//! cannot tell any more, the published versions of the tables may.
//! Spec: docs/format/log.md, "Late writers".

use tarndb_types::DbVersion;

use crate::catalog::Catalog;
use crate::database::Inner;
use crate::error::DbError;
use crate::record::Record;
use crate::{checkpoint, open};

/// Whose the published table versions are that a record was to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The record's: it was committed.
    ByUs,
    /// Another transaction's: it was not.
    ByAnother,
}

/// Whether the record that made `catalog` is in the log, so that nothing after it can have
/// been removed. Record 0 is never removed: for it, no checkpoint may exist.
///
/// # Cost
/// A GET, or a LIST for version 0.
pub(super) async fn is_still_there(inner: &Inner, catalog: &Catalog) -> Result<bool, DbError> {
    let version = catalog.version();
    if version == DbVersion::ZERO {
        return Ok(checkpoint::list(&inner.store).await?.is_empty());
    }
    // From the store: what is in memory says nothing about what is still stored.
    let Some(bytes) = inner.log.read(version.0).await.map_err(DbError::log)? else {
        return Ok(false);
    };
    let found = open::decode_record(&inner.log, version, &bytes)?;
    // Another late writer may have put a record of its own where the right one was removed.
    Ok(match inner.caches.record(version) {
        Some(known) => found == *known,
        None => found.timestamp == catalog.timestamp(),
    })
}

/// What the tables' own logs say of a record that follows `before`; `None` when it changed no
/// table, or their logs were cleaned up as well.
///
/// # Cost
/// A GET per table entry until one tells.
pub(super) async fn told_by_tables(
    inner: &Inner,
    before: &Catalog,
    record: &Record,
) -> Result<Option<Told>, DbError> {
    let Ok(after) = before.apply(record) else {
        // It does not follow what we know: nothing can be said.
        return Ok(None);
    };
    for (txn, entry) in record.entries() {
        let Some(table) = after.table_or_dropped(entry.table) else {
            continue;
        };
        let codec = inner.codec(&table.format, &table.display_name())?;
        let key = codec.published_key(&table.location, entry.version);
        let Some(bytes) = inner.store.get(&key).await? else {
            continue;
        };
        if let Some(publisher) = codec.published_txn(&bytes) {
            return Ok(Some(match publisher == txn.id {
                true => Told::ByUs,
                false => Told::ByAnother,
            }));
        }
    }
    Ok(None)
}
