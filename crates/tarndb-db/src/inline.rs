//! Data files that ride in log records.
//!
//! Invariant: a place is noted before anybody sees a table state with the file, and forgotten
//! only when the version that added it is known to be published, which comes after storing the
//! file. So a read that finds nothing here finds the file at its path. Bytes may be forgotten
//! at any moment: they are read from the record again.
//! Does not: store files (`publish` and `commit` do).
//! Spec: docs/format/log.md, "Inline files".

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tarndb_log::LogDir;
use tarndb_storage::{Origin, Path, StoreError};
use tarndb_table::data_key;
use tarndb_types::{DbVersion, TableId, TableVersion};

use crate::catalog::TableEntry;
use crate::error::DbError;
use crate::open;
use crate::record::TableEntryAction;
use tarndb_storage::Lru;

/// Files kept in memory, and their bytes.
const FILES_MAX: usize = 1 << 16;
const FILES_BYTES_MAX: usize = 32 << 20;

/// Where a file is.
#[derive(Clone, Debug)]
struct Place {
    record: DbVersion,
    location: Path,
    table: TableId,
    version: TableVersion,
}

/// The files in the records of versions that are not known to be published.
#[derive(Debug)]
pub(crate) struct InlineFiles {
    /// Over what is stored alone: records never ride in records.
    log: LogDir,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    places: BTreeMap<Path, Arc<Place>>,
    by_version: BTreeMap<(TableId, TableVersion), Vec<Path>>,
    bytes: Lru<Path, Bytes>,
}

impl State {
    fn keep(&mut self, key: Path, bytes: Bytes) {
        let weight = bytes.len();
        self.bytes.insert_weighing(key, bytes, weight);
    }
}

impl InlineFiles {
    pub(crate) fn new(log: LogDir) -> Self {
        Self::with_memory(log, FILES_BYTES_MAX)
    }

    fn with_memory(log: LogDir, bytes_max: usize) -> Self {
        let state = State {
            places: BTreeMap::new(),
            by_version: BTreeMap::new(),
            bytes: Lru::new(FILES_MAX).with_weight_max(bytes_max),
        };
        let state = Mutex::new(state);
        Self { log, state }
    }

    /// Makes the files of an entry readable, which stands in the record at `position`.
    ///
    /// # Errors
    /// A path that leaves the table.
    pub(crate) fn note(
        &self,
        table: &TableEntry,
        position: DbVersion,
        entry: &TableEntryAction,
    ) -> Result<(), DbError> {
        if entry.files.is_empty() {
            return Ok(());
        }
        let keyed = keyed(&table.location, entry)?;
        let place = Arc::new(Place {
            record: position,
            location: table.location.clone(),
            table: entry.table,
            version: entry.version,
        });
        let keys = keyed.iter().map(|(key, _)| key.clone()).collect();
        let mut state = self.lock();
        state.by_version.insert((entry.table, entry.version), keys);
        for (key, bytes) in keyed {
            state.places.insert(key.clone(), Arc::clone(&place));
            state.keep(key, bytes);
        }
        Ok(())
    }

    /// The files of a table's versions up to `version` are at their paths.
    pub(crate) fn forget(&self, id: TableId, version: TableVersion) {
        let mut state = self.lock();
        let versions: Vec<_> = state
            .by_version
            .range((id, TableVersion::ZERO)..=(id, version))
            .map(|(key, _)| *key)
            .collect();
        for version in versions {
            for key in state.by_version.remove(&version).into_iter().flatten() {
                state.places.remove(&key);
                state.bytes.remove(&key);
            }
        }
    }

    /// The file's bytes from its record; `None` when the record is gone: then the version was
    /// published before.
    async fn read(&self, key: &Path, place: &Place) -> Result<Option<Bytes>, DbError> {
        let version = place.record;
        let Some(bytes) = self.log.read(version.0).await.map_err(DbError::log)? else {
            return Ok(None);
        };
        let record = open::decode_record(&self.log, version, &bytes)?;
        let entry = record.entry(place.table, place.version);
        let entry = entry.ok_or(DbError::Internal {
            what: "a record lacks an entry that it was seen with",
        })?;
        let mut wanted = None;
        for (found, bytes) in keyed(&place.location, entry)? {
            if found == *key {
                wanted = Some(bytes.clone());
            }
            self.lock().keep(found, bytes);
        }
        Ok(wanted)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Origin for InlineFiles {
    async fn find(&self, key: &Path) -> Result<Option<Bytes>, StoreError> {
        let place = {
            let mut state = self.lock();
            let Some(place) = state.places.get(key).cloned() else {
                return Ok(None);
            };
            if let Some(bytes) = state.bytes.get(key) {
                return Ok(Some(bytes));
            }
            place
        };
        self.read(key, &place).await.map_err(|error| match error {
            DbError::Store(error) => error,
            error => StoreError::Origin {
                key: key.to_string(),
                source: Box::new(error),
            },
        })
    }
}

/// The files of an entry with their keys.
pub(crate) fn keyed(
    location: &Path,
    entry: &TableEntryAction,
) -> Result<Vec<(Path, Bytes)>, DbError> {
    let keyed = entry.files.iter().map(|(path, bytes)| {
        let key = data_key(location, path).map_err(DbError::table(location.to_string()))?;
        Ok((key, bytes.clone()))
    });
    keyed.collect()
}

#[cfg(test)]
mod tests;
