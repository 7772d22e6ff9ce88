//! What a transaction read, for the serializable level.
//!
//! Invariant: it only grows. Too many predicates of one table become "all of it", never fewer.
//! Does not judge; the commit does, and only when the transaction is serializable.
//! Spec: docs/conflicts.md, "Isolation".

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_table::RowPredicate;
use tarndb_txn::Read;
use tarndb_types::TableId;

use super::Transaction;

/// Predicates that are kept of one table.
const PREDICATES_MAX: usize = 128;

/// What was read of one table.
#[derive(Clone, Debug)]
pub(crate) enum TableRead {
    /// Anything in it.
    All,
    /// The rows for which one of them is true.
    Rows(Vec<Arc<dyn RowPredicate>>),
}

/// What was read, by table.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadSet {
    tables: BTreeMap<TableId, TableRead>,
}

impl ReadSet {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TableId, &TableRead)> {
        self.tables.iter().map(|(id, read)| (*id, read))
    }

    fn add(&mut self, id: TableId, predicate: Arc<dyn RowPredicate>) {
        let read = self.tables.entry(id);
        let read = read.or_insert_with(|| TableRead::Rows(Vec::new()));
        let TableRead::Rows(predicates) = read else {
            return;
        };
        let text = format!("{predicate:?}");
        if predicates.iter().any(|known| format!("{known:?}") == text) {
            return;
        }
        if predicates.len() < PREDICATES_MAX {
            predicates.push(predicate);
        } else {
            *read = TableRead::All;
        }
    }
}

impl TableRead {
    /// As the verdict takes it.
    pub(crate) fn effect(&self) -> Read {
        match self {
            Self::All => Read::All,
            Self::Rows(predicates) => Read::Rows {
                predicates: predicates.iter().map(ToString::to_string).collect(),
            },
        }
    }
}

impl Transaction {
    /// Remembers that anything in a table may have been read; judged at commit when serializable.
    pub fn note_read(&mut self, id: TableId) {
        self.changes.reads.tables.insert(id, TableRead::All);
    }

    /// Remembers that the rows for which `predicate` is true were read, and that nothing else of
    /// the table was; judged at commit when serializable. After some 100 predicates of one table
    /// it counts as read whole.
    pub fn note_read_where(&mut self, id: TableId, predicate: Arc<dyn RowPredicate>) {
        self.changes.reads.add(id, predicate);
    }
}
