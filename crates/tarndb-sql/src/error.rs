//! `SqlError`: everything a statement can fail with, with SQLSTATE, kind and advice.
//!
//! Invariant: only a retryable conflict has SQLSTATE 40001, because drivers run transactions
//! again on it; an incompatible one is 55000. The engine's errors are told in our words.
//! Does not: format causes into the text; `source` keeps them.
//! Spec: docs/sql/errors.md.

mod place;
pub(crate) mod translate;

use std::fmt;

use tarndb_db::{DbError, ErrorKind, ObjectError, table_kind};
use tarndb_table::{ExpressionError, RuleError, TableError};
use tarndb_types::DbVersion;

/// Where and why a statement does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// What was expected and found.
    pub message: String,
    /// Line of the script, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// The line itself.
    pub excerpt: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            message,
            line,
            column,
            excerpt,
            ..
        } = self;
        writeln!(f, "syntax error: {message} at line {line}, column {column}")?;
        let indent = excerpt
            .chars()
            .take(usize::try_from(column.saturating_sub(1)).unwrap_or(0))
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect::<String>();
        write!(f, "  {excerpt}\n  {indent}^")
    }
}

/// A value of an input file that does not fit its column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileValueError {
    /// The file.
    pub file: String,
    /// Line of the file, from 1, the header counted.
    pub line: u64,
    /// The column; empty when the line as a whole does not fit.
    pub column: String,
    /// The value as written.
    pub value: String,
    /// The column's type, or what is wrong.
    pub reason: String,
}

impl fmt::Display for FileValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            value,
            reason,
        } = self;
        write!(f, "{reason}: file={file} line={line}")?;
        if !column.is_empty() {
            write!(f, " column={column} value={value:?}")?;
        }
        Ok(())
    }
}

