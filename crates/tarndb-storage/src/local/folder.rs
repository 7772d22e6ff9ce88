//! The blocking half of the local store: durable writes below one root.
//!
//! Invariant: an object is shown (`link`, `rename`) only when its bytes are on the disk, and
//! acknowledged only when its name is, and every folder above it. What could not be made
//! durable is not shown to this handle's readers either, until a later sync succeeds.
//! Does not: follow keys out of the root (a symbolic link placed there is its owner's will).
//! Spec: docs/format/log.md, "What the store must do".

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path as FsPath, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use object_store::PutPayload;
use object_store::path::Path;

use super::disk::Disk;
use super::error::{Effect, LocalError, LocalResult, failed};

/// Where files are written before they are shown. Never listed, never read by key.
pub(super) const TEMP_FOLDER: &str = "_tarndb/tmp";
/// A temporary file this much older than a new one is what a crash left behind.
const STALE_AGE: Duration = Duration::from_secs(7 * 24 * 3600);
/// More known folders than this are forgotten and looked at again.
const KNOWN_FOLDERS_MAX: usize = 16_384;

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
    root: PathBuf,
    disk: Box<dyn Disk>,
    /// First part of temporary names; differs between processes and handles.
    temp_prefix: String,
    temp_count: AtomicU64,
    swept: Once,
    /// Folders that exist and whose names are on the disk.
    known: Mutex<BTreeSet<PathBuf>>,
    /// Folders in which a name was shown but could not be synced.
    unsynced: Mutex<BTreeSet<PathBuf>>,
}

