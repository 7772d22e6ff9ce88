//! Judging by the strict rules: one cell, its rules in order, the first conflict decides.
//!
//! Invariant: derived from the matrix alone.
//! Does not look at data: what it needs decoded, [`rows_needed`] names.
//! Spec: docs/conflicts.md, "Strict rules".

use super::decide::{Meeting, Outcome, decide};
use super::matrix::{Matrix, STRICT};
use super::operation::{DeletedRows, FragmentSet, LanceOp};
use super::verdict::{Committed, Conflict, TableFacts, Verdict};

/// Whether ours can be committed after theirs, by the rules of the Lance specification's code.
///
/// Call it for every version above the one that ours read, in order. A conflict ends the commit;
/// the work of rebases adds up. Deletion vectors of theirs that are not decoded count as every
/// row, so a caller asks [`rows_needed`] first.
#[must_use]
pub fn judge(table: TableFacts, ours: &LanceOp, theirs: &Committed) -> Verdict {
    judge_by(&STRICT, table, ours, theirs)
}

/// As [`judge`], by another matrix.
#[must_use]
pub fn judge_by(matrix: &Matrix, table: TableFacts, ours: &LanceOp, theirs: &Committed) -> Verdict {
    let meeting = Meeting {
        table,
        ours,
        theirs: &theirs.op,
    };
    let mut work = Vec::new();
    for rule in matrix.rules(ours.kind(), theirs.op.kind()) {
        match decide(*rule, meeting) {
            Outcome::Passes(more) => work.extend(more),
            Outcome::Conflict(reason) => {
                let is_retryable = reason.is_retryable();
                let conflict = Conflict {
                    ours: ours.kind(),
                    theirs: theirs.op.kind(),
                    version: theirs.version,
                    txn: theirs.txn.clone(),
                    rule: *rule,
                    reason,
                };
                return if is_retryable {
                    Verdict::Retryable(conflict)
                } else {
                    Verdict::Incompatible(conflict)
                };
            }
        }
    }
    if work.is_empty() {
        Verdict::Compatible
    } else {
        Verdict::Rebase(work)
    }
}

/// Fragments whose deletion vectors (of theirs, and the one before) must be decoded before
/// judging: those where rows decide and theirs are not known yet.
#[must_use]
pub fn rows_needed(ours: &LanceOp, theirs: &LanceOp) -> FragmentSet {
    let Some(changed) = theirs.rows() else {
        return FragmentSet::new();
    };
    let is_needed = match (ours, theirs) {
        (LanceOp::DataOverlay(_), LanceOp::Update(update)) => update.moves_rows(),
        _ => ours.rows().is_some_and(|rows| rows.uniteable().is_some()),
    };
    let touched = ours.touched();
    let unknown = changed
        .updated
        .iter()
        .filter(|(_, kept)| kept.deleted == DeletedRows::Unknown);
    unknown
        .map(|(id, _)| *id)
        .filter(|id| is_needed && touched.contains(id))
        .collect()
}
