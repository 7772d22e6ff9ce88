//! `DbError`: everything that can go wrong with a database, and what to do about it.
//!
//! Invariant: each case names the table by its name, the version and the object concerned; the
//! cause is kept as `source` and never formatted into the text. Retrying is decided by
//! [`DbError::kind`] alone.

use std::sync::Arc;

use tarndb_log::LogError;
use tarndb_storage::{StoreError, StoreErrorKind};
use tarndb_table::{ErrorClass, TableError};
use tarndb_txn::Conflict;
use tarndb_types::{DbVersion, TableId, TableVersion, TxnId, TxnRef};

use crate::attach::error::AttachError;
use crate::catalog::error::ObjectError;
use crate::checkpoint::CheckpointError;
use crate::invariants::Violation;
use crate::record::RecordError;
use crate::travel::error::TravelError;

/// What the caller can do about a [`DbError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Run the statements again on a new snapshot.
    ConflictRetryable,
    /// Another transaction did something that rules this one out.
    ConflictIncompatible,
    /// What was asked for is not there.
    NotFound,
    /// What was to be created is there.
    AlreadyExists,
    /// The request is wrong.
    Invalid,
    /// Valid, but this build does not do it.
    Unsupported,
    /// What is stored is damaged.
    Corrupt,
    /// A foreign writer changed a table.
    Diverged,
    /// The store does not answer; try again later.
    Unavailable,
    /// Disk, quota or memory is full.
    ResourceExhausted,
    /// The place may not be written.
    ReadOnly,
    /// The handle was closed.
    Closed,
    /// The caller gave up.
    Cancelled,
    /// The outcome is open; ask for it by the transaction's id.
    Pending,
    /// The outcome cannot be told any more.
    OutcomeExpired,
    /// A bug.
    Internal,
}

