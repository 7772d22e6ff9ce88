//! `DeltaError`: everything that can be wrong with a Delta table.
//!
//! Invariant: a case says which file and what to do; bytes from outside end here, never in
//! a panic and never in a guess.
//! Spec: docs/format/publishing.md; Delta PROTOCOL.

use tarndb_log::SegmentError;
use tarndb_storage::StoreError;
use tarndb_table::{ErrorClass, TableError, time_text};

/// What went wrong while reading or writing a Delta table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// A line of a commit is not a JSON action; the last line of a torn file too.
    #[error(
        "the commit holds a line that is not an action (torn or damaged file; restore it from a \
         copy): file={file}, line={line}"
    )]
    BadLine {
        /// The commit.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// What the JSON reader said.
        source: serde_json::Error,
    },
    /// A commit is not UTF-8 text.
    #[error("the commit is not UTF-8 text (damaged file): file={file}")]
    NotText {
        /// The commit.
        file: String,
    },
    /// A schema cannot be read.
    #[error("the table's schema cannot be read: reason={reason}, at={at}")]
    BadSchema {
        /// What is wrong.
        reason: String,
        /// Column or part of the schema.
        at: String,
    },
    /// A column has a type this build does not read.
    #[error("the column has a type that this build cannot read: column={column}, type={type_name}")]
    UnsupportedType {
        /// Column.
        column: String,
        /// The type's name in the schema.
        type_name: String,
    },
    /// A column's type was changed in a way this build does not know.
    #[error(
        "the column's type was changed in a way that this build does not know, so that older \
         files cannot be read: column={column}, from={from}, to={to}"
    )]
    UnsupportedTypeChange {
        /// Column.
        column: String,
        /// The earlier type.
        from: String,
        /// The later type.
        to: String,
    },
    /// A catalog manages the table: only with what the catalog says can it be read.
    #[error(
        "a catalog manages this table; open it through the catalog, for its files alone may be \
         stale: feature=catalogManaged"
    )]
    CatalogManaged,
    /// The change feed was off at a version of the range.
    #[error(
        "the table kept no change feed at a version of the range; ask for a range in which \
         delta.enableChangeDataFeed was true: version={version}"
    )]
    ChangeFeedOff {
        /// The version.
        version: u64,
    },
    /// Columns of a version do not fit those at the end of the range.
    #[error(
        "a column was dropped, renamed or changed within the range; ask for a range that ends \
         before or begins after that: version={version}, column={column}"
    )]
    ChangeFeedSchema {
        /// The version whose column it is.
        version: u64,
        /// The column.
        column: String,
    },
    /// A range of versions that is not there.
    #[error("there is no such range of versions: first={first}, last={last}, newest={newest}")]
    ChangeRange {
        /// First version asked for.
        first: u64,
        /// Last version asked for.
        last: u64,
        /// Newest version of the table.
        newest: u64,
    },
    /// A removal that does not say which partition its file was of.
    #[error(
        "a removed file cannot be read, since its removal does not tell its size and partition \
         and the version before is gone; ask for a later range: path={path}"
    )]
    RemovalTellsTooLittle {
        /// As in the log.
        path: String,
    },
    /// A table that no catalog manages was opened as one.
    #[error("no catalog manages this table: open it by its path")]
    NotCatalogManaged,
    /// A catalog's answer contradicts itself or the table's log.
    #[error("the catalog's commits do not fit together: reason={reason}")]
    BadCatalogTail {
        /// What does not fit.
        reason: String,
    },
    /// The table needs a reader feature that this build does not have.
    #[error(
        "reading this table needs a feature that this build does not have (use a newer build, or \
         drop the feature with the engine that added it): feature={feature}"
    )]
    UnsupportedReaderFeature {
        /// Name of the feature, or the reader version.
        feature: String,
    },
    /// The table needs a writer feature that this build does not have.
    #[error(
        "writing to this table needs a feature that this build does not have: feature={feature}"
    )]
    UnsupportedWriterFeature {
        /// Name of the feature, or the writer version.
        feature: String,
    },
    /// A database decides about the table's commits.
    #[error(
        "a TarnDB database manages this table (writer feature tarndbManaged): write to it through \
         the database, or detach it there"
    )]
    ManagedByDatabase,
    /// Another database decides about the table's commits.
    #[error(
        "another TarnDB database manages this table, detach it there first: \
         database={database}"
    )]
    ManagedByAnother {
        /// Its id.
        database: String,
    },
    /// A property that says how long something is kept cannot be read.
    #[error(
        "a table property is no duration that can be counted; set it, or say how long: key={key} value={value}"
    )]
    UnreadableRetention {
        /// The property.
        key: String,
        /// Its value.
        value: String,
    },
    /// A vacuum would delete what the table promises to keep.
    #[error(
        "a retention of {asked_ms} ms is below the table's minimum of {min_ms} ms; force it if no other version and no open writer is needed"
    )]
    RetentionTooShort {
        /// As asked for.
        asked_ms: i64,
        /// The table's, an hour at least.
        min_ms: i64,
    },
    /// Versions and feature lists of a protocol do not fit each other.
    #[error("the table's protocol contradicts itself: reason={reason}")]
    InvalidProtocol {
        /// Which rule is broken.
        reason: String,
    },
    /// No protocol was found up to the version.
    #[error("the table's log names no protocol (incomplete log or lying checkpoint): file={file}")]
    MissingProtocol {
        /// Checkpoint or log directory that lacks it.
        file: String,
    },
    /// No metaData was found up to the version.
    #[error("the table's log holds no metadata (incomplete log or lying checkpoint): file={file}")]
    MissingMetadata {
        /// Checkpoint or log directory that lacks it.
        file: String,
    },
    /// A path of the log leaves the table's folder.
    #[error(
        "the table names a file outside its own folder, which this build does not read: path={path}"
    )]
    PathOutsideTable {
        /// As in the log.
        path: String,
    },
    /// A path of the log is not a URI reference.
    #[error("the table names a file by a path that cannot be decoded: path={path}")]
    BadPath {
        /// As in the log.
        path: String,
    },
    /// A deletion vector cannot be read.
    #[error("the deletion vector cannot be used ({reason}): file={file}, offset={offset}")]
    BadDeletionVector {
        /// File, or `inline`.
        file: String,
        /// Byte position in the file.
        offset: i64,
        /// What is wrong.
        reason: String,
    },
    /// A checkpoint cannot be read.
    #[error(
        "the checkpoint cannot be read (delete it if the older commits are there): file={file}"
    )]
    BadCheckpoint {
        /// The checkpoint.
        file: String,
        /// What the Parquet reader said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The checkpoint's content contradicts the specification.
    #[error("the checkpoint cannot be right: file={file}, reason={reason}")]
    LyingCheckpoint {
        /// The checkpoint.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A compaction of the log says nothing, which no range of commits does.
    #[error("a compaction of the log is empty: file={file}; its commits are read instead")]
    EmptyCompaction {
        /// The compaction.
        file: String,
    },
    /// The files of a checkpoint could not be packed in memory.
    #[error("the files of a checkpoint could not be compressed in memory")]
    Pack {
        /// The compression's error.
        source: std::io::Error,
    },
    /// The log has no usable sequence of files.
    #[error(transparent)]
    Segment(SegmentError),
    /// There is no log.
    #[error("not a Delta table (no _delta_log with commits): location={location}")]
    NotATable {
        /// Where it was looked for.
        location: String,
    },
    /// What the database supplied does not reach the wanted version.
    #[error(
        "the database's log and the table's own log do not meet: wanted={wanted}, have={have}, \
         log={log}"
    )]
    TailGap {
        /// Next version needed.
        wanted: u64,
        /// What was offered instead.
        have: String,
        /// The log directory.
        log: String,
    },
    /// A timestamp lies outside the table's history.
    #[error(
        "the table has no version at that time: timestamp={}, first={}, last={}",
        time_text(*wanted), time_text(*first), time_text(*last)
    )]
    NoVersionAt {
        /// Asked for, ms since 1970 UTC.
        wanted: i64,
        /// Of the oldest version still there.
        first: i64,
        /// Of the newest version.
        last: i64,
    },
    /// A commit that would break a rule of the format; told before anything is written.
    #[error("the commit would break the table format: {rule}, detail={detail}")]
    IllegalCommit {
        /// The broken rule.
        rule: &'static str,
        /// Path, column or key.
        detail: String,
    },
    /// A column that does not exist.
    #[error("the table has no such column: column={column}")]
    NoSuchColumn {
        /// The name given.
        column: String,
    },
    /// A column that exists already.
    #[error(
        "the table has such a column already (names differ by more than case): column={column}"
    )]
    ColumnExists {
        /// The name given.
        column: String,
    },
    /// Something refers to a column by its name, or relies on it.
    #[error("the column cannot be {becomes}, for it is used by {by}: column={column}")]
    ColumnInUse {
        /// The column.
        column: String,
        /// What was to become of it.
        becomes: &'static str,
        /// What uses it.
        by: String,
    },
    /// A change of type that would need the files to be written anew.
    #[error(
        "the type of a column can only become one that holds all its values: column={column}, \
         from={from}, to={to}"
    )]
    CannotWiden {
        /// The column.
        column: String,
        /// Its type.
        from: String,
        /// The type asked for.
        to: String,
    },
    /// The numbers of columns are used up.
    #[error("the table has had too many columns, copy its rows to a new one: column={column}")]
    ColumnIdsExhausted {
        /// The column that gets none.
        column: String,
    },
    /// A new column that is not nullable.
    #[error(
        "a new column must allow NULL, for the rows that are there have no value: column={column}"
    )]
    NewColumnNotNull {
        /// The name given.
        column: String,
    },
    /// A new column that is generated, an identity or has a default.
    #[error(
        "a column that is added has NULL in the rows that are there: add it without a default and \
         set that afterwards; generated and identity columns are made with their table: \
         column={column}"
    )]
    NewColumnWithRule {
        /// The name given.
        column: String,
    },
    /// A property that this build does not obey.
    #[error("the property is not supported here: key={key}, value={value}, reason={reason}")]
    PropertyRefused {
        /// Key.
        key: String,
        /// Value.
        value: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// A column by which data cannot be clustered.
    #[error("the table cannot be clustered by that column ({reason}): column={column}")]
    ClusteringRefused {
        /// Its name.
        column: String,
        /// Why.
        reason: &'static str,
    },
    /// A feature that is in use cannot be dropped.
    #[error("the feature cannot be dropped: feature={feature}, because: {by}")]
    FeatureInUse {
        /// Its name.
        feature: String,
        /// What is in the way, and what to do.
        by: String,
    },
    /// A feature that the table does not have.
    #[error("the table does not have the feature: feature={feature}")]
    FeatureMissing {
        /// The name given.
        feature: String,
    },
    /// A domain that users may not touch.
    #[error(
        "the domain belongs to the table format or to TarnDB (choose a name with a prefix of \
         your own): domain={domain}"
    )]
    SystemDomain {
        /// Its name.
        domain: String,
    },
    /// The configuration of a domain that must be understood cannot be read.
    #[error(
        "the table's domain cannot be read (restore the table, or drop the feature it belongs \
         to with the engine that wrote it): domain={domain}, configuration={configuration}"
    )]
    BadDomain {
        /// Its name.
        domain: String,
        /// As it stands in the log.
        configuration: String,
    },
    /// A file without a row count, where rows must be numbered.
    #[error(
        "row tracking needs the number of rows of every file, and this one does not tell it \
         (compact the table with all files first): file={file}"
    )]
    RowsUnknown {
        /// Its path in the log.
        file: String,
    },
    /// A property whose value has not the form that it must have.
    #[error("the property has not the right form: key={key}, value={value}, wanted={form}")]
    PropertyMalformed {
        /// Key.
        key: String,
        /// Value.
        value: String,
        /// What it must look like.
        form: String,
    },
    /// Rows cannot be removed from an append-only table.
    #[error("the table is append-only (delta.appendOnly=true): no row may be deleted or updated")]
    AppendOnly,
    /// A state that another codec made.
    #[error("internal error, please report: the state is not one of a Delta table")]
    ForeignState,
    /// A JSON text could not be made.
    #[error("internal error, please report: an action could not be written as JSON")]
    Encode {
        /// What the JSON writer said.
        source: serde_json::Error,
    },
    /// A Parquet file could not be written.
    #[error("the checkpoint could not be written: file={file}")]
    WriteCheckpoint {
        /// The checkpoint.
        file: String,
        /// What the Parquet writer said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The table model refused a schema or a partitioning.
    #[error(transparent)]
    Model(Box<TableError>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DeltaError {
    pub(crate) fn from_table(error: TableError) -> Self {
        Self::Model(Box::new(error))
    }

    /// What a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::UnsupportedType { .. }
            | Self::UnsupportedTypeChange { .. }
            | Self::CatalogManaged
            | Self::UnsupportedReaderFeature { .. }
            | Self::UnsupportedWriterFeature { .. }
            | Self::ManagedByDatabase
            | Self::ManagedByAnother { .. } => ErrorClass::Unsupported,
            Self::BadLine { .. }
            | Self::NotText { .. }
            | Self::BadSchema { .. }
            | Self::InvalidProtocol { .. }
            | Self::MissingProtocol { .. }
            | Self::MissingMetadata { .. }
            | Self::PathOutsideTable { .. }
            | Self::BadPath { .. }
            | Self::BadDeletionVector { .. }
            | Self::LyingCheckpoint { .. }
            | Self::EmptyCompaction { .. }
            | Self::BadDomain { .. }
            | Self::BadCheckpoint { .. }
            | Self::BadCatalogTail { .. }
            | Self::TailGap { .. } => ErrorClass::Corrupt,
            Self::Segment(source) => match source {
                SegmentError::TooOld { .. } | SegmentError::TooNew { .. } => ErrorClass::NotFound,
                _ => ErrorClass::Corrupt,
            },
            Self::NotATable { .. }
            | Self::RemovalTellsTooLittle { .. }
            | Self::NoVersionAt { .. } => ErrorClass::NotFound,
            Self::NoSuchColumn { .. }
            | Self::ColumnExists { .. }
            | Self::ColumnInUse { .. }
            | Self::CannotWiden { .. }
            | Self::ColumnIdsExhausted { .. }
            | Self::NewColumnNotNull { .. }
            | Self::NewColumnWithRule { .. }
            | Self::PropertyRefused { .. }
            | Self::PropertyMalformed { .. }
            | Self::NotCatalogManaged
            | Self::ChangeFeedOff { .. }
            | Self::ChangeFeedSchema { .. }
            | Self::ChangeRange { .. }
            | Self::SystemDomain { .. }
            | Self::FeatureInUse { .. }
            | Self::FeatureMissing { .. }
            | Self::ClusteringRefused { .. }
            | Self::RowsUnknown { .. }
            | Self::UnreadableRetention { .. }
            | Self::RetentionTooShort { .. }
            | Self::AppendOnly => ErrorClass::Invalid,
            Self::IllegalCommit { .. }
            | Self::ForeignState
            | Self::Encode { .. }
            | Self::Pack { .. }
            | Self::WriteCheckpoint { .. } => ErrorClass::Internal,
            Self::Model(error) => error.class(),
            Self::Store(_) => ErrorClass::Store,
        }
    }
}

impl From<DeltaError> for TableError {
    fn from(error: DeltaError) -> Self {
        match error {
            DeltaError::Store(error) => Self::Store(error),
            DeltaError::Model(error) => *error,
            error => Self::Format {
                format: "delta",
                class: error.class(),
                source: Box::new(error),
            },
        }
    }
}
