//! Needs: what a caller has to decode and look up before it asks for a verdict.
//!
//! Invariant: as little as decides. Without it the verdict is still safe, only stricter.
//! Does not decode.
//! Spec: docs/conflicts.md, "Evidence".

use std::collections::BTreeSet;

use crate::decide::{asks_matching, keys_tell};
use crate::effects::{Read, TableEffects};
use crate::evidence::Question;
use crate::operation::Isolation;
use crate::rows::{Removal, Touched};

/// Files of theirs whose newly deleted rows must be decoded before judging, because they are not
/// known yet ([`Touched::WholeFile`]) and matter: ours deletes some rows of the file, or moves it
/// with a row map. For what ours read they are looked up with the rows themselves
/// ([`Question::ChangedInReads`]), and only where the file can match.
#[must_use]
pub fn rows_needed(ours: &TableEffects, theirs: &TableEffects) -> BTreeSet<String> {
    if theirs.overwrites_all() {
        return BTreeSet::new();
    }
    let by_file = ours.overwrite.is_none();
    let matters = |file: &&String| {
        let moves = ours.removes.get(*file) == Some(&Removal::Moved) && ours.row_map.is_some();
        let deletes = matches!(ours.deletions.get(*file), Some(Touched::Rows(_)));
        by_file && (deletes || moves)
    };
    let unknown = theirs
        .deletions
        .iter()
        .filter(|(_, touched)| **touched == Touched::WholeFile);
    unknown
        .map(|(file, _)| file)
        .filter(matters)
        .cloned()
        .collect()
}

/// Whether their row map decides: they moved a file of which ours deletes rows.
#[must_use]
pub fn row_map_needed(ours: &TableEffects, theirs: &TableEffects) -> bool {
    let moved = |file| theirs.removes.get(file) == Some(&Removal::Moved);
    let rows = |touched: &Touched| matches!(touched, Touched::Rows(_));
    ours.overwrite.is_none()
        && ours
            .deletions
            .iter()
            .any(|(file, touched)| rows(touched) && moved(file))
}

/// What must be looked up in the rows that they added (and, for reads, deleted and replaced)
/// before judging; `isolation` is ours. Nothing that the effects decide alone is asked.
#[must_use]
pub fn questions(
    ours: &TableEffects,
    theirs: &TableEffects,
    isolation: Isolation,
) -> BTreeSet<Question> {
    let mut questions = BTreeSet::new();
    if theirs.adds && !theirs.overwrites_all() {
        let keys = ours.keys.as_ref();
        if keys.is_some_and(|keys| !keys_tell(keys, theirs.keys.as_ref())) {
            questions.insert(Question::AddedKeys);
        }
        if asks_matching(ours) {
            questions.insert(Question::AddedInOverwrite);
        }
    }
    let by_rows = matches!(ours.read, Some(Read::Rows { .. }));
    if isolation == Isolation::Serializable && by_rows && theirs.changes_data() {
        questions.insert(Question::ChangedInReads);
    }
    questions
}
