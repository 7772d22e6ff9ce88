//! Rebase: our effects as they are after theirs.
//!
//! Invariant: called once per committed transaction, in order, after [`crate::judge`] let ours
//! through; what it returns is judged against the next one and is what gets encoded. Every row
//! that ours deletes keeps its identity, wherever it is by now.
//! Does not unite vectors, take removals anew or re-apply metadata: the encoder does, against
//! the head.
//! Spec: docs/conflicts.md, "Rebase".

use std::cell::LazyCell;
use std::collections::BTreeMap;

use crate::effects::{Committed, Effects, TableEffects};
use crate::rows::{Removal, RowSet, Touched};

/// Our effects after theirs: deletions in files that they moved are carried to where the rows
/// are now; rows that they deleted in files that we move are carried to our new files.
#[must_use]
pub fn rebase(mut ours: Effects, theirs: &Committed) -> Effects {
    for (id, table) in &mut ours.tables {
        if let Some(theirs) = theirs.effects.tables.get(id) {
            follow_their_moves(table, theirs);
            carry_their_deletions(table, theirs);
        }
    }
    ours
}

/// Our deletions go where their rewrite put the rows.
fn follow_their_moves(ours: &mut TableEffects, theirs: &TableEffects) {
    let Some(map) = &theirs.row_map else { return };
    let map = LazyCell::new(|| map.index());
    let mut moved: BTreeMap<String, RowSet> = BTreeMap::new();
    ours.deletions.retain(|file, touched| {
        let (Some(Removal::Moved), Touched::Rows(rows)) = (theirs.removes.get(file), touched)
        else {
            return true;
        };
        let Some(carried) = map.carry(file, rows) else {
            return true;
        };
        unite(&mut moved, carried.moved);
        false
    });
    for (file, rows) in moved {
        let touched = ours
            .deletions
            .entry(file)
            .or_insert_with(|| Touched::Rows(RowSet::new()));
        if let Touched::Rows(there) = touched {
            *there |= rows;
        }
    }
}

/// Their deletions go where our rewrite put the rows.
fn carry_their_deletions(ours: &mut TableEffects, theirs: &TableEffects) {
    let Some(map) = ours.row_map.clone() else {
        return;
    };
    let map = LazyCell::new(|| map.index());
    let moved = ours
        .removes
        .iter()
        .filter(|(_, removal)| **removal == Removal::Moved);
    for (file, _) in moved {
        if let Some(Touched::Rows(rows)) = theirs.deletions.get(file)
            && let Some(carried) = map.carry(file, rows)
        {
            unite(&mut ours.carried, carried.moved);
        }
        if theirs.removes.get(file) == Some(&Removal::Deleted) {
            unite(&mut ours.carried, map.carry_all(file));
        }
    }
}

fn unite(into: &mut BTreeMap<String, RowSet>, more: BTreeMap<String, RowSet>) {
    for (file, rows) in more {
        *into.entry(file).or_default() |= rows;
    }
}
