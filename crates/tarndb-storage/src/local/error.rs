//! Errors of the local store that say whether anything can have happened.
//!
//! Invariant: `Effect::None` is given only before the `link` or `rename` that shows an object.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Whether the failed operation can have changed what readers see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Refused before any effect.
    None,
    /// The object may be visible, or its durability is unknown.
    Possible,
}

/// A system call that failed; travels as the source of an [`object_store::Error`].
#[derive(Debug)]
pub struct LocalError {
    /// What was tried, in words.
    pub action: &'static str,
    /// The path it was tried on.
    pub path: PathBuf,
    /// Whether anything can have happened.
    pub effect: Effect,
    /// The system's answer.
    pub source: io::Error,
}

impl fmt::Display for LocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "could not {}: path={}: {}",
            self.action,
            self.path.display(),
            self.source
        )
    }
}

impl std::error::Error for LocalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl LocalError {
    /// The local error inside `error`, if it comes from the local store.
    pub fn find(error: &object_store::Error) -> Option<&Self> {
        match error {
            object_store::Error::Generic { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }
}

/// Result of a blocking step.
pub(super) type LocalResult<T> = Result<T, LocalError>;

/// Turns an `io::Error` into a [`LocalError`] that names what was tried on which path.
pub(super) fn failed<'a>(
    action: &'static str,
    path: &'a Path,
    effect: Effect,
) -> impl FnOnce(io::Error) -> LocalError + use<'a> {
    move |source| LocalError {
        action,
        path: path.to_owned(),
        effect,
        source,
    }
}

impl From<LocalError> for object_store::Error {
    fn from(error: LocalError) -> Self {
        Self::Generic {
            store: "local folder",
            source: Box::new(error),
        }
    }
}
