//! The kind of every error of the crates below.
//!
//! Invariant: each crate says its own kinds in an exhaustive match over its cases; here the
//! kinds are mapped. A kind that a newer crate adds is `Internal` until it is listed, which
//! the test of this module makes visible.

use tarndb_db::DbError;
use tarndb_sql::SqlError;
use tarndb_storage::{StoreError, StoreErrorKind};
use tarndb_table::TableError;
use tarndb_types::ParseTxnRefError;

use super::{ConflictKind, Error, ErrorKind, words};

fn of_db(kind: tarndb_db::ErrorKind) -> ErrorKind {
    use tarndb_db::ErrorKind as Kind;
    match kind {
        Kind::ConflictRetryable => ErrorKind::Conflict(ConflictKind::Retryable),
        Kind::ConflictIncompatible => ErrorKind::Conflict(ConflictKind::Incompatible),
        Kind::NotFound => ErrorKind::NotFound,
        Kind::AlreadyExists => ErrorKind::AlreadyExists,
        Kind::Invalid => ErrorKind::Invalid,
        Kind::Unsupported => ErrorKind::Unsupported,
        Kind::Corrupt => ErrorKind::Corrupt,
        Kind::Diverged => ErrorKind::Diverged,
        Kind::Unavailable => ErrorKind::Unavailable,
        Kind::ResourceExhausted => ErrorKind::ResourceExhausted,
        Kind::ReadOnly => ErrorKind::ReadOnly,
        Kind::Closed => ErrorKind::Closed,
        Kind::Cancelled => ErrorKind::Cancelled,
        Kind::Pending => ErrorKind::Pending,
        Kind::OutcomeExpired => ErrorKind::OutcomeExpired,
        _ => ErrorKind::Internal,
    }
}

fn of_store(kind: StoreErrorKind) -> ErrorKind {
    match kind {
        StoreErrorKind::NotFound => ErrorKind::NotFound,
        StoreErrorKind::ResourceExhausted => ErrorKind::ResourceExhausted,
        StoreErrorKind::PermissionDenied | StoreErrorKind::ReadOnly => ErrorKind::ReadOnly,
        StoreErrorKind::Invalid => ErrorKind::Invalid,
        StoreErrorKind::Unsupported => ErrorKind::Unsupported,
        StoreErrorKind::Corrupt => ErrorKind::Corrupt,
        StoreErrorKind::Unavailable => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::from_chain(of_store(error.kind()), error)
    }
}

impl From<TableError> for Error {
    fn from(error: TableError) -> Self {
        Self::from_chain(of_db(tarndb_db::table_kind(&error)), error)
    }
}

impl From<DbError> for Error {
    fn from(error: DbError) -> Self {
        let kind = of_db(error.kind());
        match error {
            // The table is a place; what happened is in the source.
            DbError::Table { table, source } => {
                Self::from_chain(kind, *source).with_place(format!("table={table}"))
            }
            other => Self::from_chain(kind, other),
        }
    }
}

impl Error {
    /// The error of a statement, with its place where it has one.
    pub(crate) fn of_statement(error: SqlError, statement: &tarndb_sql::ParsedStatement) -> Self {
        let position = error.place_in(statement);
        let mut mapped = Self::from(error);
        mapped.told.position = position;
        mapped
    }
}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Self {
        let kind = of_db(error.kind());
        let (sqlstate, position, hint) = (error.sqlstate(), error.position(), error.hint());
        let mut mapped = match error {
            SqlError::Db(source) => Self::from(source),
            SqlError::Table { table, source } => {
                Self::from_chain(kind, source).with_place(format!("table={table}"))
            }
            SqlError::Syntax(ref syntax) => {
                let mut parts = words::split("");
                parts.message = format!("syntax error: {}", syntax.message);
                Self::from_parts(kind, parts, error)
            }
            SqlError::FileValue(ref value) => {
                let mut parts = words::split("");
                parts.message.clone_from(&value.reason);
                let mut place = format!("{}, line {}", value.file, value.line);
                if !value.column.is_empty() {
                    place.push_str(&format!(", column {}: {:?}", value.column, value.value));
                }
                parts.context = Some(place);
                Self::from_parts(kind, parts, error)
            }
            other => Self::from_chain(kind, other),
        };
        mapped.told.kind = kind;
        mapped.told.sqlstate = Some(sqlstate);
        mapped.told.position = position;
        mapped.told.advice = hint.or(mapped.told.advice.take());
        mapped
    }
}

impl From<ParseTxnRefError> for Error {
    fn from(error: ParseTxnRefError) -> Self {
        Self::from_chain(ErrorKind::Invalid, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_the_database_has_a_reaction_of_its_own() {
        use tarndb_db::ErrorKind as Kind;
        let kinds = [
            Kind::ConflictRetryable,
            Kind::ConflictIncompatible,
            Kind::NotFound,
            Kind::AlreadyExists,
            Kind::Invalid,
            Kind::Unsupported,
            Kind::Corrupt,
            Kind::Diverged,
            Kind::Unavailable,
            Kind::ResourceExhausted,
            Kind::ReadOnly,
            Kind::Closed,
            Kind::Cancelled,
            Kind::Pending,
            Kind::OutcomeExpired,
            Kind::Internal,
        ];
        let mut mapped: Vec<String> = kinds.map(|kind| format!("{:?}", of_db(kind))).to_vec();
        mapped.sort();
        mapped.dedup();
        assert_eq!(mapped.len(), kinds.len());
    }

    #[test]
    fn a_table_error_names_the_table_as_its_place_and_keeps_its_source() {
        let source = TableError::EmptyColumnName {
            parent: String::new(),
        };
        let text = source.to_string();
        let error = Error::from(SqlError::Table {
            table: "main.t".into(),
            source: Box::new(source),
        });
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.sqlstate(), Some("42602"));
        assert!(
            error
                .context()
                .is_some_and(|place| place.starts_with("table=main.t"))
        );
        assert!(
            text.starts_with(error.message()),
            "{text:?} {:?}",
            error.message()
        );
        assert!(std::error::Error::source(&error).is_some());
    }
}
