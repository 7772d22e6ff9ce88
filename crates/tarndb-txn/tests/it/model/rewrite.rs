//! Compactions with row maps: rows that move and stay the same rows.
//!
//! Invariant: the map tells the place of every row that was live in an input, and of no other.

use std::collections::BTreeSet;
use std::sync::Arc;

use tarndb_txn::{Removal, RowMap, Run, Source, TableEffects, Target};

use super::{File, Table};

/// How files are rewritten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rewrite {
    /// Bit `n % 8` picks the table's n-th file.
    pub(crate) pick: u8,
    /// Output files that the rows are dealt to, in pieces.
    pub(crate) parts: usize,
    /// Rows in the opposite order (clustering): one run per row.
    pub(crate) permuted: bool,
    /// Whether the map is recorded.
    pub(crate) mapped: bool,
}

impl Rewrite {
    /// All files into one, order kept.
    pub(crate) const ALL: Self = Self {
        pick: u8::MAX,
        parts: 1,
        permuted: false,
        mapped: true,
    };
}

/// Where a live row is: index of the input, position, row.
type Placed = (u32, u64, (u64, i64));

impl Table {
    /// Plans a rewrite; the new files by path.
    pub(super) fn rewrite(
        &self,
        how: Rewrite,
        tag: u64,
        effects: &mut TableEffects,
    ) -> Vec<(String, File)> {
        let numbered = self.files.iter().enumerate();
        let picked: Vec<_> = numbered
            .filter(|(at, _)| how.pick & (1 << (at % 8)) != 0)
            .map(|(_, file)| file)
            .collect();
        if picked.is_empty() {
            return Vec::new();
        }
        let mut rows: Vec<Placed> = Vec::new();
        let mut sources = Vec::new();
        let mut columns: BTreeSet<String> = self.definition.columns.keys().cloned().collect();
        for (source, (path, file)) in (0..).zip(&picked) {
            effects.removes.insert((*path).clone(), Removal::Moved);
            columns = &columns & &file.columns;
            let vector = (!file.deleted.is_empty()).then(|| format!("{:?}", file.deleted));
            let path = (*path).clone();
            sources.push(Source { path, vector });
            rows.extend(file.live().map(|(at, row)| (source, at, row)));
        }
        if how.permuted {
            rows.reverse();
        }
        // Pieces of two rows go around, so that runs of one input end up in several outputs.
        let mut outputs: Vec<Vec<Placed>> = vec![Vec::new(); how.parts.max(1)];
        for (number, piece) in rows.chunks(2).enumerate() {
            let output = number % outputs.len();
            outputs[output].extend_from_slice(piece);
        }
        let mut targets = Vec::new();
        let mut files = Vec::new();
        for (number, placed) in outputs.into_iter().enumerate() {
            let path = format!("new{tag}-{number}");
            let runs = runs(&placed);
            targets.push(Target {
                path: path.clone(),
                runs,
            });
            let file = File {
                rows: placed.into_iter().map(|(_, _, row)| row).collect(),
                deleted: BTreeSet::new(),
                columns: columns.clone(),
                fingerprint: self.definition.fingerprint.clone(),
            };
            files.push((path, file));
        }
        if how.mapped {
            effects.row_map = Some(Arc::new(RowMap { sources, targets }));
        }
        files
    }
}

fn runs(placed: &[Placed]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (source, at, _) in placed.iter().copied() {
        match runs.last_mut() {
            Some(run) if run.source == source && run.first + run.len == at => run.len += 1,
            _ => runs.push(Run {
                source,
                first: at,
                len: 1,
            }),
        }
    }
    runs
}
