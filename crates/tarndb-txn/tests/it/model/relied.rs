//! What a transaction relied on, and the look into the data of another one that tells whether
//! it still holds.
//!
//! Invariant: a row that only moved is not a change; exact for everything else.

use std::collections::BTreeSet;

use tarndb_txn::{Answer, KeySet, Question};
use tarndb_types::TableId;

use super::{Db, File, Rows};

/// The key of a row is the last three digits of its value; updates by thousands keep it.
pub(super) fn key_of(value: i64) -> i64 {
    value.rem_euclid(1000)
}

/// A key set as an upsert records it.
pub(super) fn key_set(keys: &BTreeSet<i64>, covers_adds: bool) -> Option<KeySet> {
    let hashes = keys
        .iter()
        .map(|key| (*key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    KeySet::of(vec!["key".to_owned()], &hashes, covers_adds)
}

/// What a transaction relied on in one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relied {
    pub(super) keys: BTreeSet<i64>,
    pub(super) overwrites: Vec<Rows>,
    pub(super) reads: Vec<Rows>,
}

impl Relied {
    /// Looks into what a commit changed of a table, given the database before and after it.
    pub(crate) fn answer(
        &self,
        question: &Question,
        id: TableId,
        before: &Db,
        after: &Db,
    ) -> Answer {
        let rows = |db: &Db| -> BTreeSet<(u64, i64)> {
            let files = db
                .tables
                .get(&id)
                .into_iter()
                .flat_map(|t| t.files.values());
            files.flat_map(File::live).map(|(_, row)| row).collect()
        };
        let (before, after) = (rows(before), rows(after));
        let matches = |wanted: &[Rows], row: &(u64, i64)| wanted.iter().any(|w| w.hold(*row));
        let mut added = after.difference(&before);
        let found = match question {
            Question::AddedKeys => added.find(|(_, value)| self.keys.contains(&key_of(*value))),
            Question::AddedInOverwrite => added.find(|row| matches(&self.overwrites, row)),
            Question::ChangedInReads => before
                .symmetric_difference(&after)
                .find(|row| matches(&self.reads, row)),
        };
        found.map_or(Answer::No, |(row, value)| {
            Answer::Yes(format!("row {row} with {value}"))
        })
    }
}
