//! `TableError`: everything that can go wrong with one table.
//!
//! Invariant: each case names the column, file or version concerned and, where something can be
//! done, says what. The table's own name is added by the database, which knows it.
//! Spec: none.

use tarndb_storage::StoreError;
use tarndb_types::TableVersion;

/// What a caller can do about a [`TableError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The request or the data handed in is wrong; nothing is damaged.
    Invalid,
    /// Valid, but not something this version does.
    Unsupported,
    /// What is stored contradicts itself or its format.
    Corrupt,
    /// Something that must be there is not.
    NotFound,
    /// The store refused or could not be reached: look at the [`StoreError`].
    Store,
    /// A bug of this program.
    Internal,
}

/// An error about one table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A column without a name.
    #[error("a column has an empty name; give every column a name: parent={parent:?}")]
    EmptyColumnName {
        /// The struct column around it; empty at the top.
        parent: String,
    },
    /// Two columns whose names are equal when case is ignored.
    #[error(
        "column names must differ by more than case; rename one: first={first:?} second={second:?}"
    )]
    DuplicateColumn {
        /// The earlier column.
        first: String,
        /// The later column.
        second: String,
    },
    /// A character that a column name cannot hold.
    #[error(
        "a column name must not contain any of ' ,;{{}}()\\n\\t='; rename the column: \
         column={column:?} character={character:?}"
    )]
    IllegalColumnName {
        /// The column.
        column: String,
        /// The offending character.
        character: char,
    },
    /// A schema without columns.
    #[error("a table needs at least one column")]
    NoColumns,
    /// A type that a table cannot hold.
    #[error("a table cannot hold this type; {advice}: column={column} type={data_type}")]
    UnsupportedType {
        /// The column, with the path of a nested field.
        column: String,
        /// The type as its producer names it.
        data_type: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// Nanosecond timestamps, of which a table keeps only microseconds.
    #[error("column {column}: nanoseconds would be lost; cast to TIMESTAMP(6): value={value}")]
    NanosecondsLost {
        /// The column.
        column: String,
        /// The first value that does not fit, or the type when no value is at hand.
        value: String,
    },
    /// A text that is no type name.
    #[error("not a known type: text={text:?}")]
    UnknownTypeName {
        /// The text.
        text: String,
    },
    /// A schema whose written form is malformed.
    #[error("the schema is malformed: at={at:?} reason={reason}")]
    MalformedSchema {
        /// Where in it.
        at: String,
        /// What is wrong.
        reason: String,
    },
    /// A condition that cannot be computed for a row.
    #[error("a condition cannot be computed: {reason}")]
    PredicateFailed {
        /// Why not.
        reason: String,
    },
    /// An expression of a rule that cannot be used.
    #[error(transparent)]
    Expression(#[from] crate::expression::ExpressionError),
    /// Rows that break a rule of the table, or a rule that cannot be used.
    #[error(transparent)]
    Rule(#[from] crate::rules::RuleError),
    /// A column that the table does not have.
    #[error("no such column: column={column:?}")]
    NoSuchColumn {
        /// The column asked for.
        column: String,
    },
    /// A column that cannot partition a table.
    #[error("the column cannot be a partition column, {reason}: column={column}")]
    IllegalPartitionColumn {
        /// The column.
        column: String,
        /// Why not.
        reason: &'static str,
    },
    /// A column that can be no part of a key.
    #[error("the column cannot be part of the key, {reason}: column={column:?}")]
    IllegalKeyColumn {
        /// The column.
        column: String,
        /// Why not.
        reason: &'static str,
    },
    /// A NULL in a column that takes none.
    #[error("NULL in a NOT NULL column: column={column} row={row}")]
    NullInNotNull {
        /// The column, with the path of a nested field.
        column: String,
        /// 0-based row of the batch.
        row: usize,
    },
    /// An empty string in a NOT NULL partition column, where it would be stored as NULL.
    #[error(
        "an empty value in a partition column is stored as NULL, which this NOT NULL column \
         refuses; store another value: column={column}"
    )]
    EmptyPartitionValue {
        /// The column.
        column: String,
    },
    /// A value that its column's type cannot hold.
    #[error("the value does not fit the column: column={column} type={data_type} value={value}")]
    ValueOutOfRange {
        /// The column, with the path of a nested field.
        column: String,
        /// The column's type.
        data_type: String,
        /// The value.
        value: String,
    },
    /// A type that cannot be turned into the column's.
    #[error(
        "the value's type cannot be stored in the column; cast it: column={column} \
         type={data_type} given={given}"
    )]
    TypeMismatch {
        /// The column, with the path of a nested field.
        column: String,
        /// The column's type.
        data_type: String,
        /// The type handed in.
        given: String,
    },
    /// A batch with another number of columns than the table.
    #[error(
        "the batch has another number of columns than the table: expected={expected} given={given}"
    )]
    ColumnCount {
        /// Columns of the table.
        expected: usize,
        /// Columns of the batch.
        given: usize,
    },
    /// A value that cannot be written as a partition value.
    #[error("the value cannot be a partition value, {reason}: type={data_type} value={value}")]
    PartitionValueUnwritable {
        /// The type.
        data_type: String,
        /// The value.
        value: String,
        /// Why not.
        reason: &'static str,
    },
    /// A stored partition value that its type cannot read.
    #[error("a partition value is malformed: type={data_type} text={text:?}")]
    MalformedPartitionValue {
        /// The type.
        data_type: String,
        /// The stored text.
        text: String,
    },
    /// A table option or property with a value that cannot be used.
    #[error("the table property has an unusable value; {advice}: key={key} value={value:?}")]
    InvalidProperty {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What would do.
        advice: &'static str,
    },
    /// A file path that is not below the table.
    #[error("a file of the table lies outside its root: path={path:?}")]
    PathOutsideTable {
        /// The path as the format spells it.
        path: String,
    },
    /// A file the table names is not in the store.
    #[error("a file of the table is missing from the store: path={path}")]
    FileMissing {
        /// Storage key.
        path: String,
    },
    /// A data file that cannot be read or written.
    #[error("the data file is unreadable: path={path}")]
    DataFile {
        /// Storage key.
        path: String,
        /// What the Parquet library says.
        source: ::parquet::errors::ParquetError,
    },
    /// A data file column that cannot be read as the table's type.
    #[error(
        "the data file's column cannot be read as the table's type: path={path} column={column} \
         type={data_type} stored={stored}"
    )]
    DataFileType {
        /// Storage key.
        path: String,
        /// The column, with the path of a nested field.
        column: String,
        /// The table's type.
        data_type: String,
        /// The file's type.
        stored: String,
    },
    /// A value of a data file that the table's type cannot hold.
    #[error(
        "a value of the data file does not fit the table's type: path={path} column={column} \
         type={data_type} value={value}"
    )]
    DataFileValue {
        /// Storage key.
        path: String,
        /// The column, with the path of a nested field.
        column: String,
        /// The table's type.
        data_type: String,
        /// The value.
        value: String,
    },
    /// A data file without field ids, in a table whose columns are found by them.
    #[error(
        "the data file has no field ids, by which the table finds its columns; rewrite the file \
         with the engine that wrote it: path={path}"
    )]
    NoFieldIds {
        /// Storage key.
        path: String,
    },
    /// A set of deleted rows that reaches beyond the end of its file.
    #[error("deleted rows lie beyond the end of the data file: path={path} row={row} rows={rows}")]
    DeletedRowBeyondFile {
        /// Storage key.
        path: String,
        /// The largest deleted row position.
        row: u64,
        /// Rows of the file.
        rows: u64,
    },
    /// Files or log entries that contradict the format.
    #[error("the table is damaged: path={path} version={version:?} reason={reason}")]
    Corrupt {
        /// Storage key of what is damaged; empty when it is no file of its own.
        path: String,
        /// The table version concerned.
        version: Option<TableVersion>,
        /// What contradicts what.
        reason: String,
    },
    /// A table that needs features this program does not have.
    #[error(
        "the table needs features this version does not have; use a newer version: \
         access={access} features={features:?}"
    )]
    UnknownFeatures {
        /// `read` or `write`.
        access: &'static str,
        /// Names of the features.
        features: Vec<String>,
    },
    /// A change that the table's format or properties forbid.
    #[error("the table refuses the change: operation={operation} reason={reason}")]
    RefusedChange {
        /// The operation.
        operation: String,
        /// Why.
        reason: String,
    },
    /// An error of a format's own, kept whole.
    #[error("{source}")]
    Format {
        /// Name of the format.
        format: &'static str,
        /// What a caller can do about it.
        class: ErrorClass,
        /// The codec's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The Arrow library refused something that should be impossible.
    #[error("internal error in {context}; this is a bug")]
    Arrow {
        /// What was being done.
        context: &'static str,
        /// What the library says.
        source: arrow_schema::ArrowError,
    },
    /// A state that should be impossible.
    #[error("internal error in {context}; this is a bug")]
    Internal {
        /// What was being done.
        context: &'static str,
    },
}

