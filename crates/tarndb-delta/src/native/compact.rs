//! Compacting a native table: small files, and files with deleted rows, into larger ones.
//!
//! Invariant: no row comes or goes, and none changes its partition or its id; the commit says that it only
//! moves rows, so concurrent appends do not stop it.
//! Does not: keep row positions apart (other engines know no row maps), so a file that another
//! changed meanwhile is a conflict.
//! Spec: docs/format/native.md, "Committing".

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_table::DataFile;
use tarndb_txn::Operation;

use super::commit::{Change, NativeCommit};
use super::conflict::Reads;
use super::error::NativeError;
use super::table::NativeTable;
use crate::effects::deleted_rows;

/// What a compaction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Files that it replaced.
    pub files_before: usize,
    /// Files that took their place.
    pub files_after: usize,
    /// The commit.
    pub commit: NativeCommit,
}

impl NativeTable {
    /// Rewrites files below half of `target_bytes`, and those with deleted rows, partition by
    /// partition. `None` when there is nothing that becomes fewer or cleaner.
    ///
    /// # Errors
    /// `Conflict` when others changed one of the files; as any commit.
    ///
    /// # Cost
    /// The files that are rewritten, read once and written once.
    pub async fn compact(&mut self, target_bytes: u64) -> Result<Option<Compacted>, NativeError> {
        let state = Arc::clone(self.state()?);
        let chosen = choose(state.files.values(), target_bytes);
        if chosen.is_empty() {
            return Ok(None);
        }
        let mut change = Change::new(Operation::Rewrite);
        for files in chosen {
            let mut copier = self.copier(&state)?;
            for file in &files {
                let deleted = deleted_rows(&self.store, &self.location, &file.deletion).await?;
                copier.copy(file, &deleted).await?;
            }
            change.adds.extend(copier.finish().await?);
            change.removes.extend(files);
        }
        let files = change.removes.iter().map(|file| file.path.clone());
        change.reads = Reads::Rows {
            files: files.collect(),
            partitions: None,
        };
        let (files_before, files_after) = (change.removes.len(), change.adds.len());
        let commit = self.commit(change).await?;
        Ok(Some(Compacted {
            files_before,
            files_after,
            commit,
        }))
    }
}

/// The files to rewrite, one group per partition.
fn choose(
    files: impl Iterator<Item = Arc<DataFile>>,
    target_bytes: u64,
) -> Vec<Vec<Arc<DataFile>>> {
    let mut groups: BTreeMap<_, Vec<Arc<DataFile>>> = BTreeMap::new();
    for file in files {
        if file.size_bytes < target_bytes / 2 || !file.deletion.is_none() {
            let group = groups.entry(file.partition_values.clone()).or_default();
            group.push(file);
        }
    }
    let pays = |group: &Vec<Arc<DataFile>>| {
        group.len() > 1 || group.iter().any(|file| !file.deletion.is_none())
    };
    groups.into_values().filter(pays).collect()
}
