//! The system calls of a durable write, one method each, so that tests can watch their order,
//! make any one of them fail, and cut the power between any two.
//!
//! Invariant: a sync names its place in the code, and each place has one name, so that a test
//! can turn off any single one.
//! Spec: docs/durability.md, "Every sync and what it protects".

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::options::Durability;

/// A place in the code that syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncPoint {
    /// The bytes of an object that is written at once, before its name is shown.
    ObjectData,
    /// The bytes of a copy, before its name is shown.
    CopyData,
    /// The bytes of a multipart upload, before its name is shown.
    UploadData,
    /// The name of an object, before the write is acknowledged.
    ObjectName,
    /// A name that was shown but not known to be durable, before a reader is told of it.
    SeenName,
    /// The name of a folder that was made for an object, before anything is shown in it.
    MadeFolder,
    /// The name of a folder below the root that somebody else made, perhaps a moment ago.
    FoundFolder,
    /// The name of the root or of a folder above it that was there before us.
    FoundAbove,
}

impl SyncPoint {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ObjectData,
        Self::CopyData,
        Self::UploadData,
        Self::ObjectName,
        Self::SeenName,
        Self::MadeFolder,
        Self::FoundFolder,
        Self::FoundAbove,
    ];
}

/// What a durable write asks of the operating system.
pub(super) trait Disk: fmt::Debug + Send + Sync {
    /// Creates a file that does not exist, for writing.
    fn create_new(&self, path: &Path) -> io::Result<File>;
    /// Writes all bytes at an offset.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Content and size reach the disk.
    fn sync(&self, file: &File, at: SyncPoint) -> io::Result<()>;
    /// Gives a file a second name that does not exist yet.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Moves a file to a name that does not exist yet.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Moves a file, replacing what has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Creates a folder whose parent exists.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder reach the disk.
    fn sync_folder(&self, path: &Path, at: SyncPoint) -> io::Result<()>;
}

/// The machine's disk.
#[derive(Debug)]
pub(super) struct SystemDisk {
    pub(super) durability: Durability,
}

impl Disk for SystemDisk {
    fn create_new(&self, path: &Path) -> io::Result<File> {
        File::options().write(true).create_new(true).open(path)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Goes on after a short write and after a signal.
        file.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &File, _: SyncPoint) -> io::Result<()> {
        match self.durability {
            Durability::Full => file.sync_all(),
            Durability::None => Ok(()),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    #[cfg(target_os = "linux")]
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn rename_new(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn sync_folder(&self, path: &Path, _: SyncPoint) -> io::Result<()> {
        match self.durability {
            Durability::Full => File::open(path)?.sync_all(),
            Durability::None => Ok(()),
        }
    }
}
