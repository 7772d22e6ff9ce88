//! One folder of log entries, `<dir>/<version:020>.json`.
//!
//! Invariant: names and versions map one to one, and byte order of names is version order.
//! Spec: docs/format/log.md, "Names".

use std::ops::Range;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use tarndb_storage::Store;

use crate::error::LogError;
use crate::name::FileName;

/// Entries fetched side by side: the records between two checkpoints, nearly always.
const READ_CONCURRENCY: usize = 64;

/// A folder of numbered entries. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogDir {
    store: Store,
    dir: Path,
}

impl LogDir {
    /// The log below `dir`. Makes no request.
    pub fn new(store: Store, dir: Path) -> Self {
        Self { store, dir }
    }

    /// The store it lies in.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The folder it lies in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The key of an entry.
    pub fn key(&self, version: u64) -> Path {
        self.dir.clone().join(format!("{version:020}.json"))
    }

    /// The version of an entry's key: exactly 20 digits and `.json`, directly in the folder.
    pub fn parse_key(&self, key: &Path) -> Option<u64> {
        match FileName::parse(&self.dir, key)? {
            FileName::Commit(version) => Some(version),
            _ => None,
        }
    }

    /// One entry, or `None` when it is not there; one request.
    ///
    /// # Errors
    /// The store did not answer, or refused.
    pub async fn read(&self, version: u64) -> Result<Option<Bytes>, LogError> {
        Ok(self.store.get(&self.key(version)).await?)
    }

    /// Entries in ascending order; one request each, 64 at a time.
    ///
    /// # Errors
    /// [`LogError::Missing`] names the first one that is not there.
    pub async fn read_many(&self, versions: Range<u64>) -> Result<Vec<(u64, Bytes)>, LogError> {
        let read = |version| async move {
            match self.read(version).await? {
                Some(bytes) => Ok((version, bytes)),
                None => Err(LogError::Missing {
                    version,
                    key: self.key(version).to_string(),
                }),
            }
        };
        let reads = futures::stream::iter(versions.map(read));
        reads.buffered(READ_CONCURRENCY).try_collect().await
    }

    /// Entries from `first` on, ascending, up to the first that is not there or `width` of them;
    /// `width` requests at the same time, whatever is there.
    ///
    /// # Errors
    /// The store did not answer, or refused.
    pub async fn read_on(&self, first: u64, width: u64) -> Result<Vec<(u64, Bytes)>, LogError> {
        let versions = first..first.saturating_add(width);
        let reads = versions.map(|version| async move {
            let read = self.read(version).await?;
            Ok::<_, LogError>(read.map(|bytes| (version, bytes)))
        });
        let read = futures::future::try_join_all(reads).await?;
        Ok(read.into_iter().map_while(|entry| entry).collect())
    }

    /// Versions greater than `version` (all for `None`), ascending; one request per 1,000.
    ///
    /// # Errors
    /// The store did not answer, or refused.
    pub async fn list_after(&self, version: Option<u64>) -> Result<Vec<u64>, LogError> {
        let after = version.map(|version| self.key(version));
        let listed = self.store.list_after(&self.dir, after.as_ref()).await?;
        Ok(listed
            .iter()
            .filter_map(|object| self.parse_key(&object.key))
            .collect())
    }
}

#[cfg(test)]
mod tests;
