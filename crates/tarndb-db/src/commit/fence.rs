//! Fences: records that abort transactions whose outcome would stay open.
//!
//! Invariant: a fence is put only when the transaction was looked for in every record below
//! it; whoever reads it later aborts what it names. So an outcome that was told never changes.
//! Spec: docs/format/log.md, "Fences" and "Asking for an outcome".

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tarndb_types::{DbVersion, TimestampMs, TxnId, TxnRef};

use super::outcome::{End, Put, put_fence};
use super::tip::Encoded;
use super::{check_writable, find};
use crate::catalog::Catalog;
use crate::database::Inner;
use crate::error::{DbError, ErrorKind, TxnOutcome};
use crate::open;
use crate::record::{self, Action, FENCE_FEATURE, Record, RecordTxn};
use crate::states::Ended;

/// What a fence's own transaction says that it did.
const OPERATION: &str = "FENCE";
/// The pause after a fence that lost its version to another record.
const PAUSE: Duration = Duration::from_millis(16);

/// The record that fences `txns` right after `before`.
pub(super) fn encode_fence(
    inner: &Inner,
    before: &Catalog,
    txns: Vec<TxnId>,
) -> Result<Encoded, DbError> {
    let context = inner.context();
    let timestamp = TimestampMs(context.now().0.max(before.timestamp().0 + 1));
    let txn = RecordTxn {
        id: TxnId(context.uuid()),
        read_version: before.version(),
        timestamp,
        isolation: "snapshot".to_owned(),
        operation: OPERATION.to_owned(),
        user_metadata: BTreeMap::new(),
        actions: vec![Action::Fence { txns }],
    };
    let version = before.version().next();
    let bytes = record::encode(&Record {
        version,
        timestamp,
        writer: inner.writer.clone(),
        reader_features: Vec::new(),
        writer_features: vec![FENCE_FEATURE.to_owned()],
        txns: vec![txn],
        size_bytes: 0,
    });
    let record = open::decode_record(&inner.log, version, &bytes)?;
    before
        .apply(&record)
        .map_err(|violation| DbError::Invariant { version, violation })?;
    Ok(Encoded {
        version,
        timestamp,
        bytes,
        record: Arc::new(record),
    })
}

/// How a transaction ended; one that has not ended is aborted.
///
/// # Errors
/// [`DbError::Pending`] when the store does not answer; [`DbError::OutcomeExpired`]; what
/// forbids this build to write.
pub(crate) async fn resolve(inner: &Inner, txn: TxnRef) -> Result<TxnOutcome, DbError> {
    let context = inner.context();
    let mut start = context.monotonic();
    loop {
        match find_or_fence(inner, txn).await {
            Ok(Step::Told(outcome)) => return Ok(outcome),
            Ok(Step::Lost) => {}
            // The time that this process was stopped is not held against the store.
            Ok(Step::Late) => start = context.monotonic(),
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    %txn,
                    "the store did not tell the outcome"
                );
                return Err(DbError::Pending { txn });
            }
            Err(other) => return Err(other),
        }
        let waited = context.monotonic().saturating_sub(start);
        if waited >= inner.options.commit_deadline {
            return Err(DbError::Pending { txn });
        }
        context.sleep(context.jittered(PAUSE)).await;
    }
}

/// What one attempt came to.
enum Step {
    Told(TxnOutcome),
    /// Another record is where the fence was to be: the records must be read again.
    Lost,
    /// The log was cleaned up meanwhile. Asking changes nothing, so it may start over.
    Late,
}

async fn find_or_fence(inner: &Inner, txn: TxnRef) -> Result<Step, DbError> {
    inner.refresh().await?;
    let head = inner.head.catalog();
    if txn.base > head.version() {
        return Err(DbError::VersionNotFound {
            wanted: txn.base,
            oldest: DbVersion::ZERO,
            newest: head.version(),
        });
    }
    if let Some(ended) = find(inner, txn, head.version()).await? {
        return Ok(Step::Told(ended.into()));
    }
    check_writable(&head)?;
    let encoded = encode_fence(inner, &head, vec![txn.id])?;
    inner
        .clock
        .before_commit(&inner.store, head.timestamp(), encoded.timestamp)
        .await?;
    match put_fence(inner, &encoded, inner.options.commit_deadline).await? {
        Put::Committed => Ok(Step::Told(TxnOutcome::Aborted {
            fence: encoded.version,
        })),
        Put::Lost { .. } => Ok(Step::Lost),
        Put::Ended(End::CleanedUp | End::Expired) => Ok(Step::Late),
        Put::Ended(End::Pending) => Err(DbError::Pending { txn }),
    }
}

impl From<Ended> for TxnOutcome {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Committed(version) => Self::Committed { version },
            Ended::Fenced(fence) => Self::Aborted { fence },
        }
    }
}
