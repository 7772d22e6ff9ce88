//! The system calls of a durable write, one method each, so that tests can watch their order
//! and make any one of them fail.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::options::Durability;

/// What a durable write asks of the operating system.
pub(super) trait Disk: fmt::Debug + Send + Sync {
    /// Creates a file that does not exist, for writing.
    fn create_new(&self, path: &Path) -> io::Result<File>;
    /// Writes all bytes at an offset.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Content and size reach the disk.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Gives a file a second name that does not exist yet.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Moves a file, replacing what has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Creates a folder whose parent exists.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder reach the disk.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
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
        file.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        match self.durability {
            Durability::Full => file.sync_all(),
            Durability::None => Ok(()),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
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

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        match self.durability {
            Durability::Full => File::open(path)?.sync_all(),
            Durability::None => Ok(()),
        }
    }
}