/// An error of a statement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// It does not parse.
    #[error("{0}")]
    Syntax(Box<SyntaxError>),
    /// It parses, but this version does not do it.
    #[error("not supported: {what}")]
    Unsupported {
        /// What.
        what: String,
        /// What to do instead.
        hint: Option<String>,
    },
    /// A statement that took longer than it may.
    #[error("the statement took longer than statement_timeout, {limit:?}, and was cancelled")]
    TimedOut {
        /// How long it may take.
        limit: std::time::Duration,
    },
    /// A table that is not there.
    #[error("table {name} does not exist")]
    UnknownTable {
        /// As written.
        name: String,
        /// Tables that may have been meant.
        near: Vec<String>,
    },
    /// A schema that is not there.
    #[error("schema {name} does not exist")]
    UnknownSchema {
        /// As written.
        name: String,
        /// Schemas that may have been meant.
        near: Vec<String>,
    },
    /// A view that is not there.
    #[error("view {name} does not exist")]
    UnknownView {
        /// As written.
        name: String,
        /// Views that may have been meant.
        near: Vec<String>,
    },
    /// A tag that is not there.
    #[error("tag {name} does not exist")]
    UnknownTag {
        /// As written.
        name: String,
        /// Tags that may have been meant.
        near: Vec<String>,
    },
    /// No dropped table of that name.
    #[error("no dropped table is called {name}")]
    NothingDropped {
        /// As written.
        name: String,
    },
    /// A change in a session that reads an older version.
    #[error("the session reads version {version} of the database and changes nothing")]
    ReadsOlderVersion {
        /// The version.
        version: DbVersion,
    },
    /// A name of something else than the statement is for.
    #[error("{name} is {is}")]
    WrongObject {
        /// `schema.name`.
        name: String,
        /// What it is, with its article.
        is: &'static str,
        /// What to do instead.
        hint: &'static str,
    },
    /// A view whose query does not work any more.
    #[error("view {view}")]
    View {
        /// `schema.name`.
        view: String,
        /// What is wrong.
        #[source]
        source: Box<SqlError>,
    },
    /// A view that leads back to itself, or too many of them.
    #[error("view {view} {reason}")]
    ViewNesting {
        /// `schema.name`.
        view: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A view with another number of names than its query has columns.
    #[error("view {view}: {} for {}", counted(*names, "name"), counted(*columns, "column"))]
    ViewWidth {
        /// As written.
        view: String,
        /// Names given.
        names: usize,
        /// Columns of the query.
        columns: usize,
    },
    /// A column that is not there.
    #[error("column {name} does not exist{}", of_table(table.as_deref()))]
    UnknownColumn {
        /// As written, folded.
        name: String,
        /// The table, when one is meant.
        table: Option<String>,
        /// Columns that may have been meant.
        near: Vec<String>,
    },
    /// A name that means several columns.
    #[error("column {name} is ambiguous: several tables have it")]
    AmbiguousColumn {
        /// As written, folded.
        name: String,
    },
    /// A function that is not there.
    #[error("function {name} does not exist")]
    UnknownFunction {
        /// As written.
        name: String,
        /// What may have been meant.
        near: Vec<String>,
    },
    /// A column named twice where each may come once.
    #[error("column {name} is named twice")]
    DuplicateColumn {
        /// As written.
        name: String,
    },
    /// An INSERT with another number of values than columns.
    #[error("INSERT into {table}: {} for {}", counted(*given, "value"), counted(*expected, "column"))]
    InsertWidth {
        /// The table.
        table: String,
        /// Columns to fill.
        expected: usize,
        /// Values given.
        given: usize,
    },
    /// A NOT NULL column that an INSERT leaves out.
    #[error("column {column} of {table} is NOT NULL and the statement gives no value for it")]
    MissingNotNull {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A name that the database needs itself.
    #[error("the name {name} is reserved")]
    ReservedName {
        /// The name.
        name: String,
    },
    /// A NULL in a NOT NULL column.
    #[error("column {column} of {table} is NOT NULL and was given NULL")]
    NotNull {
        /// The table.
        table: String,
        /// The column, with the path of a nested field.
        column: String,
    },
    /// A schema that is dropped with tables in it.
    #[error("schema {name} is not empty, it has {}", listed(tables))]
    SchemaNotEmpty {
        /// The schema.
        name: String,
        /// Its tables.
        tables: Vec<String>,
    },
    /// A setting that is not there, or a value it does not take.
    #[error("setting {name}: {reason}")]
    Setting {
        /// The setting.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A table option that is not there, or a value it does not take.
    #[error("table option {name}: {reason}")]
    TableOption {
        /// The option as written.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A statement in a transaction that already failed.
    #[error("the transaction has failed: statements are refused until ROLLBACK")]
    TransactionFailed,
    /// BEGIN inside a transaction.
    #[error("a transaction is open already")]
    TransactionOpen,
    /// A savepoint that is not there.
    #[error("savepoint {name} does not exist")]
    UnknownSavepoint {
        /// As written.
        name: String,
    },
    /// A prepared statement that is not there.
    #[error("prepared statement {name} does not exist")]
    UnknownPrepared {
        /// As written.
        name: String,
    },
    /// A prepared statement that is there already.
    #[error("prepared statement {name} exists already")]
    PreparedExists {
        /// As written.
        name: String,
    },
    /// A type that is none.
    #[error("type {name} does not exist")]
    UnknownType {
        /// As written.
        name: String,
    },
    /// Another number of arguments than parameters.
    #[error("prepared statement {name} takes {}, not {given}", counted(*expected, "argument"))]
    ArgumentCount {
        /// The prepared statement.
        name: String,
        /// Its parameters.
        expected: usize,
        /// Arguments given.
        given: usize,
    },
    /// COMMIT or ROLLBACK without a transaction.
    #[error("there is no open transaction")]
    NoTransaction,
    /// A file that cannot be read or written.
    #[error("file {path}: {reason}")]
    File {
        /// The path or URL.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A value in a file that does not fit.
    #[error("{0}")]
    FileValue(Box<FileValueError>),
    /// A statement that the engine cannot plan or run; the text is in our words.
    #[error("{message}")]
    Engine {
        /// What is wrong.
        message: String,
        /// SQLSTATE.
        sqlstate: &'static str,
        /// How to react.
        kind: ErrorKind,
        /// What to do.
        hint: Option<String>,
    },
    /// A scalar subquery that gives more than one row, or the like.
    #[error("a subquery used as a value gives more than one row")]
    SubqueryRows,
    /// A row that two rows of a join's other side would change.
    #[error(
        "a row of table {table} is matched by several rows of the source, and more than one would change it"
    )]
    MatchedTwice {
        /// The table.
        table: String,
    },
    /// The session was closed.
    #[error("the session is closed")]
    Closed,
    /// An error of one table.
    #[error("table {table}")]
    Table {
        /// Its name.
        table: String,
        /// What is wrong.
        #[source]
        source: Box<TableError>,
    },
    /// An error of the database.
    #[error(transparent)]
    Db(#[from] DbError),
    /// A state that should be impossible.
    #[error("internal error in {context}; this is a bug")]
    Internal {
        /// What was being done.
        context: &'static str,
    },
}

fn of_table(table: Option<&str>) -> String {
    table.map_or_else(String::new, |table| format!(" in table {table}"))
}

impl SqlError {
    /// The five characters that say what happened, as PostgreSQL defines them.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Syntax(_) | Self::InsertWidth { .. } => "42601",
            Self::Unsupported { .. } => "0A000",
            Self::UnknownTable { .. } | Self::UnknownView { .. } => "42P01",
            Self::WrongObject { .. } => "42809",
            Self::UnknownTag { .. } | Self::NothingDropped { .. } => "42704",
            Self::ReadsOlderVersion { .. } => "25006",
            Self::View { source, .. } => source.sqlstate(),
            Self::ViewNesting { .. } => "42P17",
            Self::ViewWidth { .. } => "42601",
            Self::UnknownSchema { .. } => "3F000",
            Self::UnknownColumn { .. } => "42703",
            Self::AmbiguousColumn { .. } => "42702",
            Self::UnknownFunction { .. } => "42883",
            Self::DuplicateColumn { .. } => "42701",
            Self::MissingNotNull { .. } | Self::NotNull { .. } => "23502",
            Self::SchemaNotEmpty { .. } => "2BP01",
            Self::ReservedName { .. } => "42939",
            Self::Setting { .. } | Self::TableOption { .. } => "22023",
            Self::TransactionFailed => "25P02",
            Self::TransactionOpen => "25001",
            Self::UnknownSavepoint { .. } => "3B001",
            Self::UnknownPrepared { .. } => "26000",
            Self::PreparedExists { .. } => "42P05",
            Self::ArgumentCount { .. } => "42601",
            Self::UnknownType { .. } => "42704",
            Self::NoTransaction => "25P01",
            Self::File { .. } => "58030",
            Self::FileValue(_) => "22P02",
            Self::Engine { sqlstate, .. } => sqlstate,
            Self::SubqueryRows | Self::MatchedTwice { .. } => "21000",
            Self::Closed => "08003",
            Self::TimedOut { .. } => "57014",
            Self::Table { source, .. } => table_state(source),
            Self::Db(source) => db_state(source),
            Self::Internal { .. } => "XX000",
        }
    }

    /// How to react.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::UnknownTable { .. }
            | Self::UnknownSchema { .. }
            | Self::UnknownView { .. }
            | Self::UnknownTag { .. }
            | Self::NothingDropped { .. } => ErrorKind::NotFound,
            Self::ReadsOlderVersion { .. } => ErrorKind::ReadOnly,
            Self::View { source, .. } => source.kind(),
            Self::Engine { kind, .. } => *kind,
            Self::Closed => ErrorKind::Closed,
            Self::TimedOut { .. } => ErrorKind::Cancelled,
            Self::Table { source, .. } => table_kind(source),
            Self::Db(source) => source.kind(),
            Self::Internal { .. } => ErrorKind::Internal,
            _ => ErrorKind::Invalid,
        }
    }

    /// Line and column (from 1, in characters) of the script, for syntax errors.
    pub fn position(&self) -> Option<(usize, usize)> {
        match self {
            Self::Syntax(syntax) => Some((
                usize::try_from(syntax.line).ok()?,
                usize::try_from(syntax.column).ok()?,
            )),
            _ => None,
        }
    }

    /// What to do about it, when there is something to say.
    pub fn hint(&self) -> Option<String> {
        let own = self.own_hint();
        own.or_else(|| general_hint(self.sqlstate()).map(str::to_owned))
    }

    fn own_hint(&self) -> Option<String> {
        match self {
            Self::Syntax(syntax) => syntax.hint.clone(),
            Self::Unsupported { hint, .. } | Self::Engine { hint, .. } => hint.clone(),
            Self::WrongObject { hint, .. } => Some((*hint).to_owned()),
            Self::ReadsOlderVersion { .. } => {
                Some("RESET tarndb.as_of reads the newest again".to_owned())
            }
            Self::UnknownTag { near, .. } if near.is_empty() => {
                Some("SHOW TAGS lists the tags".to_owned())
            }
            Self::View { source, .. } => source.hint(),
            Self::ViewNesting { .. } => {
                Some("CREATE OR REPLACE one of the views with another query".to_owned())
            }
            Self::UnknownView { near, .. } if near.is_empty() => {
                Some("SHOW VIEWS lists the views".to_owned())
            }
            Self::UnknownTable { near, .. }
            | Self::UnknownView { near, .. }
            | Self::UnknownTag { near, .. }
            | Self::UnknownSchema { near, .. }
            | Self::UnknownFunction { near, .. }
            | Self::UnknownColumn { near, .. } => did_you_mean(near),
            Self::AmbiguousColumn { .. } => Some("put the table's name before it".to_owned()),
            Self::InsertWidth { .. } => {
                Some("name the columns: INSERT INTO t (a, b) VALUES ..".to_owned())
            }
            Self::SchemaNotEmpty { .. } => Some("drop the tables first, or say CASCADE".to_owned()),
            Self::FileValue(_) => Some(
                "correct the line and import again, nothing was imported; --null TEXT names a \
                 text that means NULL"
                    .to_owned(),
            ),
            Self::TimedOut { .. } => Some("SET statement_timeout to more, or to 'none'".to_owned()),
            Self::MatchedTwice { .. } => Some(
                "leave one row per key in the source (DISTINCT, GROUP BY, row_number()), or \
                 narrow the condition"
                    .to_owned(),
            ),
            Self::TransactionFailed => Some("say ROLLBACK, then begin again".to_owned()),
            Self::TransactionOpen => Some("COMMIT or ROLLBACK it first".to_owned()),
            Self::NoTransaction => Some("say BEGIN first".to_owned()),
            Self::UnknownSavepoint { .. } => {
                Some("savepoints go with their transaction, and with earlier ones".to_owned())
            }
            Self::UnknownPrepared { .. } => Some("PREPARE it in this session first".to_owned()),
            Self::PreparedExists { .. } => Some("DEALLOCATE it first".to_owned()),
            Self::Db(source) if source.is_retryable() => {
                Some("run the transaction again".to_owned())
            }
            _ => None,
        }
    }

    /// Whether running the statement again on a new snapshot is right.
    pub fn is_retryable(&self) -> bool {
        self.kind() == ErrorKind::ConflictRetryable
    }

    /// The same error with advice, where its case carries some.
    #[must_use]
    pub(crate) fn with_hint(mut self, text: impl Into<String>) -> Self {
        match &mut self {
            Self::Syntax(syntax) => syntax.hint = Some(text.into()),
            Self::Unsupported { hint, .. } | Self::Engine { hint, .. } => *hint = Some(text.into()),
            _ => {}
        }
        self
    }

    /// An error of a table, by its name.
    pub(crate) fn of_table(table: String, source: TableError) -> Self {
        match source {
            TableError::NullInNotNull { column, .. } => Self::NotNull { table, column },
            source => Self::Table {
                table,
                source: Box::new(source),
            },
        }
    }

    /// An error of `table`.
    pub(crate) fn table(table: impl fmt::Display) -> impl FnOnce(TableError) -> Self {
        let table = table.to_string();
        move |source| Self::of_table(table, source)
    }
}

