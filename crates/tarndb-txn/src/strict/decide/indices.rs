//! Rules about index segments: their names, their coverage, and the fragment reuse index.
//!
//! Invariant: a segment that does not say what it covers counts as covering everything.
//! Does not know what an index holds.
//! Spec: docs/conflicts.md, "Strict matrix".

use super::{Meeting, Outcome};
use crate::strict::index::{IndexChange, MEM_WAL_INDEX, REUSE_INDEX, RowDomain, Segment};
use crate::strict::operation::{FragmentSet, LanceOp, Remap, Rewrite, Update};
use crate::strict::reason::Reason;
use crate::strict::sample::Sample;
use crate::strict::verdict::{TableFacts, Work};

/// Note h: two CreateIndex.
pub(super) fn same_index(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::CreateIndex(ours), LanceOp::CreateIndex(theirs)) = (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    if ours.trims_reuse {
        let touched = theirs.adds(REUSE_INDEX) || theirs.removes(REUSE_INDEX);
        return Outcome::of(touched.then_some(()), |()| Reason::ReuseReplaced);
    }
    let named = ours.added.iter().find(|segment| theirs.adds(&segment.name));
    Outcome::of(named, |segment| Reason::IndexName {
        name: segment.name.clone(),
    })
    .or_else(|| {
        let name =
            extended_and_removed(ours, theirs).or_else(|| extended_and_removed(theirs, ours));
        Outcome::of(name, |name| Reason::IndexRemoved { name })
    })
    .or_else(|| replaced_twice(ours, theirs))
}

/// A name to which one side adds a segment (without removing one) and the other removes one.
fn extended_and_removed(one: &IndexChange, other: &IndexChange) -> Option<String> {
    let names = one.added.iter().map(|segment| &segment.name);
    let mut extended = names.filter(|name| !one.removes(name));
    extended.find(|name| other.removes(name)).cloned()
}

/// A segment that both remove and for which either side publishes a replacement.
fn replaced_twice(ours: &IndexChange, theirs: &IndexChange) -> Outcome {
    let publishes = |name: &str| ours.adds(name) || theirs.adds(name);
    let mut both = ours.removed.iter().flat_map(|ours| {
        let same = theirs
            .removed
            .iter()
            .filter(|theirs| theirs.uuid == ours.uuid);
        same.map(move |theirs| (ours, theirs))
    });
    let replaced = both.find(|(ours, theirs)| publishes(&ours.name) || publishes(&theirs.name));
    Outcome::of(replaced, |(ours, _)| Reason::SegmentReplaced {
        name: ours.name.clone(),
        segment: ours.uuid,
    })
}

/// Note i: our CreateIndex against a Rewrite.
pub(super) fn indexed_move(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::CreateIndex(ours), LanceOp::Rewrite(theirs)) = (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    if ours.trims_reuse {
        return Outcome::COMPATIBLE;
    }
    let consumed = meeting.theirs.touched();
    match theirs.remap {
        Remap::Eager => ours
            .added
            .iter()
            .fold(Outcome::COMPATIBLE, |before, segment| {
                before.or_else(|| covered(segment, &consumed))
            }),
        Remap::Deferred => deferred_move(meeting.table, ours, &consumed),
    }
}

/// A Rewrite that the reuse index records.
fn deferred_move(table: TableFacts, ours: &IndexChange, consumed: &FragmentSet) -> Outcome {
    for segment in &ours.added {
        let unread = if segment.is_ngram {
            covered(segment, consumed)
        } else if table.tagged_reuse && segment.coverage.is_none() {
            coverage_unknown(segment)
        } else {
            Outcome::COMPATIBLE
        };
        if unread != Outcome::COMPATIBLE {
            return unread;
        }
    }
    if ours.mixes_reuse() {
        return Outcome::Conflict(Reason::ReuseMixed);
    }
    let replaced = ours.adds(REUSE_INDEX).then_some(());
    Outcome::of(replaced, |()| Reason::ReuseReplaced)
}

/// Fragments that moved, against what a segment covers.
fn covered(segment: &Segment, moved: &FragmentSet) -> Outcome {
    let Some(coverage) = &segment.coverage else {
        return coverage_unknown(segment);
    };
    let common = Sample::of(coverage.intersection(moved).copied());
    Outcome::of(common, |fragments| Reason::CoverageMoved {
        index: segment.name.clone(),
        fragments,
    })
}

fn coverage_unknown(segment: &Segment) -> Outcome {
    Outcome::Conflict(Reason::CoverageUnknown {
        index: segment.name.clone(),
    })
}

