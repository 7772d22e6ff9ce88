//! `DeltaCodec`: the Delta format behind `TableCodec`.
//!
//! Invariant: `apply(head, encode(commit))` is the state that the commit describes; an entry
//! is published byte for byte as it was committed.
//! Spec: docs/format/publishing.md; Delta PROTOCOL.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tarndb_storage::{Path, Store};
use tarndb_table::{
    CheckpointInfo, Commit, Deletion, DvDescriptor, Entry, LoadRequest, LogPlan, LogRequest,
    References, RowSet, TableCodec, TableError, TableState,
};
use tarndb_txn::TableEffects;
use tarndb_types::{TableVersion, TxnId, Uuid};

use crate::action::{Action, parse_lines};
use crate::bases::Bases;
use crate::checkpoint::write::write_checkpoint;
use crate::error::DeltaError;
use crate::load::{commit_key, entry_actions};
use crate::replay::Replay;
use crate::side_files::write_side_files;
use crate::{dv, effects, encode, load, log_cleanup, path, references};

/// Largest deletion vector kept in the log itself, bytes.
const INLINE_DV_BYTES: usize = 1024;

/// Commits between two looks for tombstones that have expired.
const EXPIRE_EVERY: u64 = 256;

/// The codec of Delta tables.
#[derive(Clone, Debug)]
pub struct DeltaCodec {
    inline_dv_bytes: usize,
    /// Where the paths of the one table that it is for may lead.
    bases: Bases,
}

impl Default for DeltaCodec {
    fn default() -> Self {
        Self {
            inline_dv_bytes: INLINE_DV_BYTES,
            bases: Bases::default(),
        }
    }
}

impl DeltaCodec {
    /// A codec that keeps deletion vectors of up to `bytes` serialised bytes in the log.
    pub fn with_inline_dv_bytes(bytes: usize) -> Self {
        Self {
            inline_dv_bytes: bytes,
            bases: Bases::default(),
        }
    }
}

#[async_trait]
impl TableCodec for DeltaCodec {
    fn format(&self) -> &'static str {
        "delta"
    }

    fn reaching(&self, location: &Path, bases: &[Path]) -> Arc<dyn TableCodec> {
        Arc::new(Self {
            bases: Bases::new(location, bases),
            ..self.clone()
        })
    }

    async fn load(&self, request: LoadRequest<'_>) -> Result<TableState, TableError> {
        Ok(load::load(request, self.bases.clone()).await?)
    }

    async fn load_at_its_word(&self, request: LoadRequest<'_>) -> Result<TableState, TableError> {
        Ok(load::load_at_its_word(request, self.bases.clone()).await?)
    }

    fn apply(&self, state: Option<&TableState>, entry: &Entry) -> Result<TableState, TableError> {
        let expected = state.map_or(0, |state| state.version.0 + 1);
        let log = Path::from("_delta_log");
        if entry.version.0 != expected {
            return Err(DeltaError::TailGap {
                wanted: expected,
                have: entry.version.0.to_string(),
                log: log.to_string(),
            }
            .into());
        }
        let mut replay = match state {
            Some(state) => Replay::from_state(state)?,
            None => Replay::default(),
        }
        .reaching(self.bases.clone());
        replay.commit(entry_actions(entry, &log)?)?;
        if entry.version.0.is_multiple_of(EXPIRE_EVERY) {
            replay.expire_tombstones();
        }
        Ok(replay.finish(entry.version.0, log.as_ref())?)
    }

    fn added_files(&self, entry: &Entry) -> Result<BTreeMap<String, u64>, TableError> {
        let mut added = BTreeMap::new();
        for action in entry_actions(entry, &Path::from("_delta_log"))? {
            if let Action::Add(add) = action {
                let size = u64::try_from(add.size).unwrap_or(0);
                added.insert(path::table_path(&add.path)?, size);
            }
        }
        Ok(added)
    }

    fn encode(&self, commit: &Commit<'_>) -> Result<Entry, TableError> {
        Ok(encode::encode(commit)?)
    }

    async fn effects(
        &self,
        store: &Store,
        location: &Path,
        entry: &Entry,
        rows_for: &BTreeSet<String>,
    ) -> Result<TableEffects, TableError> {
        Ok(effects::effects(store, location, entry, rows_for).await?)
    }

    async fn load_deletion(
        &self,
        store: &Store,
        location: &Path,
        deletion: &Deletion,
    ) -> Result<Arc<RowSet>, TableError> {
        Ok(effects::deleted_rows(store, location, deletion).await?)
    }

    async fn store_deletions(
        &self,
        store: &Store,
        location: &Path,
        rows: &[Arc<RowSet>],
    ) -> Result<Vec<DvDescriptor>, TableError> {
        Ok(dv::store(store, location, rows, self.inline_dv_bytes).await?)
    }

    fn published_key(&self, location: &Path, version: TableVersion) -> Path {
        commit_key(&path::log_dir(location), version.0)
    }

    fn published_bytes(&self, entry: &Entry) -> Bytes {
        let mut text = entry.lines.join("\n");
        text.push('\n');
        text.into_bytes().into()
    }

    fn published_txn(&self, bytes: &[u8]) -> Option<TxnId> {
        let text = std::str::from_utf8(bytes).ok()?;
        let actions = parse_lines(text.lines(), "a published commit").ok()?;
        actions.into_iter().find_map(|action| match action {
            Action::CommitInfo(info) => info.txn_id?.parse().ok(),
            _ => None,
        })
    }

    async fn checkpoint(
        &self,
        store: &Store,
        location: &Path,
        state: &TableState,
    ) -> Result<CheckpointInfo, TableError> {
        Ok(write_checkpoint(store, location, state).await?)
    }

    async fn write_side_files(
        &self,
        store: &Store,
        location: &Path,
        state: &TableState,
        since: TableVersion,
        txn: Option<TxnId>,
    ) -> Result<(), TableError> {
        let txn = txn.map(|txn| txn.to_string());
        let written = write_side_files(store, location, state, since.0, txn.as_deref());
        Ok(written.await?)
    }

    fn staged_key(&self, location: &Path, version: TableVersion, id: Uuid) -> Path {
        path::log_dir(location)
            .join("_staged_commits")
            .join(format!("{:020}.{}.json", version.0, id.hyphenated()))
    }

    fn references(&self, state: &TableState) -> Result<References, TableError> {
        Ok(references::of_state(state)?)
    }

    fn entry_references(&self, entry: &Entry) -> Result<References, TableError> {
        Ok(references::of_entry(entry)?)
    }

    async fn plan_log_cleanup(
        &self,
        store: &Store,
        location: &Path,
        request: LogRequest<'_>,
    ) -> Result<LogPlan, TableError> {
        Ok(log_cleanup::plan(store, location, request).await?)
    }
}
