//! The keys that a transaction looked for in a table, and wrote.
//!
//! Invariant: never fewer than it looked for. Where they are too many to keep, or the statement
//! did not look by keys, any row that others add within the bounds counts as one of them.
//! Does not look at the table's rows.
//! Spec: docs/conflicts.md, "Keys".

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use tarndb_table::{KeyBounds, KeyColumns, Predicate, Schema, TableError, key_hash};

/// Keys kept of one statement; a hash takes some 12 bytes.
const SOUGHT_MAX: usize = 1 << 20;
/// A name that no column has: sets of keys that cannot be told never compare.
const UNTOLD: &str = "\u{1}any";

/// The keys that a transaction looked for in one table.
#[derive(Clone, Debug)]
pub(crate) struct KeysLooked {
    pub(crate) key: KeyColumns,
    /// Hashes of all of them, found or not.
    pub(crate) hashes: BTreeSet<u64>,
    /// What a file must be able to hold to have one of them.
    pub(crate) bounds: Predicate,
    /// Any row within the bounds counts as one with such a key.
    pub(crate) any: bool,
}

impl KeysLooked {
    /// Those of a further statement; by other columns they can only be told by the bounds.
    pub(crate) fn extend(&mut self, further: Self) {
        self.any |= further.any || self.key != further.key;
        if self.any {
            self.hashes.clear();
        } else {
            self.hashes.extend(further.hashes);
        }
        let earlier = std::mem::replace(&mut self.bounds, Predicate::Or(Vec::new()));
        self.bounds = earlier.or(further.bounds);
    }

    /// The columns under which the hashes are compared with those of others.
    pub(crate) fn compared(&self) -> Vec<String> {
        match self.any {
            true => vec![UNTOLD.to_owned()],
            false => self.key.names(),
        }
    }
}

/// The keys of the rows that a merge adds and of those that it found missing, noted batch by
/// batch.
///
/// # Invariants
/// Holds at most about 16 MiB; above that all keys within the bounds count.
#[derive(Debug)]
pub struct MergeKeys {
    key: KeyColumns,
    hashes: BTreeSet<u64>,
    bounds: KeyBounds,
    any: bool,
}

impl MergeKeys {
    /// By the columns `on` of a table; without columns, any row that others add counts.
    ///
    /// # Errors
    /// A column that is not there or of a nested type.
    pub fn new(schema: &Schema, on: &[&str]) -> Result<Self, TableError> {
        let key = match on {
            [] => KeyColumns::none(),
            on => KeyColumns::new(schema, on)?,
        };
        Ok(Self {
            any: on.is_empty(),
            hashes: BTreeSet::new(),
            bounds: KeyBounds::new(&key),
            key,
        })
    }

    /// The key columns.
    pub fn schema(&self) -> Schema {
        self.key.schema()
    }

    /// Notes the keys of a batch that has these columns under the table's names and types.
    ///
    /// # Errors
    /// Bugs only.
    pub fn note(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        if self.key.names().is_empty() {
            return Ok(());
        }
        self.bounds.update(batch);
        if self.any {
            return Ok(());
        }
        let keys = self.key.of(batch)?;
        let mut bytes = Vec::new();
        for row in 0..batch.num_rows() {
            if keys.read(row, &mut bytes) {
                self.hashes.insert(key_hash(&bytes));
            }
        }
        if self.hashes.len() > SOUGHT_MAX {
            self.any = true;
            self.hashes.clear();
        }
        Ok(())
    }

    pub(crate) fn into_looked(self) -> KeysLooked {
        // Of rows without keys only, the bounds would be none, which excludes nothing.
        let none = !self.any && self.hashes.is_empty();
        KeysLooked {
            bounds: match none {
                true => Predicate::Or(Vec::new()),
                false => self.bounds.finish(),
            },
            key: self.key,
            hashes: self.hashes,
            any: self.any,
        }
    }
}