impl TableError {
    /// What a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::EmptyColumnName { .. }
            | Self::DuplicateColumn { .. }
            | Self::IllegalColumnName { .. }
            | Self::NoColumns
            | Self::NanosecondsLost { .. }
            | Self::UnknownTypeName { .. }
            | Self::NoSuchColumn { .. }
            | Self::PredicateFailed { .. }
            | Self::IllegalPartitionColumn { .. }
            | Self::IllegalKeyColumn { .. }
            | Self::NullInNotNull { .. }
            | Self::EmptyPartitionValue { .. }
            | Self::ValueOutOfRange { .. }
            | Self::TypeMismatch { .. }
            | Self::ColumnCount { .. }
            | Self::PartitionValueUnwritable { .. }
            | Self::InvalidProperty { .. }
            | Self::RefusedChange { .. } => ErrorClass::Invalid,
            Self::UnsupportedType { .. } | Self::UnknownFeatures { .. } => ErrorClass::Unsupported,
            Self::MalformedSchema { .. }
            | Self::MalformedPartitionValue { .. }
            | Self::PathOutsideTable { .. }
            | Self::DataFileType { .. }
            | Self::DataFileValue { .. }
            | Self::NoFieldIds { .. }
            | Self::DeletedRowBeyondFile { .. }
            | Self::Corrupt { .. } => ErrorClass::Corrupt,
            Self::DataFile { source, .. } => parquet_class(source),
            Self::FileMissing { .. } => ErrorClass::NotFound,
            Self::Expression(error) => error.class(),
            Self::Rule(error) => error.class(),
            Self::Format { class, .. } => *class,
            Self::Store(_) => ErrorClass::Store,
            Self::Arrow { .. } | Self::Internal { .. } => ErrorClass::Internal,
        }
    }
}

/// An error of the store reaches us wrapped by the Parquet library, as do some of its own about
/// damage.
fn parquet_class(error: &::parquet::errors::ParquetError) -> ErrorClass {
    match error {
        ::parquet::errors::ParquetError::External(source)
            if source.is::<StoreError>() || source.is::<object_store::Error>() =>
        {
            ErrorClass::Store
        }
        _ => ErrorClass::Corrupt,
    }
}
