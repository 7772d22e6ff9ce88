//! Effects: what a transaction changes, per table and in the catalog.
//!
//! Invariant: complete. Whatever a commit changes appears here, from our own intent or by
//! decoding a committed record; what is not here cannot conflict.
//! Does not hold data, and nothing here is a wire type.
//! Spec: docs/conflicts.md, "Effects".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tarndb_types::{DbVersion, TableId, TxnId};

use crate::evidence::Evidence;
use crate::key_set::KeySet;
use crate::operation::{Isolation, Operation};
use crate::row_map::RowMap;
use crate::rows::{Removal, RowSet, Touched};

/// How a transaction replaces data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverwriteKind {
    /// All data. What it removes is decided when it commits: everything live at the head.
    All {
        /// The new data was computed from the table itself.
        source_read_target: bool,
    },
    /// The rows that match a predicate. Which these are is part of the effects (`deletions`,
    /// `removes`), as for an update.
    Where {
        /// As the user wrote it, for messages.
        predicate: String,
        /// The new data was computed from the table itself.
        source_read_target: bool,
    },
}

impl OverwriteKind {
    /// Replaces everything, whatever is there when it commits.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        matches!(self, Self::All { .. })
    }
}

/// One change of a table's schema. Columns are named by their path: `a`, or `a.b` for a field of
/// a struct, with back-ticks around a name that has a dot in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaEffect {
    /// A new column.
    AddColumn {
        /// Name as written.
        name: String,
        /// The type's text; equal texts are equal types.
        type_text: String,
        /// False: NOT NULL, which rows that exist cannot satisfy.
        nullable: bool,
    },
    /// A column gone. Files written with it stay readable, because columns are mapped.
    DropColumn {
        /// Name.
        name: String,
    },
    /// A column under another name; columns are mapped, so files stay as they are.
    RenameColumn {
        /// Name before.
        from: String,
        /// Name afterwards.
        to: String,
    },
    /// A column of a type that holds all values of the old one and more.
    Widen {
        /// Name.
        column: String,
        /// The new type's text.
        type_text: String,
    },
    /// A column that may no longer be NULL.
    SetNotNull {
        /// Name.
        column: String,
    },
    /// A column that may be NULL from now on.
    DropNotNull {
        /// Name.
        column: String,
    },
    /// Another schema or partitioning in place of the old one.
    Replace {
        /// Equal for equal schemas and partitionings only.
        fingerprint: String,
    },
    /// A comment set (`Some`) or removed (`None`).
    SetComment {
        /// `None`: the table's own.
        column: Option<String>,
        /// The new text.
        text: Option<String>,
    },
}

/// One change of a table's properties or protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigEffect {
    /// A property set.
    Set {
        /// Property name, case-sensitive.
        key: String,
        /// New value.
        value: String,
    },
    /// A property removed.
    Unset {
        /// Property name, case-sensitive.
        key: String,
    },
    /// Values of an identity column given out.
    TakeIdentity {
        /// The column.
        column: String,
        /// The furthest value given out.
        mark: i64,
    },
    /// A table feature raised in the protocol.
    AddFeature {
        /// Feature name.
        name: String,
    },
}

/// What was read of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Read {
    /// Anything in it.
    All,
    /// The rows that match one of some predicates; judged by
    /// [`crate::Question::ChangedInReads`].
    Rows {
        /// As texts, for messages; the caller that looks for matches keeps its own form.
        predicates: Vec<String>,
    },
}

