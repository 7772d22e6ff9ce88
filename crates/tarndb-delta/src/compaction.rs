//! Log compactions: one file that stands for a range of commits.
//!
//! Invariant: replaying a compaction on any state gives what replaying its commits gives, their
//! `commitInfo` aside; every removal and every removed domain of the range is in it. It is made
//! of published commits, and never written over another: all of one range are equivalent.
//! Does not: say when one is due (`side_files`), or choose those to read (`tarndb-log`).
//! Spec: Delta PROTOCOL, "Log Compaction Files"; docs/format/delta.md, "Log compactions".

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt};
use tarndb_storage::{Path, PutOutcome, Store};

use crate::action::{Action, Add, AppTxn, DomainMetadata, Remove, parse_commit};
use crate::error::DeltaError;
use crate::load::commit_key;
use crate::path;
use crate::state::FileKey;

/// Commits fetched at the same time.
const PARALLEL_READS: usize = 16;
/// More bytes of commits than this are left to checkpoints: one file of them saves few requests.
const BYTES_MAX: usize = 64 << 20;

/// Key of the compaction of versions `first` to `last`.
pub(crate) fn compaction_key(log: &Path, first: u64, last: u64) -> Path {
    log.clone()
        .join(format!("{first:020}.{last:020}.compacted.json"))
}

/// Writes the compaction of versions `first` to `last`, unless it is there; tells whether it is
/// there now. A range that is too large, or of commits that say nothing, gets none.
///
/// # Errors
/// Of the store, also for a commit that is gone; a commit that cannot be read.
///
/// # Cost
/// One GET per commit, one PUT.
pub(crate) async fn write_compaction(
    store: &Store,
    log: &Path,
    first: u64,
    last: u64,
) -> Result<bool, DeltaError> {
    let mut commits = futures::stream::iter(first..=last)
        .map(|version| async move {
            let key = commit_key(log, version);
            Ok::<_, DeltaError>((store.get_required(&key).await?, key))
        })
        .buffered(PARALLEL_READS);
    let (mut range, mut bytes) = (Range::default(), 0_usize);
    while let Some((commit, key)) = commits.try_next().await? {
        bytes = bytes.saturating_add(commit.len());
        if bytes > BYTES_MAX {
            return Ok(false);
        }
        for action in parse_commit(&commit, key.as_ref())? {
            range.action(action)?;
        }
    }
    let mut text = String::new();
    for action in range.into_actions() {
        text.push_str(&action.to_line()?);
        text.push('\n');
    }
    if text.is_empty() {
        return Ok(false);
    }
    let key = compaction_key(log, first, last);
    match store.put_if_absent(&key, text.into_bytes().into()).await? {
        PutOutcome::Created | PutOutcome::AlreadyExists => Ok(true),
        PutOutcome::Unknown(error) => Err(error.into()),
    }
}

/// Reads the compaction of versions `first` to `last`.
///
/// # Errors
/// Of the store; `BadLine`, `NotText`, `EmptyCompaction`.
pub(crate) async fn read_compaction(
    store: &Store,
    log: &Path,
    first: u64,
    last: u64,
) -> Result<Vec<Action>, DeltaError> {
    let key = compaction_key(log, first, last);
    let actions = parse_commit(&store.get_required(&key).await?, key.as_ref())?;
    if actions.is_empty() {
        let file = key.to_string();
        return Err(DeltaError::EmptyCompaction { file });
    }
    Ok(actions)
}

/// Commits of a range, reconciled.
#[derive(Debug, Default)]
struct Range {
    protocol: Option<Action>,
    metadata: Option<Action>,
    txns: BTreeMap<String, AppTxn>,
    domains: BTreeMap<String, DomainMetadata>,
    removes: BTreeMap<FileKey, Box<Remove>>,
    adds: BTreeMap<String, Box<Add>>,
}

impl Range {
    fn action(&mut self, action: Action) -> Result<(), DeltaError> {
        match action {
            Action::Protocol(_) => self.protocol = Some(action),
            Action::Metadata(_) => self.metadata = Some(action),
            Action::Txn(txn) => {
                self.txns.insert(txn.app_id.clone(), txn);
            }
            Action::Domain(domain) => {
                self.domains.insert(domain.domain.clone(), domain);
            }
            Action::Add(mut add) => {
                add.data_change = false;
                let path = path::table_path(&add.path)?;
                self.removes.remove(&(path.clone(), vector_of_add(&add)));
                self.adds.insert(path, add);
            }
            Action::Remove(mut remove) => {
                remove.data_change = false;
                let path = path::table_path(&remove.path)?;
                let vector = remove.deletion_vector.as_ref();
                let vector = vector.map(|vector| vector.unique_id());
                let live = self.adds.get(&path);
                if live.is_some_and(|live| vector_of_add(live) == vector) {
                    self.adds.remove(&path);
                }
                self.removes.insert((path, vector), remove);
            }
            Action::CommitInfo(_) | Action::Cdc(_) | Action::Sidecar(_) => {}
        }
        Ok(())
    }

    /// Removals before additions, for one path may have both, of different vectors.
    fn into_actions(self) -> impl Iterator<Item = Action> {
        let head = self.protocol.into_iter().chain(self.metadata);
        head.chain(self.txns.into_values().map(Action::Txn))
            .chain(self.domains.into_values().map(Action::Domain))
            .chain(self.removes.into_values().map(Action::Remove))
            .chain(self.adds.into_values().map(Action::Add))
    }
}

fn vector_of_add(add: &Add) -> Option<String> {
    let vector = add.deletion_vector.as_ref();
    vector.map(|vector| vector.unique_id())
}

#[cfg(test)]
mod tests;
