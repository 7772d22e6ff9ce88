//! `Database`: a handle on one database, shared by all sessions of a process.
//!
//! Invariant: everything a handle knows beyond the store's content is a cache; losing the
//! handle at any moment loses nothing that was acknowledged.
//! Spec: docs/format/log.md, "Opening" and "Refreshing".

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::try_join_all;
use tarndb_delta::DeltaCodec;
use tarndb_log::{Appended, LogDir};
use tarndb_storage::{Context, Store};
use tarndb_table::codec::TableCodec;
use tarndb_types::{DatabaseId, DbVersion, TxnId};

use crate::catalog::{Catalog, DEFAULT_SCHEMA, LOG_FORMAT, TableEntry};
use crate::clock::ClockCheck;
use crate::commit::{CommitQueue, Turns};
use crate::error::DbError;
use crate::head::Head;
use crate::inline::InlineFiles;
use crate::leftover::Leftovers;
use crate::metrics::MetricsCells;
use crate::moment::Moment;
use crate::options::{DbOptions, TxnOptions};
use crate::priority::Priorities;
use crate::publish::Publisher;
use crate::record::{self, Action, Record, RecordTxn, WRITER};
use crate::snapshot::Snapshot;
use crate::states::Caches;
use crate::transaction::Transaction;
use crate::upkeep::Upkeep;
use crate::{clock, layout, leftover, open, publish, upkeep};

/// A handle; cheap to clone, all clones are one.
#[derive(Clone, Debug)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
}

/// What all clones of a handle share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) log: LogDir,
    pub(crate) options: DbOptions,
    pub(crate) codecs: BTreeMap<String, Arc<dyn TableCodec>>,
    pub(crate) head: Head,
    pub(crate) caches: Caches,
    /// Commits of one handle share records: among themselves they would only lose puts to each
    /// other.
    pub(crate) queue: CommitQueue,
    pub(crate) turns: Turns,
    /// Who records of this handle say that they are from.
    pub(crate) writer: String,
    pub(crate) priorities: Priorities,
    pub(crate) metrics: MetricsCells,
    /// Data files in records; `store` reads them from there.
    pub(crate) inline: Arc<InlineFiles>,
    pub(crate) publisher: Publisher,
    pub(crate) upkeep: Upkeep,
    pub(crate) leftovers: Leftovers,
    pub(crate) clock: ClockCheck,
    closed: AtomicBool,
}

impl Database {
    /// Creates a database with the schema `main` and opens it.
    ///
    /// # Errors
    /// [`DbError::DatabaseExists`]; a store that does not honour put-if-absent; a clock that is
    /// more than five minutes ahead of the store's.
    ///
    /// # Cost
    /// The probe, 1 PUT and 1 LIST.
    pub async fn create(store: Store, options: DbOptions) -> Result<Self, DbError> {
        let log = LogDir::new(store.clone(), layout::log_dir());
        if log.read(0).await.map_err(DbError::log)?.is_some() {
            return Err(DbError::DatabaseExists {
                url: store.url().to_owned(),
            });
        }
        store.probe(&layout::own_dir()).await?;
        let record = first_record(store.context());
        let bytes = record::encode(&record);
        let record = open::decode_record(&log, DbVersion::ZERO, &bytes)?;
        let catalog = Catalog::genesis(&record).map_err(|violation| DbError::Invariant {
            version: DbVersion::ZERO,
            violation,
        })?;
        let txn = record
            .txns
            .first()
            .map_or(TxnId(uuid::Uuid::nil()), |txn| txn.id);
        let begun = Moment::now(store.context());
        tracing::debug!(target: "tarndb::step", version = 0, "record.begin");
        let is_ours = move |bytes: &[u8]| record::holds_txn(bytes, txn);
        let appended = log
            .append(0, bytes, &is_ours, options.commit_deadline)
            .await;
        tracing::debug!(target: "tarndb::step", version = 0, "record.end");
        match appended.map_err(DbError::log)? {
            Appended::Ours => {}
            Appended::Theirs(..) => {
                return Err(DbError::DatabaseExists {
                    url: store.url().to_owned(),
                });
            }
        }
        check_clock(&store, &log).await?;
        Ok(Self::with(store, log, options, (catalog, begun)))
    }

    /// Opens a database.
    ///
    /// # Errors
    /// [`DbError::NotADatabase`] when nothing was ever created there; damage, by its name.
    ///
    /// # Cost
    /// Three rounds of requests, however long the log is.
    pub async fn open(store: Store, options: DbOptions) -> Result<Self, DbError> {
        let log = LogDir::new(store.clone(), layout::log_dir());
        let (opened, seen) = open::load_in_time(&store, &log, options.head_expiry).await?;
        let database = Self::with(store, log, options, (opened.catalog, seen));
        for record in opened.records {
            database.inner.caches.put_chained(record);
        }
        publish::after_open(&database.inner);
        Ok(database)
    }

