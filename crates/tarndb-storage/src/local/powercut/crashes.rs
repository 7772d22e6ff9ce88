//! What a power cut can leave of what was done.
//!
//! Invariant: synced changes are in every tree; of the others every subset is tried where they
//! are few, and samples drawn from a seed where they are many.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::journal::{Inode, Step, TOP};
use crate::context::{Random, SeededRandom};

/// How many of the subsets are tried.
#[derive(Clone, Copy, Debug)]
pub struct CutPlan {
    /// Every subset of at most so many open changes is tried.
    pub exhaustive_max: u32,
    /// Of more changes so many subsets are drawn, besides none and all of them.
    pub samples: u32,
    /// Where the draws start.
    pub seed: u64,
}

/// The disk after a power cut.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The moment of the cut: so many changes and syncs were done.
    pub at: usize,
    files: BTreeMap<PathBuf, (Inode, Content)>,
    folders: BTreeSet<PathBuf>,
}

/// The bytes of a file; equal marks mean equal bytes.
#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Arc<Vec<u8>>,
    mark: u64,
}

/// What becomes of an open change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lost,
    /// Half of the bytes; of a name as lost.
    Torn,
    Kept,
}

/// The trees that cuts can leave, see [`super::PowerCut::crashes`].
#[derive(Debug)]
pub struct Crashes {
    steps: Vec<Step>,
    cuts: RangeInclusive<usize>,
    promises: BTreeSet<usize>,
    plan: CutPlan,
    random: SeededRandom,
    disk: Synced,
    at: usize,
    /// Fates not tried yet at this moment, each for the changes in `open`.
    fates: Vec<Vec<Fate>>,
    open: Vec<usize>,
    seen: BTreeSet<u64>,
}

/// What is durable, and which steps are not yet.
#[derive(Debug, Default)]
struct Synced {
    files: BTreeMap<Inode, Content>,
    folders: BTreeMap<Inode, BTreeMap<OsString, (Inode, bool)>>,
    pending: Vec<usize>,
}

impl Synced {
    /// Applies the part of a change that survives.
    fn apply(&mut self, number: usize, step: &Step, fate: Fate) {
        match step {
            Step::Write {
                inode,
                offset,
                bytes,
            } => {
                let length = match fate {
                    Fate::Lost => return,
                    Fate::Torn => bytes.len() / 2,
                    Fate::Kept => bytes.len(),
                };
                let content = self.files.entry(*inode).or_default();
                content.mark = hash_of(&(content.mark, number, fate == Fate::Torn));
                let file = Arc::make_mut(&mut content.bytes);
                let start = usize::try_from(*offset).unwrap_or(usize::MAX);
                if file.len() < start.saturating_add(length) {
                    file.resize(start.saturating_add(length), 0);
                }
                for (target, byte) in file.iter_mut().skip(start).zip(bytes.iter().take(length)) {
                    *target = *byte;
                }
            }
            Step::Entry {
                folder,
                name,
                inode,
                is_folder,
                ..
            } if fate == Fate::Kept => {
                let entries = self.folders.entry(*folder).or_default();
                match inode {
                    Some(inode) => entries.insert(name.clone(), (*inode, *is_folder)),
                    None => entries.remove(name),
                };
            }
            Step::Entry { .. } | Step::Sync(_) => {}
        }
    }

    fn advance(&mut self, steps: &[Step], number: usize) {
        match steps.get(number) {
            Some(Step::Sync(inode)) => {
                let (done, open): (Vec<usize>, _) = std::mem::take(&mut self.pending)
                    .into_iter()
                    .partition(|number| {
                        steps.get(*number).is_some_and(|step| touches(step, *inode))
                    });
                self.pending = open;
                for number in done {
                    if let Some(step) = steps.get(number) {
                        self.apply(number, step, Fate::Kept);
                    }
                }
            }
            Some(_) => self.pending.push(number),
            None => {}
        }
    }
}

/// Whether a sync of `synced` makes the change durable.
fn touches(step: &Step, synced: Inode) -> bool {
    match step {
        Step::Write { inode, .. } => *inode == synced,
        Step::Entry { folder, .. } => *folder == synced,
        Step::Sync(_) => false,
    }
}

impl Crashes {
    pub(super) fn new(
        steps: Vec<Step>,
        cuts: RangeInclusive<usize>,
        promises: &[usize],
        plan: CutPlan,
    ) -> Self {
        let mut crashes = Self {
            steps,
            cuts,
            promises: promises.iter().copied().collect(),
            plan,
            random: SeededRandom::new(plan.seed),
            disk: Synced::default(),
            at: 0,
            fates: Vec::new(),
            open: Vec::new(),
            seen: BTreeSet::new(),
        };
        crashes.prepare();
        crashes
    }