/// A temporary file; its name goes away with it.
#[derive(Debug)]
pub(super) struct Temp<'a> {
    folder: &'a Folder,
    path: PathBuf,
    file: File,
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        self.folder.discard(&self.path);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Folder {
    pub(super) fn new(root: PathBuf, disk: Box<dyn Disk>, temp_prefix: String) -> Self {
        Self {
            root,
            disk,
            temp_prefix,
            temp_count: AtomicU64::new(0),
            swept: Once::new(),
            known: Mutex::default(),
            unsynced: Mutex::default(),
        }
    }

    pub(super) fn root(&self) -> &FsPath {
        &self.root
    }

    /// The file of a key; its segments are taken literally.
    pub(super) fn path(&self, key: &Path) -> LocalResult<PathBuf> {
        let path = self.root.join(key.as_ref());
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
    pub(super) fn put(&self, key: &Path, payload: &PutPayload, show: Show) -> LocalResult<Shown> {
        let target = self.path(key)?;
        // Most losers of a race are told here, before they pay for a sync.
        if show == Show::Create && target.symlink_metadata().is_ok() {
            return Ok(Shown::Exists);
        }
        self.ensure_parent(&target)?;
        let temp = self.create_temp()?;
        let mut offset = 0;
        for chunk in payload {
            self.write_at(&temp.path, &temp.file, chunk, offset)?;
            offset += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        }
        self.sync(&temp.path, &temp.file)?;
        self.show(&temp.path, &target, show)
    }

    /// Copies a whole object durably.
    pub(super) fn copy(&self, from: &Path, to: &Path, show: Show) -> LocalResult<Shown> {
        let (source, target) = (self.path(from)?, self.path(to)?);
        let mut reader = File::open(&source).map_err(failed("open", &source, Effect::None))?;
        self.ensure_parent(&target)?;
        let mut temp = self.create_temp()?;
        io::copy(&mut reader, &mut temp.file).map_err(failed("copy", &source, Effect::None))?;
        self.sync(&temp.path, &temp.file)?;
        self.show(&temp.path, &target, show)
    }

    /// Removes an object. Not synced: a name that comes back after a crash is old content.
    pub(super) fn delete(&self, path: &FsPath) -> LocalResult<()> {
        self.disk
            .unlink(path)
            .map_err(failed("delete", path, Effect::Possible))
    }

    /// Fails while `path` lies in a folder whose names could not be made durable.
    pub(super) fn require_durable(&self, path: &FsPath) -> LocalResult<()> {
        let Some(parent) = path.parent() else {
            return Ok(());
        };
        if !lock(&self.unsynced).contains(parent) {
            return Ok(());
        }
        self.sync_folder(parent)
    }

    pub(super) fn write_at(
        &self,
        path: &FsPath,
        file: &File,
        bytes: &[u8],
        offset: u64,
    ) -> LocalResult<()> {
        self.disk
            .write_at(file, bytes, offset)
            .map_err(failed("write", path, Effect::None))
    }

    pub(super) fn sync(&self, path: &FsPath, file: &File) -> LocalResult<()> {
        self.disk
            .sync(file)
            .map_err(failed("sync", path, Effect::None))
    }

    /// Gives a synced temporary file its final name and makes the name durable.
    pub(super) fn show(&self, temp: &FsPath, target: &FsPath, show: Show) -> LocalResult<Shown> {
        let mut result = self.show_once(temp, target, show);
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            // Somebody removed a folder that we knew.
            lock(&self.known).clear();
            self.ensure_parent(target)?;
            result = self.show_once(temp, target, show);
        }
        match result {
            Ok(()) => {}
            Err(error) if show == Show::Create && error.kind() == io::ErrorKind::AlreadyExists => {
                return Ok(Shown::Exists);
            }
            Err(error) => {
                let effect = effect_of_refusal(&error);
                let action = match show {
                    Show::Create => "link (the file system must support hard links)",
                    Show::Replace => "rename",
                };
                return Err(failed(action, target, effect)(error));
            }
        }
        match target.parent() {
            Some(parent) => self.sync_folder(parent).map(|()| Shown::Done),
            None => Ok(Shown::Done),
        }
    }

    fn show_once(&self, temp: &FsPath, target: &FsPath, show: Show) -> io::Result<()> {
        match show {
            Show::Create => self.disk.link(temp, target),
            Show::Replace => self.disk.rename(temp, target),
        }
    }

    fn sync_folder(&self, folder: &FsPath) -> LocalResult<()> {
        match self.disk.sync_folder(folder) {
            Ok(()) => {
                lock(&self.unsynced).remove(folder);
                Ok(())
            }
            Err(error) => {
                lock(&self.unsynced).insert(folder.to_owned());
                Err(failed("sync the folder", folder, Effect::Possible)(error))
            }
        }
    }

    pub(super) fn ensure_parent(&self, target: &FsPath) -> LocalResult<()> {
        target
            .parent()
            .map_or(Ok(()), |parent| self.ensure_folder(parent))
    }

    /// Makes sure that a folder and those above it exist and that their names are durable.
    fn ensure_folder(&self, folder: &FsPath) -> LocalResult<()> {
        if lock(&self.known).contains(folder) {
            return Ok(());
        }
        let parent = folder.parent().unwrap_or(folder);
        let below_root = folder != self.root && folder.starts_with(&self.root);
        if below_root {
            self.ensure_folder(parent)?;
        }
        let mut result = self.disk.make_folder(folder);
        if !below_root && matches!(&result, Err(e) if e.kind() == io::ErrorKind::NotFound) {
            self.ensure_folder(parent)?;
            result = self.disk.make_folder(folder);
        }
        let made = match result {
            Ok(()) => true,
            Err(_) if folder.is_dir() => false,
            Err(error) => return Err(failed("create the folder", folder, Effect::None)(error)),
        };
        let synced = self.disk.sync_folder(parent);
        // Who found a folder below the root may run beside who made it and has not synced it
        // yet. What lies outside the root was there before us and may not be ours to open.
        if made || below_root {
            synced.map_err(failed("sync the folder", parent, Effect::None))?;
        }
        let mut known = lock(&self.known);
        if known.len() >= KNOWN_FOLDERS_MAX {
            known.clear();
        }
        known.insert(folder.to_owned());
        Ok(())
    }

    fn create_temp(&self) -> LocalResult<Temp<'_>> {
        let (path, file) = self.create_temp_file()?;
        Ok(Temp {
            folder: self,
            path,
            file,
        })
    }

    /// A new temporary file; the caller sees to it that its name goes away.
    pub(super) fn create_temp_file(&self) -> LocalResult<(PathBuf, File)> {
        let folder = self.root.join(TEMP_FOLDER);
        self.ensure_folder(&folder)?;
        let mut folder_lost = false;
        loop {
            let count = self.temp_count.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}-{count}", self.temp_prefix));
            match self.disk.create_new(&path) {
                Ok(file) => {
                    self.swept.call_once(|| sweep(&folder, &file));
                    return Ok((path, file));
                }
                // Left behind by a process that had the same prefix.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && !folder_lost => {
                    folder_lost = true;
                    lock(&self.known).clear();
                    self.ensure_folder(&folder)?;
                }
                Err(error) => return Err(failed("create", &path, Effect::None)(error)),
            }
        }
    }

    /// Removes a temporary name, if it still has one.
    pub(super) fn discard(&self, temp: &FsPath) {
        match self.disk.unlink(temp) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Harmless: it is never listed, and a later handle sweeps it.
            Err(error) => tracing::debug!(path = %temp.display(), %error, "temporary file kept"),
        }
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

/// Removes what crashed processes left in the folder of temporary files, judged by the file
/// system's own clock: the time of `newest`, a file just created.
fn sweep(folder: &FsPath, newest: &File) {
    let Ok(now) = newest.metadata().and_then(|found| found.modified()) else {
        return;
    };
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|found| found.modified());
        let age = modified.ok().and_then(|then| now.duration_since(then).ok());
        if age.is_some_and(|age| age > STALE_AGE) {
            let removed = std::fs::remove_file(entry.path());
            tracing::debug!(path = %entry.path().display(), ok = removed.is_ok(), "swept");
        }
    }
}
