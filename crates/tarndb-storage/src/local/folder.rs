//! The blocking half of the local store: durable writes below one root.
//!
//! Invariant: an object is shown (`link`, `rename`) only when its bytes are on the disk, and
//! acknowledged only when its name is, and every folder above it. While its name may be lost
//! the object keeps its temporary name too, and no reader is told of it without a sync.
//! Does not: follow keys out of the root (a symbolic link placed there is its owner's will).
//! Spec: docs/durability.md, "Every sync and what it protects".

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path as FsPath, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use object_store::PutPayload;
use object_store::path::Path;

use super::disk::{Disk, SyncPoint};
use super::error::{Effect, LocalError, LocalResult, failed};
use super::names::{self, Names};
use super::root::Root;
use super::temp::Appending;

/// Where files are written before they are shown. Never listed, never read by key.
pub(super) const TEMP_FOLDER: &str = "_tarndb/tmp";

/// How a finished file gets its final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// Only when nobody has the name.
    Create,
    /// Replacing what has the name.
    Replace,
}

/// What came of showing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The name is ours, durably.
    Done,
    /// Somebody has the name.
    Exists,
}

/// One root folder.
#[derive(Debug)]
pub(super) struct Folder {
    root: Root,
    pub(super) disk: Box<dyn Disk>,
    /// First part of temporary names; differs between processes and handles.
    pub(super) temp_prefix: String,
    pub(super) temp_count: AtomicU64,
    pub(super) swept: Once,
    pub(super) names: Mutex<Names>,
    /// The file system was found to have no hard links.
    without_links: AtomicBool,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Folder {
    pub(super) fn new(root: PathBuf, disk: Box<dyn Disk>, temp_prefix: String) -> Self {
        Self {
            root: Root::new(root),
            disk,
            temp_prefix,
            temp_count: AtomicU64::new(0),
            swept: Once::new(),
            names: Mutex::default(),
            without_links: AtomicBool::new(false),
        }
    }

    pub(super) fn root(&self) -> &FsPath {
        self.root.path()
    }

    /// Fails when the root is not the folder any more that it was.
    pub(super) fn check_root(&self) -> LocalResult<()> {
        self.root.check()
    }

    /// The file of a key; its segments are taken literally.
    pub(super) fn path(&self, key: &Path) -> LocalResult<PathBuf> {
        let path = self.root().join(key.as_ref());
        let refused = |reason: &str| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned());
            Err(LocalError {
                action: "use a key",
                path: path.clone(),
                effect: Effect::None,
                source,
            })
        };
        let leaves = |part: &str| matches!(part, "" | "." | "..") || part.contains('\0');
        if key.as_ref().split('/').any(leaves) {
            return refused("the key is empty or leaves the root");
        }
        if hidden(key.as_ref()) {
            return refused("the folder of temporary files holds no objects");
        }
        Ok(path)
    }

    /// Writes a whole object durably.
    pub(super) fn put(
        self: &Arc<Self>,
        key: &Path,
        payload: &PutPayload,
        show: Show,
    ) -> LocalResult<Shown> {
        let target = self.path(key)?;
        self.check_root()?;
        // Most losers of a race are told here, before they pay for a sync.
        if show == Show::Create && target.symlink_metadata().is_ok() {
            return Ok(Shown::Exists);
        }
        self.ensure_parent(&target)?;
        let temp = self.create_temp()?;
        let mut offset = 0;
        for chunk in payload {
            temp.write_at(chunk, offset)?;
            offset += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        }
        temp.sync(SyncPoint::ObjectData)?;
        temp.show(&target, show)
    }

    /// Copies a whole object durably.
    pub(super) fn copy(self: &Arc<Self>, from: &Path, to: &Path, show: Show) -> LocalResult<Shown> {
        let (source, target) = (self.path(from)?, self.path(to)?);
        self.check_root()?;
        let mut reader = File::open(&source).map_err(failed("open", &source, Effect::None))?;
        self.ensure_parent(&target)?;
        let temp = self.create_temp()?;
        let mut writer = Appending::to(&temp);
        io::copy(&mut reader, &mut writer).map_err(failed("copy", &source, Effect::None))?;
        temp.sync(SyncPoint::CopyData)?;
        temp.show(&target, show)
    }

    /// Removes an object. Not synced: a name that comes back after a crash is old content,
    /// which nobody refers to any more.
    pub(super) fn delete(&self, path: &FsPath) -> LocalResult<()> {
        self.disk
            .unlink(path)
            .map_err(failed("delete", path, Effect::Possible))
    }

    /// Makes sure that a reader may be told of a name: syncs its folder while it is not known
    /// to be durable, and fails where that fails.
    pub(super) fn require_durable(&self, path: &FsPath, found: &Metadata) -> LocalResult<()> {
        self.require_durable_all(&[(path.to_owned(), found.clone())])
    }

    /// As [`Self::require_durable`] for names of one folder, with at most one sync.
    pub(super) fn require_durable_all(&self, found: &[(PathBuf, Metadata)]) -> LocalResult<()> {
        let open: Vec<_> = {
            let names = lock(&self.names);
            let open = |(path, found): &&(PathBuf, Metadata)| {
                !names.is_durable(path, found.ino(), found.nlink())
            };
            found.iter().filter(open).collect()
        };
        let Some(parent) = open.first().and_then(|(path, _)| path.parent()) else {
            return Ok(());
        };
        match self.sync_folder(parent, SyncPoint::SeenName, Effect::Possible) {
            // No writer that promises durability can have been there: a copy, an image.
            Err(error) if error.source.kind() == io::ErrorKind::Unsupported => {}
            synced => synced?,
        }
        let mut names = lock(&self.names);
        for (path, found) in open {
            names.settle(path, found.ino());
        }
        Ok(())
    }

    /// Gives a synced temporary file its final name and makes the name durable.
    pub(super) fn show(&self, temp: &FsPath, target: &FsPath, show: Show) -> LocalResult<Shown> {
        let moment = lock(&self.names).begin_show(target);
        let shown = self.show_in_folder(temp, target, show);
        match (&shown, target.parent()) {
            (Ok(Shown::Done), Some(parent)) => {
                self.sync_folder(parent, SyncPoint::ObjectName, Effect::Possible)?;
            }
            (Err(error), _) if error.effect == Effect::Possible => {}
            _ => lock(&self.names).not_shown(target, moment),
        }
        shown
    }

    fn show_in_folder(&self, temp: &FsPath, target: &FsPath, show: Show) -> LocalResult<Shown> {
        self.check_root()?;
        let mut result = self.show_once(temp, target, show);
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            // Somebody removed a folder that we knew.
            lock(&self.names).forget_folders();
            self.ensure_parent(target)?;
            result = self.show_once(temp, target, show);
        }
        match result {
            Ok(()) => Ok(Shown::Done),
            Err(error) if show == Show::Create && error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(Shown::Exists)
            }
            Err(error) => {
                let effect = effect_of_refusal(&error);
                let action = match show {
                    Show::Create => "create",
                    Show::Replace => "rename",
                };
                Err(failed(action, target, effect)(error))
            }
        }
    }

    fn show_once(&self, temp: &FsPath, target: &FsPath, show: Show) -> io::Result<()> {
        match show {
            Show::Create => self.create_once(temp, target),
            Show::Replace => self.replace(temp, target),
        }
    }

    /// Shows the file under a name that nobody has.
    fn create_once(&self, temp: &FsPath, target: &FsPath) -> io::Result<()> {
        if !self.without_links.load(Ordering::Relaxed) {
            match self.disk.link(temp, target) {
                Err(error) if names::has_no_links(&error) => {}
                other => return other,
            }
        }
        match self.disk.rename_new(temp, target) {
            Ok(()) => {
                self.without_links.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) if names::has_no_exclusive_rename(&error) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("it has neither hard links nor RENAME_NOREPLACE ({error})"),
            )),
            Err(error) => Err(error),
        }
    }

    /// Shows the file under a name that somebody may have. The temporary name stays: as long
    /// as there are two, readers know that the other may not be durable.
    fn replace(&self, temp: &FsPath, target: &FsPath) -> io::Result<()> {
        let mut second = temp.as_os_str().to_owned();
        second.push("-shown");
        let second = PathBuf::from(second);
        let linked = match self.without_links.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::Unsupported.into()),
            false => self.disk.link(temp, &second),
        };
        match linked {
            Ok(()) => self.disk.rename(&second, target).inspect_err(|_| {
                self.discard(&second);
            }),
            // The mark is a help for readers of this moment only.
            Err(_) => self.disk.rename(temp, target),
        }
    }

    /// Syncs a folder, unless that failed before: the kernel tells of a failed write once, and
    /// takes a repeated sync for done.
    fn sync_folder(&self, folder: &FsPath, at: SyncPoint, effect: Effect) -> LocalResult<()> {
        let action = "sync the folder";
        let moment = {
            let names = lock(&self.names);
            if names.distrusts(folder) {
                let reason = "an earlier sync failed, so a success would prove nothing; \
                              see what is wrong with the disk, then start the program again";
                return Err(failed(action, folder, effect)(io::Error::other(reason)));
            }
            names.moment()
        };
        let Err(error) = self.disk.sync_folder(folder, at) else {
            lock(&self.names).synced(folder, moment);
            return Ok(());
        };
        if names::cannot_sync(&error) {
            let reason = format!("it cannot sync a folder ({error})");
            let unfit = io::Error::new(io::ErrorKind::Unsupported, reason);
            return Err(failed(action, folder, effect)(unfit));
        }
        if !names::may_be_repeated(&error) {
            lock(&self.names).distrust(folder);
        }
        Err(failed(action, folder, effect)(error))
    }

    pub(super) fn ensure_parent(&self, target: &FsPath) -> LocalResult<()> {
        target
            .parent()
            .map_or(Ok(()), |parent| self.ensure_folder(parent))
    }

    /// Makes sure that a folder and those above it exist and that their names are durable.
    pub(super) fn ensure_folder(&self, folder: &FsPath) -> LocalResult<()> {
        let Some(parent) = folder.parent() else {
            return Ok(());
        };
        if lock(&self.names).knows_folder(folder) {
            return Ok(());
        }
        self.ensure_folder(parent)?;
        let made = match self.disk.make_folder(folder) {
            Ok(()) => true,
            Err(_) if folder.is_dir() => false,
            Err(error) => return Err(failed("create the folder", folder, Effect::None)(error)),
        };
        // Who finds a folder may run beside who made it and has not synced it yet.
        if made {
            self.sync_folder(parent, SyncPoint::MadeFolder, Effect::None)?;
        } else if folder != self.root() && folder.starts_with(self.root()) {
            self.sync_folder(parent, SyncPoint::FoundFolder, Effect::None)?;
        } else {
            let synced = self.sync_folder(parent, SyncPoint::FoundAbove, Effect::None);
            // What lies outside the root may not be ours to open, or not be able to.
            synced.or_else(|error| match names::is_out_of_reach(&error.source) {
                true => Ok(()),
                false => Err(error),
            })?;
        }
        lock(&self.names).note_folder(folder);
        Ok(())
    }
}

/// True for a key in the folder of temporary files.
pub(super) fn hidden(key: &str) -> bool {
    key.strip_prefix(TEMP_FOLDER)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a refused `link` or `rename` can nevertheless have happened: a network file system
/// answers so when it lost the answer itself.
fn effect_of_refusal(error: &io::Error) -> Effect {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::StorageFull
        | Kind::QuotaExceeded
        | Kind::PermissionDenied
        | Kind::ReadOnlyFilesystem
        | Kind::NotFound
        | Kind::NotADirectory
        | Kind::IsADirectory
        | Kind::DirectoryNotEmpty
        | Kind::InvalidFilename
        | Kind::CrossesDevices
        | Kind::TooManyLinks
        | Kind::InvalidInput
        | Kind::Unsupported => Effect::None,
        _ => Effect::Possible,
    }
}
