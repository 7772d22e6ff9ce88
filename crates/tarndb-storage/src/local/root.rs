//! The root folder of a store, and that it stays the same one.
//!
//! Invariant: once seen, the root is never made anew and never another folder: what is written
//! after it was moved, removed or unmounted would be acknowledged in a place of its own.
//! Spec: docs/durability.md, "A root that is moved".

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::error::{Effect, LocalResult, failed};

/// The root, by its path and by what it was when it was first seen.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    seen: OnceLock<Seen>,
}

/// What the root was when it was first seen.
#[derive(Debug)]
struct Seen {
    device: u64,
    inode: u64,
    /// Kept open, so that the inode's number is given to no other folder meanwhile.
    _held: Option<File>,
}

impl Seen {
    fn new(path: &Path, found: &Metadata) -> Self {
        let held = File::open(path).ok();
        let of_held = held.as_ref().and_then(|file| file.metadata().ok());
        let found = of_held.as_ref().unwrap_or(found);
        Self {
            device: found.dev(),
            inode: found.ino(),
            _held: held,
        }
    }

    fn is(&self, found: &Metadata) -> bool {
        (self.device, self.inode) == (found.dev(), found.ino())
    }
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
        let is_same = match std::fs::metadata(&self.path) {
            Ok(found) => {
                let seen = self.seen.get_or_init(|| Seen::new(&self.path, &found));
                seen.is(&found)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.seen.get().is_none(),
            // Told better by whatever is tried next.
            Err(_) => true,
        };
        if is_same {
            return Ok(());
        }
        let reason = "it was moved, removed or replaced while it was in use; \
                      open the database again where it is now";
        let refused = failed("use the folder", &self.path, Effect::None);
        Err(refused(io::Error::other(reason)))
    }
}
