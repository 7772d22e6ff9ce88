//! What a handle knows about which names have reached the disk.
//!
//! Invariant: a name counts as durable only after a sync of its folder that began after the
//! name was shown. A folder whose sync failed is never trusted again by this handle: the
//! kernel reports a failed write once and then takes the page for clean.
//! Does not: do IO.
//! Spec: docs/durability.md, "When a sync fails".

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// More entries than this in a cache are forgotten and looked at again.
const CACHED_MAX: usize = 16_384;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Folders that exist and whose names are durable.
    folders: BTreeSet<PathBuf>,
    /// Names that this handle shows and has not synced, with the moment of showing.
    pending: BTreeSet<(PathBuf, u64)>,
    /// Names with a second link that this handle has synced, and their inodes.
    settled: BTreeSet<(PathBuf, u64)>,
    distrusted: BTreeSet<PathBuf>,
    moment: u64,
}

impl Names {
    /// Whether the folder exists and its name is durable.
    pub(super) fn knows_folder(&self, folder: &Path) -> bool {
        self.folders.contains(folder)
    }

    /// The folder exists and its name is durable.
    pub(super) fn note_folder(&mut self, folder: &Path) {
        if self.folders.len() >= CACHED_MAX {
            self.folders.clear();
        }
        self.folders.insert(folder.to_owned());
    }

    /// Somebody removed a folder; which one is not known.
    pub(super) fn forget_folders(&mut self) {
        self.folders.clear();
    }

    /// To be called before a name is shown; gives the moment.
    pub(super) fn begin_show(&mut self, name: &Path) -> u64 {
        self.moment += 1;
        self.pending.insert((name.to_owned(), self.moment));
        self.moment
    }

    /// The showing that began at `moment` was refused.
    pub(super) fn not_shown(&mut self, name: &Path, moment: u64) {
        self.pending.remove(&(name.to_owned(), moment));
    }

    /// The moment at which a sync begins; for [`Self::synced`].
    pub(super) fn moment(&self) -> u64 {
        self.moment
    }

    /// A sync of `folder` that began at `moment` succeeded.
    pub(super) fn synced(&mut self, folder: &Path, moment: u64) {
        self.pending
            .retain(|(name, shown)| *shown > moment || name.parent() != Some(folder));
    }

    /// A sync of `folder` failed in a way that a repetition cannot heal.
    pub(super) fn distrust(&mut self, folder: &Path) {
        self.distrusted.insert(folder.to_owned());
    }

    /// Whether a sync of `folder` has failed.
    pub(super) fn distrusts(&self, folder: &Path) -> bool {
        self.distrusted.contains(folder)
    }

    /// Whether a reader may be told of the name. `links` above 1 says that its writer has not
    /// removed the temporary name yet, which it does when the name is durable.
    pub(super) fn is_durable(&self, name: &Path, inode: u64, links: u64) -> bool {
        let key = (name.to_owned(), 0);
        let next = self.pending.range(key..).next();
        next.is_none_or(|(pending, _)| pending != name)
            && (links <= 1 || self.settled.contains(&(name.to_owned(), inode)))
    }

    /// The name, which had a second link, was synced for a reader.
    pub(super) fn settle(&mut self, name: &Path, inode: u64) {
        if self.settled.len() >= CACHED_MAX {
            self.settled.clear();
        }
        self.settled.insert((name.to_owned(), inode));
    }
}

/// Whether the failure of a folder's sync says nothing about what was to be synced: the folder
/// could not even be opened, or a signal came.
pub(super) fn may_be_repeated(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let harmless = [
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::ACCESS,
        Errno::PERM,
        Errno::LOOP,
        Errno::NAMETOOLONG,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::INTR,
    ];
    let code = error.raw_os_error();
    harmless
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

/// Whether a folder's sync failed because the folder is not ours to open, cannot be synced, or
/// cannot have changed.
pub(super) fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::Unsupported
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

/// Whether a folder's sync was refused because the file system has none.
pub(super) fn cannot_sync(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let none = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP];
    let code = error.raw_os_error();
    none.iter().any(|errno| code == Some(errno.raw_os_error()))
}

/// Whether a `link` was refused because the file system has no hard links.
pub(super) fn has_no_links(error: &io::Error) -> bool {
    use rustix::io::Errno;
    // A new file has one name, so "too many links" means that one is all it may have.
    let none = [
        Errno::PERM,
        Errno::NOSYS,
        Errno::OPNOTSUPP,
        Errno::NOTSUP,
        Errno::MLINK,
    ];
    let code = error.raw_os_error();
    none.iter().any(|errno| code == Some(errno.raw_os_error()))
}

/// Whether a `renameat2` with `RENAME_NOREPLACE` was refused because there is none.
pub(super) fn has_no_exclusive_rename(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported || cannot_sync(error)
}
