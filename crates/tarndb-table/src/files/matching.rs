//! The files that a predicate leaves, found by the statistics of its columns alone.
//!
//! Invariant: a file that is kept is complete; the others never had more of their statistics read
//! than was needed to leave them out. Only the files kept are held, however many there are.
//! Does not: decide, the caller does.
//! Spec: Delta PROTOCOL, "Per-file Statistics".

use std::sync::Arc;

use super::{Files, StatsNeeded};
use crate::fragment::DataFile;

/// Files that are judged together.
const FILES_AT_ONCE: usize = 1024;

impl Files {
    /// The files that `keep` says may be needed, in the order of [`Self::values`]. It is given
    /// some files at a time, with the statistics of the top level `columns` (as files name them)
    /// and numbers of rows, and answers for each; a file without an answer is kept.
    ///
    /// # Errors
    /// Those of `keep`.
    pub fn matching<E>(
        &self,
        columns: &[String],
        mut keep: impl FnMut(&[Arc<DataFile>]) -> Result<Vec<bool>, E>,
    ) -> Result<Vec<Arc<DataFile>>, E> {
        let mut files = self.unpacked(StatsNeeded::Columns(columns), &[]);
        let mut matching = Vec::new();
        loop {
            let some: Vec<_> = files.by_ref().take(FILES_AT_ONCE).collect();
            if some.is_empty() {
                return Ok(matching);
            }
            let kept = keep(&some)?.into_iter().chain(std::iter::repeat(true));
            let kept = some.into_iter().zip(kept).filter(|(_, keep)| *keep);
            matching.extend(kept.map(|(file, _)| self.completed(file)));
        }
    }

    /// A file of [`Self::unpacked`] with all of its statistics.
    fn completed(&self, mut file: Arc<DataFile>) -> Arc<DataFile> {
        if let Some((base, _)) = self.in_base(&file.path) {
            base.complete
                .complete(Arc::make_mut(&mut file), StatsNeeded::All);
        }
        file
    }
}
