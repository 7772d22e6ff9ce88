//! `RowMap`: where the rows of rewritten files went.
//!
//! Invariant: a row of an input file is in at most one place of the output; rows that are in no
//! run were deleted before the rewrite read the file. Positions are physical on both sides.
//! Does not know how it is stored; `tarndb-db` writes it into the record or beside the table.
//! Spec: docs/conflicts.md, "Row maps".

use std::collections::BTreeMap;

use crate::rows::RowSet;

/// An input file of a rewrite, as the rewrite read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path in the table.
    pub path: String,
    /// The id of the deletion vector that it had; `None` without one.
    pub vector: Option<String>,
}

/// Consecutive rows of one input file that are consecutive in one output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// Index into [`RowMap::sources`].
    pub source: u32,
    /// Position of the first row in the input file.
    pub first: u64,
    /// Rows.
    pub len: u64,
}

/// An output file of a rewrite: its rows are those of the runs, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its path in the table.
    pub path: String,
    /// Where its rows come from, in the order of its rows.
    pub runs: Vec<Run>,
}

/// The map of one rewrite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowMap {
    /// Files that the rewrite removed.
    pub sources: Vec<Source>,
    /// Files that it added.
    pub targets: Vec<Target>,
}

/// Where rows of one input file are now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    /// Output file -> positions in it.
    pub moved: BTreeMap<String, RowSet>,
    /// Rows that the rewrite did not copy: they were deleted when it read the file.
    pub gone: RowSet,
}

impl RowMap {
    /// Whether the rewrite read this file.
    #[must_use]
    pub fn has_source(&self, path: &str) -> bool {
        self.sources.iter().any(|source| source.path == path)
    }

    /// Where `rows` of the input file `path` are now; `None` when it is not an input.
    #[must_use]
    pub fn carry(&self, path: &str, rows: &RowSet) -> Option<Carried> {
        let source = self.sources.iter().position(|source| source.path == path)?;
        let mut carried = Carried {
            moved: BTreeMap::new(),
            gone: rows.clone(),
        };
        for target in &self.targets {
            let mut start = 0;
            for run in &target.runs {
                if run.source as usize == source {
                    let mut window = RowSet::new();
                    window.insert_range(run.first..run.first.saturating_add(run.len));
                    for row in window & rows {
                        let place = start + (row - run.first);
                        carried
                            .moved
                            .entry(target.path.clone())
                            .or_default()
                            .insert(place);
                        carried.gone.remove(row);
                    }
                }
                start += run.len;
            }
        }
        Some(carried)
    }
}
