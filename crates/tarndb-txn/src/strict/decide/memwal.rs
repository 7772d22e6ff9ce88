//! Rules about generations of the in-memory write-ahead log.
//!
//! Invariant: a generation is committed once; what is not above the committed one is superseded.
//! Does not know what a generation holds.
//! Spec: docs/conflicts.md, "Strict matrix".

use super::{Meeting, Outcome};
use crate::strict::index::MEM_WAL_INDEX;
use crate::strict::operation::{Generation, LanceOp};
use crate::strict::reason::Reason;
use crate::strict::verdict::Work;

/// Note m: generations that both sides record.
pub(super) fn generations(meeting: Meeting<'_>) -> Outcome {
    let (Some(ours), Some(theirs)) = (recorded(meeting.ours), recorded(meeting.theirs)) else {
        return Outcome::MISPLACED;
    };
    by_shard(ours, theirs)
}

/// Note n, ours = CreateIndex: the state merges into the index that ours publishes.
pub(super) fn merges_generations(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::CreateIndex(ours), LanceOp::UpdateMemWalState(theirs)) =
        (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    if !ours.adds(MEM_WAL_INDEX) {
        return Outcome::Conflict(Reason::Excluded);
    }
    Outcome::Passes(vec![Work::RaiseGenerations {
        committed: theirs.clone(),
    }])
}

/// Note n, ours = UpdateMemWalState: against the index that theirs publishes.
pub(super) fn published_generations(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::UpdateMemWalState(ours), LanceOp::CreateIndex(theirs)) =
        (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    if theirs.adds(MEM_WAL_INDEX) {
        by_shard(ours, &theirs.generations)
    } else {
        Outcome::COMPATIBLE
    }
}

fn recorded(op: &LanceOp) -> Option<&[Generation]> {
    match op {
        LanceOp::UpdateMemWalState(generations) => Some(generations),
        LanceOp::Update(update) => Some(&update.generations),
        _ => None,
    }
}

/// The first shard in their order that both record decides.
fn by_shard(ours: &[Generation], theirs: &[Generation]) -> Outcome {
    let common = theirs.iter().find_map(|theirs| {
        let ours = ours.iter().find(|ours| ours.shard == theirs.shard)?;
        Some((ours, theirs))
    });
    Outcome::of(common, |(ours, theirs)| Reason::Generation {
        shard: ours.shard,
        ours: ours.generation,
        theirs: theirs.generation,
    })
}
