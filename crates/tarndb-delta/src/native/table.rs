//! `NativeTable`: a table of its own log, open for writing.
//!
//! Invariant: the state is that of one committed version; it moves forward only, by whole
//! versions. What follows a commit (checkpoint, checksum, hint) never fails it.
//! Spec: docs/format/native.md, "After a commit"; Delta PROTOCOL.

use std::sync::Arc;
use std::time::Duration;

use tarndb_log::LogDir;
use tarndb_storage::{Path, Store};
use tarndb_table::{TableDefinition, TableState};
use tarndb_txn::Operation;
use tarndb_types::{TableVersion, TxnId};

use super::commit::{Change, NativeCommit, STALE};
use super::conflict::Reads;
use super::error::NativeError;
use super::permit::check_native_write;
use super::vacuum_mark::SeenVacuum;
use crate::DeltaCodec;
use crate::action::Action;
use crate::checkpoint::write::write_checkpoint;
use crate::error::DeltaError;
use crate::load::load_own_log;
use crate::path;
use crate::replay::Replay;
use crate::side_files::write_side_files;
use crate::state::DeltaState;

/// Commits between two checkpoints where the table does not say.
const CHECKPOINT_INTERVAL: u64 = 10;
/// How long a commit tries.
const COMMIT_TIME: Duration = Duration::from_secs(60);

/// A Delta table by path, whose own log decides. Changes are made on the state that it holds;
/// [`Self::refresh`] brings that up to date.
#[derive(Debug)]
pub struct NativeTable {
    pub(super) store: Store,
    /// The root of the store.
    pub(super) location: Path,
    pub(super) log: LogDir,
    pub(super) codec: DeltaCodec,
    /// `None` until the table is created.
    pub(super) state: Option<Arc<TableState>>,
    /// When the end of the log was last looked at.
    pub(super) seen: Duration,
    /// The last vacuum that was seen to begin since this handle is open.
    pub(super) vacuum: Option<SeenVacuum>,
    pub(super) commit_time: Duration,
    /// How long it relies on what it saw of the log.
    pub(super) stale: Duration,
}

impl NativeTable {
    /// The table at the root of `store`, at its newest version.
    ///
    /// # Errors
    /// As `open_native`, and what keeps this build from writing to the table, by name.
    ///
    /// # Cost
    /// One GET (hint), one LIST, the checkpoint and the commits after it.
    pub async fn open(store: &Store) -> Result<Self, NativeError> {
        let mut table = Self::nothing(store);
        table.set_state(load_own_log(store, &table.location, None).await?);
        table.check_write()?;
        Ok(table)
    }

    /// Creates an empty table at the root of `store`.
    ///
    /// # Errors
    /// `Exists` when it is there, or another creates it at the same time.
    ///
    /// # Cost
    /// One LIST, two PUTs.
    pub async fn create(store: &Store, definition: TableDefinition) -> Result<Self, NativeError> {
        let mut table = Self::nothing(store);
        let mut change = Change::new(Operation::CreateTable);
        change.create = Some(definition);
        table.create_by(change).await?;
        Ok(table)
    }

    /// A handle of a table that is not there yet.
    pub(super) fn nothing(store: &Store) -> Self {
        let location = Path::default();
        Self {
            log: LogDir::new(store.clone(), path::log_dir(&location)),
            seen: store.context().monotonic(),
            vacuum: None,
            store: store.clone(),
            location,
            codec: DeltaCodec::default(),
            state: None,
            commit_time: COMMIT_TIME,
            stale: STALE,
        }
    }

