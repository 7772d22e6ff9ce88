//! Rules about data files and their rows.
//!
//! Invariant: a file whose rows are unknown on either side counts as touched whole; rows that a
//! row map does not know are never taken to be carried.
//! Does not see rows of files that only one side touches.
//! Spec: docs/conflicts.md, "Rows".

use super::Outcome;
use crate::aspect::{Extent, Part};
use crate::reason::Reason;
use crate::row_map::RowMap;
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

/// One side moves files, the other deletes in them: the deletions follow the rows.
pub(super) fn row_map(ours: Part<'_>, theirs: Part<'_>) -> Outcome {
    let (by_us, map) = match (ours, theirs) {
        (Part::Moves { map, .. }, _) => (true, map),
        (_, Part::Moves { map, .. }) => (false, map),
        _ => (false, None),
    };
    // A file that they dropped whole lost all its rows; one that we rewrote (copy-on-write)
    // lives on in our new files, and only the whole transaction can be run again.
    let whole_is_all = matches!(theirs, Part::Removes(_));
    let (mut unmapped, mut whole) = (FileSample::default(), FileSample::default());
    let mut gone = FileSample::default();
    let mut carried = false;
    let common = common(ours, theirs);
    if common.is_empty() {
        return Outcome::Compatible;
    }
    let map = map.map(RowMap::index);
    for (file, our_extent, their_extent) in common {
        let Some(map) = map.as_ref().filter(|map| map.has_source(file)) else {
            unmapped.push(|| file.to_owned());
            continue;
        };
        match if by_us { their_extent } else { our_extent } {
            Extent::Rows(rows) => match map.carry(file, rows) {
                Some(to) if to.gone.is_empty() => carried = true,
                Some(to) => gone.push(|| FileRows {
                    file: file.to_owned(),
                    rows: RowSample::of(&to.gone),
                }),
                None => unmapped.push(|| file.to_owned()),
            },
            Extent::Whole if whole_is_all => carried = true,
            Extent::Whole => whole.push(|| file.to_owned()),
        }
    }
    if !gone.is_empty() {
        return Outcome::Conflict(Reason::RowsUnmapped { files: gone, by_us });
    }
    if !unmapped.is_empty() {
        let files = unmapped;
        return Outcome::Conflict(Reason::FilesMoved { files, by_us });
    }
    if !whole.is_empty() {
        return Outcome::Conflict(Reason::SameFiles { files: whole });
    }
    if carried {
        Outcome::Rebase
    } else {
        Outcome::Compatible
    }
}

/// Both sides move files.
pub(super) fn same_files(ours: Part<'_>, theirs: Part<'_>) -> Outcome {
    on_common(ours, theirs, |files| Reason::BothMoved { files })
}

/// Conflict when there are common files.
pub(super) fn on_common(
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
    let theirs = theirs.files();
    let ours = ours.files().into_iter();
    ours.filter_map(|(file, extent)| Some((file, extent, *theirs.get(file)?)))
        .collect()
}
