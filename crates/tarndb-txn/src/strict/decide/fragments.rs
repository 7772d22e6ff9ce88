//! Rules about whole fragments and the column files in them.
//!
//! Invariant: a fragment that only one side touches is never at issue.
//! Does not look at rows.
//! Spec: docs/conflicts.md, "Strict matrix".

use super::{Meeting, Outcome};
use crate::strict::operation::{FragmentSet, LanceOp, Remap, Targets};
use crate::strict::reason::Reason;
use crate::strict::sample::Sample;

/// Note b: a common fragment.
pub(super) fn same_fragments(meeting: Meeting<'_>) -> Outcome {
    let (ours, theirs) = (meeting.ours.touched(), meeting.theirs.touched());
    let common = Sample::of(ours.intersection(&theirs).copied());
    Outcome::of(common, |fragments| Reason::SameFragments { fragments })
}

/// Note b between two Rewrites, which also meet in the fragment reuse index.
pub(super) fn same_rewrites(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::Rewrite(ours), LanceOp::Rewrite(theirs)) = (meeting.ours, meeting.theirs) else {
        return Outcome::MISPLACED;
    };
    let consumed = meeting.theirs.touched();
    let consumed = Sample::of(consumed.intersection(&ours.transitions).copied());
    let both_defer = ours.remap == Remap::Deferred && theirs.remap == Remap::Deferred;
    Outcome::of(consumed, |fragments| Reason::TransitionsConsumed {
        fragments,
    })
    .or_else(|| same_fragments(meeting))
    .or_else(|| {
        let replaced = both_defer && !meeting.table.tagged_reuse;
        Outcome::of(replaced.then_some(()), |()| Reason::ReuseReplaced)
    })
}

/// Note o: our targets against a Delete.
pub(super) fn target_removed(meeting: Meeting<'_>) -> Outcome {
    let LanceOp::Delete(theirs) = meeting.theirs else {
        return Outcome::MISPLACED;
    };
    let targets = meeting.ours.touched();
    let removed = Sample::of(theirs.removed.intersection(&targets).copied());
    match meeting.ours {
        LanceOp::DataReplacement(_) => {
            Outcome::of(removed, |fragments| Reason::TargetsRemoved { fragments })
        }
        LanceOp::DataOverlay(_) => {
            Outcome::of(removed, |fragments| Reason::FragmentsRemoved { fragments })
        }
        _ => Outcome::MISPLACED,
    }
}

/// Note p: our replacement against an Update.
pub(super) fn target_updated(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::DataReplacement(ours), LanceOp::Update(theirs)) = (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    let targets: FragmentSet = ours.keys().copied().collect();
    let removed = Sample::of(theirs.rows.removed.intersection(&targets).copied());
    let stale = ours.iter().filter(|(id, fields)| {
        theirs.rows.updated.contains_key(id)
            && (theirs.moves_rows() || !fields.is_disjoint(&theirs.fields_modified))
    });
    Outcome::of(removed, |fragments| Reason::TargetsRemoved { fragments }).or_else(|| {
        Outcome::of(Sample::of(stale.map(|(id, _)| *id)), |fragments| {
            Reason::TargetsChanged { fragments }
        })
    })
}

/// Note r: both replace one field of one fragment.
pub(super) fn same_cells(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::DataReplacement(ours), LanceOp::DataReplacement(theirs)) =
        (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    let common = common_cells(ours, theirs);
    Outcome::of(Sample::of(common), |fragments| Reason::SameCells {
        fragments,
    })
}

fn common_cells(ours: &Targets, theirs: &Targets) -> FragmentSet {
    let common = ours.iter().filter(|(id, fields)| {
        theirs
            .get(id)
            .is_some_and(|theirs| !fields.is_disjoint(theirs))
    });
    common.map(|(id, _)| *id).collect()
}
