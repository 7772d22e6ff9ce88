//! `Database`: a database on a store, opened by its URL.
//!
//! Invariant: a thin cover: what is promised is promised by `tarndb-db`; here URLs become
//! stores and errors become [`Error`](crate::Error).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tarndb_db::{
    AttachedTable, CheckReport, CheckpointReport, CompactOptions, CompactReport, DbOptions,
    DetachedTable, LogCleanupOptions, LogCleanupReport, LogEntry, Progress, PublishMode,
    PublishReport, Status, TxnOptions, TxnOutcome, TxnStatus, UpkeepOptions, VacuumOptions,
    VacuumReport,
};
use tarndb_sql::SessionOptions;
use tarndb_storage::{Context, Counts, StoreOptions};
use tarndb_types::{DatabaseId, DbVersion, TxnRef, Uuid};

use crate::error::Result;
use crate::name;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

/// What may be chosen when a database is opened. Every default is safe.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Options of the store: those of the cloud (`aws_region`, ..), and `durability`
    /// (`full` or `none`) for local folders.
    pub storage: BTreeMap<String, String>,
    /// When committed table versions are published for other engines.
    pub publish: PublishMode,
    /// Memory that each session's statements may use; three fifths of the machine's when
    /// `None`.
    pub memory_limit_bytes: Option<usize>,
    /// Where statements spill to; the system's folder for temporary files when `None`.
    pub temp_dir: Option<PathBuf>,
    /// Threads of one statement; all cores when `None`.
    pub threads: Option<usize>,
    /// How long a statement may take; without a limit when `None`.
    pub statement_timeout: Option<Duration>,
    /// What the handle does for its tables by itself, after its own commits.
    pub upkeep: Upkeep,
    /// The id of the first writing transaction of the first session.
    pub txn_id: Option<Uuid>,
    /// How long a handle trusts what it knows of the log (15 minutes); four times as long is
    /// the shortest retention. For tests: every process must be given the same.
    pub head_expiry: Option<Duration>,
}

/// What a handle does for its tables by itself (docs/guide/maintenance.md, "By itself").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Upkeep {
    /// Nothing.
    Off,
    /// Joins small files where there are many of them.
    #[default]
    Compact,
    /// That, and removes the beginning of the database log that is older than 7 days.
    All,
}

/// Files of one size at which they are joined.
const COMPACT_FILES_MIN: usize = 32;
/// How long records are kept where they are removed by themselves.
const CLEAN_LOG_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);

impl Upkeep {
    fn options(self) -> UpkeepOptions {
        UpkeepOptions {
            compact_files_min: (self != Self::Off).then_some(COMPACT_FILES_MIN),
            clean_log_after: (self == Self::All).then_some(CLEAN_LOG_AFTER),
        }
    }
}

/// A handle on a database; cheap to clone, all clones are one.
#[derive(Clone, Debug)]
pub struct Database {
    inner: tarndb_db::Database,
    options: Options,
}

impl Database {
    /// Creates a database at `url` and opens it.
    ///
    /// `url` is a local folder, or `s3://`, `gs://`, `az://`, `abfss://`, `file://`,
    /// `memory://`.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when there is one;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) when the store does not honour
    /// put-if-absent; [`Unavailable`](crate::ErrorKind::Unavailable).
    ///
    /// # Cost
    /// The probe of the store, one conditional PUT and one LIST.
    pub async fn create(url: &str) -> Result<Self> {
        Self::create_with(url, &Options::default()).await
    }

    /// As [`Self::create`], with options.
    pub async fn create_with(url: &str, options: &Options) -> Result<Self> {
        let inner = tarndb_db::Database::create(store(url, options)?, db_options(options)).await?;
        Ok(Self {
            inner,
            options: options.clone(),
        })
    }

