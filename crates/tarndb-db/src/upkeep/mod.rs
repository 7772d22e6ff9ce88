//! What a handle does for its tables by itself, after its own commits.
//!
//! Invariant: one piece of work at a time, in the background, after the commit was answered; a
//! failure is logged and costs nobody anything. It stops with the handle: closing waits for a
//! piece that is due or under way, but not for long. What is due is a function of the table's
//! state (`due`), looked at when a handle's own commit makes a table's version a multiple of an
//! interval, so that many short processes do it as one long one would.
//! Does not: delete files of tables; that is asked for (`vacuum`).
//! Spec: docs/guide/maintenance.md, "By itself".

mod due;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{Either, select};
use tarndb_table::WriteOptions;
use tarndb_types::{DbVersion, TableId, TableVersion};

pub use due::AUTO_COMPACT_PROPERTY;

use crate::cleanup::LogCleanupOptions;
use crate::compact::CompactOptions;
use crate::database::{Database, Inner};
use crate::error::{DbError, ErrorKind};
use crate::options::PublishMode;

/// Own versions of a table between two looks at its files.
const LOOK_INTERVAL: u64 = 16;
/// Bytes that one piece of work rewrites at most.
const PIECE_BYTES: u64 = 128 << 20;
/// Files that are worth being joined, once there are enough of them in all.
const BIN_FILES_MIN: usize = 8;
/// Records between two cleanups of the log.
const CLEANUP_INTERVAL: u64 = 1000;
/// How long closing waits for work that is due.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// What a handle does by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpkeepOptions {
    /// Files of one size in a partition at which they are joined; `None`: never.
    pub compact_files_min: Option<usize>,
    /// How long records of the database log are kept at least; `None`: it is never cleaned up.
    pub clean_log_after: Option<Duration>,
}

impl UpkeepOptions {
    /// Nothing.
    pub const OFF: Self = Self {
        compact_files_min: None,
        clean_log_after: None,
    };
}

impl Default for UpkeepOptions {
    fn default() -> Self {
        Self::OFF
    }
}

/// What is to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    state: Mutex<State>,
    /// One piece of work at a time.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    tables: BTreeMap<TableId, TableVersion>,
    clean_log: bool,
}

impl Upkeep {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is due, and nothing is from now on.
    fn take(&self) -> Option<State> {
        let state = std::mem::take(&mut *self.lock());
        (!state.is_empty()).then_some(state)
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.tables.is_empty() && !self.clean_log
    }
}

/// Notes what a commit of this handle made, before anything else can happen to its caller.
pub(crate) fn note_commit(
    inner: &Inner,
    version: DbVersion,
    entries: impl Iterator<Item = (TableId, TableVersion)>,
) {
    let options = &inner.options.upkeep;
    if *options == UpkeepOptions::OFF || inner.options.publish == PublishMode::Manual {
        return;
    }
    let mut state = inner.upkeep.lock();
    if options.compact_files_min.is_some() {
        let due = entries.filter(|(_, version)| version.0 > 0);
        state
            .tables
            .extend(due.filter(|(_, version)| version.0.is_multiple_of(LOOK_INTERVAL)));
    }
    if options.clean_log_after.is_some() && version.0.is_multiple_of(CLEANUP_INTERVAL) {
        state.clean_log = true;
    }
}

/// Begins what is due, in the background: publishing does not wait for it.
pub(crate) fn start(inner: &Arc<Inner>) {
    let is_due = !inner.upkeep.lock().is_empty();
    let is_idle = inner.upkeep.turn.try_lock().is_ok();
    // Whoever is at work looks again before it ends.
    if is_due
        && is_idle
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        let inner = Arc::clone(inner);
        runtime.spawn(async move { run(&inner).await });
    }
}

/// Does what is due. Never fails: what goes wrong is tried again when it is due again.
async fn run(inner: &Arc<Inner>) {
    let _turn = inner.upkeep.turn.lock().await;
    while let Some(state) = inner.upkeep.take() {
        work(inner, state).await;
    }
}

async fn work(inner: &Arc<Inner>, due: State) {
    let State { tables, clean_log } = due;
    let database = Database::of(inner);
    for table in tables.into_keys() {
        told("a compaction", compact(&database, table).await);
    }
    if clean_log && let Some(retention) = inner.options.upkeep.clean_log_after {
        let options = LogCleanupOptions {
            retention,
            ..LogCleanupOptions::default()
        };
        told("a cleanup", database.clean_log(&options, |_| {}).await);
    }
}

/// Before the handle is closed: does what is due and waits for what is under way, for a while.
pub(crate) async fn finish(inner: &Arc<Inner>) {
    let is_due = !inner.upkeep.lock().is_empty();
    let is_idle = inner.upkeep.turn.try_lock().is_ok();
    if (is_idle && !is_due) || inner.check_open().is_err() {
        return;
    }
    let (work, timer) = (Box::pin(run(inner)), inner.context().sleep(CLOSE_MAX));
    if let Either::Right(_) = select(work, Box::pin(timer)).await {
        tracing::debug!("closing does not wait any longer for the upkeep of tables");
    }
}

/// One piece: the first files that are due.
async fn compact(database: &Database, table: TableId) -> Result<(), DbError> {
    let inner = &database.inner;
    let Some(files_min) = inner.options.upkeep.compact_files_min else {
        return Ok(());
    };
    let snapshot = database.cached_snapshot();
    // Nobody looks after a dropped table.
    let Ok(entry) = snapshot.entry(table) else {
        return Ok(());
    };
    let state = snapshot.table(table).await?;
    let write = WriteOptions::of_table(&state).map_err(DbError::table(entry.display_name()))?;
    let due = due::due(&state, write.target_file_bytes, files_min.max(2));
    if due.is_empty() {
        return Ok(());
    }
    let options = CompactOptions {
        only: Some(due),
        min_files: BIN_FILES_MIN.min(files_min),
        group_bytes: PIECE_BYTES,
        versions_max: 1,
        ..CompactOptions::default()
    };
    let report = database.compact(table, &options).await?;
    let (files, made) = (report.files_rewritten, report.files_written);
    tracing::debug!(
        table = entry.display_name(),
        files,
        made,
        "small files were joined"
    );
    Ok(())
}

fn told<T>(what: &str, done: Result<T, DbError>) {
    match done {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::Closed | ErrorKind::NotFound) => {}
        Err(error) => tracing::warn!(
            error = &error as &dyn std::error::Error,
            "{what} that was due could not be done"
        ),
    }
}
