//! Records, entries, table states and deletion vectors, from memory or from the store.
//!
//! Invariant: all of them are immutable, so what is cached is never stale. The database log's
//! copy of a table version wins over a published file.
//! Spec: docs/format/log.md, "Reading a table".

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_storage::Path;
use tarndb_table::codec::{Entry, LoadRequest};
use tarndb_table::{Deletion, DvDescriptor, ErrorClass, RowSet, TableState};
use tarndb_types::{DbVersion, TableId, TableVersion, TxnId};

use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;
use crate::hash::sha256_hex;
use crate::inline::keyed;
use crate::publish::{Probed, probe_published};
use crate::record::{EntryBody, Record, Staged, TableEntryAction};
use crate::{checkpoint, open};
use tarndb_storage::Lru;

/// Records kept in memory: enough to judge and publish without reading them again.
const RECORDS_MAX: usize = 256;
/// Their bytes, as they stand in the log: a record may have 1 MiB.
const RECORDS_BYTES_MAX: usize = 32 << 20;
/// Entries of a table fetched at the same time.
const ENTRIES_PARALLEL: usize = 16;
/// Loaded deletion vectors kept in memory, and their bytes when stored.
const DELETIONS_MAX: usize = 1024;
const DELETIONS_BYTES_MAX: usize = 64 << 20;
/// Ids of transactions that ended kept, so that a retry under the same id finds its commit.
const RECENT_TXNS_MAX: usize = 4096;

type DeletionKey = (TableId, String, Option<i32>);

/// What a handle remembers.
#[derive(Debug)]
pub(crate) struct Caches {
    inner: Mutex<CachesInner>,
}

#[derive(Debug)]
struct CachesInner {
    records: Lru<DbVersion, Arc<Record>>,
    states: Lru<(TableId, TableVersion), Arc<TableState>>,
    deletions: Lru<DeletionKey, Arc<RowSet>>,
    ended: BTreeMap<TxnId, Ended>,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Committed by this record.
    Committed(DbVersion),
    /// Aborted for good by the fence in this record.
    Fenced(DbVersion),
}

impl Caches {
    pub(crate) fn new(states_max: usize) -> Self {
        let inner = CachesInner {
            records: Lru::new(RECORDS_MAX).with_weight_max(RECORDS_BYTES_MAX),
            states: Lru::new(states_max),
            deletions: Lru::new(DELETIONS_MAX).with_weight_max(DELETIONS_BYTES_MAX),
            ended: BTreeMap::new(),
        };
        Self {
            inner: Mutex::new(inner),
        }
    }

    /// A record that is known to follow the ones before it: it tells how transactions ended.
    pub(crate) fn put_chained(&self, record: Arc<Record>) {
        let mut inner = self.lock();
        let version = record.version;
        let committed = record.txns.iter().map(|txn| txn.id);
        let ended = committed
            .map(|id| (id, Ended::Committed(version)))
            .chain(record.fenced().map(|id| (id, Ended::Fenced(version))));
        for (id, how) in ended {
            inner.ended.entry(id).or_insert(how);
        }
        // Ids begin with the time, so the smallest is (nearly) the oldest.
        while inner.ended.len() > RECENT_TXNS_MAX {
            inner.ended.pop_first();
        }
        drop(inner);
        self.put_record(record);
    }

    fn put_record(&self, record: Arc<Record>) {
        let mut inner = self.lock();
        let bytes = record.size_bytes;
        inner.records.insert_weighing(record.version, record, bytes);
    }

    pub(crate) fn put_state(&self, id: TableId, state: Arc<TableState>) {
        self.lock().states.insert((id, state.version), state);
    }

    /// The state of a table at a version, if it is in memory.
    pub(crate) fn state(&self, id: TableId, version: TableVersion) -> Option<Arc<TableState>> {
        self.lock().states.get(&(id, version))
    }

    pub(crate) fn recently_ended(&self, id: TxnId) -> Option<Ended> {
        self.lock().ended.get(&id).copied()
    }

