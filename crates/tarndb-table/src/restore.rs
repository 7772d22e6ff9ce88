//! Going back to an earlier version: what two sets of files have not in common.
//!
//! Invariant: a file with other deleted rows is another file: it goes and comes.
//! Does not: read anything.
//! Spec: docs/guide/sql.md, "Restoring a table".

use std::sync::Arc;

use tarndb_types::TableVersion;

use crate::deletion_vector::Deletion;
use crate::files::Files;
use crate::fragment::DataFile;
use crate::state::TableState;

/// What tells two sets of files apart.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    /// Files of the first that are not in the second as they are.
    pub goes: Vec<Arc<DataFile>>,
    /// Files of the second that are not in the first as they are.
    pub comes: Vec<Arc<DataFile>>,
}

impl Difference {
    /// From one set to another.
    pub fn of(from: &Files, to: &Files) -> Self {
        let missing = |files: &Files, other: &Files| -> Vec<Arc<DataFile>> {
            let files = files.values();
            files.filter(|file| !has(other, file)).collect()
        };
        Self {
            goes: missing(from, to),
            comes: missing(to, from),
        }
    }

    /// Whether both sets are the same.
    pub fn is_empty(&self) -> bool {
        self.goes.is_empty() && self.comes.is_empty()
    }
}

/// Whether the file is in the set, with the same deleted rows.
pub fn has(files: &Files, file: &DataFile) -> bool {
    let other = files.get(&file.path);
    other.is_some_and(|other| match (&other.deletion, &file.deletion) {
        (Deletion::None, Deletion::None) => true,
        (Deletion::Stored(one), Deletion::Stored(other)) => one.unique_id() == other.unique_id(),
        _ => false,
    })
}

/// What a restore does to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// The version that was meant.
    pub version: TableVersion,
    /// Bytes of the data files of the table afterwards.
    pub table_size_after_restore: u64,
    /// Data files of the table afterwards.
    pub num_of_files_after_restore: u64,
    /// Data files that go.
    pub num_removed_files: u64,
    /// Data files that come back. One in which other rows are deleted goes and comes back.
    pub num_restored_files: u64,
    /// Their bytes.
    pub removed_files_size: u64,
    /// Their bytes.
    pub restored_files_size: u64,
}

impl RestoreReport {
    /// Of a table that becomes as it was.
    pub fn of(to: &TableState, difference: &Difference) -> Self {
        let bytes = |files: &[Arc<DataFile>]| files.iter().map(|file| file.size_bytes).sum();
        Self {
            version: to.version,
            table_size_after_restore: to.size_bytes(),
            num_of_files_after_restore: to.files.len() as u64,
            num_removed_files: difference.goes.len() as u64,
            num_restored_files: difference.comes.len() as u64,
            removed_files_size: bytes(&difference.goes),
            restored_files_size: bytes(&difference.comes),
        }
    }

    /// The figures under the names that the histories of tables have for them.
    pub fn metrics(&self) -> [(&'static str, u64); 6] {
        [
            ("tableSizeAfterRestore", self.table_size_after_restore),
            ("numOfFilesAfterRestore", self.num_of_files_after_restore),
            ("numRemovedFiles", self.num_removed_files),
            ("numRestoredFiles", self.num_restored_files),
            ("removedFilesSize", self.removed_files_size),
            ("restoredFilesSize", self.restored_files_size),
        ]
    }
}
