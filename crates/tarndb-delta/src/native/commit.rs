//! The commit loop of a table whose own log decides.
//!
//! Invariant: a version is put once, if absent; until it is known to be another's, the same
//! bytes are sent; every winner is judged, in order, before the next version is tried; the
//! commit is encoded anew on what the winners made of the table.
//! Spec: docs/format/native.md, "Committing".

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tarndb_log::{After, Appended};
use tarndb_table::{
    Commit, CommitStamp, DataFile, Deletion, Entry, FileUpdate, MetadataChange, RuleChange,
    TableCodec, TableDefinition, TableState, Written,
};
use tarndb_txn::Operation;
use tarndb_types::{DatabaseId, DbVersion, TableVersion, TimestampMs, TxnId, Uuid};

use super::conflict::{Current, Judged, NativeIsolation, Reads, Winner, judge};
use super::error::NativeError;
use super::table::NativeTable;
use crate::action::{Action, parse_commit, parse_lines};
use crate::encode::{Authority, encode_for};
use crate::error::DeltaError;
use crate::load::{commit_key, load_own_log};
use crate::state::vector_id;

/// Versions read at the same time when others have won.
const READ_AHEAD: u64 = 4;
/// A writer that has not looked at the log for so long looks again before it puts, and after:
/// far below every retention of a log.
pub(super) const STALE: Duration = Duration::from_secs(15 * 60);

/// What a commit changes, whatever version it becomes.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) operation: Operation,
    /// In place of the operation's name.
    pub(super) name: Option<&'static str>,
    /// When the first file of deletion vectors can have been written, ms since 1970 UTC.
    pub(super) vectors_since: Option<i64>,
    pub(super) parameters: BTreeMap<String, String>,
    pub(super) metrics: BTreeMap<String, String>,
    pub(super) adds: Vec<DataFile>,
    pub(super) updates: Vec<FileUpdate>,
    pub(super) removes: Vec<Arc<DataFile>>,
    /// The files of the change data feed.
    pub(super) changes: Vec<DataFile>,
    pub(super) app_txns: BTreeMap<String, i64>,
    pub(super) metadata: Vec<MetadataChange>,
    pub(super) create: Option<TableDefinition>,
    /// The earlier version whose files come back.
    pub(super) restored: Option<Arc<TableState>>,
    pub(super) reads: Reads,
}

impl Change {
    pub(super) fn new(operation: Operation) -> Self {
        Self {
            operation,
            name: None,
            vectors_since: None,
            parameters: BTreeMap::new(),
            metrics: BTreeMap::new(),
            adds: Vec::new(),
            updates: Vec::new(),
            removes: Vec::new(),
            changes: Vec::new(),
            app_txns: BTreeMap::new(),
            metadata: Vec::new(),
            create: None,
            restored: None,
            reads: Reads::Nothing,
        }
    }

    /// Adds written files, and moves the marks of identity columns that gave them numbers.
    pub(super) fn add(&mut self, written: Written) {
        if written.files.is_empty() {
            return;
        }
        self.adds.extend(written.files);
        for used in written.identities {
            let (column, mark) = (used.column, used.after);
            let change = RuleChange::MoveIdentity { column, mark };
            self.metadata.push(MetadataChange::Rule(change));
        }
    }

    /// When the first of its files was written, ms since 1970 UTC.
    fn oldest_file(&self) -> Option<i64> {
        let files = self.adds.iter().chain(&self.changes);
        let times = files.map(|file| file.modification_time_ms);
        times.chain(self.vectors_since).min()
    }

    fn is_blind_append(&self) -> bool {
        self.reads == Reads::Nothing
            && !self.adds.is_empty()
            && self.updates.is_empty()
            && self.removes.is_empty()
    }

    /// Names the files as `head` has them. A winner may have told a file anew without changing its rows.
    fn rebased(&mut self, head: &TableState) -> Result<(), DeltaError> {
        let updated = self.updates.iter_mut().map(|update| &mut update.old);
        for file in updated.chain(&mut self.removes) {
            let live = head.files.get(&file.path);
            let live = live.filter(|live| same_vector(&live.deletion, &file.deletion));
            let Some(live) = live else {
                return Err(DeltaError::IllegalCommit {
                    rule: "a file that no winner removed is live",
                    detail: file.path.clone(),
                });
            };
            *file = live;
        }
        Ok(())
    }
}