    /// The record, if it is in memory.
    pub(crate) fn record(&self, version: DbVersion) -> Option<Arc<Record>> {
        self.lock().records.get(&version)
    }

    fn lock(&self) -> MutexGuard<'_, CachesInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The record at `version`.
    ///
    /// # Cost
    /// 1 GET unless it is cached.
    ///
    /// # Errors
    /// [`DbError::RecordMissing`], damage.
    pub(crate) async fn record(&self, version: DbVersion) -> Result<Arc<Record>, DbError> {
        if let Some(record) = self.caches.record(version) {
            return Ok(record);
        }
        let bytes = self.log.read(version.0).await.map_err(DbError::log)?;
        let bytes = bytes.ok_or_else(|| open::record_missing(&self.log, version))?;
        let record = Arc::new(open::decode_record(&self.log, version, &bytes)?);
        self.caches.put_record(Arc::clone(&record));
        Ok(record)
    }

    /// The lines that make `version` of a table, from the database log.
    pub(crate) async fn entry(
        &self,
        table: &TableEntry,
        version: TableVersion,
    ) -> Result<Arc<Entry>, DbError> {
        let position = table.position(version).ok_or(DbError::Internal {
            what: "the record of a table version is not known",
        })?;
        self.entry_at(table, version, position).await
    }

    /// The same, from the record that is known to hold it.
    pub(crate) async fn entry_at(
        &self,
        table: &TableEntry,
        version: TableVersion,
        position: DbVersion,
    ) -> Result<Arc<Entry>, DbError> {
        let record = self.record(position).await?;
        let action = record.entry(table.id, version).ok_or(DbError::Internal {
            what: "a record lacks the version the catalog found",
        })?;
        self.note_inline(table, position, action)?;
        match &action.body {
            EntryBody::Inline(entry) => Ok(Arc::clone(entry)),
            EntryBody::Staged(staged) => self.staged_entry(table, version, staged).await,
        }
    }

    /// Makes the data files that ride in an entry readable, unless they are known to be at
    /// their paths.
    pub(crate) fn note_inline(
        &self,
        table: &TableEntry,
        position: DbVersion,
        entry: &TableEntryAction,
    ) -> Result<(), DbError> {
        let published = self.known_published(table);
        if published.is_some_and(|published| entry.version <= published) {
            return Ok(());
        }
        self.inline.note(table, position, entry)
    }

    /// A table's own log is known to be published up to `version`, its data files with it.
    pub(crate) fn note_published(&self, id: TableId, version: TableVersion) {
        self.head.note_published(id, version);
        self.inline.forget(id, version);
    }

    /// The data files that ride in the record of a version, with their keys.
    ///
    /// # Cost
    /// 1 GET unless the record is cached.
    pub(crate) async fn inline_files(
        &self,
        table: &TableEntry,
        version: TableVersion,
    ) -> Result<Vec<(Path, Bytes)>, DbError> {
        let position = table.position(version).ok_or(DbError::Internal {
            what: "the record of a table version is not known",
        })?;
        let record = self.record(position).await?;
        let action = record.entry(table.id, version).ok_or(DbError::Internal {
            what: "a record lacks the version the catalog found",
        })?;
        keyed(&table.location, action)
    }

