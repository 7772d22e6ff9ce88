//! The files of the change data feed that a change of rows needs.
//!
//! Invariant: where there are any they tell all changes of the commit, for a reader then looks
//! at nothing else. They are written before the first attempt; what others do meanwhile changes
//! none of these rows, or the commit conflicts.
//! Does not: write any where the commit's own files tell the changes: appends, deletions by
//! vectors or of whole files, overwrites, compaction.
//! Spec: Delta PROTOCOL, "Change Data Feed"; docs/format/delta.md, "Change data feed".

use std::collections::BTreeMap;

use tarndb_table::change_files::{DELETE, INSERT, UPDATE_POSTIMAGE, UPDATE_PREIMAGE};
use tarndb_table::{ChangeFiles, DataFile, RowSet, TableState, Wanted, WrittenChange};

use super::error::NativeError;
use super::protocol::has_feature;
use super::table::NativeTable;
use crate::error::DeltaError;
use crate::feature;
use crate::state::DeltaState;

/// Do readers of the table's changes rely on what commits write for them?
pub(super) fn has_feed(state: &TableState) -> Result<bool, DeltaError> {
    let protocol = &DeltaState::of(state)?.protocol;
    Ok(state.has_change_feed() && has_feature(protocol, feature::CHANGE_DATA_FEED))
}

impl NativeTable {
    /// Tells the rows that go and those that come.
    pub(super) async fn tell_changes(
        &self,
        state: &TableState,
        rows: &BTreeMap<String, RowSet>,
        written: &WrittenChange,
    ) -> Result<Vec<DataFile>, NativeError> {
        let (store, location) = (self.store.clone(), self.location.clone());
        let mut told = ChangeFiles::new(store, location, state)?;
        let none = RowSet::new();
        for (path, rows) in rows {
            if rows.is_empty() {
                continue;
            }
            let file = state.files.get(path).ok_or_else(|| {
                let (file, rows) = (path.clone(), rows.len());
                NativeError::RowsNotLive { file, rows }
            })?;
            let replaced = match written.apart {
                true => written.replaced.get(path).unwrap_or(&none),
                false => &none,
            };
            let change = |position| match replaced.contains(position) {
                true => UPDATE_PREIMAGE,
                false => DELETE,
            };
            told.copy(&file, Wanted::Only(rows), change).await?;
        }
        let updated = match written.apart {
            true => UPDATE_POSTIMAGE,
            false => INSERT,
        };
        let [new, changed] = written.parts();
        for (written, change) in [(new, INSERT), (changed, updated)] {
            for file in &written.files {
                told.copy(file, Wanted::AllBut(&none), |_| change).await?;
            }
        }
        Ok(told.finish().await?)
    }
}