/// What a transaction does to one table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableEffects {
    /// Names the change in messages; derived from the effects when absent.
    pub operation: Option<Operation>,
    /// New rows arrive (files added with data change).
    pub adds: bool,
    /// The files in which they arrive, by path.
    pub added_files: BTreeSet<String>,
    /// File -> rows newly deleted by this transaction.
    pub deletions: BTreeMap<String, Touched>,
    /// Files dropped whole.
    pub removes: BTreeMap<String, Removal>,
    /// Where the rows of moved files went; `None` when nothing was moved or nobody recorded it.
    pub row_map: Option<Arc<RowMap>>,
    /// Rows of own new files that others deleted where they came from, in the meantime: a
    /// rebase fills it, a rewrite is encoded with it.
    pub carried: BTreeMap<String, RowSet>,
    /// Keys that an upsert found absent or wrote.
    pub keys: Option<KeySet>,
    /// Replaces data; then `adds`, `deletions` and `removes` are part of it, and of a whole one
    /// decided anew at commit. A committed whole overwrite must say so here, or appends beside
    /// it slip through; one by predicate counts as the rows it added and deleted.
    pub overwrite: Option<OverwriteKind>,
    /// Schema changes.
    pub schema: Vec<SchemaEffect>,
    /// Property and protocol changes.
    pub config: Vec<ConfigEffect>,
    /// The table is new.
    pub created: bool,
    /// The table is gone afterwards.
    pub dropped: bool,
    /// The table has another name or schema afterwards.
    pub renamed: bool,
    /// Application transaction ids set.
    pub app_txns: BTreeMap<String, i64>,
    /// What it read; judged for ours only, and only when serializable.
    pub read: Option<Read>,
}

impl TableEffects {
    /// Replaces all data.
    #[must_use]
    pub fn overwrites_all(&self) -> bool {
        self.overwrite.as_ref().is_some_and(OverwriteKind::is_whole)
    }

    /// Rows are added, deleted or replaced; rows that only move do not count.
    #[must_use]
    pub fn changes_data(&self) -> bool {
        let deleted = |removal: &Removal| *removal == Removal::Deleted;
        self.adds
            || self.overwrite.is_some()
            || !self.deletions.is_empty()
            || self.removes.values().any(deleted)
    }
}

/// One change of the catalog. Names compare without regard to case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatalogEffect {
    /// A schema appears.
    CreateSchema {
        /// Its name.
        name: String,
    },
    /// A schema disappears. Tables dropped with it have their own [`Self::DropTable`].
    DropSchema {
        /// Its name.
        name: String,
    },
    /// A table appears.
    CreateTable {
        /// Its identity.
        id: TableId,
        /// Its schema.
        schema: String,
        /// Its name.
        name: String,
        /// Where its files are: a path in the database, or a URL.
        location: String,
        /// Tables whose files it shares (a shallow clone).
        shares: Vec<TableId>,
    },
    /// A table disappears.
    DropTable {
        /// Its files are another's concern from now on; else they stay for as long as clones need them.
        detached: bool,
        /// Its identity.
        id: TableId,
        /// Its schema.
        schema: String,
        /// Its name.
        name: String,
    },
    /// A table moves to another name.
    RenameTable {
        /// Its identity.
        id: TableId,
        /// Schema before.
        schema: String,
        /// Name before.
        from: String,
        /// Schema afterwards.
        to_schema: String,
        /// Name afterwards.
        to: String,
    },
    /// A view appears. A view has no identity but its name.
    CreateView {
        /// Its schema.
        schema: String,
        /// Its name.
        name: String,
    },
    /// A view disappears; one that is replaced disappears and appears.
    DropView {
        /// Its schema.
        schema: String,
        /// Its name.
        name: String,
    },
    /// A version of the database gets a name.
    CreateTag {
        /// The tag.
        name: String,
    },
    /// A tag disappears.
    DropTag {
        /// The tag.
        name: String,
    },
}

/// Everything a transaction does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Per table touched or (serializable) read.
    pub tables: BTreeMap<TableId, TableEffects>,
    /// Catalog changes, in any order.
    pub catalog: Vec<CatalogEffect>,
    /// `(schema, table)` names resolved, whether found or not; judged when serializable.
    pub names_read: BTreeSet<(String, String)>,
    /// The level ours asks for.
    pub isolation: Isolation,
}

/// A transaction that is in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// The record's version.
    pub version: DbVersion,
    /// Its transaction.
    pub txn: TxnId,
    /// What it did.
    pub effects: Effects,
    /// What a look into its data answered; see [`crate::Question`].
    pub evidence: Evidence,
}
