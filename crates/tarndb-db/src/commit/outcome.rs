//! Putting a record, and finding out what became of a transaction.
//!
//! Invariant: what the store holds decides whether a record is ours, never an error; until a
//! version is known to be held by another record, the same bytes are sent.
//! Spec: docs/format/log.md, "Committing".

use std::time::Duration;

use futures::StreamExt as _;
use tarndb_log::{Appended, LogError};
use tarndb_types::{DbVersion, TxnId, TxnRef};

use super::tip::Encoded;
use crate::database::Inner;
use crate::error::DbError;
use crate::transaction::Transaction;

/// Records read at the same time when an old id is looked for.
const FIND_PARALLEL: usize = 8;

/// How far the clock that made an id may be ahead of the one that committed under it.
const CLOCKS_APART_MAX_MS: i64 = 24 * 60 * 60 * 1000;

/// Puts the record of `txns`, in this order; false when another's is there, which is then the
/// head. What the error says of one of them holds for all.
pub(super) async fn put(
    inner: &Inner,
    txns: &[TxnRef],
    encoded: &Encoded,
    deadline: Duration,
) -> Result<bool, DbError> {
    let version = encoded.version;
    // Not by the id: another call under the same chosen id may have put other changes there,
    // which the next round finds.
    let is_ours = |bytes: &[u8]| bytes == encoded.bytes;
    tracing::debug!(target: "tarndb::step", version = version.0, "record.begin");
    let appended = inner
        .log
        .append(version.0, encoded.bytes.clone(), &is_ours, deadline)
        .await;
    tracing::debug!(target: "tarndb::step", version = version.0, "record.end");
    match appended {
        Ok(Appended::Ours) => {
            inner.absorb_record(&encoded.record)?;
            Ok(true)
        }
        Ok(Appended::Theirs(bytes)) => {
            inner.absorb(version, &bytes)?;
            Ok(false)
        }
        Err(LogError::Pending { .. }) => {
            let txn = txns.first().copied().ok_or(DbError::Internal {
                what: "a record without a transaction",
            })?;
            Err(DbError::Pending { txn })
        }
        Err(other) => Err(DbError::log(other)),
    }
}

/// The commit of the same id at or below the transaction's snapshot. Only an id that the caller
/// chose can be there; what lies above the snapshot is looked at while judging.
pub(super) async fn find_first(
    inner: &Inner,
    txn: &Transaction,
) -> Result<Option<DbVersion>, DbError> {
    if !txn.chosen_id {
        return Ok(inner.caches.recent_commit(txn.id));
    }
    let found = find(inner, DbVersion::ZERO, txn.id, txn.snapshot.version()).await;
    match found {
        // What was cleaned up cannot be asked any more.
        Err(DbError::RecordMissing { .. }) => Ok(None),
        other => other,
    }
}

/// Where a transaction is, looked for in every record above its base, the newest first. With
/// base 0, as for a client that kept nothing but the id, the search ends at records well before
/// the time that a version 7 id begins with.
///
/// # Cost
/// A GET per record that is not cached, some in parallel.
pub(crate) async fn find(
    inner: &Inner,
    base: DbVersion,
    id: TxnId,
    head: DbVersion,
) -> Result<Option<DbVersion>, DbError> {
    if let Some(version) = inner.caches.recent_commit(id) {
        return Ok(Some(version));
    }
    let oldest = minted_ms(id)
        .filter(|_| base == DbVersion::ZERO)
        .map(|minted| minted.saturating_sub(CLOCKS_APART_MAX_MS));
    let mut records = futures::stream::iter((base.0 + 1..=head.0).rev())
        .map(|version| inner.record(DbVersion(version)))
        .buffered(FIND_PARALLEL);
    while let Some(record) = records.next().await {
        let record = record?;
        if record.holds(id) {
            return Ok(Some(record.version));
        }
        if oldest.is_some_and(|oldest| record.timestamp.0 < oldest) {
            break;
        }
    }
    Ok(None)
}

/// When an id was made, in milliseconds since 1970, if it says so.
fn minted_ms(id: TxnId) -> Option<i64> {
    let ms = id.0.as_u128() >> 80;
    (id.0.get_version_num() == 7)
        .then(|| i64::try_from(ms).ok())
        .flatten()
}
