//! Temporary files: where an object's bytes are until it is shown.
//!
//! Invariant: the name goes away with the value, unless the object's final name may not be
//! durable; then it stays, as the mark for other handles. What a crash left is swept when old.
//! Spec: docs/durability.md, "A write, step by step".

use std::fs::File;
use std::io;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::disk::SyncPoint;
use super::error::{Effect, LocalResult, failed};
use super::folder::{Folder, Show, Shown, TEMP_FOLDER, lock};

/// A temporary file this much older than a new one is what a crash left behind.
const STALE_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// A temporary file; its name goes away with it.
#[derive(Debug)]
pub(super) struct Temp {
    folder: Arc<Folder>,
    path: PathBuf,
    file: File,
    /// The name tells other handles that the object may not be durable.
    kept: AtomicBool,
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Acquire) {
            self.discard();
        }
    }
}

impl Temp {
    /// Writes all of `bytes` at `offset`.
    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> LocalResult<()> {
        self.folder
            .disk
            .write_at(&self.file, bytes, offset)
            .map_err(failed("write", &self.path, Effect::None))
    }

    /// Makes the bytes durable. After a failure the file is good for nothing.
    pub(super) fn sync(&self, at: SyncPoint) -> LocalResult<()> {
        self.folder
            .disk
            .sync(&self.file, at)
            .map_err(failed("sync", &self.path, Effect::None))
    }

    /// Gives the synced file its final name and makes the name durable.
    pub(super) fn show(&self, target: &FsPath, show: Show) -> LocalResult<Shown> {
        let shown = self.folder.show(&self.path, target, show);
        let open = matches!(&shown, Err(error) if error.effect == Effect::Possible);
        self.kept.store(open, Ordering::Release);
        shown
    }

    /// Removes the temporary name, if there still is one.
    pub(super) fn discard(&self) {
        self.folder.discard(&self.path);
    }
}

/// Bytes appended to a temporary file.
#[derive(Debug)]
pub(super) struct Appending<'a> {
    temp: &'a Temp,
    offset: u64,
}

impl<'a> Appending<'a> {
    /// From the start of an empty file.
    pub(super) fn to(temp: &'a Temp) -> Self {
        Self { temp, offset: 0 }
    }
}

impl io::Write for Appending<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let disk = &self.temp.folder.disk;
        disk.write_at(&self.temp.file, bytes, self.offset)?;
        self.offset += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Folder {
    /// A new temporary file.
    pub(super) fn create_temp(self: &Arc<Self>) -> LocalResult<Temp> {
        let (path, file) = self.create_temp_file()?;
        Ok(Temp {
            folder: Arc::clone(self),
            path,
            file,
            kept: AtomicBool::new(false),
        })
    }

    fn create_temp_file(&self) -> LocalResult<(PathBuf, File)> {
        let folder = self.root().join(TEMP_FOLDER);
        self.ensure_folder(&folder)?;
        let mut folder_lost = false;
        loop {
            let count = self.temp_count.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}-{count}", self.temp_prefix));
            match self.disk.create_new(&path) {
                Ok(file) => {
                    self.swept.call_once(|| self.sweep(&folder, &file));
                    return Ok((path, file));
                }
                // Left behind by a process that had the same prefix.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && !folder_lost => {
                    folder_lost = true;
                    lock(&self.names).forget_folders();
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

    /// Removes what crashed processes left in the folder of temporary files, judged by the file
    /// system's own clock: the time of `newest`, a file just created.
    fn sweep(&self, folder: &FsPath, newest: &File) {
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
                self.discard(&entry.path());
            }
        }
    }
}
