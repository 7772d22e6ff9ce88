//! Rules about what our transaction relied on: keys that it found absent, the predicate that it
//! replaced, the rows that it read.
//!
//! Invariant: only a look that found nothing, or key sets that cannot have one key in common,
//! make a change compatible with what was relied on. What nobody looked at counts as a match.
//! Does not look; `tarndb-db` answers the questions of [`crate::questions`].
//! Spec: docs/conflicts.md, "Evidence".

use tarndb_types::TableId;

use super::Outcome;
use super::files::on_common;
use crate::aspect::Part;
use crate::effects::{OverwriteKind, Read, TableEffects};
use crate::evidence::{Answer, Evidence, Question};
use crate::key_set::KeySet;
use crate::reason::Reason;

/// What a look into their data told about one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) evidence: &'a Evidence,
    pub(crate) table: TableId,
}

/// Found and why, or not looked at and why not.
enum Found {
    Nothing,
    Match(String),
    Unknown(String),
}

impl Known<'_> {
    fn found(self, question: Question) -> Found {
        match self.evidence.answer(self.table, question) {
            Some(Answer::No) => Found::Nothing,
            Some(Answer::Yes(what)) => Found::Match(what.clone()),
            Some(Answer::Unknown(why)) => Found::Unknown(why.clone()),
            None => Found::Unknown("nobody looked at these rows".to_owned()),
        }
    }
}

/// Whether the key sets alone tell that they added no row with a key of ours.
pub(crate) fn keys_tell(ours: &KeySet, theirs: Option<&KeySet>) -> bool {
    theirs.is_some_and(|theirs| theirs.covers_adds && ours.common(theirs) == Some(0))
}

/// Our keys against rows that they added.
pub(super) fn added_keys(ours: Part<'_>, theirs: Part<'_>, known: Known<'_>) -> Outcome {
    let (Part::Keys(ours), Part::Adds { keys: theirs }) = (ours, theirs) else {
        return Outcome::Conflict(Reason::KeysUnknown {
            columns: String::new(),
            why: "they are not known".to_owned(),
        });
    };
    if keys_tell(ours, theirs) {
        return Outcome::Compatible;
    }
    let columns = ours.columns.join(", ");
    match known.found(Question::AddedKeys) {
        Found::Nothing => Outcome::Compatible,
        Found::Match(found) => Outcome::Conflict(Reason::KeysAdded { columns, found }),
        Found::Unknown(why) => match theirs.and_then(|theirs| ours.common(theirs)) {
            None | Some(0) => Outcome::Conflict(Reason::KeysUnknown { columns, why }),
            Some(1) => Outcome::Conflict(Reason::KeysAdded {
                columns,
                found: "1 key that both wrote or looked for".to_owned(),
            }),
            Some(count) => Outcome::Conflict(Reason::KeysAdded {
                columns,
                found: format!("{count} keys that both wrote or looked for"),
            }),
        },
    }
}

/// The predicate of our overwrite against rows that they added.
pub(super) fn added_matching(ours: Part<'_>, known: Known<'_>) -> Outcome {
    let Part::OverwriteWhere {
        predicate,
        source_read_target: false,
        ..
    } = ours
    else {
        return Outcome::Conflict(Reason::OverwriteSource);
    };
    let predicate = predicate.to_owned();
    match known.found(Question::AddedInOverwrite) {
        Found::Nothing => Outcome::Compatible,
        Found::Match(found) => Outcome::Conflict(Reason::OverwriteAdded { predicate, found }),
        Found::Unknown(why) => Outcome::Conflict(Reason::OverwriteUnknown { predicate, why }),
    }
}

/// Files in which our overwrite replaces rows against files that they touched.
pub(super) fn touched_files(ours: Part<'_>, theirs: Part<'_>) -> Outcome {
    match (ours, theirs) {
        (
            Part::OverwriteWhere {
                source_read_target: true,
                ..
            },
            Part::Deletes(_) | Part::Removes(_),
        ) => Outcome::Conflict(Reason::OverwriteSource),
        _ => on_common(ours, theirs, |files| Reason::OverwriteTouched { files }),
    }
}

/// What we read against rows that they added, deleted or replaced.
pub(super) fn rows_read(ours: Part<'_>, theirs: Part<'_>, known: Known<'_>) -> Outcome {
    let change = theirs.aspect().name();
    let Part::Read(Read::Rows { .. }) = ours else {
        return Outcome::Conflict(Reason::ReadChanged { change });
    };
    match known.found(Question::ChangedInReads) {
        Found::Nothing => Outcome::Compatible,
        Found::Match(found) => Outcome::Conflict(Reason::ReadMatched { change, found }),
        Found::Unknown(why) => Outcome::Conflict(Reason::ReadUnknown { change, why }),
    }
}

/// Whether rows that are added can decide about our predicate overwrite.
pub(crate) const fn asks_matching(ours: &TableEffects) -> bool {
    matches!(
        ours.overwrite,
        Some(OverwriteKind::Where {
            source_read_target: false,
            ..
        })
    )
}
