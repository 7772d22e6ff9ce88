//! Questions that effects alone cannot answer, and the answers that a caller found in the data.
//!
//! Invariant: no answer is the conservative one: what was not looked at counts as a match.
//! Does not read data; `tarndb-db` does, within a byte budget.
//! Spec: docs/conflicts.md, "Evidence".

use std::collections::BTreeMap;

use tarndb_types::TableId;

/// What must be looked up in the data of what they committed to one table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Does one of the rows that they added have a key of ours ([`crate::TableEffects::keys`])?
    AddedKeys,
    /// Does one of the rows that they added match the predicate of our overwrite?
    AddedInOverwrite,
    /// Does one of the rows that they added, deleted or replaced match what we read?
    ChangedInReads,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// Nothing matches.
    No,
    /// Something matches; what, in words such as `id = 7 in file part-1.parquet`.
    Yes(String),
    /// It was not looked at; why, in words such as `12 MB of added rows are over the budget`.
    Unknown(String),
}

/// Answers for one committed transaction, by table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    answers: BTreeMap<(TableId, Question), Answer>,
}

impl Evidence {
    /// Nothing was looked at.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Notes an answer.
    pub fn note(&mut self, table: TableId, question: Question, answer: Answer) {
        self.answers.insert((table, question), answer);
    }

    /// The answer; `None` when nobody looked.
    #[must_use]
    pub fn answer(&self, table: TableId, question: Question) -> Option<&Answer> {
        self.answers.get(&(table, question))
    }
}
