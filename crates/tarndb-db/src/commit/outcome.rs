//! Putting a record, and being certain of what became of it.
//!
//! Invariant: what the store holds decides whether a record is ours, never an error; until a
//! version is known to be held by another record, the same bytes are sent, and after them only
//! a fence that names all their transactions. An answer that comes so late that the beginning
//! of the log may have been cleaned up is believed only when the record before is still there.
//! Spec: docs/format/log.md, "Committing", "Fences" and "Late writers".

use std::time::Duration;

use bytes::Bytes;
use tarndb_log::{After, Appended, LogError};
use tarndb_types::{DbVersion, TxnId, TxnRef};

use super::fence;
use super::late::{Told, is_still_there, told_by_tables};
use super::tip::Encoded;
use crate::catalog::Catalog;
use crate::database::Inner;
use crate::error::DbError;
use crate::moment::Moment;

/// What became of a record, and with it of all transactions in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is in the log.
    Committed,
    /// It is not, and never will be at this version: another record is there (a fence perhaps,
    /// which the next look at the records finds), or the head must be read anew.
    Lost {
        /// The head is now what was the newest version at the last look.
        is_fresh: bool,
    },
    /// Nothing more can be done for its transactions.
    Ended(End),
}

/// Why nothing more can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is not in the log, and what is has been cleaned up: there is nothing to judge by.
    CleanedUp,
    /// The store does not answer: it may be there, or get there yet.
    Pending,
    /// Nobody can tell any more: the log was cleaned up while this writer was stopped.
    Expired,
}

impl End {
    /// The error that ends the call of a transaction of the record.
    pub(super) fn error(self, version: DbVersion, txn: TxnRef) -> DbError {
        match self {
            Self::CleanedUp => DbError::BaseExpired {
                base: txn.base,
                missing: version,
            },
            Self::Pending => DbError::Pending { txn },
            Self::Expired => DbError::OutcomeExpired { txn },
        }
    }
}

/// Who holds a version.
#[derive(Debug)]
enum Holder {
    Ours,
    Theirs(Bytes, After),
    Unknown,
}

/// Puts a record that was encoded for the head right below it. The head moves to what is found
/// there. `deadline` ends the call; half of it goes to sending the record, the other half to a
/// fence that names all its transactions.
///
/// # Errors
/// The record was refused, or what holds its version cannot be read: it is not committed.
///
/// # Cost
/// 1 PUT, and two GETs at the same time when the version was taken; a GET or two more when it took long.
pub(super) async fn put(
    inner: &Inner,
    encoded: &Encoded,
    deadline: Duration,
) -> Result<Put, DbError> {
    place(inner, encoded, deadline, true).await
}

/// The same for a fence, which needs none itself.
pub(super) async fn put_fence(
    inner: &Inner,
    encoded: &Encoded,
    deadline: Duration,
) -> Result<Put, DbError> {
    place(inner, encoded, deadline, false).await
}

async fn place(
    inner: &Inner,
    encoded: &Encoded,
    deadline: Duration,
    may_fence: bool,
) -> Result<Put, DbError> {
    let version = encoded.version;
    let (before, seen) = inner.head.current();
    if before.version() >= version || inner.is_expired(seen) {
        return Ok(Put::Lost { is_fresh: false });
    }
    let begun = Moment::now(inner.context());
    tracing::debug!(target: "tarndb::step", version = version.0, "record.begin");
    let holder = match may_fence {
        true => hold_or_fence(inner, &before, encoded, deadline).await,
        false => hold(inner, encoded, deadline).await,
    };
    tracing::debug!(target: "tarndb::step", version = version.0, "record.end");
    let holder = holder?;
    if matches!(holder, Holder::Unknown) {
        return Ok(Put::Ended(End::Pending));
    }
    if inner.is_expired(seen) {
        let late = judge_late(inner, &before, encoded).await;
        match late {
            Ok(None) => {}
            Ok(Some(put)) => return Ok(put),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    version = version.0,
                    "a late answer could not be checked"
                );
                return Ok(Put::Ended(End::Pending));
            }
        }
    }
    match holder {
        Holder::Ours => {
            inner.absorb_record(&encoded.record)?;
            inner.head.confirm(version, begun);
            Ok(Put::Committed)
        }
        Holder::Theirs(theirs, after) => {
            inner.absorb(version, &theirs)?;
            let is_fresh = after == After::Nothing;
            match after {
                After::Nothing => inner.head.confirm(version, begun),
                After::Entry(next) => drop(inner.absorb(version.next(), &next)?),
                After::Unknown => {}
            }
            Ok(Put::Lost { is_fresh })
        }
        Holder::Unknown => Ok(Put::Ended(End::Pending)),
    }
}