/// Whether `value`, which a column of `data_type` does not take, has the form of its values.
fn has_form(value: &str, data_type: &str) -> bool {
    const NUMBERS: &[&str] = &["byte", "short", "integer", "long", "float", "double"];
    let value = value.trim();
    if NUMBERS.contains(&data_type) || data_type.starts_with("decimal") {
        return value.parse::<f64>().is_ok();
    }
    value.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// The first few names.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    let text = shown.join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// What to do about errors of a state when nothing better is known.
fn general_hint(sqlstate: &str) -> Option<&'static str> {
    match sqlstate {
        "22003" => Some("use a wider type, or leave such values out"),
        "22012" => Some("leave such rows out, or divide by NULLIF(.., 0)"),
        "22P02" => Some("correct the value, or read it with TRY_CAST, which gives NULL"),
        "23502" => Some("give the column a value"),
        "3F000" => Some("SHOW SCHEMAS lists the schemas"),
        "42601" => Some("docs/guide/sql.md lists the statements"),
        "42703" => Some("DESCRIBE shows the columns of a table"),
        "42804" => Some("CAST the value to the type of the column"),
        "42883" => Some("look at the function's name and at the types of its arguments"),
        "42P01" => Some("SHOW TABLES lists the tables"),
        _ => None,
    }
}

