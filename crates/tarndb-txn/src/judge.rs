//! Judging: effects against effects, part by part, the strictest answer wins.
//!
//! Invariant: derived from the matrix alone; independent of the order of evaluation.
//! Does not look at data: what it needs decoded or looked up, `needs` names.
//! Spec: docs/conflicts.md.

use std::collections::BTreeMap;

use tarndb_types::TableId;

use crate::aspect::{CatalogAspect, Lifecycle, Part, Side};
use crate::decide::{Known, Outcome, catalog, table};
use crate::effects::{CatalogEffect, Committed, Effects, TableEffects};
use crate::matrix::{MANAGED, Matrix};
use crate::operation::{Isolation, Operation};
use crate::verdict::{Conflict, Verdict};

/// Whether ours can be committed after theirs, by the rules of managed tables.
///
/// Call it for every transaction committed above ours' snapshot, in order, and go on with
/// [`crate::rebase`] after each that lets ours through. Files of theirs whose rows are not
/// decoded count as touched whole, and rows that were not looked at as matching, so a caller asks
/// [`crate::rows_needed`] and [`crate::questions`] first.
#[must_use]
pub fn judge(ours: &Effects, theirs: &Committed) -> Verdict {
    judge_by(&MANAGED, ours, theirs)
}

/// As [`judge`], by other rules.
#[must_use]
pub fn judge_by(matrix: &Matrix, ours: &Effects, theirs: &Committed) -> Verdict {
    judge_tables(matrix, ours, theirs).strictest(judge_catalog(matrix, ours, theirs))
}

fn judge_tables(matrix: &Matrix, ours: &Effects, theirs: &Committed) -> Verdict {
    let side = Side::Ours {
        serializable: ours.isolation == Isolation::Serializable,
    };
    let nothing = TableEffects::default();
    let our_lives = lifecycles(ours);
    let their_lives = lifecycles(&theirs.effects);
    let mut verdict = Verdict::Compatible;
    for id in our_lives.keys().filter(|id| their_lives.contains_key(*id)) {
        let life =
            |lives: &BTreeMap<TableId, Lifecycle>| lives.get(id).copied().unwrap_or_default();
        let our_effects = ours.tables.get(id).unwrap_or(&nothing);
        let their_effects = theirs.effects.tables.get(id).unwrap_or(&nothing);
        let their_parts = Part::of(their_effects, life(&their_lives), Side::Theirs);
        let known = Known {
            evidence: &theirs.evidence,
            table: *id,
        };
        for our_part in Part::of(our_effects, life(&our_lives), side) {
            for their_part in &their_parts {
                let outcome = table(matrix, our_part, *their_part, known);
                verdict = verdict.strictest(outcome.into_verdict(|reason| {
                    Conflict {
                        table: Some(*id),
                        ours: our_effects
                            .operation
                            .unwrap_or(our_part.aspect().operation()),
                        theirs: their_effects
                            .operation
                            .unwrap_or(their_part.aspect().operation()),
                        version: theirs.version,
                        txn: theirs.txn,
                        reason,
                    }
                }));
            }
        }
    }
    verdict
}

/// Tables named anywhere in some effects, with what becomes of them according to the catalog.
fn lifecycles(effects: &Effects) -> BTreeMap<TableId, Lifecycle> {
    let mut lives: BTreeMap<_, _> = effects
        .tables
        .keys()
        .map(|id| (*id, Lifecycle::default()))
        .collect();
    for effect in &effects.catalog {
        match effect {
            CatalogEffect::CreateTable { id, .. } => lives.entry(*id).or_default().created = true,
            CatalogEffect::DropTable { id, .. } => lives.entry(*id).or_default().dropped = true,
            CatalogEffect::RenameTable { id, .. } => lives.entry(*id).or_default().renamed = true,
            CatalogEffect::CreateSchema { .. }
            | CatalogEffect::DropSchema { .. }
            | CatalogEffect::CreateView { .. }
            | CatalogEffect::DropView { .. }
            | CatalogEffect::CreateTag { .. }
            | CatalogEffect::DropTag { .. } => {}
        }
    }
    lives
}

fn judge_catalog(matrix: &Matrix, ours: &Effects, theirs: &Committed) -> Verdict {
    let mut verdict = Verdict::Compatible;
    let mut add = |outcome: Outcome, ours: Operation, theirs_effect: &CatalogEffect, table| {
        let found = outcome.into_verdict(|reason| Conflict {
            table,
            ours,
            theirs: CatalogAspect::of(theirs_effect).operation(),
            version: theirs.version,
            txn: theirs.txn,
            reason,
        });
        verdict = std::mem::replace(&mut verdict, Verdict::Compatible).strictest(found);
    };
    for their_effect in &theirs.effects.catalog {
        for our_effect in &ours.catalog {
            let outcome = catalog::changes(matrix, our_effect, their_effect);
            let operation = CatalogAspect::of(our_effect).operation();
            add(outcome, operation, their_effect, table_of(our_effect));
        }
        if ours.isolation == Isolation::Serializable {
            for (schema, name) in &ours.names_read {
                let outcome = catalog::lookup(matrix, schema, name, their_effect);
                add(
                    outcome,
                    Operation::Read,
                    their_effect,
                    table_of(their_effect),
                );
            }
        }
    }
    verdict
}

const fn table_of(effect: &CatalogEffect) -> Option<TableId> {
    match effect {
        CatalogEffect::CreateSchema { .. }
        | CatalogEffect::DropSchema { .. }
        | CatalogEffect::CreateView { .. }
        | CatalogEffect::DropView { .. }
        | CatalogEffect::CreateTag { .. }
        | CatalogEffect::DropTag { .. } => None,
        CatalogEffect::CreateTable { id, .. }
        | CatalogEffect::DropTable { id, .. }
        | CatalogEffect::RenameTable { id, .. } => Some(*id),
    }
}