/// An error of the database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DbError {
    /// Nothing was ever created there.
    #[error("there is no database at {url}; create one with `tarndb init`")]
    NotADatabase {
        /// The place, without secrets.
        url: String,
    },
    /// A database is there already.
    #[error("there is a database already: url={url}")]
    DatabaseExists {
        /// The place, without secrets.
        url: String,
    },
    /// A name that can be no schema's or table's.
    #[error("invalid {what} name: {reason}: name={name:?}")]
    InvalidName {
        /// `schema` or `table`.
        what: &'static str,
        /// The name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// A schema that is not there.
    #[error("schema {name} does not exist")]
    SchemaNotFound {
        /// As asked for.
        name: String,
    },
    /// A schema that is there.
    #[error("schema {name} exists already (names that differ by case only are equal)")]
    SchemaExists {
        /// As asked for.
        name: String,
    },
    /// A schema that is dropped with tables in it.
    #[error("schema {name} is not empty: tables={tables}; drop them first or use CASCADE")]
    SchemaNotEmpty {
        /// Its name.
        name: String,
        /// Tables in it.
        tables: usize,
    },
    /// A table that is not there.
    #[error("table {name} does not exist")]
    TableNotFound {
        /// As asked for.
        name: String,
    },
    /// A table that was there.
    #[error(
        "table {name} was dropped or replaced; a statement that looks for it anew finds what has \
         its name now"
    )]
    TableDropped {
        /// What it was called.
        name: String,
    },
    /// A table that is there.
    #[error("table {name} exists already (names that differ by case only are equal)")]
    TableExists {
        /// As asked for.
        name: String,
    },
    /// A version above the newest, or one whose records are gone.
    #[error("database version {wanted} does not exist; versions reach {oldest}..={newest}")]
    VersionNotFound {
        /// As asked for.
        wanted: DbVersion,
        /// The oldest that can be read.
        oldest: DbVersion,
        /// The newest.
        newest: DbVersion,
    },
    /// A conflict with a transaction that committed first.
    #[error("{}", conflict.describe(table.as_deref()))]
    Conflict {
        /// Whether running the statements again is right.
        retryable: bool,
        /// `schema.name` of the table at issue.
        table: Option<String>,
        /// The reason.
        conflict: Box<Conflict>,
    },
    /// A column is to be NOT NULL, and rows that are deleted but still in files have NULL in it.
    #[error(
        "deleted rows of table {table} that are still in its files have NULL in column {column}; \
         compact the table, all files of it, and try again"
    )]
    NullInDeletedRow {
        /// `schema.name` of the table.
        table: String,
        /// The column.
        column: String,
    },
    /// Another transaction changed how columns are mapped for which this one has written files.
    #[error(
        "rows of table {table} were written for column {column}, which another transaction mapped \
         otherwise meanwhile; run the transaction again"
    )]
    FilesOutdated {
        /// `schema.name` of the table.
        table: String,
        /// The column.
        column: String,
    },
    /// What a transaction pinned has changed.
    #[error(
        "what was read at version {read_version} is pinned and has changed: {}",
        conflict.describe(table.as_deref())
    )]
    ReadVersionChanged {
        /// The version that was read; the conflict names the one that changed it.
        read_version: DbVersion,
        /// Whether running the statements again is right; never when the caller read that
        /// version before the transaction began.
        retryable: bool,
        /// `schema.name` of the table at issue.
        table: Option<String>,
        /// The reason.
        conflict: Box<Conflict>,
    },
    /// An application transaction that is there already.
    #[error(
        "version {version} of application {app_id} is in table {table} already, nothing was done; go on after the committed one: committed={committed}"
    )]
    AppTransactionCommitted {
        /// Table.
        table: String,
        /// The application.
        app_id: String,
        /// Its version, as asked for.
        version: i64,
        /// The version that is committed.
        committed: i64,
        /// The database version that committed it, when it was committed meanwhile.
        at: Option<DbVersion>,
    },
    /// A key that the source of an upsert has twice.
    #[error("the rows to upsert into table {table} have a key twice; keep one of them: {key}")]
    DuplicateKey {
        /// Table.
        table: String,
        /// The key, as `column = value`.
        key: String,
    },
    /// An upsert's source that is too large for memory.
    #[error(
        "the rows to upsert into table {table} are more than fit the limit; upsert them in parts or raise upsert_bytes_max: limit={bytes_max}"
    )]
    SourceTooLarge {
        /// Table.
        table: String,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// Batches of one source with different columns.
    #[error("the batches to upsert into table {table} have different columns; give all the same")]
    SourceColumns {
        /// Table.
        table: String,
    },
    /// Upserts of one table by different keys in one transaction.
    #[error(
        "one transaction upserts a table by one key; commit before the other: table={table} first=({first}) second=({second})"
    )]
    SecondKey {
        /// Table.
        table: String,
        /// Columns of the first upsert.
        first: String,
        /// Columns of this one.
        second: String,
    },
    /// A row given to an overwrite that is outside what it replaces.
    #[error(
        "a row to write into table {table} does not match what is overwritten, {predicate}: {row}"
    )]
    RowOutsidePredicate {
        /// Table.
        table: String,
        /// The predicate.
        predicate: String,
        /// The row, as `column = value`.
        row: String,
    },
    /// The records after the base are gone, so nothing can be judged.
    #[error(
        "the transaction's snapshot is too old, its log was cleaned up; run it again: base={base} missing={missing}"
    )]
    BaseExpired {
        /// The snapshot.
        base: DbVersion,
        /// The first record that is gone.
        missing: DbVersion,
    },
    /// A vacuum that was announced meanwhile may delete what the transaction wrote.
    #[error(
        "a file that the transaction wrote is so old that a vacuum may have deleted it; run it again: table={table} file={file} vacuum={vacuum}"
    )]
    FilesVacuumed {
        /// Table.
        table: String,
        /// The file.
        file: String,
        /// Version of the vacuum's record.
        vacuum: DbVersion,
    },
    /// A version of a table whose files a vacuum may have deleted.
    #[error(
        "table {table} cannot be read any more at version {wanted}, a vacuum removed what only older versions need; ask for {horizon} or a newer one"
    )]
    VersionVacuumed {
        /// Table.
        table: String,
        /// The database version, as asked for.
        wanted: DbVersion,
        /// The oldest that the vacuum left readable.
        horizon: DbVersion,
    },
    /// A snapshot that was held for longer than a vacuum keeps versions.
    #[error(
        "the snapshot is too old, a vacuum removed what only older versions need; run it again: table={table} version={version}"
    )]
    SnapshotVacuumed {
        /// Table.
        table: String,
        /// Its version in the snapshot.
        version: TableVersion,
    },
    /// A table cannot be had as it was.
    #[error(transparent)]
    Travel(#[from] TravelError),
    /// A view, a tag or a dropped table cannot be had or made.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A table cannot be attached or detached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A retention that is shorter than what is safe.
    #[error(
        "a retention of {asked_s} s is below the minimum of {min_s} s: what open transactions and readers still need could be deleted{}",
        if *forcible { "; force it if there are none" } else { "" }
    )]
    RetentionTooShort {
        /// As asked for, seconds.
        asked_s: u64,
        /// The minimum, seconds.
        min_s: u64,
        /// Whether it can be forced.
        forcible: bool,
    },
    /// The outcome is not known: the store cannot be reached.
    #[error(
        "the outcome of transaction {txn} is not known yet, the store did not answer; ask with `tarndb txn {txn}`"
    )]
    Pending {
        /// To ask again.
        txn: TxnRef,
    },
    /// The transaction was aborted for good, because its outcome would have stayed open.
    #[error(
        "the transaction was aborted by a fence, nothing of it was committed: txn={txn} fence={fence}; run it again{}",
        if *chosen_id { " under another id" } else { "" }
    )]
    Fenced {
        /// The transaction.
        txn: TxnRef,
        /// Version of the record with the fence.
        fence: DbVersion,
        /// Whether the caller chose the id, which is now of no use.
        chosen_id: bool,
    },
    /// The records that would tell the outcome were cleaned up.
    #[error(
        "the outcome of the transaction cannot be told any more, the log was cleaned up: txn={txn}; look at the data to see whether it was applied"
    )]
    OutcomeExpired {
        /// The transaction.
        txn: TxnRef,
    },
    /// A clock that is ahead of the store's.
    #[error(
        "this machine's clock is ahead of the store's by {ahead_ms} ms, more than 5 minutes; set the clock right, nothing was written"
    )]
    ClockAhead {
        /// By how much.
        ahead_ms: i64,
    },
    /// Rows named for deletion that are not live.
    #[error("rows to delete are not live in table {table}: file={file} rows={rows}")]
    RowsNotLive {
        /// Table.
        table: String,
        /// Data file.
        file: String,
        /// How many of them.
        rows: u64,
    },
    /// A feature that readers must know.
    #[error(
        "the database needs a reader feature that this build lacks; use a newer build: feature={feature} version={version}"
    )]
    UnknownReaderFeature {
        /// Record that demands it.
        version: DbVersion,
        /// Its name.
        feature: String,
    },
    /// A feature that writers must know.
    #[error(
        "the database needs a writer feature that this build lacks; reading works, for writing use a newer build: feature={feature} version={version}"
    )]
    UnknownWriterFeature {
        /// Record that demands it.
        version: DbVersion,
        /// Its name.
        feature: String,
    },
    /// An action that this build does not know.
    #[error(
        "the log holds an action that this build does not know; reading works, for writing use a newer build: action={action} version={version}"
    )]
    UnknownAction {
        /// First record with it.
        version: DbVersion,
        /// Its key.
        action: String,
    },
    /// A table of a format without a codec.
    #[error("table {table} has a format that this build cannot handle: format={format}")]
    UnknownTableFormat {
        /// Table.
        table: String,
        /// Format.
        format: String,
    },
    /// A record that cannot be read.
    #[error("a record of the log is damaged; restore it from a copy: key={key}")]
    RecordDamaged {
        /// Its key.
        key: String,
        /// What is wrong.
        #[source]
        source: RecordError,
    },
    /// A record that is not there although later ones are.
    #[error("the log has a hole; restore the record from a copy: missing={missing} key={key}")]
    RecordMissing {
        /// Its version.
        missing: DbVersion,
        /// Its key.
        key: String,
    },
    /// A record or catalog that cannot be.
    #[error("the log contradicts itself: version={version}")]
    Invariant {
        /// Version of the record or catalog.
        version: DbVersion,
        /// What does not hold.
        #[source]
        violation: Violation,
    },
    /// A checkpoint that cannot be used.
    #[error("a catalog checkpoint is damaged: key={key}")]
    CheckpointUnusable {
        /// Its key.
        key: String,
        /// What is wrong.
        #[source]
        source: CheckpointError,
    },
    /// A staged entry that is gone or has other content than the log says.
    #[error("a staged version of table {table} is missing or damaged: version={version} key={key}")]
    StagedDamaged {
        /// Table.
        table: String,
        /// Its version.
        version: TableVersion,
        /// The staged object.
        key: String,
    },
    /// A foreign writer put a version of its own.
    #[error(
        "table {table} was changed by a foreign writer, nothing was overwritten: version={version} key={key}; its committed data is safe in the database log"
    )]
    Diverged {
        /// Table.
        table: String,
        /// The version at issue.
        version: TableVersion,
        /// The foreign object.
        key: String,
    },
    /// Publishing failed; commits are not affected.
    #[error(
        "committed versions could not be published, run `tarndb publish` later: tables={tables}"
    )]
    PublishFailed {
        /// Names of the tables.
        tables: String,
        /// The first failure.
        #[source]
        source: Box<DbError>,
    },
    /// An error of one table.
    #[error("table {table}")]
    Table {
        /// Its name.
        table: String,
        /// What is wrong.
        #[source]
        source: Box<TableError>,
    },
    /// An error of the log.
    #[error("the database log could not be read or written")]
    Log(#[source] Box<LogError>),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An error of the caller's own stream of rows.
    #[error("the rows to write could not be read")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The handle was closed.
    #[error("the database handle was closed; open the database again")]
    Closed,
    /// An error that met several transactions at once: they were to share a record.
    #[error(transparent)]
    Shared(Arc<DbError>),
    /// A bug.
    #[error("this is a bug, please report it: {what}")]
    Internal {
        /// Where.
        what: &'static str,
    },
}

