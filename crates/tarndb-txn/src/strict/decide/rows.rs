//! Rules about rows: deletions, moved rows and overlays by physical offset, and inserted keys.
//!
//! Invariant: rows that are not known on either side count as every row of their fragment.
//! Does not look at fragments that only one side touches.
//! Spec: docs/conflicts.md, "Strict matrix".

use std::collections::BTreeMap;

use super::{Meeting, Outcome};
use crate::rows::{RowSample, RowSet};
use crate::strict::operation::{
    DeletedRows, FieldId, FragmentId, FragmentSet, KeptFragment, LanceOp, RowChange, UpdateMode,
};
use crate::strict::reason::{FragmentRows, Reason};
use crate::strict::sample::Sample;
use crate::strict::verdict::Work;

/// Note a: deletions in common fragments unite where rows are known and disjoint.
pub(super) fn same_rows(meeting: Meeting<'_>) -> Outcome {
    let (Some(ours), Some(theirs)) = (meeting.ours.rows(), meeting.theirs.rows()) else {
        return Outcome::MISPLACED;
    };
    let touched = ours.touched();
    let common: FragmentSet = touched.intersection(&theirs.touched()).copied().collect();
    let Some(affected) = ours.uniteable() else {
        return Outcome::of(Sample::of(common), |fragments| Reason::RowsUnknown {
            fragments,
            by_us: true,
        });
    };
    let kept = || theirs.updated.iter().filter(|(id, _)| touched.contains(id));
    let changed = kept().filter(|(id, kept)| ours.read.get(id) != Some(&kept.files));
    let removed = theirs.removed.intersection(&touched);
    Outcome::of(Sample::of(changed.map(|(id, _)| *id)), |fragments| {
        Reason::FilesChanged { fragments }
    })
    .or_else(|| {
        Outcome::of(Sample::of(removed.copied()), |fragments| {
            Reason::FragmentsRemoved { fragments }
        })
    })
    .or_else(|| by_row(affected, kept()))
}

/// Rows of ours against the rows that they newly deleted.
fn by_row<'a>(
    affected: &BTreeMap<FragmentId, RowSet>,
    kept: impl Iterator<Item = (&'a FragmentId, &'a KeptFragment)> + Clone,
) -> Outcome {
    let none = RowSet::new();
    let rows = |id: &FragmentId| affected.get(id).unwrap_or(&none);
    let unknown = kept
        .clone()
        .filter(|(_, kept)| kept.deleted == DeletedRows::Unknown);
    if let Some(fragments) = Sample::of(unknown.map(|(id, _)| *id)) {
        return Outcome::Conflict(Reason::RowsUnknown {
            fragments,
            by_us: false,
        });
    }
    let deleted = kept.filter_map(|(id, kept)| match &kept.deleted {
        DeletedRows::Known(rows) if !rows.is_empty() => Some((*id, rows)),
        _ => None,
    });
    let deleted: Vec<_> = deleted.collect();
    let same = deleted
        .iter()
        .filter_map(|(id, theirs)| common_rows(*id, rows(id), theirs));
    if let Some(rows) = Sample::of(same) {
        return Outcome::Conflict(Reason::SameRows { rows });
    }
    let fragments: FragmentSet = deleted.iter().map(|(id, _)| *id).collect();
    if fragments.is_empty() {
        return Outcome::COMPATIBLE;
    }
    Outcome::Passes(vec![Work::UniteVectors { fragments }])
}

fn common_rows(fragment: FragmentId, ours: &RowSet, theirs: &RowSet) -> Option<FragmentRows> {
    let rows = ours & theirs;
    (!rows.is_empty()).then(|| FragmentRows {
        fragment,
        rows: RowSample::of(&rows),
    })
}

/// Note c: keys inserted on both sides.
pub(super) fn inserted_keys(meeting: Meeting<'_>) -> Outcome {
    let LanceOp::Update(ours) = meeting.ours else {
        return Outcome::MISPLACED;
    };
    let theirs = match meeting.theirs {
        LanceOp::Update(theirs) => theirs.keys.as_ref(),
        LanceOp::Append => None,
        _ => return Outcome::MISPLACED,
    };
    match (&ours.keys, theirs) {
        (None, _) => Outcome::COMPATIBLE,
        (Some(ours), Some(theirs)) if ours.fields == theirs.fields => {
            if ours.keys.may_meet(&theirs.keys) {
                Outcome::Conflict(Reason::SameKeys)
            } else {
                Outcome::COMPATIBLE
            }
        }
        (Some(_), _) => Outcome::Conflict(Reason::KeysUnknown),
    }
}

/// Note e: our Update against an overlay, which it was computed without.
pub(super) fn overlaid(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::Update(ours), LanceOp::DataOverlay(theirs)) = (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    if ours.mode == UpdateMode::RewriteColumns {
        let rewritten = theirs.iter().filter(|(id, fields)| {
            ours.rows.updated.contains_key(id)
                && fields
                    .keys()
                    .any(|field| ours.fields_modified.contains(field))
        });
        return Outcome::of(Sample::of(rewritten.map(|(id, _)| *id)), |fragments| {
            Reason::SameCells { fragments }
        });
    }
    if !ours.moves_rows() {
        return Outcome::COMPATIBLE;
    }
    let touched = ours.rows.touched();
    let overlaid = theirs.iter().filter(|(id, _)| touched.contains(id));
    let Some(affected) = ours.rows.uniteable() else {
        return Outcome::of(Sample::of(overlaid.map(|(id, _)| *id)), |fragments| {
            Reason::RowsUnknown {
                fragments,
                by_us: true,
            }
        });
    };
    let rows =
        overlaid.filter_map(|(id, fields)| common_rows(*id, affected.get(id)?, &covered(fields)));
    Outcome::of(Sample::of(rows), |rows| Reason::OverlaidRows { rows })
}

/// Note s: our overlay against an Update.
pub(super) fn overlaid_move(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::DataOverlay(ours), LanceOp::Update(theirs)) = (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    let RowChange {
        updated, removed, ..
    } = &theirs.rows;
    let gone = removed.iter().filter(|id| ours.contains_key(id));
    if let Some(fragments) = Sample::of(gone.copied()) {
        return Outcome::Conflict(Reason::FragmentsRemoved { fragments });
    }
    if !theirs.moves_rows() {
        return Outcome::COMPATIBLE;
    }
    let targets = updated
        .iter()
        .filter_map(|(id, kept)| Some((*id, ours.get(id)?, &kept.deleted)));
    let unknown = targets
        .clone()
        .filter(|(.., deleted)| **deleted == DeletedRows::Unknown);
    if let Some(fragments) = Sample::of(unknown.map(|(id, ..)| id)) {
        return Outcome::Conflict(Reason::RowsUnknown {
            fragments,
            by_us: false,
        });
    }
    let rows = targets.filter_map(|(id, fields, deleted)| match deleted {
        DeletedRows::Known(moved) => common_rows(id, &covered(fields), moved),
        DeletedRows::Unknown => None,
    });
    Outcome::of(Sample::of(rows), |rows| Reason::OverlaidRows { rows })
}

/// Rows of one fragment that any field's overlay covers.
fn covered(fields: &BTreeMap<FieldId, RowSet>) -> RowSet {
    fields.values().fold(RowSet::new(), |all, rows| all | rows)
}
