//! Where a transaction is in the log, or the fence that aborted it.
//!
//! Invariant: reads only; an end that is told is one that the log's own sequence vouches for:
//! what a late writer left below a cleaned-up beginning is not taken for it.
//! Spec: docs/format/log.md, "Asking for an outcome".

use futures::StreamExt as _;
use tarndb_types::{DbVersion, TxnId, TxnRef};

use crate::database::Inner;
use crate::error::DbError;
use crate::record::Record;
use crate::states::Ended;
use crate::transaction::Transaction;
use crate::{checkpoint, open};

/// Records read at the same time when an old id is looked for.
const FIND_PARALLEL: usize = 8;

/// How far the clock that made an id may be ahead of the one that committed under it.
const CLOCKS_APART_MAX_MS: i64 = 24 * 60 * 60 * 1000;

/// How a transaction of the same id ended at or below the transaction's snapshot. Only an id
/// that the caller chose can be there; what lies above the snapshot is looked at while judging.
pub(super) async fn find_first(inner: &Inner, txn: &Transaction) -> Result<Option<Ended>, DbError> {
    if !txn.chosen_id {
        return Ok(inner.caches.recently_ended(txn.id));
    }
    let id = txn.id;
    let base = DbVersion::ZERO;
    match find(inner, TxnRef { base, id }, txn.snapshot.version()).await {
        // What was cleaned up cannot be asked any more.
        Err(DbError::OutcomeExpired { .. }) => Ok(None),
        other => other,
    }
}

/// How a transaction ended, looked for in every record above its base, the newest first. With
/// base 0, as for a client that kept nothing but the id, the search ends at records well before
/// the time that a version 7 id begins with.
///
/// A base that is given is a claim: `log` shows the version that a transaction made beside its
/// id, and taken for the base it would hide the very record that is looked for. So it is
/// believed only when its record is older than a version 7 id; else the search goes on below it,
/// as far as records are there.
///
/// # Errors
/// [`DbError::OutcomeExpired`] when records in question were cleaned up;
/// [`DbError::RecordMissing`] when one is missing that no cleanup can have removed.
///
/// # Cost
/// A GET per record that is not cached, some in parallel.
pub(crate) async fn find(
    inner: &Inner,
    txn: TxnRef,
    head: DbVersion,
) -> Result<Option<Ended>, DbError> {
    if let Some(ended) = inner.caches.recently_ended(txn.id) {
        return Ok(Some(ended));
    }
    let minted = minted_ms(txn.id);
    let oldest = minted.map(|minted| minted.saturating_sub(CLOCKS_APART_MAX_MS));
    let stop = oldest.filter(|_| txn.base == DbVersion::ZERO);
    let above = match search(inner, txn, (txn.base, head), stop).await {
        Err(DbError::RecordMissing { missing, .. }) => {
            return Err(cleaned_up(inner, txn, missing).await?);
        }
        found => found?,
    };
    if above.is_some() || is_base_older(inner, txn, minted).await? {
        return Ok(above);
    }
    match search(inner, txn, (DbVersion::ZERO, txn.base), oldest).await {
        // What is left of the log does not hold it, and the base may be right after all.
        Err(DbError::RecordMissing { .. }) => Ok(None),
        found => found,
    }
}

/// Whether the base was there before a version 7 id was made.
async fn is_base_older(inner: &Inner, txn: TxnRef, minted: Option<i64>) -> Result<bool, DbError> {
    if txn.base == DbVersion::ZERO {
        return Ok(true);
    }
    match (inner.record(txn.base).await, minted) {
        (Ok(record), Some(minted)) => Ok(record.timestamp.0 < minted),
        // Nothing below it is left to be searched.
        (Err(DbError::RecordMissing { .. }), _) => Ok(true),
        (Ok(_), None) => Ok(false),
        (Err(other), _) => Err(other),
    }
}

/// Looks in the records above the first version up to the second, down to the first one that
/// was made before `oldest`.
async fn search(
    inner: &Inner,
    txn: TxnRef,
    (below, head): (DbVersion, DbVersion),
    oldest: Option<i64>,
) -> Result<Option<Ended>, DbError> {
    let mut records = futures::stream::iter((below.0 + 1..=head.0).rev())
        .map(|version| inner.record(DbVersion(version)))
        .buffered(FIND_PARALLEL);
    while let Some(record) = records.next().await {
        let record = record?;
        if let Some(ended) = end_in(&record, txn.id) {
            return match is_vouched_for(inner, record.version).await? {
                true => Ok(Some(ended)),
                false => Err(DbError::OutcomeExpired { txn }),
            };
        }
        if oldest.is_some_and(|oldest| record.timestamp.0 < oldest) {
            break;
        }
    }
    Ok(None)
}

fn end_in(record: &Record, id: TxnId) -> Option<Ended> {
    if record.holds(id) {
        Some(Ended::Committed(record.version))
    } else if record.fences(id) {
        Some(Ended::Fenced(record.version))
    } else {
        None
    }
}

/// Whether the record belongs to the log, and is not one that a late writer put right below a
/// beginning that was cleaned up. Of record 1 that cannot be asked, because record 0 is never
/// removed.
async fn is_vouched_for(inner: &Inner, version: DbVersion) -> Result<bool, DbError> {
    let Some(before) = version.previous().filter(|v| *v > DbVersion::ZERO) else {
        return Ok(true);
    };
    // From the store: what is in memory says nothing about what is still stored.
    let stored = inner.log.read(before.0).await.map_err(DbError::log)?;
    Ok(stored.is_some())
}

/// What a missing record means for whoever asks: its outcome is gone with it, or the log is
/// damaged.
async fn cleaned_up(inner: &Inner, txn: TxnRef, missing: DbVersion) -> Result<DbError, DbError> {
    let checkpoints = checkpoint::list(&inner.store).await?;
    Ok(match checkpoints.last() {
        Some(newest) if *newest > missing => DbError::OutcomeExpired { txn },
        _ => open::record_missing(&inner.log, missing),
    })
}

/// When an id was made, in milliseconds since 1970, if it says so.
fn minted_ms(id: TxnId) -> Option<i64> {
    let ms = id.0.as_u128() >> 80;
    (id.0.get_version_num() == 7)
        .then(|| i64::try_from(ms).ok())
        .flatten()
}
