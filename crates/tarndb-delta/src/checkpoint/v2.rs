//! V2 checkpoints: the files in sidecars, which the next checkpoint names again where nothing
//! in them has changed.
//!
//! Invariant: a sidecar is complete before a checkpoint names it, and never changed; one is
//! named again only when each of its files is live as it stands there. So a checkpoint costs
//! the sidecars that changed, not the table. The main file has the classic name, so that an
//! old client fails by the protocol and not by a missing file.
//! Does not: delete sidecars that no checkpoint names (the log's cleanup does).
//! Spec: Delta PROTOCOL, "V2 Spec", "Sidecar Files".

use std::ops::Range;

use tarndb_storage::{Path, Store};
use tarndb_table::TableState;

use super::batch::v2_batch;
use super::schema::{sidecar_schema, v2_schema};
use super::stats_form::StatsForm;
use super::write::{Written, live_add, other_actions, removes, write_actions, write_batch};
use crate::action::{Action, Sidecar};
use crate::error::DeltaError;
use crate::feature;
use crate::state::DeltaState;

/// Actions of a new sidecar.
pub(super) const SIDECAR_FILES: usize = 32 * 1024;

/// A sidecar that a state was read from, and the packed files that came from it.
#[derive(Clone, Debug)]
pub struct PackedSidecar {
    pub(crate) sidecar: Sidecar,
    pub(crate) files: Range<u32>,
}

/// Does the table want V2 checkpoints?
pub(super) fn is_asked_for(state: &TableState) -> Result<bool, DeltaError> {
    let policy = state.properties.get("delta.checkpointPolicy");
    let asked = policy.is_some_and(|policy| policy.eq_ignore_ascii_case("v2"));
    let protocol = &DeltaState::of(state)?.protocol;
    Ok(asked && protocol.lists_reader_feature(feature::V2_CHECKPOINT))
}

/// Writes sidecars of at most `sidecar_files` actions and the main file `key`; returns what they hold and the new files.
pub(super) async fn write(
    store: &Store,
    log: &Path,
    key: &Path,
    state: &TableState,
    sidecar_files: usize,
) -> Result<(Written, Vec<Path>), DeltaError> {
    let now = store.context().now().0;
    let stats = StatsForm::of(state);
    let delta = DeltaState::of(state)?;
    let kept: Vec<&PackedSidecar> = delta
        .sidecars
        .iter()
        .filter(|packed| state.files.are_all_packed(&packed.files))
        .collect();
    let mut total = Written::default();
    let mut main: Vec<Action> = other_actions(state, now)?.collect();
    for packed in &kept {
        main.push(Action::Sidecar(packed.sidecar.clone()));
        total.adds += u64::from(packed.files.end - packed.files.start);
    }
    total.actions = total.adds;
    let ranges: Vec<Range<u32>> = kept.iter().map(|packed| packed.files.clone()).collect();
    let adds = state
        .files
        .without_statistics_outside(&ranges)
        .map(|file| Action::Add(Box::new(live_add(&file, state, false))));
    let mut new = Vec::new();
    for actions in [
        &mut (Box::new(adds) as Box<dyn Iterator<Item = Action> + Send>),
        &mut (Box::new(removes(state, now)?) as Box<dyn Iterator<Item = Action> + Send>),
    ] {
        let mut actions = actions.peekable();
        while actions.peek().is_some() {
            let chunk = actions.by_ref().take(sidecar_files.max(1));
            let (sidecar, path, written) = write_sidecar(store, log, &stats, chunk).await?;
            total.actions += written.actions;
            total.adds += written.adds;
            total.size_bytes += written.size_bytes;
            main.push(Action::Sidecar(sidecar));
            new.push(path);
        }
    }
    total.actions += 1 + u64::try_from(main.len()).unwrap_or(0);
    let rows = v2_batch(state.version.0, main, &v2_schema(&stats), &stats);
    let rows = rows.map_err(|error| DeltaError::WriteCheckpoint {
        file: key.to_string(),
        source: error.into(),
    })?;
    total.size_bytes += write_batch(store, key, &rows).await?;
    new.push(key.clone());
    Ok((total, new))
}

async fn write_sidecar(
    store: &Store,
    log: &Path,
    stats: &StatsForm,
    actions: impl Iterator<Item = Action>,
) -> Result<(Sidecar, Path, Written), DeltaError> {
    let name = format!("{}.parquet", store.context().uuid());
    let path = log.clone().join("_sidecars").join(name.as_str());
    let written = write_actions(store, &path, (&sidecar_schema(stats), stats), actions).await?;
    let sidecar = Sidecar {
        path: name,
        size_in_bytes: i64::try_from(written.size_bytes).unwrap_or(i64::MAX),
        modification_time: store.context().now().0,
    };
    Ok((sidecar, path, written))
}

#[cfg(test)]
mod tests;
