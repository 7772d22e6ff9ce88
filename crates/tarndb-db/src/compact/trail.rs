//! `Trail`: which rows of which input went where, while a rewrite copies them.
//!
//! Invariant: rows are noted in the order in which they are written, so the runs, cut at the
//! ends of the new files, are the row map. Memory is bounded: with more runs than that it is
//! lost, and says so.
//! Spec: docs/conflicts.md, "Row maps".

use tarndb_table::DataFile;
use tarndb_txn::{Run, Target};

/// Rows in the order in which they were written.
#[derive(Debug)]
pub(super) struct Trail {
    runs: Vec<Run>,
    /// Runs that are kept at most.
    runs_max: usize,
    is_lost: bool,
}

impl Default for Trail {
    fn default() -> Self {
        Self::bounded(usize::MAX)
    }
}

impl Trail {
    /// One that is lost above so many runs.
    pub(super) fn bounded(runs_max: usize) -> Self {
        Self {
            runs: Vec::new(),
            runs_max,
            is_lost: false,
        }
    }

    /// Whether the rows went in more runs than are kept.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Notes rows of an input file, by ascending position.
    pub(super) fn note(&mut self, source: u32, positions: &[u64]) {
        for position in positions {
            match self.runs.last_mut() {
                Some(run) if run.source == source && run.first + run.len == *position => {
                    run.len += 1;
                }
                _ => self.push(Run {
                    source,
                    first: *position,
                    len: 1,
                }),
            }
        }
    }

    fn push(&mut self, run: Run) {
        if self.runs.len() < self.runs_max && !self.is_lost {
            self.runs.push(run);
        } else {
            self.is_lost = true;
            self.runs = Vec::new();
        }
    }

    /// The runs of each new file, which hold the noted rows one after the other; `None` when
    /// they do not hold just these rows.
    pub(super) fn targets(self, files: &[DataFile]) -> Option<Vec<Target>> {
        let mut runs = self.runs.into_iter();
        let mut rest: Option<Run> = None;
        let mut targets = Vec::with_capacity(files.len());
        for file in files {
            let mut wanted = file.num_records()?;
            let mut taken = Vec::new();
            while wanted > 0 {
                let mut run = match rest.take() {
                    Some(run) => run,
                    None => runs.next()?,
                };
                if run.len > wanted {
                    rest = Some(Run {
                        source: run.source,
                        first: run.first + wanted,
                        len: run.len - wanted,
                    });
                    run.len = wanted;
                }
                wanted -= run.len;
                taken.push(run);
            }
            targets.push(Target {
                path: file.path.clone(),
                runs: taken,
            });
        }
        let nothing_left = rest.is_none() && runs.next().is_none();
        nothing_left.then_some(targets)
    }
}

#[cfg(test)]
mod tests;
