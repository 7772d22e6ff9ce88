//! The log record: what one object of the database log says.
//!
//! Invariant: the lines of a table's entry are kept byte for byte, from the writer through the
//! record to whoever publishes them. A record knows its transactions and actions; whether they
//! fit the catalog is decided by `catalog` and `invariants`.
//! Spec: docs/format/log.md, "Records".

mod encode;
mod files;
mod notes;
mod object;
mod parse;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tarndb_storage::Context;
use tarndb_table::codec::Entry;
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TimestampMs, TxnId};

pub use encode::encode;
pub(crate) use encode::{encode_head, encode_txn};
pub use notes::{Notes, RowMapNote, encode_row_map, parse_row_map};
pub use object::{
    TAG_FEATURE, TagAction, UNDROP_FEATURE, UndropAction, VIEW_FEATURE, ViewColumn, ViewDefinition,
};
pub use parse::{RecordError, holds_txn, parse};

/// Largest record that is written, in bytes; what would exceed it is staged first.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// Writer feature of a record with a fence: a build that does not know fences could commit what
/// was fenced.
pub const FENCE_FEATURE: &str = "fence";

/// Writer feature of a record with a vacuum: a build that does not know it could commit files
/// that are being deleted.
pub const VACUUM_FEATURE: &str = "vacuum";

/// Writer feature of a record that creates a shallow clone: a build that does not know it would
/// delete the files that the clone shares.
pub const CLONE_FEATURE: &str = "clone";

/// Reader feature of records that attach a table: to a build that does not know it, the table's
/// entries name none.
pub const ATTACH_FEATURE: &str = "attachTable";

/// Writer feature of records that detach a table: a build that does not know it could delete
/// the table's files.
pub const DETACH_FEATURE: &str = "detachTable";

/// Reader feature of records that carry data files.
pub const INLINE_FILES: &str = "inlineFiles";

/// The `writer` that this build names in its records.
pub const WRITER: &str = concat!("tarndb/", env!("CARGO_PKG_VERSION"));

/// The same for a new handle, with a name that tells its records from those of others.
pub(crate) fn writer(context: &Context) -> String {
    format!("{WRITER} {:08x}", context.random_u64() >> 32)
}

/// One object of the database log.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The database version that this record makes.
    pub version: DbVersion,
    /// Timestamp of the last transaction in it.
    pub timestamp: TimestampMs,
    /// The build that wrote it.
    pub writer: String,
    /// Names that a reader must know.
    pub reader_features: Vec<String>,
    /// Names that a writer must know.
    pub writer_features: Vec<String>,
    /// The transactions, in order; never empty.
    pub txns: Vec<RecordTxn>,
    /// Size of the stored object in bytes (0 before it is encoded).
    pub size_bytes: usize,
}

/// One transaction of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordTxn {
    /// Chosen by the client before it commits.
    pub id: TxnId,
    /// The snapshot it read.
    pub read_version: DbVersion,
    /// Commit timestamp; equals the in-commit timestamp of the tables it changed.
    pub timestamp: TimestampMs,
    /// `snapshot` or `serializable`.
    pub isolation: String,
    /// What the user did, such as `MERGE`.
    pub operation: String,
    /// Free for the user.
    pub user_metadata: BTreeMap<String, Value>,
    /// What it changed, in order.
    pub actions: Vec<Action>,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Record 0 only: the database comes into being.
    CreateDatabase {
        /// Its identity.
        id: DatabaseId,
        /// Number of the log format.
        format: u32,
    },
    /// A schema is created.
    CreateSchema {
        /// As written by the user.
        name: String,
    },
    /// An empty schema is dropped.
    DropSchema {
        /// Its name.
        name: String,
    },
    /// A table is created; its version 0 stands in the same record.
    CreateTable {
        /// Its identity.
        id: TableId,
        /// Schema it lies in.
        schema: String,
        /// Its name.
        name: String,
        /// Table format, such as `delta`.
        format: String,
        /// Folder of its files, relative to the root.
        location: String,
        /// Folders of other tables in which it may name files: it is a shallow clone.
        bases: Vec<String>,
    },
    /// A table is dropped; its files stay until vacuum.
    DropTable {
        /// The table.
        id: TableId,
    },
    /// A table that is there already becomes one of the database.
    AttachTable(AttachAction),
    /// A table is given back to its own log; its last entry stands before this.
    DetachTable {
        /// The table.
        id: TableId,
    },
    /// A table gets another name; its location stays.
    RenameTable {
        /// The table.
        id: TableId,
        /// New schema.
        schema: String,
        /// New name.
        name: String,
    },
    /// A dropped table comes back; its files were kept.
    UndropTable(UndropAction),
    /// A view is created.
    CreateView(ViewDefinition),
    /// A view is dropped. One that is replaced is dropped and created.
    DropView {
        /// Its schema.
        schema: String,
        /// Its name.
        name: String,
    },
    /// A version of the database gets a name, and stays.
    CreateTag(TagAction),
    /// A tag is dropped.
    DropTag {
        /// Its name.
        name: String,
    },
    /// One more version of one table.
    Entry(TableEntryAction),
    /// Transactions that are aborted for good, wherever their writers are.
    Fence {
        /// Their ids.
        txns: Vec<TxnId>,
    },
    /// Files that no retained version needs are about to be deleted.
    Vacuum(VacuumAction),
    /// An action that this build does not know.
    Unknown {
        /// Its key in the record.
        name: String,
    },
}

