//! Rules about fields that come, go or become NOT NULL.
//!
//! Invariant: a schema change that does not assert that it preserves nullability may not.
//! Does not look at the schema itself.
//! Spec: docs/conflicts.md, "Strict matrix".

use super::{Meeting, Outcome};
use crate::strict::operation::{FieldSet, LanceOp};
use crate::strict::reason::Reason;
use crate::strict::sample::Sample;

/// Note d: our Update against a Project.
pub(super) fn modified_field(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::Update(ours), LanceOp::Project(theirs)) = (meeting.ours, meeting.theirs) else {
        return Outcome::MISPLACED;
    };
    let dropped = Sample::of(ours.fields_modified.intersection(&theirs.gone).copied());
    Outcome::of(dropped, |fields| Reason::FieldsDropped { fields })
}

/// Note q: our replacement against a Project.
pub(super) fn replaced_field(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::DataReplacement(ours), LanceOp::Project(theirs)) = (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    let replaced: FieldSet = ours.values().flatten().copied().collect();
    let dropped = Sample::of(replaced.intersection(&theirs.gone).copied());
    Outcome::of(dropped, |fields| Reason::ReplacedFieldsDropped { fields })
}

/// Note x: values beside a schema change that may make a field NOT NULL.
pub(super) fn nullability(meeting: Meeting<'_>) -> Outcome {
    let Meeting { ours, theirs, .. } = meeting;
    let by_us = may_tighten(ours) && writes_values(theirs);
    let by_them = may_tighten(theirs) && writes_values(ours);
    Outcome::of((by_us || by_them).then_some(by_us), |by_us| {
        Reason::Nullability { by_us }
    })
}

const fn may_tighten(op: &LanceOp) -> bool {
    match op {
        LanceOp::Merge(change) | LanceOp::Project(change) => !change.preserves_nullability,
        _ => false,
    }
}

const fn writes_values(op: &LanceOp) -> bool {
    matches!(
        op,
        LanceOp::Append
            | LanceOp::Update(_)
            | LanceOp::DataReplacement(_)
            | LanceOp::DataOverlay(_)
    )
}