/// Note l: our Rewrite against a CreateIndex.
pub(super) fn moved_index(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::Rewrite(ours), LanceOp::CreateIndex(theirs)) = (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    if theirs.mixes_reuse() {
        return Outcome::Conflict(Reason::ReuseMixed);
    }
    if theirs.adds(REUSE_INDEX) || theirs.trims_reuse {
        return match ours.remap {
            Remap::Eager => Outcome::COMPATIBLE,
            Remap::Deferred => Outcome::Passes(vec![Work::RebuildReuse]),
        };
    }
    let moved = meeting.ours.touched();
    theirs
        .added
        .iter()
        .fold(Outcome::COMPATIBLE, |before, segment| {
            before.or_else(|| match ours.remap {
                Remap::Eager => covered(segment, &moved),
                Remap::Deferred => translatable(meeting.table, ours, segment),
            })
        })
}

/// Whether the reuse entry that ours writes can serve a segment published meanwhile.
fn translatable(table: TableFacts, ours: &Rewrite, segment: &Segment) -> Outcome {
    let index = || segment.name.clone();
    if table.stable_row_ids && segment.domain == RowDomain::RowId && segment.name != MEM_WAL_INDEX {
        return Outcome::Conflict(Reason::RowIdIndex { index: index() });
    }
    let Some(coverage) = &segment.coverage else {
        return coverage_unknown(segment);
    };
    let split = ours.groups.iter().find_map(|group| {
        let inside: FragmentSet = group.intersection(coverage).copied().collect();
        (inside.len() < group.len()).then(|| Sample::of(inside))?
    });
    Outcome::of(split, |fragments| Reason::CoverageSplit {
        index: index(),
        fragments,
    })
}

/// Note j: a CreateIndex and a Merge, in either order.
pub(super) fn indexed_merge(meeting: Meeting<'_>) -> Outcome {
    let (change, merge, index_is_ours) = match (meeting.ours, meeting.theirs) {
        (LanceOp::CreateIndex(change), LanceOp::Merge(merge)) => (change, merge, true),
        (LanceOp::Merge(merge), LanceOp::CreateIndex(change)) => (change, merge, false),
        _ => return Outcome::MISPLACED,
    };
    if change.adds(MEM_WAL_INDEX) {
        return Outcome::Conflict(Reason::MemWalSchema);
    }
    if !meeting.table.tagged_reuse {
        return Outcome::COMPATIBLE;
    }
    let fields = change.fields();
    let gone = Sample::of(fields.intersection(&merge.gone).copied());
    Outcome::of(gone, |fields| Reason::IndexedFieldsGone { fields })
        .or_else(|| by_lineage(index_is_ours && !fields.is_empty()))
}

/// Note k: a CreateIndex and a replacement of column files, in either order.
pub(super) fn indexed_replacement(meeting: Meeting<'_>) -> Outcome {
    let (change, targets, index_is_ours) = match (meeting.ours, meeting.theirs) {
        (LanceOp::CreateIndex(change), LanceOp::DataReplacement(targets)) => {
            (change, targets, true)
        }
        (LanceOp::DataReplacement(targets), LanceOp::CreateIndex(change)) => {
            (change, targets, false)
        }
        _ => return Outcome::MISPLACED,
    };
    let fields = change.fields();
    let replaced = targets.values().flatten().filter(|id| fields.contains(id));
    let replaced = Sample::of(replaced.copied().collect::<std::collections::BTreeSet<_>>());
    if index_is_ours && meeting.table.tagged_reuse {
        return by_lineage(replaced.is_some());
    }
    Outcome::of(replaced, |fields| Reason::IndexedFieldsReplaced { fields })
}

/// Note w: our CreateIndex gives up fragments whose indexed fields were rewritten.
pub(super) fn indexed_update(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::CreateIndex(ours), LanceOp::Update(theirs)) = (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    if meeting.table.tagged_reuse {
        return by_lineage(!ours.fields().is_disjoint(&theirs.fields_modified));
    }
    let withdrawn = ours
        .added
        .iter()
        .filter_map(|segment| withdrawn(segment, theirs));
    Outcome::Passes(withdrawn.collect())
}

fn withdrawn(segment: &Segment, update: &Update) -> Option<Work> {
    if segment.fields.is_disjoint(&update.fields_modified) {
        return None;
    }
    let coverage = segment.coverage.as_ref()?;
    let updated = update.rows.updated.keys();
    let fragments: FragmentSet = updated
        .filter(|id| coverage.contains(id))
        .copied()
        .collect();
    (!fragments.is_empty()).then_some(Work::WithdrawCoverage {
        segment: segment.uuid,
        fragments,
    })
}

fn by_lineage(is_needed: bool) -> Outcome {
    Outcome::Passes(
        is_needed
            .then_some(Work::WithdrawByLineage)
            .into_iter()
            .collect(),
    )
}
