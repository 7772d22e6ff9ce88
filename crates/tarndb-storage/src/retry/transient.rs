//! Which failures pass, and how ours are told.
//!
//! Invariant: an answer of the store is never taken for a failure in passing: what it refuses
//! or does not have stays so. Errors of the local file system are answers too.
//! Does not: look at the status of an HTTP answer; the client of a cloud repeats those.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

use crate::error::StoreError;
use crate::local::LocalError;

/// How a request failed in passing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A broken answer, or none and the line is cut.
    Broken,
    /// No answer in time.
    TimedOut,
    /// An answer that is too short: broken off, or of an object that is.
    Short,
}

/// An attempt was given up.
#[derive(Debug)]
pub(super) struct TimedOut {
    pub(super) after: Duration,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer within {:?}", self.after)
    }
}

impl StdError for TimedOut {}

impl From<TimedOut> for Error {
    fn from(source: TimedOut) -> Self {
        Self::Generic {
            store: "store",
            source: Box::new(source),
        }
    }
}

/// All attempts failed.
#[derive(Debug)]
pub(super) struct GaveUp {
    attempts: u32,
    waited: Duration,
    last: Error,
}

impl GaveUp {
    pub(super) fn new(attempts: u32, waited: Duration, last: Error) -> Self {
        Self {
            attempts,
            waited,
            last,
        }
    }
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            attempts, waited, ..
        } = self;
        write!(f, "given up after {attempts} attempts in {waited:.1?}")
    }
}

impl StdError for GaveUp {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.last)
    }
}

impl From<GaveUp> for Error {
    fn from(source: GaveUp) -> Self {
        // What is too short is told as that, not as a store that does not answer.
        if StoreError::find_short_read(&source.last).is_some() {
            return source.last;
        }
        Self::Generic {
            store: "store",
            source: Box::new(source),
        }
    }
}

/// Whether trying again may help; `None` when the store answered.
pub(super) fn is_transient(error: &Error) -> Option<Kind> {
    if StoreError::find_short_read(error).is_some() {
        return Some(Kind::Short);
    }
    if LocalError::find(error).is_some() || !matches!(error, Error::Generic { .. }) {
        return None;
    }
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(one) = cause {
        if one.is::<TimedOut>() {
            return Some(Kind::TimedOut);
        }
        if is_passing(one) {
            return Some(Kind::Broken);
        }
        cause = one.source();
    }
    None
}

fn is_passing(error: &(dyn StdError + 'static)) -> bool {
    if let Some(http) = error.downcast_ref::<HttpError>() {
        return !matches!(http.kind(), HttpErrorKind::Unknown);
    }
    if let Some(system) = error.downcast_ref::<io::Error>() {
        return is_passing_io(system.kind());
    }
    is_injected(error)
}

fn is_passing_io(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::TimedOut
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::Interrupted
    )
}

#[cfg(any(debug_assertions, feature = "test-util"))]
fn is_injected(error: &(dyn StdError + 'static)) -> bool {
    error.is::<crate::fault::Injected>()
}

#[cfg(not(any(debug_assertions, feature = "test-util")))]
fn is_injected(_error: &(dyn StdError + 'static)) -> bool {
    false
}
