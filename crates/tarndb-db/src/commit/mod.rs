//! The commit: one put-if-absent of the next record, after judging everything in between.
//!
//! Invariant: a record is put only when every record after the transaction's snapshot was
//! judged compatible and the entries were encoded against the version right before it. The
//! transaction's id tells whether a record is ours, whatever the store answered.
//! Spec: docs/format/log.md, "Committing"; docs/conflicts.md.

mod effects;
mod encode;
mod resolve;
mod stage;
mod vectors;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tarndb_log::{Appended, LogError};
use tarndb_types::{DbVersion, TxnId};

use crate::catalog::Catalog;
use crate::database::Inner;
use crate::error::{DbError, EarlierCommit};
use crate::publish;
use crate::transaction::{Committed, Transaction};

use encode::{Encoded, Encoder};
use resolve::Resolver;
use vectors::StoredVectors;

/// The pause of a writer that lost its first put, so that another gets its turn.
const BACKOFF_FIRST: Duration = Duration::from_millis(16);
/// Shorter pauses are left out.
const BACKOFF_LAST: Duration = Duration::from_millis(1);

/// Records read at the same time when an old id is looked for.
const FIND_PARALLEL: usize = 8;

/// How far the clock that made an id may be ahead of the one that committed under it.
const CLOCKS_APART_MAX_MS: i64 = 24 * 60 * 60 * 1000;

/// Writer features of the log that this build knows.
const WRITER_FEATURES: [&str; 0] = [];

/// Commits a transaction.
pub(crate) async fn commit(txn: Transaction) -> Result<Committed, DbError> {
    let inner = Arc::clone(txn.inner());
    inner.check_open()?;
    if txn.is_read_only() {
        let (txn, notices) = (txn.reference(), txn.notices());
        return Ok(Committed {
            version: None,
            txn,
            notices,
            attempts: 0,
        });
    }
    if let Some(version) = find_first(&inner, &txn).await? {
        return Ok(earlier(
            &txn,
            EarlierCommit {
                txn: txn.id,
                version,
            },
        ));
    }
    let committed = {
        let _turn = inner.committing.lock().await;
        inner.check_open()?;
        in_turn(&inner, &txn).await?
    };
    publish::after_commit(&inner, committed).await
}

/// What the first commit of the same id came to: a retry does not commit twice.
fn earlier(txn: &Transaction, first: EarlierCommit) -> Committed {
    tracing::info!(txn = %first.txn, version = first.version.0, "the transaction is there already");
    let (id, version) = (first.txn, first.version);
    let notice = format!(
        "transaction {id} was committed before, as version {version}: nothing was done now"
    );
    Committed {
        version: Some(version),
        txn: txn.reference(),
        notices: vec![notice],
        attempts: 0,
    }
}

async fn in_turn(inner: &Arc<Inner>, txn: &Transaction) -> Result<Committed, DbError> {
    if inner.head.age() > inner.options.head_expiry {
        inner.refresh().await?;
    }
    let mut resolver = Resolver::new(inner, txn)?;
    let mut vectors = StoredVectors::default();
    let mut attempts = 0;
    loop {
        let head = inner.head.catalog();
        if let Some(version) = resolver.catch_up(&head).await? {
            return Ok(earlier(
                txn,
                EarlierCommit {
                    txn: txn.id,
                    version,
                },
            ));
        }
        check_writable(&head)?;
        check_not_diverged(inner, txn, &head)?;
        let encoded = Encoder::new(inner, txn, &head).encode(&mut vectors).await?;
        inner
            .clock
            .before_commit(&inner.store, head.timestamp(), encoded.timestamp)
            .await?;
        attempts += 1;
        if put(inner, txn, &encoded).await? {
            let entries = encoded
                .states
                .iter()
                .map(|(id, state)| (*id, state.version));
            publish::note_commit(inner, encoded.version, entries);
            for (table, state) in encoded.states {
                inner.caches.put_state(table, state);
            }
            let mut notices = txn.notices();
            notices.extend(encoded.notices);
            let version = Some(encoded.version);
            return Ok(Committed {
                version,
                txn: txn.reference(),
                notices,
                attempts,
            });
        }
        // The head is read after the wait: an attempt on an older one is lost before it begins.
        back_off(inner, attempts).await;
        inner.refresh().await?;
    }
}

/// Puts the record; false when another's is there, which is then the head.
async fn put(inner: &Inner, txn: &Transaction, encoded: &Encoded) -> Result<bool, DbError> {
    let version = encoded.version;
    // Not by the id: another call under the same chosen id may have put other changes there,
    // which the next round finds.
    let is_ours = |bytes: &[u8]| bytes == encoded.bytes;
    tracing::debug!(target: "tarndb::step", version = version.0, "record.begin");
    let appended = inner
        .log
        .append(
            version.0,
            encoded.bytes.clone(),
            &is_ours,
            inner.options.commit_deadline,
        )
        .await;
    tracing::debug!(target: "tarndb::step", version = version.0, "record.end");
    match appended {
        Ok(Appended::Ours) => {
            inner.absorb(version, &encoded.bytes)?;
            Ok(true)
        }
        Ok(Appended::Theirs(bytes)) => {
            inner.absorb(version, &bytes)?;
            Ok(false)
        }
        Err(LogError::Pending { .. }) => Err(DbError::Pending {
            txn: txn.reference(),
        }),
        Err(other) => Err(DbError::log(other)),
    }
}

/// Shorter with every lost put: who has lost often comes before those who just began, so that
/// nobody starves. One of the contenders wins each time, so not waiting at all is safe too.
async fn back_off(inner: &Inner, attempts: u32) {
    let upper = BACKOFF_FIRST / 2_u32.saturating_pow(attempts.saturating_sub(1));
    if upper >= BACKOFF_LAST {
        inner.context().sleep(inner.context().jittered(upper)).await;
    }
}

/// This build may write after everything that the catalog was made from.
pub(crate) fn check_writable(head: &Catalog) -> Result<(), DbError> {
    if let Some((action, version)) = head.unknown_actions().next() {
        return Err(DbError::UnknownAction {
            version,
            action: action.to_owned(),
        });
    }
    let unknown = head
        .writer_features()
        .find(|(name, _)| !WRITER_FEATURES.contains(name));
    match unknown {
        Some((feature, version)) => Err(DbError::UnknownWriterFeature {
            version,
            feature: feature.to_owned(),
        }),
        None => Ok(()),
    }
}

/// No table that the transaction writes is one that a foreign writer changed.
fn check_not_diverged(inner: &Inner, txn: &Transaction, head: &Catalog) -> Result<(), DbError> {
    for (id, _) in txn.changes.changed_tables() {
        if let Some(found) = inner.publisher.divergence(id) {
            let table = head
                .table(id)
                .map_or_else(|| id.to_string(), |t| t.display_name());
            return Err(DbError::Diverged {
                table,
                version: found.version,
                key: found.key,
            });
        }
    }
    Ok(())
}

/// The commit of the same id at or below the transaction's snapshot. Only an id that the caller
/// chose can be there; what lies above the snapshot is looked at while judging.
async fn find_first(inner: &Inner, txn: &Transaction) -> Result<Option<DbVersion>, DbError> {
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
