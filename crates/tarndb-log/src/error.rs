//! What can go wrong with a log.

use std::time::Duration;

use tarndb_storage::StoreError;

/// An error of a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An entry that must be there is not.
    #[error("log entry missing: version={version}, key={key}")]
    Missing {
        /// The missing version.
        version: u64,
        /// Where it was expected.
        key: String,
    },
    /// The deadline passed before the store said whether the entry is there.
    #[error(
        "outcome not known yet: version={version}, waited={} ms; \
         ask for the outcome when the store answers again",
        waited.as_millis()
    )]
    Pending {
        /// The version that was tried.
        version: u64,
        /// How long the store was asked.
        waited: Duration,
        /// Its last answer, if it gave one.
        #[source]
        source: Option<StoreError>,
    },
    /// The entry was refused before any effect and is definitely not there.
    #[error("log entry not stored: version={version}")]
    NotStored {
        /// The version that was tried.
        version: u64,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// A read or a listing failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
