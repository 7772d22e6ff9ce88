//! Rows and files that a transaction touches, and short samples of them for messages.
//!
//! Invariant: positions are physical (0-based, row groups concatenated, counted before any
//! deletion), so they mean the same to every transaction. A sample is never used to decide.
//! Does not know row ids or the content of rows.
//! Spec: docs/conflicts.md, "Rows".

use std::fmt;

use roaring::RoaringTreemap;

/// Physical row positions in one data file.
pub type RowSet = RoaringTreemap;

/// How much of a data file a transaction deletes.
#[derive(Clone, Debug, PartialEq)]
pub enum Touched {
    /// These rows, newly (not those that the deletion vector it read had already).
    Rows(RowSet),
    /// Nobody knows which: copy-on-write, or a vector that was not read. Judged as every row.
    WholeFile,
}

/// Why a data file left the table whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Removal {
    /// Its rows are gone.
    Deleted,
    /// Its rows live on in other files, unchanged.
    Moved,
}

/// The first rows of a set and how many there are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowSample {
    /// At most [`RowSample::SHOWN`] positions, ascending.
    pub first: Vec<u64>,
    /// All of them counted.
    pub count: u64,
}

impl RowSample {
    /// Positions kept.
    pub const SHOWN: usize = 5;

    /// Takes the sample.
    #[must_use]
    pub fn of(rows: &RowSet) -> Self {
        Self {
            first: rows.iter().take(Self::SHOWN).collect(),
            count: rows.len(),
        }
    }
}

impl fmt::Display for RowSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.count == 1 { "row " } else { "rows " })?;
        let texts: Vec<String> = self.first.iter().map(u64::to_string).collect();
        write_list(f, &texts, self.count)
    }
}

/// Rows of one file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileRows {
    /// The file's path in the table.
    pub file: String,
    /// The rows.
    pub rows: RowSample,
}

/// The first items of a list keyed by file, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileSample<T> {
    /// At most [`FileSample::SHOWN`] items, by ascending path.
    pub first: Vec<T>,
    /// All of them counted.
    pub count: u64,
}

impl<T> Default for FileSample<T> {
    fn default() -> Self {
        Self {
            first: Vec::new(),
            count: 0,
        }
    }
}

impl<T> FileSample<T> {
    /// Items kept.
    pub const SHOWN: usize = 3;

    /// Counts an item and keeps it when there is room; call in ascending order.
    pub fn push(&mut self, item: impl FnOnce() -> T) {
        if self.first.len() < Self::SHOWN {
            self.first.push(item());
        }
        self.count += 1;
    }

    /// Nothing was pushed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Display for FileSample<FileRows> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self
            .first
            .iter()
            .map(|item| format!("{} of file {}", item.rows, item.file))
            .collect();
        write_list(f, &texts, self.count)?;
        f.write_str(if self.count > texts.len() as u64 {
            " files"
        } else {
            ""
        })
    }
}

impl fmt::Display for FileSample<String> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.count == 1 { "file " } else { "files " })?;
        write_list(f, &self.first, self.count)
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, shown: &[String], count: u64) -> fmt::Result {
    f.write_str(&shown.join(", "))?;
    match count.saturating_sub(shown.len() as u64) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}
