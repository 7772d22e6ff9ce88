//! A disk whose power can be cut: the real local store writes through it, and what a cut may
//! leave behind is laid out as a folder that can be opened again.
//!
//! Invariant: what is not synced may be lost, each change by itself and in any order: bytes of
//! a file, a name in a folder, a removed name. More than any real file system loses, never less.
//! Does not: simulate reads (they go to the working folder), or a disk that lies about a sync.
//! Spec: docs/durability.md, "The proof".

mod crashes;
mod journal;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::DurableLocal;
use super::disk::{Disk, SystemDisk};
use super::folder::TEMP_FOLDER;
use crate::context::Context;
use crate::options::Durability;

pub use self::crashes::{Crash, Crashes, CutPlan};
use self::journal::{Inode, Journal, Step};
pub use super::SyncPoint;

/// `EIO`: the disk failed.
const EIO: i32 = 5;

/// The disk; clones are one.
#[derive(Clone, Debug)]
pub struct PowerCut {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    top: PathBuf,
    state: Mutex<State>,
    real: SystemDisk,
}

#[derive(Debug, Default)]
struct State {
    journal: Journal,
    /// Our number of a file by the number that the working folder's file system gave it.
    inodes: BTreeMap<u64, Inode>,
    ignored: Option<SyncPoint>,
    failing: Option<SyncPoint>,
    calls: BTreeMap<SyncPoint, u64>,
}

impl PowerCut {
    /// A disk that holds one empty folder, `top`, where its files are kept while the power is
    /// on. `top` exists.
    pub fn new(top: impl Into<PathBuf>) -> Self {
        Self {
            shared: Arc::new(Shared {
                top: top.into(),
                state: Mutex::default(),
                real: SystemDisk {
                    durability: Durability::None,
                },
            }),
        }
    }

    /// A handle of the local store over this disk, rooted at `name` in the top folder.
    pub fn store(&self, name: &str, context: &Context) -> DurableLocal {
        DurableLocal::over(self.shared.top.join(name), Box::new(self.clone()), context)
    }

    /// From now on the syncs at `point` say that they succeeded and do nothing.
    pub fn ignore(&self, point: SyncPoint) {
        self.state().ignored = Some(point);
    }

    /// The next sync at `point` fails and does nothing.
    pub fn fail_once(&self, point: SyncPoint) {
        self.state().failing = Some(point);
    }

    /// How many changes and syncs there were: a moment to cut at.
    pub fn now(&self) -> usize {
        self.state().journal.steps().len()
    }

    /// How often each sync was called.
    pub fn calls(&self) -> BTreeMap<SyncPoint, u64> {
        self.state().calls.clone()
    }

    /// What a power cut can leave behind, for cuts at the moments in `cuts`. Equal trees are told once
    /// between two of the `promises`, the moments at which something was acknowledged.
    pub fn crashes(
        &self,
        cuts: std::ops::RangeInclusive<usize>,
        promises: &[usize],
        plan: CutPlan,
    ) -> Crashes {
        let steps = self.state().journal.steps().to_vec();
        Crashes::new(steps, cuts, promises, plan)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// The path below the top, if it is there.
    fn below<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.shared.top).ok()
    }
}

fn is_temporary(path: &Path) -> bool {
    path.to_string_lossy().contains(TEMP_FOLDER)
}

impl State {
    /// Whether the sync at `point` is to be done.
    fn sync(&mut self, point: SyncPoint) -> io::Result<bool> {
        *self.calls.entry(point).or_default() += 1;
        if self.failing.take_if(|failing| *failing == point).is_some() {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(self.ignored != Some(point))
    }

    fn entry(&mut self, below: Option<&Path>, inode: Option<Inode>) {
        if let Some(path) = below {
            self.journal.set_entry(path, inode, is_temporary(path));
        }
    }
}

fn number(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.ino())
}

impl Disk for PowerCut {
    fn create_new(&self, path: &Path) -> io::Result<File> {
        let mut state = self.state();
        let file = self.shared.real.create_new(path)?;
        let inode = state.journal.new_file();
        state.inodes.insert(number(&file)?, inode);
        state.entry(self.below(path), Some(inode));
        Ok(file)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state();
        self.shared.real.write_at(file, bytes, offset)?;
        if let Some(inode) = state.inodes.get(&number(file)?).copied() {
            let bytes = bytes.into();
            state.journal.push(Step::Write {
                inode,
                offset,
                bytes,
            });
        }
        Ok(())
    }

    fn sync(&self, file: &File, at: SyncPoint) -> io::Result<()> {
        let mut state = self.state();
        if state.sync(at)?
            && let Some(inode) = state.inodes.get(&number(file)?).copied()
        {
            state.journal.push(Step::Sync(inode));
        }
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        self.shared.real.link(from, to)?;
        let inode = self.below(from).and_then(|path| state.journal.find(path));
        state.entry(self.below(to), inode);
        Ok(())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        self.shared.real.rename_new(from, to)?;
        state.renamed(self.below(from), self.below(to));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        self.shared.real.rename(from, to)?;
        state.renamed(self.below(from), self.below(to));
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        self.shared.real.unlink(path)?;
        state.entry(self.below(path), None);
        Ok(())
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        self.shared.real.make_folder(path)?;
        let inode = state.journal.new_folder();
        state.entry(self.below(path), Some(inode));
        Ok(())
    }

    fn sync_folder(&self, path: &Path, at: SyncPoint) -> io::Result<()> {
        let mut state = self.state();
        // As the real one: a folder that is not there cannot be opened.
        std::fs::metadata(path)?;
        if state.sync(at)?
            && let Some(inode) = self.below(path).and_then(|path| state.journal.find(path))
        {
            state.journal.push(Step::Sync(inode));
        }
        Ok(())
    }
}

impl State {
    fn renamed(&mut self, from: Option<&Path>, to: Option<&Path>) {
        let inode = from.and_then(|path| self.journal.find(path));
        self.entry(to, inode);
        self.entry(from, None);
    }
}

#[cfg(test)]
mod tests;
