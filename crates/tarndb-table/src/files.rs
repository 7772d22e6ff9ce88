//! `Files`: the live files of a table at one version.
//!
//! Invariant: a path names at most one file. Cloning costs nothing and clones share what they
//! have in common; what one commit changes costs the change, however many files there are. The
//! files of a large checkpoint stay packed: iterating unpacks a run of them at a time.
//! Spec: Delta PROTOCOL, "Action Reconciliation".

mod matching;
mod packed;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::fragment::DataFile;

pub use packed::{PACKED_MIN, Packed, Packer};

/// Which statistics of a file are read from their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsNeeded<'a> {
    /// None: they stay text.
    None,
    /// Those of the file as a whole (its number of rows), and those of the top level columns
    /// that are named as files name them.
    Columns(&'a [String]),
    /// All.
    All,
}

/// Completes a file as it was packed, by what the codec learned later (the schema).
pub trait Complete: Send + Sync + Debug {
    /// Reads the statistics needed from their text, and spells its partition columns.
    fn complete(&self, file: &mut DataFile, statistics: StatsNeeded<'_>);
}

/// The files of a checkpoint with what completes them.
#[derive(Clone, Debug)]
struct Base {
    packed: Arc<Packed>,
    complete: Arc<dyn Complete>,
}

/// The live files of a table.
#[derive(Clone, Debug, Default)]
pub struct Files {
    base: Option<Base>,
    /// Files of `base` that are gone or replaced, by their number.
    hidden: imbl::OrdSet<u32>,
    /// All others by path.
    loose: imbl::OrdMap<String, Arc<DataFile>>,
    /// Bytes of all files, kept as they come and go.
    bytes: u64,
}

impl Files {
    /// Files that stay packed; `complete` must know all that their text forms need.
    pub fn packed(packed: Arc<Packed>, complete: Arc<dyn Complete>) -> Self {
        Self {
            bytes: packed
                .sizes()
                .map(|(_, bytes)| bytes)
                .fold(0, u64::saturating_add),
            base: Some(Base { packed, complete }),
            ..Self::default()
        }
    }

    /// Completes packed files in another way from here on: the schema has changed.
    pub fn complete_with(&mut self, complete: &Arc<dyn Complete>) {
        if let Some(base) = &mut self.base {
            base.complete = Arc::clone(complete);
        }
    }

    /// Whether some files are packed.
    pub fn is_packed(&self) -> bool {
        self.base.is_some()
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        let packed = self.base.as_ref().map_or(0, |base| base.packed.len());
        packed.saturating_sub(self.hidden.len()) + self.loose.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file of a path.
    pub fn get(&self, path: &str) -> Option<Arc<DataFile>> {
        if let Some(file) = self.loose.get(path) {
            return Some(Arc::clone(file));
        }
        let (base, number) = self.in_base(path)?;
        let mut file = base.packed.file(number)?;
        base.complete.complete(&mut file, StatsNeeded::All);
        Some(Arc::new(file))
    }

    /// Whether a file has the path.
    pub fn contains_key(&self, path: &str) -> bool {
        self.loose.contains_key(path) || self.in_base(path).is_some()
    }

    /// Adds a file, or replaces the one of its path.
    pub fn insert(&mut self, file: Arc<DataFile>) {
        self.hide(&file.path);
        self.bytes = self.bytes.saturating_add(file.size_bytes);
        let before = self.loose.insert(file.path.clone(), file);
        self.forget_size(before.as_deref());
    }

    /// Takes a file out; tells whether it was there.
    pub fn remove(&mut self, path: &str) -> bool {
        let packed = self.hide(path);
        let loose = self.loose.remove(path);
        self.forget_size(loose.as_deref());
        loose.is_some() || packed
    }

    fn forget_size(&mut self, gone: Option<&DataFile>) {
        let bytes = gone.map_or(0, |file| file.size_bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// A file that is not packed, to be completed in place; its size is to stay.
    pub fn loose_mut(&mut self, path: &str) -> Option<&mut Arc<DataFile>> {
        self.loose.get_mut(path)
    }

    /// All files: packed ones in the order of their checkpoint, then the others by path.
    pub fn values(&self) -> impl Iterator<Item = Arc<DataFile>> + Send + '_ {
        self.unpacked(StatsNeeded::All, &[])
    }

    /// As [`Self::values`], with the statistics of packed files left in their text form: what
    /// copies or counts files needs no more.
    pub fn without_statistics(&self) -> impl Iterator<Item = Arc<DataFile>> + Send + '_ {
        self.unpacked(StatsNeeded::None, &[])
    }

    /// As [`Self::values`], with no statistics of packed files but their numbers of rows.
    pub fn counted(&self) -> impl Iterator<Item = Arc<DataFile>> + Send + '_ {
        self.unpacked(StatsNeeded::Columns(&[]), &[])
    }

