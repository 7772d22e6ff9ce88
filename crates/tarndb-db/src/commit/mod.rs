//! The commit: one put-if-absent of the next record, after judging everything in between.
//!
//! Invariant: a record is put only when every record after the transaction's snapshot was
//! judged compatible and the entries were encoded against the version right before it. The
//! transaction's id tells whether a record is ours, whatever the store answered.
//! Spec: docs/format/log.md, "Committing"; docs/conflicts.md.

mod change_files;
mod effects;
mod encode;
mod evidence;
mod fence;
mod find;
mod group;
mod late;
mod outcome;
mod pending;
mod queue;
mod reads;
mod resolve;
mod restore;
mod stage;
mod tip;
mod turns;
mod vacuumed;
mod vectors;

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::database::Inner;
use crate::error::{DbError, EarlierCommit};
use crate::publish;
use crate::record::{
    CLONE_FEATURE, DETACH_FEATURE, FENCE_FEATURE, TAG_FEATURE, VACUUM_FEATURE, VIEW_FEATURE,
};
use crate::states::Ended;
use crate::transaction::{Committed, Transaction};

pub(crate) use fence::resolve;
pub(crate) use find::find;
pub(crate) use queue::CommitQueue;
pub(crate) use turns::Turns;

use find::find_first;
use resolve::Resolver;

/// Writer features of the log that this build knows.
const WRITER_FEATURES: [&str; 6] = [
    CLONE_FEATURE,
    DETACH_FEATURE,
    FENCE_FEATURE,
    TAG_FEATURE,
    VACUUM_FEATURE,
    VIEW_FEATURE,
];

/// Commits a transaction. From here on what it stored is not given up any more, unless the
/// answer is a conflict: then no record names it, and none will.
pub(crate) async fn commit(txn: Transaction) -> Result<Committed, DbError> {
    let staged = txn.staged.clone();
    staged.keep();
    let committed = commit_now(txn).await;
    if matches!(committed, Err(DbError::Conflict { .. })) {
        staged.give_up();
    }
    committed
}

async fn commit_now(mut txn: Transaction) -> Result<Committed, DbError> {
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
    match find_first(&inner, &txn).await? {
        None => {}
        Some(Ended::Committed(version)) => {
            let first = EarlierCommit {
                txn: txn.id,
                version,
            };
            return Ok(earlier(&txn, first));
        }
        Some(Ended::Fenced(fence)) => return Err(txn.fenced(fence)),
    }
    let tables = txn.changes.changed_tables().map(|(id, _)| id).collect();
    let priorities = &inner.priorities;
    priorities
        .give_way(inner.context(), &tables, txn.priority)
        .await;
    change_files::write(&mut txn).await?;
    let txn = Arc::new(txn);
    let resolver = prepare(&inner, &txn).await?;
    let committed = queue::commit(&inner, txn, resolver).await?;
    publish::after_commit(&inner, committed).await
}

/// Judges the transaction up to the head before it takes its place in the queue, so that what
/// must be read for that is read by many at the same time.
async fn prepare(inner: &Inner, txn: &Arc<Transaction>) -> Result<Resolver, DbError> {
    if inner.head.age() > inner.options.head_expiry {
        inner.refresh().await?;
    }
    let mut resolver = Resolver::new(txn)?;
    // Should it be found there, the leader finds it too.
    resolver.catch_up(&inner.head.catalog()).await?;
    Ok(resolver)
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
