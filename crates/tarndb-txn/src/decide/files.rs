//! Rules about data files and their rows.
//!
//! Invariant: a file whose rows are unknown on either side counts as touched whole.
//! Does not see rows of files that only one side touches.
//! Spec: docs/conflicts.md, "Rows".

use std::collections::BTreeMap;

use super::Outcome;
use crate::aspect::{Extent, Part};
use crate::reason::Reason;
use crate::rows::{FileRows, FileSample, RowSample};

/// Disjoint rows unite, common rows conflict.
pub(super) fn same_rows(ours: Part<'_>, theirs: Part<'_>) -> Outcome {
    let mut rows = FileSample::default();
    let mut whole = FileSample::default();
    let mut united = false;
    for (file, ours, theirs) in common(ours, theirs) {
        match (ours, theirs) {
            (Extent::Rows(ours), Extent::Rows(theirs)) if ours.is_disjoint(theirs) => united = true,
            (Extent::Rows(ours), Extent::Rows(theirs)) => rows.push(|| FileRows {
                file: file.to_owned(),
                rows: RowSample::of(&(ours & theirs)),
            }),
            _ => whole.push(|| file.to_owned()),
        }
    }
    if !rows.is_empty() {
        return Outcome::Conflict(Reason::SameRows { files: rows });
    }
    if !whole.is_empty() {
        return Outcome::Conflict(match theirs {
            Part::Removes(_) => Reason::FilesDropped { files: whole },
            _ => Reason::SameFiles { files: whole },
        });
    }
    if united {
        Outcome::Rebase
    } else {
        Outcome::Compatible
    }
}

/// One side moves files, the other deletes in them; no row maps are recorded yet.
pub(super) fn row_map(ours: Part<'_>, theirs: Part<'_>) -> Outcome {
    let by_us = matches!(ours, Part::Moves(_));
    on_common(ours, theirs, |files| Reason::FilesMoved { files, by_us })
}

/// Both sides move files.
pub(super) fn same_files(ours: Part<'_>, theirs: Part<'_>) -> Outcome {
    on_common(ours, theirs, |files| Reason::BothMoved { files })
}

fn on_common(
    ours: Part<'_>,
    theirs: Part<'_>,
    reason: impl FnOnce(FileSample<String>) -> Reason,
) -> Outcome {
    let mut files = FileSample::default();
    for (file, _, _) in common(ours, theirs) {
        files.push(|| file.to_owned());
    }
    if files.is_empty() {
        Outcome::Compatible
    } else {
        Outcome::Conflict(reason(files))
    }
}

/// Files that both touch, ascending.
fn common<'a>(ours: Part<'a>, theirs: Part<'a>) -> Vec<(&'a str, Extent<'a>, Extent<'a>)> {
    let theirs: BTreeMap<_, _> = theirs.files().into_iter().collect();
    let ours = ours.files().into_iter();
    ours.filter_map(|(file, extent)| Some((file, extent, *theirs.get(file)?)))
        .collect()
}