    /// Chooses the fates to try at this moment.
    fn prepare(&mut self) {
        if self.promises.contains(&self.at) {
            self.seen.clear();
        }
        if !self.cuts.contains(&self.at) {
            return;
        }
        self.open = self.relevant();
        let count = self.open.len();
        let few = u32::try_from(count).is_ok_and(|count| count <= self.plan.exhaustive_max);
        self.fates = if few {
            let subsets = 0..1_u64 << count;
            subsets
                .rev()
                .map(|subset| fates_of(subset, count))
                .collect()
        } else {
            let draws = 0..self.plan.samples;
            let mut fates: Vec<_> = draws.map(|_| self.draw(count)).collect();
            fates.extend([vec![Fate::Kept; count], vec![Fate::Lost; count]]);
            fates
        };
        // Torn writes of what has a name: at least these, for every moment.
        let torn = |number: &usize| match self.steps.get(*number) {
            Some(Step::Write { .. }) => Fate::Torn,
            _ => Fate::Kept,
        };
        self.fates.insert(0, self.open.iter().map(torn).collect());
    }

    fn draw(&self, count: usize) -> Vec<Fate> {
        let fate = |_| match self.random.next_u64() % 8 {
            0 => Fate::Torn,
            1..=4 => Fate::Kept,
            _ => Fate::Lost,
        };
        (0..count).map(fate).collect()
    }

    /// The open changes that an object can be seen by: all but the temporary names and the
    /// bytes of files that never had another.
    fn relevant(&self) -> Vec<usize> {
        let pending = |number: &usize| self.steps.get(*number);
        let mut named: BTreeSet<Inode> = BTreeSet::new();
        for entries in self.disk.folders.values() {
            named.extend(entries.values().map(|(inode, _)| *inode));
        }
        for step in self.disk.pending.iter().filter_map(pending) {
            if let Step::Entry {
                inode: Some(inode),
                is_temporary: false,
                ..
            } = step
            {
                named.insert(*inode);
            }
        }
        let shows = |number: &&usize| match self.steps.get(**number) {
            Some(Step::Entry { is_temporary, .. }) => !is_temporary,
            Some(Step::Write { inode, .. }) => named.contains(inode),
            _ => false,
        };
        self.disk.pending.iter().filter(shows).copied().collect()
    }

    fn tree(&self, fates: &[Fate]) -> Crash {
        let fates: BTreeMap<usize, Fate> = self
            .open
            .iter()
            .copied()
            .zip(fates.iter().copied())
            .collect();
        // What temporary names become decides nothing; sometimes all of them are left.
        let leaves_temporary = self.at.is_multiple_of(2);
        let mut disk = Synced {
            files: self.disk.files.clone(),
            folders: self.disk.folders.clone(),
            pending: Vec::new(),
        };
        for number in &self.disk.pending {
            let Some(step) = self.steps.get(*number) else {
                continue;
            };
            let other = match step {
                Step::Entry { inode: Some(_), .. } if leaves_temporary => Fate::Kept,
                _ => Fate::Lost,
            };
            disk.apply(*number, step, fates.get(number).copied().unwrap_or(other));
        }
        let mut crash = Crash {
            at: self.at,
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
        };
        crash.fill(&disk, TOP, Path::new(""));
        crash
    }
}

impl Iterator for Crashes {
    type Item = Crash;

    fn next(&mut self) -> Option<Crash> {
        loop {
            while let Some(fates) = self.fates.pop() {
                let crash = self.tree(&fates);
                if self.seen.insert(crash.hash()) {
                    return Some(crash);
                }
            }
            if self.at >= self.steps.len() || self.at >= *self.cuts.end() {
                return None;
            }
            self.disk.advance(&self.steps, self.at);
            self.at += 1;
            self.prepare();
        }
    }
}

impl Crash {
    fn fill(&mut self, disk: &Synced, folder: Inode, path: &Path) {
        for (name, (inode, is_folder)) in disk.folders.get(&folder).into_iter().flatten() {
            let path = path.join(name);
            if *is_folder {
                self.folders.insert(path.clone());
                self.fill(disk, *inode, &path);
            } else {
                let content = disk.files.get(inode).cloned().unwrap_or_default();
                self.files.insert(path, (*inode, content));
            }
        }
    }

    /// The same for trees that differ in temporary files only.
    fn hash(&self) -> u64 {
        let files = self.files.iter();
        let seen = files.filter(|(path, _)| !super::is_temporary(path));
        let seen: Vec<_> = seen
            .map(|(path, (inode, content))| (path, *inode, content.mark))
            .collect();
        hash_of(&(seen, &self.folders))
    }

    /// Lays the files out in `folder`, which must be empty.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn write_to(&self, folder: &Path) -> io::Result<()> {
        for path in &self.folders {
            std::fs::create_dir(folder.join(path))?;
        }
        let mut written: BTreeMap<Inode, PathBuf> = BTreeMap::new();
        for (path, (inode, content)) in &self.files {
            let path = folder.join(path);
            match written.get(inode) {
                Some(first) => std::fs::hard_link(first, &path)?,
                None => std::fs::write(&path, content.bytes.as_slice())?,
            }
            written.entry(*inode).or_insert(path);
        }
        Ok(())
    }

    /// The files that are left, temporary ones too.
    pub fn files(&self) -> impl Iterator<Item = (&Path, usize)> {
        let files = self.files.iter();
        files.map(|(path, (_, content))| (path.as_path(), content.bytes.len()))
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The subset whose members are the set bits.
fn fates_of(subset: u64, count: usize) -> Vec<Fate> {
    let fate = |bit| match subset >> bit & 1 {
        0 => Fate::Lost,
        _ => Fate::Kept,
    };
    (0..count).map(fate).collect()
}
