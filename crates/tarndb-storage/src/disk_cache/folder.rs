//! The folder of a cache: blocks by name, the longest unused evicted first.
//!
//! Invariant: a name shows either nothing or what one process wrote as a whole; nothing that
//! goes wrong here reaches a reader.
//! Spec: none.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::DiskCacheOptions;
use super::block::{self, HEAD_BYTES, ObjectHash};
use crate::context::Context;

/// Use of a block is noted when the last note is older: one write of metadata a minute at most.
const NOTE_USE_AFTER: Duration = Duration::from_secs(60);

/// What an eviction leaves, as a share of the bound.
const LEFT_PERCENT: u64 = 90;

/// The folder below the one that the user names, so that nothing else is ever evicted.
const BLOCKS: &str = "tarndb-blocks";

#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    bytes_max: u64,
    context: Context,
    /// Written by this process since all of the folder was looked at.
    written: AtomicU64,
    /// Whether the folder was looked at, by one at a time.
    looked: Mutex<bool>,
    warned: AtomicBool,
}

/// A file of the folder.
struct Entry {
    used: SystemTime,
    path: PathBuf,
    size_bytes: u64,
}

impl Folder {
    pub(super) fn new(options: DiskCacheOptions, context: Context) -> Self {
        Self {
            root: options.folder.join(BLOCKS),
            bytes_max: options.bytes_max,
            context,
            written: AtomicU64::new(0),
            looked: Mutex::new(false),
            warned: AtomicBool::new(false),
        }
    }

    /// A block of `length` bytes, if it is there and whole. One that is damaged is removed.
    pub(super) fn load(&self, object: ObjectHash, number: u64, length: u64) -> Option<Bytes> {
        let path = self.path(object, number);
        let file = match read_file(&path, length + HEAD_BYTES as u64) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.warn("read", &error);
                return None;
            }
        };
        let bytes = block::decode(&object, number, length, file);
        if bytes.is_none() {
            tracing::warn!(block = %path.display(), "a block of the cache is damaged: fetched again");
            // Whoever put a good one there meanwhile loses it, and fetches it again.
            let _ = fs::remove_file(&path);
            return None;
        }
        self.note_use(&path);
        bytes
    }

    /// Keeps a block, if that can be done.
    pub(super) fn store(&self, object: ObjectHash, number: u64, body: &[u8]) {
        match self.write(object, number, body) {
            Ok(size_bytes) => self.bound(size_bytes),
            Err(error) => self.warn("write", &error),
        }
    }

    fn write(&self, object: ObjectHash, number: u64, body: &[u8]) -> io::Result<u64> {
        let head = block::head(&object, number, body).ok_or(io::ErrorKind::FileTooLarge)?;
        let path = self.path(object, number);
        let parent = path.parent().unwrap_or(&self.root);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
        let unique = format!(
            "tmp-{}-{}",
            std::process::id(),
            self.context.uuid().simple()
        );
        let temporary = parent.join(unique);
        let written = write_file(&temporary, &head, body);
        let shown = written.and_then(|()| fs::rename(&temporary, &path));
        if shown.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        shown.map(|()| (HEAD_BYTES + body.len()) as u64)
    }

    /// Blocks of one object lie in one folder, 256 folders in all.
    fn path(&self, object: ObjectHash, number: u64) -> PathBuf {
        let name = object.name();
        let (folder, rest) = name.split_at_checked(2).unwrap_or(("", &name));
        self.root.join(folder).join(format!("{rest}-{number}"))
    }

    fn note_use(&self, path: &Path) {
        let Some(now) = self.now() else { return };
        let noted = File::open(path).and_then(|file| {
            let before = file.metadata()?.modified()?;
            match now.duration_since(before) {
                Ok(age) if age < NOTE_USE_AFTER => Ok(()),
                _ => file.set_modified(now),
            }
        });
        // A block of another user, or one that was just evicted, is as good as any.
        let _ = noted;
    }

    fn now(&self) -> Option<SystemTime> {
        let since = u64::try_from(self.context.now().0).ok()?;
        UNIX_EPOCH.checked_add(Duration::from_millis(since))
    }

    /// Notes what was written, and evicts when it is time to look.
    fn bound(&self, size_bytes: u64) {
        let written = self.written.fetch_add(size_bytes, Ordering::Relaxed) + size_bytes;
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if *looked && written < self.bytes_max / 16 {
            return;
        }
        *looked = true;
        self.written.store(0, Ordering::Relaxed);
        if let Err(error) = self.evict() {
            self.warn("evict from", &error);
        }
    }

    /// Removes what was not used for longest until the rest is well within the bound.
    fn evict(&self) -> io::Result<()> {
        let mut entries = self.entries()?;
        let mut total: u64 = entries.iter().map(|entry| entry.size_bytes).sum();
        if total <= self.bytes_max {
            return Ok(());
        }
        let left = self.bytes_max / 100 * LEFT_PERCENT;
        entries.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        for entry in entries {
            if total <= left {
                break;
            }
            match fs::remove_file(&entry.path) {
                Ok(()) => total -= entry.size_bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => total -= entry.size_bytes,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// All files, those that a process left half-written included.
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for folder in fs::read_dir(&self.root)? {
            let folder = folder?;
            if !folder.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(folder.path())? {
                let file = file?;
                // Gone meanwhile: evicted by another process, or renamed.
                let Ok(metadata) = file.metadata() else {
                    continue;
                };
                entries.push(Entry {
                    used: metadata.modified()?,
                    path: file.path(),
                    size_bytes: metadata.len(),
                });
            }
        }
        Ok(entries)
    }

    fn warn(&self, what: &'static str, error: &io::Error) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            let folder = self.root.display();
            tracing::warn!(%folder, %error, "cannot {what} the cache folder: reading without it");
        }
    }
}

fn write_file(path: &Path, head: &[u8], body: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(head)?;
    file.write_all(body)
}

/// The content of a file of so many bytes. Anything else (a pipe, a device, a file without end) is
/// not opened, and counts as a file without content: a block that is damaged.
fn read_file(path: &Path, size_bytes: u64) -> io::Result<Vec<u8>> {
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() || (found.is_file() && found.len() == size_bytes) {
        return fs::read(path);
    }
    Ok(Vec::new())
}
