//! What vacuums leave in the catalog: how far back files can be counted on.
//!
//! Invariant: a pure function of the records, as all of the catalog. Marks only move forward.
//! A table that was dropped before the horizon is purged: nothing of it is published or read
//! again, and only its id and location stay taken.
//! Spec: docs/format/log.md, "Vacuum".

use std::collections::BTreeSet;
use std::sync::Arc;

use tarndb_storage::Path;
use tarndb_types::{DbVersion, TableId, TimestampMs};

use super::{Catalog, TableEntry};
use crate::record::VacuumAction;

/// The newest vacuum, of whatever tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VacuumMark {
    /// Its record.
    pub version: DbVersion,
    /// Its horizon.
    pub horizon: DbVersion,
    /// No file that the store has had since before this time may be committed any more, unless
    /// a retained version names it.
    pub before: TimestampMs,
}

impl TableEntry {
    /// Whether it was dropped so long ago that a vacuum deletes all its files.
    pub fn is_purged(&self) -> bool {
        match (self.dropped, self.vacuumed) {
            (Some(dropped), Some(horizon)) => dropped <= horizon,
            _ => false,
        }
    }
}

impl Catalog {
    /// The newest vacuum.
    pub fn vacuum(&self) -> Option<VacuumMark> {
        self.vacuum
    }

    pub(super) fn note_vacuum(&mut self, action: &VacuumAction, version: DbVersion) {
        let before = self.vacuum.map_or(action.before, |mark| mark.before);
        let horizon = self.vacuum.map_or(action.horizon, |mark| mark.horizon);
        self.vacuum = Some(VacuumMark {
            version,
            horizon: horizon.max(action.horizon),
            before: before.max(action.before),
        });
        let all = self.tables.values().chain(self.dropped.values());
        let covered = all.filter(|table| action.covers(table.id));
        let covered: BTreeSet<Path> = covered.map(|table| table.location.clone()).collect();
        let all = self.tables.values().chain(self.dropped.values());
        let tagged = all.filter(|table| self.is_tagged(table));
        let tagged: BTreeSet<TableId> = tagged.map(|table| table.id).collect();
        for tables in [&mut self.tables, &mut self.dropped] {
            // Files of a base that only older versions of a clone need go too.
            let shares = |table: &TableEntry| table.bases.iter().any(|b| covered.contains(b));
            let concerned = tables.values();
            let concerned = concerned.filter(|table| action.covers(table.id) || shares(table));
            let ids: Vec<TableId> = concerned.map(|table| table.id).collect();
            for id in ids {
                if let Some(table) = tables.get_mut(&id) {
                    let horizon = match (table.dropped, tagged.contains(&id)) {
                        // A tag keeps it from being purged.
                        (Some(dropped), true) => action.horizon.min(before_drop(dropped)),
                        _ => action.horizon,
                    };
                    mark(Arc::make_mut(table), horizon);
                }
            }
        }
    }
}

/// The last version at which a dropped table was there.
fn before_drop(dropped: DbVersion) -> DbVersion {
    DbVersion(dropped.0.saturating_sub(1))
}

fn mark(table: &mut TableEntry, horizon: DbVersion) {
    // What came after the horizon is not in question, and what was given back is not ours.
    if table.created > horizon || table.is_detached {
        return;
    }
    table.vacuumed = table.vacuumed.max(Some(horizon));
    if table.is_purged() {
        table.published = Some(table.version);
        table.positions = imbl::OrdMap::new();
    }
}
