//! What was done to a disk, in order, and the files and folders as they are with the power on.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// A file or folder of the simulated disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Inode(pub(super) usize);

/// The top folder.
pub(super) const TOP: Inode = Inode(0);

/// One change or sync.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Bytes were written into a file.
    Write {
        inode: Inode,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    /// A name in a folder was given, or taken away.
    Entry {
        folder: Inode,
        name: OsString,
        inode: Option<Inode>,
        is_folder: bool,
        /// In the folder of temporary files.
        is_temporary: bool,
    },
    /// Everything done to the file or folder so far is durable.
    Sync(Inode),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Journal {
    steps: Vec<Step>,
    /// The entries of every folder; `None` for a file.
    inodes: Vec<Option<BTreeMap<OsString, Inode>>>,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            inodes: vec![Some(BTreeMap::new())],
        }
    }
}

impl Journal {
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(super) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    pub(super) fn new_file(&mut self) -> Inode {
        self.inodes.push(None);
        Inode(self.inodes.len() - 1)
    }

    pub(super) fn new_folder(&mut self) -> Inode {
        self.inodes.push(Some(BTreeMap::new()));
        Inode(self.inodes.len() - 1)
    }

    fn entries(&self, inode: Inode) -> Option<&BTreeMap<OsString, Inode>> {
        self.inodes.get(inode.0)?.as_ref()
    }

    /// What stands at a path below the top.
    pub(super) fn find(&self, path: &Path) -> Option<Inode> {
        path.iter()
            .try_fold(TOP, |folder, name| self.entries(folder)?.get(name).copied())
    }

    /// A path was given to an inode, or taken away.
    pub(super) fn set_entry(&mut self, path: &Path, inode: Option<Inode>, is_temporary: bool) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        let is_folder = inode.is_some_and(|inode| self.entries(inode).is_some());
        let Some(folder) = self.find(parent) else {
            return;
        };
        let Some(Some(entries)) = self.inodes.get_mut(folder.0) else {
            return;
        };
        match inode {
            Some(inode) => entries.insert(name.to_owned(), inode),
            None => entries.remove(name),
        };
        self.steps.push(Step::Entry {
            folder,
            name: name.to_owned(),
            inode,
            is_folder,
            is_temporary,
        });
    }
}