    /// As [`Self::without_statistics`], but for the packed files numbered in `ranges`.
    pub fn without_statistics_outside<'a>(
        &'a self,
        ranges: &'a [Range<u32>],
    ) -> impl Iterator<Item = Arc<DataFile>> + Send + 'a {
        self.unpacked(StatsNeeded::None, ranges)
    }

    /// Whether all packed files numbered in `range` are live as they were packed.
    pub fn are_all_packed(&self, range: &Range<u32>) -> bool {
        let mut hidden = self.hidden.range(range.clone());
        self.is_packed() && hidden.next().is_none()
    }

    /// The paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = String> + '_ {
        let packed = self.base.iter().flat_map(|base| base.packed.paths());
        let packed = packed.filter(|(number, _)| !self.hidden.contains(number));
        packed
            .map(|(_, path)| path.to_owned())
            .chain(self.loose.keys().cloned())
    }

    /// Bytes of all data files.
    pub fn size_bytes(&self) -> u64 {
        self.bytes
    }

    fn unpacked<'a>(
        &'a self,
        statistics: StatsNeeded<'a>,
        without: &'a [Range<u32>],
    ) -> impl Iterator<Item = Arc<DataFile>> + Send + 'a {
        let packed = self.base.iter().flat_map(move |base| {
            let left_out = |range: &Range<u32>| {
                let inside =
                    |without: &Range<u32>| without.start <= range.start && range.end <= without.end;
                without.iter().any(inside)
            };
            let runs = (0..base.packed.runs()).filter(move |run| !left_out(&Packed::range(*run)));
            let files = runs.flat_map(|run| base.packed.run(run));
            files
                .filter(|(number, _)| !self.hidden.contains(number))
                .filter(|(number, _)| !without.iter().any(|range| range.contains(number)))
                .map(move |(_, mut file)| {
                    base.complete.complete(&mut file, statistics);
                    Arc::new(file)
                })
        });
        packed.chain(self.loose.values().cloned())
    }

    fn in_base(&self, path: &str) -> Option<(&Base, u32)> {
        let base = self.base.as_ref()?;
        let number = base.packed.find(path)?;
        (!self.hidden.contains(&number)).then_some((base, number))
    }

    /// Hides the packed file of a path; tells whether there was one.
    fn hide(&mut self, path: &str) -> bool {
        let found = self.in_base(path);
        let Some((number, bytes)) = found.map(|(base, number)| (number, base.packed.size(number)))
        else {
            return false;
        };
        self.bytes = self.bytes.saturating_sub(bytes);
        self.hidden.insert(number).is_none()
    }
}

/// Equal when they name the same files with the same contents, packed or not.
impl PartialEq for Files {
    fn eq(&self, other: &Self) -> bool {
        // Packed files are looked up slowly one by one and fast in a row.
        let (all, looked_up) = match other.is_packed() {
            true => (other, self),
            false => (self, other),
        };
        let same = |file: Arc<DataFile>| looked_up.get(&file.path).is_some_and(|f| f == file);
        self.len() == other.len() && all.values().all(same)
    }
}

impl FromIterator<Arc<DataFile>> for Files {
    fn from_iter<T: IntoIterator<Item = Arc<DataFile>>>(files: T) -> Self {
        let mut all = Self::default();
        for file in files {
            all.insert(file);
        }
        all
    }
}

#[cfg(test)]
mod tests;