fn did_you_mean(near: &[String]) -> Option<String> {
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

fn table_state(error: &TableError) -> &'static str {
    match error {
        TableError::NullInNotNull { .. } | TableError::EmptyPartitionValue { .. } => "23502",
        TableError::ValueOutOfRange {
            value, data_type, ..
        } if !has_form(value, data_type) => "22P02",
        TableError::ValueOutOfRange { .. } | TableError::NanosecondsLost { .. } => "22003",
        TableError::TypeMismatch { .. } => "42804",
        TableError::DuplicateColumn { .. } => "42701",
        TableError::EmptyColumnName { .. } | TableError::IllegalColumnName { .. } => "42602",
        TableError::NoSuchColumn { .. } => "42703",
        TableError::InvalidProperty { .. } => "22023",
        TableError::Rule(error) => rule_state(error),
        TableError::Expression(error) => expression_state(error),
        TableError::IllegalPartitionColumn { .. } | TableError::NoColumns => "42P16",
        other => kind_state(table_kind(other)),
    }
}

fn rule_state(error: &RuleError) -> &'static str {
    match error {
        RuleError::Violated { .. } | RuleError::NotAsGenerated { .. } => "23514",
        RuleError::TooLong { .. } => "22001",
        RuleError::IdentityGiven { .. } => "428C9",
        RuleError::IdentityExhausted { .. } => "2200H",
        RuleError::NotEvaluated { source, .. } | RuleError::NotMade { source, .. } => {
            expression_state(source)
        }
        _ => "42P16",
    }
}

