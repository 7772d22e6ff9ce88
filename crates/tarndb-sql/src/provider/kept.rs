//! The files that scans of one provider read, numbered.
//!
//! Invariant: a number stands for one file as long as the provider lives, and a file has one
//! number, however often it is scanned: the hidden columns of a change name rows by it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tarndb_table::DataFile;

/// A file with its number.
pub(crate) type Numbered = (usize, Arc<DataFile>);

#[derive(Debug, Default)]
struct Inner {
    files: Vec<Arc<DataFile>>,
    numbers: HashMap<String, usize>,
}

/// The numbered files.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Inner>);

impl Kept {
    /// Numbers files; one that was numbered before keeps its number.
    pub(crate) fn number(&self, files: Vec<Arc<DataFile>>) -> Vec<Numbered> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = |file: Arc<DataFile>| {
            let next = inner.files.len();
            let number = *inner.numbers.entry(file.path.clone()).or_insert(next);
            if number == next {
                inner.files.push(Arc::clone(&file));
            }
            (number, file)
        };
        files.into_iter().map(number).collect()
    }

    /// All of them, by number.
    pub(crate) fn all(&self) -> Vec<(u32, Arc<DataFile>)> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (0..).zip(inner.files.iter().cloned()).collect()
    }

    /// The file of a number.
    pub(crate) fn file(&self, number: u32) -> Option<Arc<DataFile>> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.files.get(usize::try_from(number).ok()?).cloned()
    }
}

#[cfg(test)]
mod tests;
