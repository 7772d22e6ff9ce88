//! The root folder of a store, and that it stays the same one.
//!
//! Invariant: once seen, the root is never made anew and never another folder: what is written
//! after it was moved, removed or unmounted would be acknowledged in a place of its own.
//! Spec: docs/durability.md, "A root that is moved".

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::error::{Effect, LocalResult, failed};

/// The root, by its path and by what it was when it was first seen.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    /// Device and inode.
    seen: OnceLock<(u64, u64)>,
}

impl Root {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: OnceLock::new(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails when the path leads to another folder than before, or to none any more. A root
    /// that never was there may be made.
    pub(super) fn check(&self) -> LocalResult<()> {
        let found = match std::fs::metadata(&self.path) {
            Ok(found) => Some((found.dev(), found.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // Told better by whatever is tried next.
            Err(_) => return Ok(()),
        };
        let seen = match found {
            Some(found) => Some(*self.seen.get_or_init(|| found)),
            None => self.seen.get().copied(),
        };
        if seen == found {
            return Ok(());
        }
        let reason = "it was moved, removed or replaced while it was in use; \
                      open the database again where it is now";
        let refused = failed("use the folder", &self.path, Effect::None);
        Err(refused(io::Error::other(reason)))
    }
}
