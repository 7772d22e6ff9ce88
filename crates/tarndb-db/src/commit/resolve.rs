//! Judging every record between a transaction's snapshot and the head.
//!
//! Invariant: `judged` only moves forward, one record at a time, and no record is skipped; the
//! catalog beside it is the one right at `judged`. The verdicts themselves are `tarndb-txn`'s.
//! Spec: docs/conflicts.md, "Verdicts".

use std::sync::Arc;

use tarndb_txn::aspect::CatalogAspect;
use tarndb_txn::{Committed, Conflict, Effects, Operation, Reason, Verdict, judge, rebase};
use tarndb_types::{DbVersion, TxnId};

use super::effects::{own_effects, stored_effects};
use super::evidence::Looker;
use super::late::is_still_there;
use super::{restore, vacuumed};
use crate::catalog::Catalog;
use crate::database::Inner;
use crate::error::DbError;
use crate::transaction::{Pin, Transaction};

/// How far a transaction is judged.
#[derive(Debug)]
pub(crate) struct Resolver {
    inner: Arc<Inner>,
    txn: Arc<Transaction>,
    id: TxnId,
    base: DbVersion,
    ours: Effects,
    looker: Looker,
    pin: Option<Pin>,
    catalog: Catalog,
    /// Files that are older than the transaction were looked at.
    prepared_checked: bool,
    /// A vacuum was met since the last look: what earlier attempts stored may be deleted.
    met_vacuum: bool,
}

impl Resolver {
    pub(crate) fn new(txn: &Arc<Transaction>) -> Result<Self, DbError> {
        Ok(Self {
            inner: Arc::clone(txn.inner()),
            txn: Arc::clone(txn),
            id: txn.id,
            base: txn.snapshot.version(),
            ours: own_effects(txn)?,
            looker: Looker::of(txn),
            pin: txn.pin,
            catalog: txn.snapshot.catalog().clone(),
            prepared_checked: false,
            met_vacuum: false,
        })
    }

    /// Judges all records up to the head. `Some` when one of them holds the transaction itself:
    /// it was committed before, under the same id.
    ///
    /// # Errors
    /// The conflict, when a verdict does not let the transaction through.
    pub(crate) async fn catch_up(&mut self, head: &Catalog) -> Result<Option<DbVersion>, DbError> {
        let judged = self.catalog.version();
        if !self.prepared_checked {
            vacuumed::check_prepared(&self.inner, &self.txn).await?;
            self.prepared_checked = true;
        }
        while self.catalog.version() < head.version() {
            let version = self.catalog.version().next();
            let record = match self.inner.record(version).await {
                Err(DbError::RecordMissing { missing, .. }) => {
                    return Err(DbError::BaseExpired {
                        base: self.base,
                        missing,
                    });
                }
                other => other?,
            };
            if record.holds(self.id) {
                return Ok(Some(version));
            }
            if record.fences(self.id) {
                return Err(self.txn.fenced(version));
            }
            // The whole record is applied first: its entries are then found by their position.
            let after = self.catalog.apply(&record);
            let after = after.map_err(|violation| DbError::Invariant { version, violation })?;
            for txn in &record.txns {
                let mut before = self.catalog.clone();
                let effects =
                    stored_effects(&self.inner, &mut before, version, txn, &self.ours).await?;
                self.catalog = before;
                let evidence = self
                    .looker
                    .look(&self.inner, &after, txn, &self.ours, &effects)
                    .await?;
                let theirs = Committed {
                    version,
                    txn: txn.id,
                    effects,
                    evidence,
                };
                self.allow(judge(&self.ours, &theirs))?;
                self.check_whole(&theirs)?;
                self.ours = rebase(std::mem::take(&mut self.ours), &theirs);
            }
            for vacuum in record.vacuums() {
                self.met_vacuum = true;
                vacuumed::check_clones(&self.inner, &self.txn, vacuum).await?;
                let covers = |table| vacuum.covers(table);
                vacuumed::check(&self.inner, &self.txn, version, vacuum.before, covers).await?;
                restore::check_kept(&self.inner, &self.txn, &after, covers).await?;
                restore::check_objects(&self.txn, &after)?;
            }
            self.catalog = after;
        }
        if self.catalog.version() > judged {
            self.check_base().await?;
        }
        Ok(None)
    }