    /// Commits version 0.
    pub(super) async fn create_by(&mut self, change: Change) -> Result<NativeCommit, NativeError> {
        // A log may begin above version 0, when it was cleaned up.
        match load_own_log(&self.store, &self.location, None).await {
            Err(DeltaError::NotATable { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let location = self.store.url().to_owned();
                return Err(NativeError::Exists { location });
            }
        }
        self.commit(change).await
    }

    /// Sets how long a commit tries before it gives up.
    #[must_use]
    pub fn with_commit_time(mut self, time: Duration) -> Self {
        self.commit_time = time;
        self
    }

    /// Sets for how long a commit relies on what this handle saw of the log (15 minutes): it must
    /// be far below what any cleanup of the log retains.
    #[must_use]
    pub fn with_log_seen_for(mut self, time: Duration) -> Self {
        self.stale = time;
        self
    }

    /// The table at the version that this handle holds.
    ///
    /// # Errors
    /// Never for a table that was opened or created.
    pub fn state(&self) -> Result<&Arc<TableState>, NativeError> {
        let state = self.state.as_ref();
        state.ok_or_else(|| {
            let location = self.store.url().to_owned();
            DeltaError::NotATable { location }.into()
        })
    }

    /// The version that this handle holds.
    ///
    /// # Errors
    /// As [`Self::state`].
    pub fn version(&self) -> Result<TableVersion, NativeError> {
        Ok(self.state()?.version)
    }

    /// Takes over what others committed.
    ///
    /// # Errors
    /// A commit that cannot be read, or that makes the table one that this build cannot write.
    ///
    /// # Cost
    /// Four GETs at the same time, and four more for every four versions that are new.
    pub async fn refresh(&mut self) -> Result<(), NativeError> {
        self.catch_up(None).await?;
        self.check_write()
    }

    fn check_write(&self) -> Result<(), NativeError> {
        check_write(self.state()?)
    }

    /// Sets the version of an application, so that what it wrote is written once. Returns `None`,
    /// and commits nothing, when the table has that version of it or a later one.
    ///
    /// # Errors
    /// As any commit.
    pub async fn set_app_transaction(
        &mut self,
        app_id: &str,
        version: i64,
    ) -> Result<Option<NativeCommit>, NativeError> {
        let mut change = Change::new(Operation::Append);
        change.app_txns.insert(app_id.to_owned(), version);
        self.commit_once(change).await
    }

    /// Commits a change that sets application transactions, unless the table has them.
    pub(super) async fn commit_once(
        &mut self,
        change: Change,
    ) -> Result<Option<NativeCommit>, NativeError> {
        loop {
            let state = self.state()?;
            let done = |(app_id, version): (&String, &i64)| {
                state
                    .app_txns
                    .get(app_id)
                    .is_some_and(|have| have >= version)
            };
            if !change.app_txns.is_empty() && change.app_txns.iter().any(done) {
                return Ok(None);
            }
            match self.commit(change.clone()).await {
                // The other's number may be an earlier one.
                Err(NativeError::Conflict(conflict))
                    if conflict.kind == super::conflict::ConflictKind::Transaction
                        && change.reads == Reads::Nothing =>
                {
                    self.catch_up(None).await?;
                }
                other => return other.map(Some),
            }
        }
    }

    pub(super) fn set_state(&mut self, state: TableState) {
        self.state = Some(Arc::new(state));
        self.seen = self.store.context().monotonic();
    }

    /// Moves to the next version.
    pub(super) fn advance_by(
        &mut self,
        version: u64,
        actions: Vec<Action>,
    ) -> Result<(), NativeError> {
        let mut replay = match &self.state {
            Some(state) => Replay::from_state(state)?,
            None => Replay::default(),
        };
        replay.commit(actions)?;
        let state = replay.finish(version, self.log.dir().as_ref())?;
        self.state = Some(Arc::new(state));
        Ok(())
    }

    /// Checksum, and a compaction of the log or a checkpoint when it is time. A failure costs readers some work, not more.
    pub(super) async fn after_commit(&mut self, txn: TxnId) {
        let Some(state) = self.state.clone() else {
            return;
        };
        let (version, txn) = (state.version.0, txn.to_string());
        let (store, location) = (&self.store, &self.location);
        if let Err(error) = write_side_files(store, location, &state, version, Some(&txn)).await {
            tracing::warn!(%error, version, "no checksum or compaction of the log");
        }
        if !is_due(&state) {
            return;
        }
        if let Err(error) = write_checkpoint(&self.store, &self.location, &state).await {
            tracing::warn!(%error, version = state.version.0, "no checkpoint");
        }
    }
}

/// May this build write to the table?
pub(super) fn check_write(state: &TableState) -> Result<(), NativeError> {
    let delta = DeltaState::of(state)?;
    Ok(check_native_write(
        &delta.protocol,
        &delta.metadata,
        &state.schema,
    )?)
}

/// Is the version one to be checkpointed?
fn is_due(state: &TableState) -> bool {
    let interval = state.properties.get("delta.checkpointInterval");
    let interval = interval.and_then(|text| text.trim().parse().ok());
    let interval = interval.filter(|interval| *interval > 0);
    let interval = interval.unwrap_or(CHECKPOINT_INTERVAL);
    state.version.0 > 0 && state.version.0.is_multiple_of(interval)
}
