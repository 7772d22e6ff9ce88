//! `RowMap`: where the rows of rewritten files went.
//!
//! Invariant: a row of an input file is in at most one place of the output; rows that are in no
//! run were deleted before the rewrite read the file. Positions are physical on both sides.
//! Does not know how it is stored; `tarndb-db` writes it into the record or beside the table.
//! Spec: docs/conflicts.md, "Row maps".

use std::collections::{BTreeMap, BTreeSet};

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
        self.places(path).map(|places| carry(&places, rows))
    }

    /// Where all rows of the input file `path` are now that the rewrite copied.
    #[must_use]
    pub fn carry_all(&self, path: &str) -> BTreeMap<String, RowSet> {
        carry_all(&self.places(path).unwrap_or_default())
    }

    /// The same for many input files: the runs are gone through once, not once per file.
    pub(crate) fn index(&self) -> Index<'_> {
        let mut by_source: Vec<Vec<Place<'_>>> = vec![Vec::new(); self.sources.len()];
        for (source, place) in self.all_places() {
            if let Some(places) = by_source.get_mut(source) {
                places.push(place);
            }
        }
        let mut places = BTreeMap::new();
        for (source, mut runs) in self.sources.iter().zip(by_source) {
            runs.sort_by_key(|place| place.first);
            places.entry(source.path.as_str()).or_insert(runs);
        }
        Index { places }
    }

    /// What is wrong with the map, when it is not one: a run of no input or without rows, rows
    /// in two places, a file named twice, or positions that no file can have.
    #[must_use]
    pub fn violation(&self) -> Option<String> {
        let mut taken: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for target in &self.targets {
            let mut rows = 0_u64;
            for run in &target.runs {
                let known = (run.source as usize) < self.sources.len();
                let (end, sum) = (run.first.checked_add(run.len), rows.checked_add(run.len));
                let (true, 1.., Some(end), Some(sum)) = (known, run.len, end, sum) else {
                    return Some(format!("{}: {run:?} is out of range", target.path));
                };
                rows = sum;
                taken.entry(run.source).or_default().push((run.first, end));
            }
        }
        for (source, mut runs) in taken {
            runs.sort_unstable();
            let mut pairs = runs.iter().zip(runs.iter().skip(1));
            if let Some(((_, end), (first, _))) = pairs.find(|((_, end), (first, _))| first < end) {
                return Some(format!(
                    "rows {first} to {end} of input {source} are in two places"
                ));
            }
        }
        twice(self.sources.iter().map(|source| &source.path))
            .or_else(|| twice(self.targets.iter().map(|target| &target.path)))
            .map(|path| format!("{path} is named twice"))
    }

    /// The runs of one input by ascending first row, with where they went.
    fn places(&self, path: &str) -> Option<Vec<Place<'_>>> {
        let source = self.sources.iter().position(|source| source.path == path)?;
        let places = self.all_places();
        let mut places: Vec<_> = places
            .filter(|(of, _)| *of == source)
            .map(|(_, place)| place)
            .collect();
        places.sort_by_key(|place| place.first);
        Some(places)
    }

    /// All runs with the index of their input.
    fn all_places(&self) -> impl Iterator<Item = (usize, Place<'_>)> {
        self.targets.iter().flat_map(|target| {
            let mut start = 0_u64;
            target.runs.iter().map(move |run| {
                let place = Place {
                    first: run.first,
                    len: run.len,
                    target: &target.path,
                    start,
                };
                start = start.saturating_add(run.len);
                (run.source as usize, place)
            })
        })
    }
}

/// A map by input file.
#[derive(Debug)]
pub(crate) struct Index<'a> {
    places: BTreeMap<&'a str, Vec<Place<'a>>>,
}

impl Index<'_> {
    /// As [`RowMap::carry`].
    pub(crate) fn carry(&self, path: &str, rows: &RowSet) -> Option<Carried> {
        self.places.get(path).map(|places| carry(places, rows))
    }

    /// As [`RowMap::carry_all`].
    pub(crate) fn carry_all(&self, path: &str) -> BTreeMap<String, RowSet> {
        let places = self.places.get(path);
        places.map(|places| carry_all(places)).unwrap_or_default()
    }

    /// As [`RowMap::has_source`].
    pub(crate) fn has_source(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }
}

fn carry(places: &[Place<'_>], rows: &RowSet) -> Carried {
    let mut carried = Carried::default();
    for row in rows {
        // Runs of one input do not overlap: the last one that starts at or before the row
        // is the only one that can hold it.
        let after = places.partition_point(|place| place.first <= row);
        let place = after.checked_sub(1).and_then(|at| places.get(at));
        match place.filter(|place| row - place.first < place.len) {
            Some(place) => {
                let position = place.start.saturating_add(row - place.first);
                let target = carried.moved.entry(place.target.to_owned()).or_default();
                target.insert(position);
            }
            None => drop(carried.gone.insert(row)),
        }
    }
    carried
}

fn carry_all(places: &[Place<'_>]) -> BTreeMap<String, RowSet> {
    let mut moved: BTreeMap<String, RowSet> = BTreeMap::new();
    for place in places {
        let end = place.start.saturating_add(place.len);
        let target = moved.entry(place.target.to_owned()).or_default();
        target.insert_range(place.start..end);
    }
    moved
}

fn twice<'a>(mut paths: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = BTreeSet::new();
    paths.find(|path| !seen.insert(path.as_str()))
}

/// A run with where it went.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    first: u64,
    len: u64,
    target: &'a str,
    /// Position of the run's first row in the output file.
    start: u64,
}