fn same_vector(one: &Deletion, other: &Deletion) -> bool {
    vector_id(one) == vector_id(other)
}

/// A commit that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeCommit {
    /// The version that it made.
    pub version: TableVersion,
    /// Its `commitInfo.txnId`.
    pub txn: TxnId,
}

impl NativeTable {
    /// Commits `change`, which was made on this handle's state.
    pub(super) async fn commit(&mut self, mut change: Change) -> Result<NativeCommit, NativeError> {
        let context = self.store.context().clone();
        let txn = TxnId(context.uuid());
        let begun = context.monotonic();
        let read_version = self.state.as_ref().map(|state| state.version);
        loop {
            match (&change.restored, read_version) {
                (Some(_), Some(looked)) => self.check_no_vacuum_after(looked.0)?,
                _ => self.check_not_vacuumed(change.oldest_file())?,
            }
            let (entry, current) = self.encoded(&change, txn, read_version)?;
            if context.monotonic().saturating_sub(self.seen) > self.stale {
                self.catch_up(Some(&current)).await?;
                self.rebase(&mut change)?;
                continue;
            }
            let version = entry.version.0;
            let bytes = self.codec.published_bytes(&entry);
            let is_ours = |found: &[u8]| self.codec.published_txn(found) == Some(txn);
            let left = self.deadline(begun)?;
            let appended = self.log.append(version, bytes, &is_ours, left).await;
            match appended.map_err(|error| NativeError::from_log(txn, error))? {
                Appended::Ours => return self.committed(&entry, txn).await,
                Appended::Theirs(found, after) => {
                    tracing::debug!(version, "another writer won");
                    self.take(version, found, Some(&current))?;
                    match after {
                        After::Nothing => {}
                        After::Entry(found) => {
                            self.take(version + 1, found, Some(&current))?;
                            self.catch_up(Some(&current)).await?;
                        }
                        After::Unknown => self.catch_up(Some(&current)).await?,
                    }
                    self.rebase(&mut change)?;
                }
            }
        }
    }

    fn rebase(&self, change: &mut Change) -> Result<(), NativeError> {
        match &self.state {
            Some(head) => Ok(change.rebased(head)?),
            None => Ok(()),
        }
    }

