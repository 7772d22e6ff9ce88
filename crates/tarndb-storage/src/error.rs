//! What can go wrong between us and the store, and what the caller can do about it.
//!
//! Invariant: `is_not_stored` is true only when the request is known to have had no effect.
//! Does not: name credentials or signed URLs in any message.
//! Spec: docs/format/log.md, "What the store must do".

use std::io;

use object_store::path::Path;

use crate::local::{Effect, LocalError};
use crate::remote::RemoteFailure;

/// What a caller can do about a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The object is not there.
    NotFound,
    /// Disk or quota is full: free space, then run again.
    ResourceExhausted,
    /// The credentials or the user may not do this.
    PermissionDenied,
    /// The medium is read-only.
    ReadOnly,
    /// The caller's input is wrong: URL, option, key.
    Invalid,
    /// The store lacks what the database needs.
    Unsupported,
    /// The object is not what its reader was promised.
    Corrupt,
    /// The store does not answer, or answers that it failed: try again later.
    Unavailable,
}

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The object is not there.
    #[error("object not found: key={key}")]
    NotFound {
        /// The missing key.
        key: String,
    },
    /// Disk or quota is full; nothing was stored.
    #[error("no space left: path={path}; free some space, then run it again")]
    NoSpace {
        /// What could not be written.
        path: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The user or the credentials may not do this.
    #[error(
        "permission denied to {operation}: path={path}; \
         give this user or these credentials the right to do so"
    )]
    PermissionDenied {
        /// What was tried.
        operation: &'static str,
        /// Path or key.
        path: String,
        /// The store's answer.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file system is mounted read-only.
    #[error("read-only file system: path={path}; mount it writable or use another place")]
    ReadOnly {
        /// What could not be written.
        path: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The local file system lacks what durable writes or put-if-absent need; nothing was
    /// stored.
    #[error(
        "the file system cannot hold a database: path={path}; \
         use a folder on another one (ext4, xfs, btrfs, ..)"
    )]
    UnfitFileSystem {
        /// The path.
        path: String,
        /// What it lacks.
        #[source]
        source: io::Error,
    },
    /// The local file system refused before anything was stored.
    #[error("could not {operation}: path={path}; nothing was stored")]
    Refused {
        /// What was tried.
        operation: &'static str,
        /// The path.
        path: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The request failed; a write may have taken effect.
    #[error("the store failed to {operation}: key={key}")]
    Failed {
        /// What was tried.
        operation: &'static str,
        /// The key.
        key: String,
        /// The store's answer.
        #[source]
        source: object_store::Error,
    },
    /// The store does not implement the operation; nothing was stored.
    #[error("the store cannot {operation}: key={key}; use a store that can, or enable it")]
    Unsupported {
        /// What was tried.
        operation: &'static str,
        /// The key.
        key: String,
        /// The store's answer.
        #[source]
        source: object_store::Error,
    },
    /// There is no such bucket; nothing was stored.
    #[error(
        "the bucket or container does not exist, or these credentials do not see it: {reason}; \
         create it first, or correct the URL"
    )]
    NoBucket {
        /// The store's answer.
        reason: String,
    },
    /// The store overwrote an object that it was told only to create.
    #[error(
        "the store ignores put-if-absent: url={url}; \
         two writers would destroy each other's commits, so it is not written to"
    )]
    ConditionalPutIgnored {
        /// The store.
        url: String,
    },
    /// An object was shorter than the range asked for.
    #[error("object shorter than expected: key={key}, wanted={start}..{end}, got={got} bytes")]
    ShortRead {
        /// The key.
        key: String,
        /// First byte wanted.
        start: u64,
        /// One past the last byte wanted.
        end: u64,
        /// Bytes received.
        got: u64,
    },
    /// An object that is not stored yet, whose bytes could not be taken from where they are.
    #[error("an object could not be read from the log record that holds it: key={key}")]
    Origin {
        /// The key.
        key: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A text that names no database.
    #[error(
        "not a database URL: {url:?}: {reason}; accepted: s3://bucket/prefix, gs://bucket/prefix, \
         az://container/prefix, abfss://container@account.dfs.core.windows.net/prefix, \
         file:///folder, memory://name, or a folder's path"
    )]
    InvalidUrl {
        /// The text, without user information and query.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The path of a local database names something that is not a folder.
    #[error("not a folder: path={path}; name a folder, or one that does not exist yet")]
    NotAFolder {
        /// The path.
        path: String,
    },
    /// A storage option that the store does not know, or whose value it refuses.
    #[error("invalid storage option: {key}: {reason}")]
    InvalidOption {
        /// The option's name. Its value may be a secret and is never shown.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    /// What the caller can do about it.
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Self::NotFound { .. } => StoreErrorKind::NotFound,
            Self::NoSpace { .. } => StoreErrorKind::ResourceExhausted,
            Self::PermissionDenied { .. } => StoreErrorKind::PermissionDenied,
            Self::ReadOnly { .. } => StoreErrorKind::ReadOnly,
            Self::Refused { .. } | Self::Failed { .. } => StoreErrorKind::Unavailable,
            Self::Unsupported { .. }
            | Self::UnfitFileSystem { .. }
            | Self::ConditionalPutIgnored { .. } => StoreErrorKind::Unsupported,
            Self::ShortRead { .. } | Self::Origin { .. } => StoreErrorKind::Corrupt,
            Self::InvalidUrl { .. }
            | Self::NotAFolder { .. }
            | Self::InvalidOption { .. }
            | Self::NoBucket { .. } => StoreErrorKind::Invalid,
        }
    }

    /// True when a write that failed so is known to have had no effect.
    pub fn is_not_stored(&self) -> bool {
        match self {
            // An error of the file system after the link is `Failed`, never one of these.
            Self::NoSpace { .. }
            | Self::ReadOnly { .. }
            | Self::Refused { .. }
            | Self::UnfitFileSystem { .. } => true,
            Self::PermissionDenied { .. } | Self::Unsupported { .. } | Self::NotFound { .. } => {
                true
            }
            Self::InvalidUrl { .. }
            | Self::NotAFolder { .. }
            | Self::InvalidOption { .. }
            | Self::NoBucket { .. } => true,
            Self::Failed { .. }
            | Self::ConditionalPutIgnored { .. }
            | Self::ShortRead { .. }
            | Self::Origin { .. } => false,
        }
    }

    /// What is known of a failed operation on a cloud: its id, the store's id of the request,
    /// the store's answer.
    pub fn remote(&self) -> Option<&RemoteFailure> {
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            source = error.source();
        }
        None
    }

    /// The store says again and again that it has `key`, and that it has not.
    pub fn contradicted(operation: &'static str, key: &Path) -> Self {
        Self::Failed {
            operation,
            key: key.to_string(),
            source: object_store::Error::Generic {
                store: "store",
                source: "it says that the object exists, and that it does not".into(),
            },
        }
    }

    /// As an error of the object store seam; [`Self::find_short_read`] gives it back.
    pub(crate) fn into_objects(self) -> object_store::Error {
        object_store::Error::Generic {
            store: "store",
            source: Box::new(self),
        }
    }

    /// The [`Self::ShortRead`] that `error` carries: an object that was cut off.
    pub fn find_short_read(error: &object_store::Error) -> Option<&Self> {
        match error {
            object_store::Error::Generic { source, .. } => source
                .downcast_ref()
                .filter(|found| matches!(found, Self::ShortRead { .. })),
            _ => None,
        }
    }

    /// Classifies an answer of the object store.
    pub fn from_objects(operation: &'static str, key: &Path, error: object_store::Error) -> Self {
        if let Some(Self::ShortRead {
            key,
            start,
            end,
            got,
        }) = Self::find_short_read(&error)
        {
            return Self::ShortRead {
                key: key.clone(),
                start: *start,
                end: *end,
                got: *got,
            };
        }
        if let Some(local) = LocalError::find(&error) {
            if local.effect == Effect::None {
                return Self::from_local(local);
            }
            return Self::Failed {
                operation,
                key: key.to_string(),
                source: error,
            };
        }
        let key = key.to_string();
        if let Some(failure) = RemoteFailure::find(&error) {
            if failure.is_bucket_missing() {
                let reason = failure.to_string();
                return Self::NoBucket { reason };
            }
            // The client tells so of single objects, but not of lists.
            if failure.is_refused() && operation.starts_with("list") {
                return Self::PermissionDenied {
                    operation,
                    path: key,
                    source: Box::new(failure.clone()),
                };
            }
        }
        match error {
            object_store::Error::NotFound { .. } => Self::NotFound { key },
            object_store::Error::PermissionDenied { source, .. }
            | object_store::Error::Unauthenticated { source, .. } => Self::PermissionDenied {
                operation,
                path: key,
                source,
            },
            source @ (object_store::Error::NotImplemented { .. }
            | object_store::Error::NotSupported { .. }) => Self::Unsupported {
                operation,
                key,
                source,
            },
            source => Self::Failed {
                operation,
                key,
                source,
            },
        }
    }

    fn from_local(local: &LocalError) -> Self {
        let path = local.path.display().to_string();
        let operation = local.action;
        // io::Error is not Clone; its code carries all that it says.
        let source = match local.source.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(local.source.kind(), local.source.to_string()),
        };
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path, source }
            }
            io::ErrorKind::PermissionDenied => Self::PermissionDenied {
                operation,
                path,
                source: Box::new(source),
            },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, source },
            io::ErrorKind::Unsupported => Self::UnfitFileSystem { path, source },
            _ => Self::Refused {
                operation,
                path,
                source,
            },
        }
    }
}