    async fn staged_entry(
        &self,
        table: &TableEntry,
        version: TableVersion,
        staged: &Staged,
    ) -> Result<Arc<Entry>, DbError> {
        let bytes = self.staged_bytes(table, version, staged).await?;
        let damaged = || staged_damaged(table, version, staged);
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged())?;
        let lines = text.lines().map(str::to_owned).collect();
        Ok(Arc::new(Entry { version, lines }))
    }

    /// The bytes of a staged entry; when it is gone, those of the published version with the
    /// same hash.
    async fn staged_bytes(
        &self,
        table: &TableEntry,
        version: TableVersion,
        staged: &Staged,
    ) -> Result<Bytes, DbError> {
        let codec = self.codec(&table.format, &table.display_name())?;
        let keys = [
            staged_key(table, staged),
            Some(codec.published_key(&table.location, version)),
        ];
        for key in keys.into_iter().flatten() {
            if let Some(bytes) = self.store.get(&key).await?
                && staged_matches(staged, &bytes)
            {
                return Ok(bytes);
            }
        }
        Err(staged_damaged(table, version, staged))
    }

    /// The state of a table at the version that `table` states.
    ///
    /// # Cost
    /// None when it is cached or follows from a cached one and cached records; else what the
    /// format's own log costs.
    pub(crate) async fn table_state(&self, table: &TableEntry) -> Result<Arc<TableState>, DbError> {
        if let Some(state) = self.state_in_memory(table).await? {
            return Ok(state);
        }
        let loaded = match self.load_state(table).await {
            Err(error) if is_gone(&error) => self.load_again(table, error).await?,
            other => other?,
        };
        let state = Arc::new(loaded);
        self.caches.put_state(table.id, Arc::clone(&state));
        Ok(state)
    }

    /// The same, if it is cached or follows from a cached one.
    ///
    /// # Cost
    /// A GET for each record that is not cached.
    pub(crate) async fn state_in_memory(
        &self,
        table: &TableEntry,
    ) -> Result<Option<Arc<TableState>>, DbError> {
        let range = (table.id, TableVersion::ZERO)..=(table.id, table.version);
        let newest = self.caches.lock().states.newest_in(range);
        match newest {
            Some((_, state)) => self.roll_forward(table, state).await,
            None => Ok(None),
        }
    }

    /// A cached state moved forward by entries; `None` when the catalog no longer knows them.
    async fn roll_forward(
        &self,
        table: &TableEntry,
        mut state: Arc<TableState>,
    ) -> Result<Option<Arc<TableState>>, DbError> {
        let missing = state.version.0 + 1..=table.version.0;
        if missing.is_empty() {
            return Ok(Some(state));
        }
        if missing
            .clone()
            .any(|version| table.position(TableVersion(version)).is_none())
        {
            return Ok(None);
        }
        let codec = self.codec_of(table)?;
        for version in missing {
            let entry = self.entry(table, TableVersion(version)).await?;
            let next = codec.apply(Some(&state), &entry);
            state = Arc::new(next.map_err(DbError::table(table.display_name()))?);
        }
        self.caches.put_state(table.id, Arc::clone(&state));
        Ok(Some(state))
    }

    /// The state of a table of which less is known to be published than was, and cleaned up, since:
    /// what is published now is learned first.
    ///
    /// # Errors
    /// [`DbError::SnapshotVacuumed`] when the version itself is gone.
    async fn load_again(&self, table: &TableEntry, first: DbError) -> Result<TableState, DbError> {
        if let DbError::RecordMissing { missing, .. } = first {
            self.adopt_checkpoint(missing).await?;
        }
        match probe_published(self, table, table.version).await {
            Ok(Probed::UpTo(Some(version))) => self.note_published(table.id, version),
            Ok(_) => {}
            Err(DbError::RecordMissing { missing, .. }) => {
                self.adopt_checkpoint(missing).await?;
            }
            Err(other) => return Err(other),
        }
        match self.load_state(table).await {
            Err(error) if is_gone(&error) => {
                self.refresh().await?;
                let head = self.head.catalog();
                let known = head.table_or_dropped(table.id);
                match known.is_some_and(|known| known.vacuumed.is_some()) {
                    true => Err(DbError::SnapshotVacuumed {
                        table: table.display_name(),
                        version: table.version,
                    }),
                    false => Err(error),
                }
            }
            other => other,
        }
    }

    /// Learns from the newest checkpoint above a record that is gone what is published: records
    /// are cleaned up only when all that they made is. `false` when there is no such checkpoint.
    ///
    /// # Cost
    /// A LIST and a GET.
    pub(crate) async fn adopt_checkpoint(&self, missing: DbVersion) -> Result<bool, DbError> {
        let versions = checkpoint::list(&self.store).await?;
        let newest = open::newest_usable(&self.store, &versions).await?;
        let Some(newest) = newest.filter(|catalog| catalog.version() > missing) else {
            return Ok(false);
        };
        for table in newest.tables().chain(newest.dropped_tables()) {
            if let Some(published) = table.published {
                self.note_published(table.id, published);
            }
        }
        Ok(true)
    }

    async fn load_state(&self, table: &TableEntry) -> Result<TableState, DbError> {
        let codec = self.codec_of(table)?;
        let published = self.known_published(table);
        let first = published.map_or(0, |version| version.0 + 1);
        let tail: Vec<Arc<Entry>> = futures::stream::iter(first..=table.version.0)
            .map(|version| self.entry(table, TableVersion(version)))
            .buffered(ENTRIES_PARALLEL)
            .try_collect()
            .await?;
        let request = LoadRequest {
            store: &self.store,
            location: &table.location,
            target: table.version,
            published,
            tail: &tail,
        };
        codec
            .load(request)
            .await
            .map_err(DbError::table(table.display_name()))
    }

    /// What is published and verified of the versions up to the table's; the head may know more
    /// than an older catalog, and what was once published stays so.
    pub(crate) fn known_published(&self, table: &TableEntry) -> Option<TableVersion> {
        let head = self.head.catalog();
        let newer = head
            .table_or_dropped(table.id)
            .and_then(|head| head.published);
        newer
            .max(table.published)
            .map(|published| published.min(table.version))
    }

    /// The rows that a file's deletion deletes.
    ///
    /// # Cost
    /// At most 1 ranged GET.
    pub(crate) async fn deleted_rows(
        &self,
        table: &TableEntry,
        deletion: &Deletion,
    ) -> Result<Arc<RowSet>, DbError> {
        let descriptor = match deletion {
            Deletion::None => return Ok(Arc::default()),
            Deletion::Loaded(rows) => return Ok(Arc::clone(rows)),
            Deletion::Stored(descriptor) => descriptor,
        };
        let key = deletion_key(table.id, descriptor);
        let cached = self.caches.lock().deletions.get(&key);
        if let Some(rows) = cached {
            return Ok(rows);
        }
        let codec = self.codec(&table.format, &table.display_name())?;
        let rows = codec
            .load_deletion(&self.store, &table.location, deletion)
            .await
            .map_err(DbError::table(table.display_name()))?;
        self.put_deletion(table.id, descriptor, Arc::clone(&rows));
        Ok(rows)
    }

    pub(crate) fn put_deletion(&self, id: TableId, stored: &DvDescriptor, rows: Arc<RowSet>) {
        let bytes = usize::try_from(stored.size_in_bytes).unwrap_or(0);
        self.caches
            .lock()
            .deletions
            .insert_weighing(deletion_key(id, stored), rows, bytes);
    }
}

/// What a cleanup removes, or somebody who should not have.
fn is_gone(error: &DbError) -> bool {
    match error {
        DbError::RecordMissing { .. } => true,
        DbError::Table { source, .. } => source.class() == ErrorClass::NotFound,
        _ => false,
    }
}

fn deletion_key(id: TableId, descriptor: &DvDescriptor) -> DeletionKey {
    (id, descriptor.path_or_inline.clone(), descriptor.offset)
}

/// Key of the staged object; `None` when its path cannot be a key.
pub(crate) fn staged_key(table: &TableEntry, staged: &Staged) -> Option<Path> {
    Path::parse(format!("{}/{}", table.location, staged.path)).ok()
}

/// Whether bytes are those that the record names.
pub(crate) fn staged_matches(staged: &Staged, bytes: &[u8]) -> bool {
    bytes.len() as u64 == staged.size_bytes && staged.hash == staged_hash(bytes)
}

/// The hash of staged bytes as records write it.
pub(crate) fn staged_hash(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256_hex(bytes))
}

fn staged_damaged(table: &TableEntry, version: TableVersion, staged: &Staged) -> DbError {
    DbError::StagedDamaged {
        table: table.display_name(),
        version,
        key: format!("{}/{}", table.location, staged.path),
    }
}