fn expression_state(error: &ExpressionError) -> &'static str {
    match error {
        ExpressionError::Unsupported { .. } => "0A000",
        ExpressionError::UnknownColumn { .. } => "42703",
        ExpressionError::Types { .. } => "42804",
        ExpressionError::Failed { .. } => "22008",
        _ => "42601",
    }
}

fn db_state(error: &DbError) -> &'static str {
    match error {
        DbError::TableNotFound { .. }
        | DbError::TableDropped { .. }
        | DbError::Object(ObjectError::ViewNotFound { .. }) => "42P01",
        DbError::Object(ObjectError::TagNotFound { .. } | ObjectError::NothingDropped { .. }) => {
            "42704"
        }
        DbError::Object(_) if error.kind() == ErrorKind::Invalid => "55000",
        DbError::TableExists { .. } => "42P07",
        DbError::SchemaNotFound { .. } => "3F000",
        DbError::SchemaExists { .. } => "42P06",
        DbError::SchemaNotEmpty { .. } => "2BP01",
        DbError::InvalidName { .. } => "42602",
        DbError::DuplicateKey { .. } => "21000",
        DbError::RowOutsidePredicate { .. } => "44000",
        DbError::Table { source, .. } => table_state(source),
        other => kind_state(other.kind()),
    }
}

fn kind_state(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ConflictRetryable => "40001",
        ErrorKind::ConflictIncompatible | ErrorKind::Diverged => "55000",
        ErrorKind::NotFound => "58P01",
        ErrorKind::AlreadyExists => "42710",
        ErrorKind::Invalid => "22000",
        ErrorKind::Unsupported => "0A000",
        ErrorKind::Corrupt => "XX001",
        ErrorKind::Unavailable => "58030",
        ErrorKind::ResourceExhausted => "53000",
        ErrorKind::ReadOnly => "25006",
        ErrorKind::Closed => "08003",
        ErrorKind::Cancelled => "57014",
        ErrorKind::Pending | ErrorKind::OutcomeExpired => "08007",
        _ => "XX000",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_lists_every_sqlstate() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sql/errors.md");
        let page = std::fs::read_to_string(path).unwrap();
        let is_state = |text: &str| {
            text.len() == 5
                && text
                    .chars()
                    .all(|c| c.is_ascii_digit() || c.is_ascii_uppercase())
                && text.chars().any(|c| c.is_ascii_digit())
        };
        for source in [include_str!("error.rs"), include_str!("error/translate.rs")] {
            for state in source.split('"').filter(|text| is_state(text)) {
                assert!(page.contains(&format!("`{state}`")), "{state}");
            }
        }
    }
}