/// A table that is there already, as it becomes one of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachAction {
    /// Its identity from now on.
    pub id: TableId,
    /// Schema it comes to lie in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Table format, such as `delta`.
    pub format: String,
    /// Folder of its files: relative to the root, or the URL of one outside.
    pub location: String,
    /// The version of its own log, which is its version in the database.
    pub version: TableVersion,
}

/// What a vacuum announces before it deletes anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VacuumAction {
    /// The oldest database version whose tables stay readable.
    pub horizon: DbVersion,
    /// Only files that the store has had since before this time (the store's own) are deleted.
    pub before: TimestampMs,
    /// The tables in question; `None`: all, dropped ones included.
    pub tables: Option<BTreeSet<TableId>>,
}

impl VacuumAction {
    /// Whether files of the table may be deleted.
    pub fn covers(&self, table: TableId) -> bool {
        self.tables
            .as_ref()
            .is_none_or(|tables| tables.contains(&table))
    }
}

/// A version of one table as the record holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableEntryAction {
    /// Format of the table, which is the action's key.
    pub format: String,
    /// The table.
    pub table: TableId,
    /// The version that the entry makes.
    pub version: TableVersion,
    /// Where its lines are.
    pub body: EntryBody,
    /// What later writers need to judge it; mostly nothing.
    pub notes: Option<Arc<Notes>>,
    /// Small data files that it adds, by their paths relative to the table's location: they are
    /// stored there before the version is published.
    pub files: BTreeMap<String, Bytes>,
}

/// Where the lines of an entry are.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryBody {
    /// In the record.
    Inline(Arc<Entry>),
    /// In an object of their own, written before the record.
    Staged(Staged),
}

/// Reference to a staged entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// Key relative to the table's location.
    pub path: String,
    /// Exact size.
    pub size_bytes: u64,
    /// `sha256:` and 64 hex digits, over the bytes that are published.
    pub hash: String,
}

impl RecordTxn {
    /// Whether it announces a vacuum.
    pub fn has_vacuum(&self) -> bool {
        let vacuum = |action: &Action| matches!(action, Action::Vacuum(_));
        self.actions.iter().any(vacuum)
    }

    /// Whether it creates a table that shares files with others.
    pub fn has_clone(&self) -> bool {
        let clone = |action: &Action| matches!(action, Action::CreateTable { bases, .. } if !bases.is_empty());
        self.actions.iter().any(clone)
    }

    /// Whether it creates or drops a view.
    pub fn has_view(&self) -> bool {
        let view =
            |action: &Action| matches!(action, Action::CreateView(_) | Action::DropView { .. });
        self.actions.iter().any(view)
    }

    /// Whether it creates or drops a tag.
    pub fn has_tag(&self) -> bool {
        let tag = |action: &Action| matches!(action, Action::CreateTag(_) | Action::DropTag { .. });
        self.actions.iter().any(tag)
    }

    /// Whether it brings a dropped table back.
    pub fn has_undropped(&self) -> bool {
        let undrop = |action: &Action| matches!(action, Action::UndropTable(_));
        self.actions.iter().any(undrop)
    }

    /// Whether it attaches a table.
    pub fn has_attached(&self) -> bool {
        let attach = |action: &Action| matches!(action, Action::AttachTable(_));
        self.actions.iter().any(attach)
    }

    /// Whether it detaches a table.
    pub fn has_detached(&self) -> bool {
        let detach = |action: &Action| matches!(action, Action::DetachTable { .. });
        self.actions.iter().any(detach)
    }

    /// Whether data files ride in it.
    pub fn has_files(&self) -> bool {
        let with_files =
            |action: &Action| matches!(action, Action::Entry(entry) if !entry.files.is_empty());
        self.actions.iter().any(with_files)
    }
}

impl Record {
    /// The table versions that the record makes, in order, with the transaction of each.
    pub fn entries(&self) -> impl Iterator<Item = (&RecordTxn, &TableEntryAction)> {
        self.txns.iter().flat_map(|txn| {
            txn.actions.iter().filter_map(move |action| match action {
                Action::Entry(entry) => Some((txn, entry)),
                _ => None,
            })
        })
    }

    /// The entry that makes `version` of `table`, if it is here.
    pub fn entry(&self, table: TableId, version: TableVersion) -> Option<&TableEntryAction> {
        self.entries()
            .map(|(_, entry)| entry)
            .find(|e| e.table == table && e.version == version)
    }

    /// Whether the transaction is in this record.
    pub fn holds(&self, id: TxnId) -> bool {
        self.txns.iter().any(|txn| txn.id == id)
    }

    /// The transactions that the record aborts for good.
    pub fn fenced(&self) -> impl Iterator<Item = TxnId> {
        let actions = self.txns.iter().flat_map(|txn| &txn.actions);
        actions
            .filter_map(|action| match action {
                Action::Fence { txns } => Some(txns),
                _ => None,
            })
            .flatten()
            .copied()
    }

    /// What vacuums the record announces.
    pub fn vacuums(&self) -> impl Iterator<Item = &VacuumAction> {
        let actions = self.txns.iter().flat_map(|txn| &txn.actions);
        actions.filter_map(|action| match action {
            Action::Vacuum(vacuum) => Some(vacuum),
            _ => None,
        })
    }

    /// Whether the record aborts the transaction for good.
    pub fn fences(&self, id: TxnId) -> bool {
        self.fenced().any(|fenced| fenced == id)
    }
}

#[cfg(test)]
mod tests;