    /// Opens the database at `url`.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) on a prefix without a database;
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Unavailable`](crate::ErrorKind::Unavailable).
    ///
    /// # Cost
    /// Three rounds of requests, however long the log is.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, &Options::default()).await
    }

    /// As [`Self::open`], with options.
    pub async fn open_with(url: &str, options: &Options) -> Result<Self> {
        let inner = tarndb_db::Database::open(store(url, options)?, db_options(options)).await?;
        Ok(Self {
            inner,
            options: options.clone(),
        })
    }

    /// The URL, without secrets.
    pub fn url(&self) -> &str {
        self.inner.store().url()
    }

    /// The database's identity.
    pub fn id(&self) -> DatabaseId {
        self.inner.id()
    }

    /// A session for SQL. Sessions are independent of each other and share this handle's
    /// caches.
    ///
    /// # Errors
    /// When the engine cannot be set up with the options.
    pub fn session(&self) -> Result<Session> {
        let options = SessionOptions {
            txn_id: self.options.txn_id,
            ..self.session_options()
        };
        Ok(Session::new(tarndb_sql::Session::new(
            self.inner.clone(),
            options,
        )?))
    }

    fn session_options(&self) -> SessionOptions {
        let options = &self.options;
        let memory_limit = options.memory_limit_bytes;
        SessionOptions {
            memory_limit: memory_limit.or_else(tarndb_sql::default_memory_limit),
            temp_dir: options.temp_dir.clone(),
            target_partitions: options.threads,
            statement_timeout: options.statement_timeout,
            ..SessionOptions::default()
        }
    }

    /// Begins a transaction under snapshot isolation.
    ///
    /// # Cost
    /// k+1 GETs when k records were committed since this handle looked last.
    pub async fn begin(&self) -> Result<Transaction> {
        self.begin_with(TxnOptions::default()).await
    }

    /// As [`Self::begin`], with an isolation level, an id or user metadata.
    pub async fn begin_with(&self, options: TxnOptions) -> Result<Transaction> {
        Ok(Transaction::new(self.inner.begin(options).await?))
    }

    /// The whole database as it is now: every commit acknowledged before this call.
    ///
    /// # Cost
    /// As [`Self::begin`].
    pub async fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.inner.snapshot().await?))
    }

    /// The whole database as it was at a version.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) above the newest version.
    pub async fn snapshot_at(&self, version: DbVersion) -> Result<Snapshot> {
        Ok(Snapshot::new(self.inner.snapshot_at(version).await?))
    }

    /// Publishes every committed table version that is not published yet.
    pub async fn publish(&self) -> Result<PublishReport> {
        Ok(self.inner.publish().await?)
    }

    /// Writes the catalog checkpoint and the table checkpoints that are due.
    pub async fn checkpoint(&self) -> Result<CheckpointReport> {
        Ok(self.inner.checkpoint().await?)
    }

    /// Deletes the files that no version within the retention needs: of `tables`
    /// (`schema.table`, or a table of `main`), or, when there are none, of all tables and of
    /// dropped ones. `progress` is told of each file.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a retention below an hour without `force`;
    /// [`NotFound`](crate::ErrorKind::NotFound).
    ///
    /// # Cost
    /// The records and table states of the retention, a LIST per table and a DELETE per file.
    pub async fn vacuum(
        &self,
        tables: &[String],
        options: &VacuumOptions,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<VacuumReport> {
        let mut options = options.clone();
        if !tables.is_empty() {
            let snapshot = self.inner.snapshot().await?;
            let ids = tables.iter().map(|table| {
                let (schema, table) = name::parts(table);
                Ok(snapshot.find(schema, table)?.id)
            });
            options.tables = Some(ids.collect::<Result<_>>()?);
        }
        Ok(self.inner.vacuum(&options, progress).await?)
    }

    /// Removes the beginning of the database log, below a checkpoint that is older than the
    /// retention; the newest 1,000 records stay. `progress` is told of each object.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a retention below an hour.
    ///
    /// # Cost
    /// 2 LISTs, 2 GETs and a DELETE per record and checkpoint.
    pub async fn clean_log(
        &self,
        options: &LogCleanupOptions,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<LogCleanupReport> {
        Ok(self.inner.clean_log(options, progress).await?)
    }

    /// Compacts `table` (`schema.table`, or a table of `main`): joins small files and writes
    /// those with many deleted rows anew, while others go on writing; of a table with clustering
    /// columns the files that are not clustered yet, in the order of these. What it did is in the
    /// report; nothing to do commits nothing.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound). Concurrent changes are no error.
    ///
    /// # Cost
    /// Per group of files about two GETs per input, a PUT per output and one for the commit.
    pub async fn compact(&self, table: &str, options: &CompactOptions) -> Result<CompactReport> {
        self.compact_with(table, options, &mut |_| {}).await
    }

    /// As [`Self::compact`], and tells how far it is.
    ///
    /// # Errors
    /// As [`Self::compact`].
    pub async fn compact_with(
        &self,
        table: &str,
        options: &CompactOptions,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<CompactReport> {
        let (schema, table) = name::parts(table);
        let id = self.inner.snapshot().await?.find(schema, table)?.id;
        let session = self.session_options();
        let compacted = tarndb_sql::compact(&self.inner, id, options.clone(), session, progress);
        Ok(compacted.await?)
    }

    /// Makes the Delta table at `url`, which is there already, the table `table` (`schema.table`,
    /// or a table of `main`) of this database: its files stay, its versions go on, and other
    /// engines only read it from now on. Repeating it after a crash goes on.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a table that this build cannot write,
    /// or that another database has; [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for a
    /// name or place that is taken.
    ///
    /// # Cost
    /// That of opening the table, and 2 PUTs.
    pub async fn attach_table(&self, table: &str, url: &str) -> Result<AttachedTable> {
        let (schema, name) = name::parts(table);
        Ok(self.inner.attach_table(schema, name, url).await?)
    }

    /// Gives `table` (`schema.table`, or a table of `main`) back to its own log: it leaves the
    /// database, its files and history stay, and any engine may write to it.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound); when publishing failed before, and then the
    /// table is still here.
    ///
    /// # Cost
    /// What publishing the table costs, and 2 PUTs.
    pub async fn detach_table(&self, table: &str) -> Result<DetachedTable> {
        let (schema, table) = name::parts(table);
        let id = self.inner.snapshot().await?.find(schema, table)?.id;
        Ok(self.inner.detach_table(id).await?)
    }

    /// The outcome of a transaction, by its reference `<base version>-<uuid>`. Writes nothing: what
    /// is not committed now may still become so.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for another text.
    pub async fn lookup(&self, reference: &str) -> Result<TxnStatus> {
        Ok(self.inner.lookup(TxnRef::from_str(reference)?).await?)
    }

    /// The definite outcome of a transaction, by its reference `<base version>-<uuid>` or its id: it
    /// is committed, or it is aborted now, for good, even if its writer is still at it.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for another text;
    /// [`Pending`](crate::ErrorKind::Pending) while the store does not answer;
    /// [`OutcomeExpired`](crate::ErrorKind::OutcomeExpired) when the log was cleaned up meanwhile.
    pub async fn resolve(&self, reference: &str) -> Result<TxnOutcome> {
        Ok(self.inner.resolve(TxnRef::from_str(reference)?).await?)
    }

    /// The newest `limit` transactions, newest first.
    pub async fn log(&self, limit: usize) -> Result<Vec<LogEntry>> {
        Ok(self.inner.log(limit).await?)
    }

    /// Versions, tables, files, bytes, and what is not published yet.
    pub async fn status(&self) -> Result<Status> {
        Ok(self.inner.status().await?)
    }

    /// Tries whether the store honours put-if-absent, as creation did, with a name that it
    /// removes again.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) when the store overwrites;
    /// [`Unavailable`](crate::ErrorKind::Unavailable), [`ReadOnly`](crate::ErrorKind::ReadOnly).
    ///
    /// # Cost
    /// 5 requests.
    pub async fn probe_store(&self) -> Result<()> {
        Ok(self.inner.probe_store().await?)
    }

    /// Verifies the database; with `deep` the data too.
    ///
    /// # Errors
    /// The store's only: damage is in the report.
    pub async fn check(
        &self,
        deep: bool,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<CheckReport> {
        Ok(self.inner.check(deep, progress).await?)
    }

    /// Verifies the records and checkpoints of a database that cannot be opened.
    ///
    /// # Errors
    /// The store's only: damage is in the report.
    pub async fn check_log(
        url: &str,
        options: &Options,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<CheckReport> {
        Ok(tarndb_db::Database::check_log(store(url, options)?, progress).await?)
    }

    /// What commits through this handle came to since it was opened: records, attempts,
    /// conflicts by reason, runs again.
    pub fn metrics(&self) -> tarndb_db::Metrics {
        self.inner.metrics()
    }

    /// The requests made to the store since this handle was opened.
    pub fn requests(&self) -> Counts {
        self.inner.store().meter().counts()
    }

    /// Waits until what this handle committed is also published, then closes it and its
    /// clones.
    ///
    /// # Errors
    /// When publishing failed: the commits stand, and the next writer publishes them.
    pub async fn close(&self) -> Result<()> {
        Ok(self.inner.close().await?)
    }

    /// The database below this cover.
    pub fn inner(&self) -> &tarndb_db::Database {
        &self.inner
    }
}

fn store(url: &str, options: &Options) -> Result<tarndb_storage::Store> {
    let options = StoreOptions {
        values: options.storage.clone(),
    };
    Ok(tarndb_storage::open(url, &options, Context::system())?)
}

fn db_options(options: &Options) -> DbOptions {
    let db = DbOptions {
        publish: options.publish,
        upkeep: options.upkeep.options(),
        ..DbOptions::default()
    };
    match options.head_expiry {
        Some(expiry) => db.with_head_expiry(expiry),
        None => db,
    }
}