    fn with(store: Store, log: LogDir, options: DbOptions, head: (Catalog, Moment)) -> Self {
        let context = store.context().clone();
        let writer = record::writer(&context);
        let caches = Caches::new(options.cached_states_max);
        let inline = LogDir::new(store.direct(), layout::log_dir());
        let store = store.reaching(layout::ELSEWHERE);
        let inline = Arc::new(InlineFiles::new(inline));
        let store = store.holding(Arc::clone(&inline) as _);
        let inner = Inner {
            inline,
            store,
            log,
            options,
            codecs: codecs(),
            head: Head::new(head.0, head.1, context),
            caches,
            queue: CommitQueue::default(),
            turns: Turns::default(),
            writer,
            priorities: Priorities::default(),
            metrics: MetricsCells::default(),
            publisher: Publisher::default(),
            upkeep: Upkeep::default(),
            leftovers: Leftovers::default(),
            clock: ClockCheck::default(),
            closed: AtomicBool::new(false),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Another clone of the handle.
    pub(crate) fn of(inner: &Arc<Inner>) -> Self {
        let inner = Arc::clone(inner);
        Self { inner }
    }

    /// The store it lies in.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Tries whether the store honours put-if-absent, as creation did: a fresh name is created
    /// twice, and removed again.
    ///
    /// # Errors
    /// [`StoreError::ConditionalPutIgnored`](tarndb_storage::StoreError::ConditionalPutIgnored)
    /// when it overwrites; otherwise why it could not be tried.
    ///
    /// # Cost
    /// 2 PUTs, 2 GETs and a deletion.
    pub async fn probe_store(&self) -> Result<(), DbError> {
        Ok(self.inner.store.direct().probe(&layout::own_dir()).await?)
    }

    /// Its identity.
    pub fn id(&self) -> DatabaseId {
        self.inner.head.catalog().database()
    }

    /// The options it was opened with.
    pub fn options(&self) -> &DbOptions {
        &self.inner.options
    }

    /// A snapshot that sees every commit acknowledged before this call, by any process.
    ///
    /// # Cost
    /// k+1 GETs when k records were committed since the handle looked last.
    pub async fn snapshot(&self) -> Result<Snapshot, DbError> {
        self.inner.check_open()?;
        self.inner.refresh().await?;
        Ok(self.cached_snapshot())
    }

    /// A snapshot at the newest version this handle knows; asks nobody.
    pub fn cached_snapshot(&self) -> Snapshot {
        Snapshot::new(self.clone(), self.inner.head.catalog())
    }

    /// A snapshot at a given version.
    ///
    /// # Errors
    /// [`DbError::VersionNotFound`] above the newest version or below the retention.
    ///
    /// # Cost
    /// None for the newest version; else a LIST, a GET and the records in between.
    pub async fn snapshot_at(&self, at: DbVersion) -> Result<Snapshot, DbError> {
        self.inner.check_open()?;
        if at > self.inner.head.catalog().version() {
            self.inner.refresh().await?;
        }
        let head = self.inner.head.catalog();
        if at == head.version() {
            return Ok(Snapshot::new(self.clone(), head));
        }
        let newest = head.version();
        if at > newest {
            let oldest = DbVersion::ZERO;
            return Err(DbError::VersionNotFound {
                wanted: at,
                oldest,
                newest,
            });
        }
        let opened = open::load_at(&self.inner.store, &self.inner.log, at, newest).await?;
        // What was published since need not be in records any more.
        let mut catalog = opened.catalog;
        catalog.adopt_published(&head);
        Ok(Snapshot::new(self.clone(), Arc::new(catalog)))
    }

    /// Begins a transaction at the newest version.
    ///
    /// # Cost
    /// As [`Self::snapshot`]; none with [`TxnOptions::cached_snapshot`]; as
    /// [`Self::snapshot_at`] with [`TxnOptions::read_version`].
    pub async fn begin(&self, options: TxnOptions) -> Result<Transaction, DbError> {
        self.inner.check_open()?;
        if let Some(version) = options.read_version {
            return Ok(Transaction::new(self.snapshot_at(version).await?, options));
        }
        if !options.cached_snapshot || self.inner.head.age() > self.inner.options.head_expiry {
            self.inner.refresh().await?;
        }
        Ok(Transaction::new(self.cached_snapshot(), options))
    }

    /// Publishes what is not published, writes the checkpoints that are due and does the upkeep
    /// of tables that is (for ten seconds at most), then closes the handle and all its clones. A handle that committed nothing only closes.
    ///
    /// # Errors
    /// [`DbError::PublishFailed`]: the commits stand; closing again tries again, and another
    /// handle will publish them too.
    pub async fn close(&self) -> Result<(), DbError> {
        upkeep::finish(&self.inner).await;
        leftover::finish(&self.inner).await;
        self.inner.closed.store(true, Ordering::SeqCst);
        // A commit under way is published too; one that still waits for its turn is refused.
        self.inner.queue.refuse_waiting();
        self.inner.queue.settled().await;
        publish::flush(&self.inner).await
    }
}

/// Records that are asked for at the same time at most.
const READ_AHEAD_MAX: u64 = 16;

impl Inner {
    pub(crate) fn check_open(&self) -> Result<(), DbError> {
        if self.closed.load(Ordering::SeqCst) {
            Err(DbError::Closed)
        } else {
            Ok(())
        }
    }

    pub(crate) fn context(&self) -> &Context {
        self.store.context()
    }

    pub(crate) fn codec(&self, format: &str, table: &str) -> Result<&Arc<dyn TableCodec>, DbError> {
        self.codecs
            .get(format)
            .ok_or_else(|| DbError::UnknownTableFormat {
                table: table.to_owned(),
                format: format.to_owned(),
            })
    }

    /// The codec for one table, which knows where its paths may lead.
    pub(crate) fn codec_of(&self, table: &TableEntry) -> Result<Arc<dyn TableCodec>, DbError> {
        let codec = self.codec(&table.format, &table.display_name())?;
        Ok(match table.bases.is_empty() {
            true => Arc::clone(codec),
            false => codec.reaching(&table.location, &table.bases),
        })
    }

    /// Moves the head to the newest version. One request when that is known already, two after
    /// one record of others, at most `2 * k` in about `log2(k) + 2` rounds after `k` of them.
    pub(crate) async fn refresh(&self) -> Result<(), DbError> {
        let (mut ahead, mut found) = (1, 0);
        loop {
            let (known, seen) = self.head.current();
            let asked = Moment::now(self.context());
            if self.is_expired(seen) {
                return self.open_anew().await;
            }
            let first = known.version().next().0;
            let reads = (first..first.saturating_add(ahead)).map(|version| self.log.read(version));
            let reads = try_join_all(reads).await.map_err(DbError::log)?;
            // Paused meanwhile: the record after ours may have come and gone since.
            if self.is_expired(seen) {
                return self.open_anew().await;
            }
            let mut last = known.version();
            for bytes in reads {
                let Some(bytes) = bytes else {
                    self.head.confirm(last, asked);
                    return Ok(());
                };
                last = last.next();
                self.absorb(last, &bytes)?;
                found += 1;
            }
            // As many again as there were: where many are new, more are.
            ahead = READ_AHEAD_MAX.min(found);
        }
    }

    /// Whether records that were written since `seen` may have been cleaned up.
    pub(crate) fn is_expired(&self, seen: Moment) -> bool {
        seen.age(self.context()) > self.options.head_expiry
    }

    /// Moves the head to the newest version without trusting what is known.
    pub(crate) async fn open_anew(&self) -> Result<(), DbError> {
        let expiry = self.options.head_expiry;
        let (opened, seen) = open::load_in_time(&self.store, &self.log, expiry).await?;
        self.head.replace(opened.catalog, seen);
        for record in opened.records {
            self.caches.put_chained(record);
        }
        Ok(())
    }

    /// Takes the record right after the head into caches and head.
    pub(crate) fn absorb(&self, version: DbVersion, bytes: &[u8]) -> Result<Arc<Record>, DbError> {
        let record = Arc::new(open::decode_record(&self.log, version, bytes)?);
        self.absorb_record(&record)?;
        Ok(record)
    }

    /// The same for a record that is decoded already.
    pub(crate) fn absorb_record(&self, record: &Arc<Record>) -> Result<(), DbError> {
        let catalog = self.head.absorb(record)?;
        for (_, entry) in record.entries() {
            if let Some(table) = catalog.table_or_dropped(entry.table) {
                self.note_inline(table, record.version, entry)?;
            }
        }
        self.turns
            .note_record(record.version, &record.writer, &self.writer);
        self.caches.put_chained(Arc::clone(record));
        Ok(())
    }
}

/// The codecs of this build by format.
pub(crate) fn codecs() -> BTreeMap<String, Arc<dyn TableCodec>> {
    let delta: Arc<dyn TableCodec> = Arc::new(DeltaCodec::default());
    BTreeMap::from([(delta.format().to_owned(), delta)])
}

fn first_record(context: &Context) -> Record {
    let timestamp = context.now();
    let txn = RecordTxn {
        id: TxnId(context.uuid()),
        read_version: DbVersion::ZERO,
        timestamp,
        isolation: "snapshot".to_owned(),
        operation: "CREATE DATABASE".to_owned(),
        user_metadata: BTreeMap::new(),
        actions: vec![
            Action::CreateDatabase {
                id: DatabaseId(context.uuid()),
                format: LOG_FORMAT,
            },
            Action::CreateSchema {
                name: DEFAULT_SCHEMA.to_owned(),
            },
        ],
    };
    Record {
        version: DbVersion::ZERO,
        timestamp,
        writer: WRITER.to_owned(),
        reader_features: Vec::new(),
        writer_features: Vec::new(),
        txns: vec![txn],
        size_bytes: 0,
    }
}

/// Compares our clock with the store's, told by the object that was just written.
async fn check_clock(store: &Store, log: &LogDir) -> Result<(), DbError> {
    let listed = store.list_after(&layout::log_dir(), None).await?;
    let first = listed
        .iter()
        .find(|object| log.parse_key(&object.key) == Some(0));
    match first {
        Some(first) => clock::check_ahead(store.context(), first.last_modified),
        None => Ok(()),
    }
}