    /// A transaction that takes the whole database back looked at all of its catalog.
    fn check_whole(&self, theirs: &Committed) -> Result<(), DbError> {
        let whole = self
            .txn
            .changes
            .operations
            .contains(&Operation::RestoreDatabase);
        match theirs.effects.catalog.first() {
            Some(effect) if whole => {
                let change = CatalogAspect::of(effect);
                let conflict = Conflict {
                    table: None,
                    ours: Operation::RestoreDatabase,
                    theirs: change.operation(),
                    version: theirs.version,
                    txn: theirs.txn,
                    reason: Reason::CatalogChanged {
                        change: change.name(),
                    },
                };
                Err(self.conflict(true, conflict))
            }
            _ => Ok(()),
        }
    }

    /// Whether a vacuum was met since this was asked last.
    pub(crate) fn take_met_vacuum(&mut self) -> bool {
        std::mem::take(&mut self.met_vacuum)
    }

    /// The effects after `earlier` transactions that stand before it in the same record; `None`
    /// when one of them is in its way. That is no verdict yet: whether they are committed is
    /// known only when the record is.
    pub(crate) fn after(&self, earlier: &[Committed]) -> Option<Effects> {
        let mut ours = self.ours.clone();
        for theirs in earlier {
            match judge(&ours, theirs) {
                Verdict::Compatible | Verdict::Rebase => ours = rebase(ours, theirs),
                Verdict::Retryable(_) | Verdict::Incompatible(_) => return None,
            }
        }
        Some(ours)
    }

    /// The records after the base of a transaction that was open for long may have been removed,
    /// and a late writer's be found in their place: they count while the base's own is there.
    async fn check_base(&self) -> Result<(), DbError> {
        if !self.inner.is_expired(self.txn.began)
            || is_still_there(&self.inner, self.txn.snapshot.catalog()).await?
        {
            return Ok(());
        }
        Err(DbError::BaseExpired {
            base: self.base,
            missing: self.base,
        })
    }

    fn allow(&self, verdict: Verdict) -> Result<(), DbError> {
        match verdict {
            Verdict::Compatible => Ok(()),
            Verdict::Rebase => {
                self.inner.metrics.note_rebase();
                Ok(())
            }
            Verdict::Retryable(conflict) => Err(self.conflict(true, conflict)),
            Verdict::Incompatible(conflict) => Err(self.conflict(false, conflict)),
        }
    }

    fn conflict(&self, retryable: bool, conflict: Conflict) -> DbError {
        self.inner.metrics.note_conflict(&conflict.reason);
        let table = conflict.table.and_then(|id| {
            let known = self.catalog.table_or_dropped(id);
            // What the transaction shows names the tables that it creates.
            known.or_else(|| self.txn.changes.catalog.table_or_dropped(id))
        });
        let table = table.map(|table| table.display_name());
        if let Some(error) = app_transaction_committed(&conflict, table.as_deref()) {
            return error;
        }
        let conflict = Box::new(conflict);
        if let Some(pin) = self.pin {
            return DbError::ReadVersionChanged {
                read_version: pin.version,
                retryable: retryable && !pin.read_before,
                table,
                conflict,
            };
        }
        DbError::Conflict {
            retryable,
            table,
            conflict,
        }
    }
}

/// The conflict with another attempt of the same application transaction, which was first.
fn app_transaction_committed(conflict: &Conflict, table: Option<&str>) -> Option<DbError> {
    match &conflict.reason {
        Reason::AppTxn {
            app_id,
            ours,
            theirs,
        } if theirs >= ours => Some(DbError::AppTransactionCommitted {
            table: table.unwrap_or_default().to_owned(),
            app_id: app_id.clone(),
            version: *ours,
            committed: *theirs,
            at: Some(conflict.version),
        }),
        _ => None,
    }
}