/// Sends the same bytes until the store tells who holds the version, for so long.
async fn hold(inner: &Inner, encoded: &Encoded, deadline: Duration) -> Result<Holder, DbError> {
    let bytes = &encoded.bytes;
    // Not by the id: another call under the same chosen id may have put other changes there,
    // which the next round finds.
    let is_ours = |found: &[u8]| found == bytes;
    let appended = inner
        .log
        .append(encoded.version.0, bytes.clone(), &is_ours, deadline)
        .await;
    match appended {
        Ok(Appended::Ours) => Ok(Holder::Ours),
        Ok(Appended::Theirs(theirs, after)) => Ok(Holder::Theirs(theirs, after)),
        Err(LogError::Pending { .. }) => Ok(Holder::Unknown),
        Err(other) => Err(DbError::log(other)),
    }
}

/// The same; when the record neither gets there nor is refused, a fence at its version ends
/// the doubt: whichever of the two is there tells.
async fn hold_or_fence(
    inner: &Inner,
    before: &Catalog,
    encoded: &Encoded,
    deadline: Duration,
) -> Result<Holder, DbError> {
    let (version, half) = (encoded.version, deadline / 2);
    let holder = hold(inner, encoded, half).await?;
    if !matches!(holder, Holder::Unknown) {
        return Ok(holder);
    }
    let ids: Vec<TxnId> = encoded.record.txns.iter().map(|txn| txn.id).collect();
    tracing::warn!(version = version.0, txns = ?ids, "no answer to the record: fencing it");
    let fence = match fence::encode_fence(inner, before, ids) {
        Ok(fence) => fence,
        Err(error) => return Ok(open_after(&error, version)),
    };
    tracing::debug!(target: "tarndb::step", version = version.0, "fence.begin");
    let held = hold(inner, &fence, half).await;
    tracing::debug!(target: "tarndb::step", version = version.0, "fence.end");
    match held {
        Ok(Holder::Ours) => Ok(Holder::Theirs(fence.bytes, After::Unknown)),
        Ok(Holder::Theirs(found, _)) if found == encoded.bytes => Ok(Holder::Ours),
        Ok(other) => Ok(other),
        Err(error) => Ok(open_after(&error, version)),
    }
}

/// A refusal speaks for the fence, not for the record: that may be there, or get there yet.
fn open_after(error: &DbError, version: DbVersion) -> Holder {
    tracing::warn!(
        error = error as &dyn std::error::Error,
        version = version.0,
        "the fence was refused"
    );
    Holder::Unknown
}

/// What an answer after the expiry is worth: `None` when it can be believed.
async fn judge_late(
    inner: &Inner,
    before: &Catalog,
    encoded: &Encoded,
) -> Result<Option<Put>, DbError> {
    if is_still_there(inner, before).await? {
        return Ok(None);
    }
    tracing::warn!(
        version = encoded.version.0,
        "the log was cleaned up while a record was put: nothing is deleted or tried again"
    );
    let told = told_by_tables(inner, before, &encoded.record).await?;
    Ok(Some(match told {
        Some(Told::ByUs) => {
            inner.open_anew().await?;
            Put::Committed
        }
        Some(Told::ByAnother) => Put::Ended(End::CleanedUp),
        None => Put::Ended(End::Expired),
    }))
}