    /// The time left for a commit that began at `begun`.
    fn deadline(&self, begun: Duration) -> Result<Duration, NativeError> {
        let waited = self.store.context().monotonic().saturating_sub(begun);
        match self.commit_time.checked_sub(waited) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(NativeError::Busy { waited }),
        }
    }

    fn encoded(
        &self,
        change: &Change,
        txn: TxnId,
        read_version: Option<TableVersion>,
    ) -> Result<(Entry, Current), NativeError> {
        let head = self.state.as_deref();
        let isolation = head.map_or_else(NativeIsolation::default, |head| {
            NativeIsolation::of_table(&head.properties)
        });
        let last = head.and_then(|head| head.in_commit_timestamp);
        let now = self.store.context().now().0;
        let timestamp = last.map_or(now, |last| now.max(last.saturating_add(1)));
        let data_change = change.operation != Operation::Rewrite;
        let level = if data_change {
            isolation
        } else {
            NativeIsolation::Snapshot
        };
        let commit = Commit {
            head,
            create: change.create.as_ref(),
            operation: change.name.unwrap_or(change.operation.name()),
            parameters: change.parameters.clone(),
            metrics: change.metrics.clone(),
            adds: &change.adds,
            updates: &change.updates,
            removes: &change.removes,
            changes: &change.changes,
            app_txns: &change.app_txns,
            metadata: &change.metadata,
            restored: change.restored.as_deref(),
            data_change,
            stamp: CommitStamp {
                txn,
                timestamp: TimestampMs(timestamp),
                version: TableVersion(head.map_or(0, |head| head.version.0 + 1)),
                read_version,
                // No database has a part in it, and nothing of these is written.
                database: DatabaseId(Uuid::nil()),
                db_version: DbVersion::ZERO,
                engine: concat!("TarnDB/", env!("CARGO_PKG_VERSION")),
                isolation: level.name(),
            },
        };
        let authority = Authority::OwnLog {
            blind_append: change.is_blind_append(),
        };
        let entry = encode_for(&commit, authority)?;
        let actions = parse_lines(entry.lines.iter().map(String::as_str), "a new commit")?;
        let creates = change.create.is_some();
        let current = Current::new(&actions, change.reads.clone(), isolation, creates)?;
        Ok((entry, current))
    }

    async fn committed(&mut self, entry: &Entry, txn: TxnId) -> Result<NativeCommit, NativeError> {
        let version = entry.version;
        let looked = self.seen;
        self.advance(entry)?;
        let now = self.store.context().monotonic();
        if now.saturating_sub(looked) > self.stale {
            // Slept between looking and putting: is the version part of the log, or did the log
            // go on from a checkpoint above it?
            let reread = load_own_log(&self.store, &self.location, Some(version.0)).await;
            if let Err(DeltaError::Segment(_)) = reread {
                let version = version.0;
                return Err(NativeError::OutcomeExpired { txn, version });
            }
        }
        self.after_commit(txn).await;
        Ok(NativeCommit { version, txn })
    }

    /// Reads what was committed since this handle's version, and judges `current` by it.
    pub(super) async fn catch_up(&mut self, current: Option<&Current>) -> Result<(), NativeError> {
        let context = self.store.context().clone();
        loop {
            let now = context.monotonic();
            let next = self.state.as_ref().map_or(0, |state| state.version.0 + 1);
            let read = self.log.read_on(next, READ_AHEAD).await;
            let read = read.map_err(|error| NativeError::from_log(TxnId(Uuid::nil()), error))?;
            let all = read.len() as u64 == READ_AHEAD;
            for (version, bytes) in read {
                self.take(version, bytes, current)?;
            }
            if !all {
                // Versions right after ours may be gone, and the log go on from a checkpoint.
                if now.saturating_sub(self.seen) > self.stale {
                    self.look_anew(current).await?;
                }
                self.seen = now;
                return Ok(());
            }
        }
    }

    /// Lists the log after a long time.
    async fn look_anew(&mut self, current: Option<&Current>) -> Result<(), NativeError> {
        let newest = load_own_log(&self.store, &self.location, None).await?;
        let known = self.state.as_ref().map(|state| state.version);
        if known.is_some_and(|known| newest.version <= known) {
            return Ok(());
        }
        if current.is_some() {
            let waited = self.store.context().monotonic().saturating_sub(self.seen);
            return Err(NativeError::Busy { waited });
        }
        self.set_state(newest);
        Ok(())
    }

    /// Takes over a version that another wrote.
    fn take(
        &mut self,
        version: u64,
        bytes: Bytes,
        current: Option<&Current>,
    ) -> Result<(), NativeError> {
        let key = commit_key(self.log.dir(), version);
        let actions = parse_commit(&bytes, key.as_ref())?;
        self.note_vacuum(version, &actions);
        if let Some(current) = current {
            let judged = match &self.state {
                Some(before) => judge(current, &Winner::new(version, before, &actions)?)?,
                None => {
                    let location = self.store.url().to_owned();
                    return Err(NativeError::Exists { location });
                }
            };
            match judged {
                Judged::Conflict(conflict) => return Err(NativeError::Conflict(conflict)),
                Judged::Compatible(taken) => {
                    tracing::debug!(version, ?taken, "a winner leaves the commit valid");
                }
            }
        }
        self.advance_by(version, actions)
    }

    fn advance(&mut self, entry: &Entry) -> Result<(), NativeError> {
        let lines = entry.lines.iter().map(String::as_str);
        let actions: Vec<Action> = parse_lines(lines, "a new commit")?;
        self.advance_by(entry.version.0, actions)
    }
}