impl DbError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotADatabase { .. }
            | Self::SchemaNotFound { .. }
            | Self::TableNotFound { .. }
            | Self::TableDropped { .. }
            | Self::VersionNotFound { .. }
            | Self::VersionVacuumed { .. } => ErrorKind::NotFound,
            Self::DatabaseExists { .. }
            | Self::SchemaExists { .. }
            | Self::TableExists { .. }
            | Self::AppTransactionCommitted { .. } => ErrorKind::AlreadyExists,
            Self::InvalidName { .. }
            | Self::SchemaNotEmpty { .. }
            | Self::ClockAhead { .. }
            | Self::RetentionTooShort { .. }
            | Self::DuplicateKey { .. }
            | Self::SourceColumns { .. }
            | Self::NullInDeletedRow { .. }
            | Self::RowOutsidePredicate { .. } => ErrorKind::Invalid,
            Self::Travel(error) => error.kind(),
            Self::Object(error) => error.kind(),
            Self::Attach(error) => error.kind(),
            Self::SourceTooLarge { .. } => ErrorKind::ResourceExhausted,
            Self::SecondKey { .. } => ErrorKind::Unsupported,
            Self::Conflict {
                retryable: true, ..
            }
            | Self::ReadVersionChanged {
                retryable: true, ..
            }
            | Self::BaseExpired { .. }
            | Self::FilesVacuumed { .. }
            | Self::FilesOutdated { .. }
            | Self::SnapshotVacuumed { .. }
            // The next run gets an id of its own.
            | Self::Fenced {
                chosen_id: false, ..
            } => ErrorKind::ConflictRetryable,
            Self::Conflict {
                retryable: false, ..
            }
            | Self::ReadVersionChanged {
                retryable: false, ..
            }
            | Self::Fenced {
                chosen_id: true, ..
            } => ErrorKind::ConflictIncompatible,
            Self::Pending { .. } => ErrorKind::Pending,
            Self::OutcomeExpired { .. } => ErrorKind::OutcomeExpired,
            Self::UnknownReaderFeature { .. }
            | Self::UnknownWriterFeature { .. }
            | Self::UnknownAction { .. }
            | Self::UnknownTableFormat { .. } => ErrorKind::Unsupported,
            Self::RecordDamaged { .. }
            | Self::RecordMissing { .. }
            | Self::Invariant { .. }
            | Self::CheckpointUnusable { .. }
            | Self::StagedDamaged { .. } => ErrorKind::Corrupt,
            Self::Diverged { .. } => ErrorKind::Diverged,
            Self::PublishFailed { source, .. } => source.kind(),
            Self::Table { source, .. } => table_kind(source),
            Self::Log(source) => log_kind(source),
            Self::Store(source) => store_kind(source),
            Self::Source(_) => ErrorKind::Invalid,
            Self::Closed => ErrorKind::Closed,
            Self::Shared(error) => error.kind(),
            Self::RowsNotLive { .. } | Self::Internal { .. } => ErrorKind::Internal,
        }
    }

    /// Whether running the transaction again on a new snapshot is right.
    pub fn is_retryable(&self) -> bool {
        self.kind() == ErrorKind::ConflictRetryable
    }

    /// The table in which the transaction met another.
    pub fn conflict_table(&self) -> Option<TableId> {
        match self {
            Self::Conflict { conflict, .. } => conflict.table,
            _ => None,
        }
    }

    /// What an error of a record says to each of several transactions that were in it.
    pub(crate) fn share(self: &Arc<Self>, txn: TxnRef) -> Self {
        match self.as_ref() {
            Self::Pending { .. } => Self::Pending { txn },
            _ => Self::Shared(Arc::clone(self)),
        }
    }

    pub(crate) fn log(source: LogError) -> Self {
        Self::Log(Box::new(source))
    }

    /// A table's error with the table's name.
    pub(crate) fn table(table: impl Into<String>) -> impl FnOnce(TableError) -> Self {
        let table = table.into();
        move |source| Self::Table {
            table,
            source: Box::new(source),
        }
    }
}

