//! The one error type of the crate, and the kinds that say how to react.
//!
//! Invariant: every error of the crates below has a kind here, found in exhaustive matches
//! (`error/kinds.rs`); the source is kept, and never formatted into the message.
//! Does not: decide about retries; the kind tells the caller.

mod kinds;
mod words;

use std::fmt;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How to react to an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another transaction stands in the way.
    Conflict(ConflictKind),
    /// Database, schema, table, column, version or file is not there.
    NotFound,
    /// What was to be created is there.
    AlreadyExists,
    /// The request is wrong: statement, value, argument.
    Invalid,
    /// The request is right, but this build, this table or this store cannot do it.
    Unsupported,
    /// Something stored does not hold what it must.
    Corrupt,
    /// A foreign writer changed a table that the database manages.
    Diverged,
    /// The store does not answer; nothing was committed.
    Unavailable,
    /// The store does not answer, and whether the transaction committed is open.
    Pending,
    /// Whether the transaction committed cannot be told any more.
    OutcomeExpired,
    /// A limit was reached: memory, disk, quota.
    ResourceExhausted,
    /// Store, table or transaction may not be written.
    ReadOnly,
    /// The handle was closed.
    Closed,
    /// The caller cancelled the work.
    Cancelled,
    /// A bug in this crate.
    Internal,
}

/// Whether running a transaction again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConflictKind {
    /// Running the transaction again, on the new state, is right.
    Retryable,
    /// Running it again changes nothing: the transaction must be thought over.
    Incompatible,
}

/// An error: what, where, what to do, and what it came from.
pub struct Error {
    /// Boxed, so that results stay small.
    told: Box<Told>,
}

struct Told {
    kind: ErrorKind,
    message: String,
    context: Option<String>,
    advice: Option<String>,
    sqlstate: Option<&'static str>,
    position: Option<(usize, usize)>,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Error {
    /// How to react.
    pub fn kind(&self) -> ErrorKind {
        self.told.kind
    }

    /// What happened, on one line.
    pub fn message(&self) -> &str {
        &self.told.message
    }

    /// Where: table, version, file, column, as `name=value` texts.
    pub fn context(&self) -> Option<&str> {
        self.told.context.as_deref()
    }

    /// What to do about it; empty when nothing is known beyond the kind.
    pub fn advice(&self) -> &str {
        self.told
            .advice
            .as_deref()
            .unwrap_or_else(|| words::advice(self.told.kind))
    }

    /// The SQLSTATE, when the error came from a statement.
    pub fn sqlstate(&self) -> Option<&'static str> {
        self.told.sqlstate
    }

    /// Line and column (from 1, in characters) in the text of the statements, where known.
    pub fn position(&self) -> Option<(usize, usize)> {
        self.told.position
    }

    /// Whether running the transaction again is right.
    pub fn is_retryable(&self) -> bool {
        self.told.kind == ErrorKind::Conflict(ConflictKind::Retryable)
    }

    /// An error told by the texts of `source` and of what it came from.
    fn from_chain(kind: ErrorKind, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        let mut parts = words::split(&source.to_string());
        let mut cause = source.source();
        while let Some(error) = cause {
            parts.add_cause(words::split(&error.to_string()));
            cause = error.source();
        }
        Self::from_parts(kind, parts, source)
    }

    fn from_parts(
        kind: ErrorKind,
        parts: words::Parts,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        let told = Box::new(Told {
            kind,
            message: parts.message,
            context: parts.context,
            advice: parts.advice,
            sqlstate: None,
            position: None,
            source: Box::new(source),
        });
        Self { told }
    }

    fn with_place(mut self, place: String) -> Self {
        self.told.context = Some(match self.told.context.take() {
            Some(context) => format!("{place}, {context}"),
            None => place,
        });
        self
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { kind, source, .. } = &*self.told;
        f.debug_struct("Error")
            .field("kind", kind)
            .field("text", &self.to_string())
            .field("source", source)
            .finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told.message)?;
        match &self.told.context {
            Some(context) => write!(f, ": {context}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.told.source)
    }
}