/// What a caller can do about an error of the table model.
pub fn table_kind(error: &TableError) -> ErrorKind {
    if let TableError::Store(source) = error {
        return store_kind(source);
    }
    match error.class() {
        ErrorClass::Invalid => ErrorKind::Invalid,
        ErrorClass::Unsupported => ErrorKind::Unsupported,
        ErrorClass::Corrupt | ErrorClass::NotFound => ErrorKind::Corrupt,
        ErrorClass::Store => ErrorKind::Unavailable,
        ErrorClass::Internal => ErrorKind::Internal,
    }
}

fn log_kind(error: &LogError) -> ErrorKind {
    match error {
        LogError::Missing { .. } => ErrorKind::Corrupt,
        LogError::Pending { .. } => ErrorKind::Pending,
        LogError::NotStored { source, .. } | LogError::Store(source) => store_kind(source),
        _ => ErrorKind::Unavailable,
    }
}

fn store_kind(error: &StoreError) -> ErrorKind {
    match error.kind() {
        StoreErrorKind::NotFound => ErrorKind::Corrupt,
        StoreErrorKind::ResourceExhausted => ErrorKind::ResourceExhausted,
        StoreErrorKind::PermissionDenied | StoreErrorKind::ReadOnly => ErrorKind::ReadOnly,
        StoreErrorKind::Invalid => ErrorKind::Invalid,
        StoreErrorKind::Unsupported => ErrorKind::Unsupported,
        StoreErrorKind::Corrupt => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    }
}

/// How a transaction ended, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnOutcome {
    /// It is in the log.
    Committed {
        /// The record's version.
        version: DbVersion,
    },
    /// Nothing of it was committed, nor ever will be.
    Aborted {
        /// Version of the record with the fence.
        fence: DbVersion,
    },
}

/// Whether a transaction ended, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnStatus {
    /// It is in the log.
    Committed {
        /// The record's version.
        version: DbVersion,
    },
    /// A fence aborted it for good.
    Aborted {
        /// Version of the record with the fence.
        fence: DbVersion,
    },
    /// It is not in the log up to the head. A writer that is still running may yet commit it.
    NotCommitted {
        /// The newest version looked at.
        head: DbVersion,
    },
}

/// The first commit of an id that was used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlierCommit {
    pub(crate) txn: TxnId,
    pub(crate) version: DbVersion,
}

/// A table whose published log a foreign writer changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The table.
    pub table: TableId,
    /// First version that is not ours.
    pub version: TableVersion,
    /// The foreign object.
    pub key: String,
}
