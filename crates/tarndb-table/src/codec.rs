//! `TableCodec`: the seam between the table model and one open table format.
//!
//! Invariant: `encode` then `apply` gives the state that the commit describes; `apply` and
//! `encode` are pure. An [`Entry`] holds the very lines that will be published.
//! Does not: put log entries; `tarndb-db` commits and publishes them.
//! Spec: docs/format/log.md, "Table entries".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use tarndb_storage::{ObjectInfo, Store};
use tarndb_txn::TableEffects;
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TimestampMs, TxnId, Uuid};

use crate::deletion_vector::{Deletion, DvDescriptor, RowSet};
use crate::error::TableError;
use crate::evolve::NewColumn;
use crate::fragment::DataFile;
use crate::references::References;
use crate::rules::RuleChange;
use crate::schema::path::ColumnPath;
use crate::schema::{DataType, Schema};
use crate::state::TableState;
use crate::stats::NamePath;

/// Who commits what, when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitStamp {
    /// The transaction.
    pub txn: TxnId,
    /// Time of the commit, milliseconds since 1970 UTC; above the previous commit's.
    pub timestamp: TimestampMs,
    /// Version of the table that the commit makes.
    pub version: TableVersion,
    /// Version of the table that the transaction read; `None` for a new table.
    pub read_version: Option<TableVersion>,
    /// The database that commits.
    pub database: DatabaseId,
    /// Version of the database that the commit makes.
    pub db_version: DbVersion,
    /// Name and version of the program.
    pub engine: &'static str,
    /// Isolation level as the format names it.
    pub isolation: &'static str,
}

/// A table to create.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDefinition {
    /// Its identity.
    pub id: TableId,
    /// Its name, for humans; the catalog's is the one that counts.
    pub name: String,
    /// Its columns.
    pub schema: Schema,
    /// Partition columns in order, spelled as in the schema.
    pub partition_columns: Vec<String>,
    /// Properties, verbatim.
    pub properties: BTreeMap<String, String>,
    /// Its comment.
    pub description: Option<String>,
}

/// A change of a table's metadata, re-applied to the head when the commit is rebased.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataChange {
    /// Adds a column.
    AddColumn(NewColumn),
    /// Gives a column another name. Files keep what they have: columns are mapped from then on.
    RenameColumn {
        /// The column.
        column: ColumnPath,
        /// Its new name, without the path.
        to: String,
    },
    /// Drops a column. Files keep what they have: columns are mapped from then on.
    DropColumn {
        /// The column.
        column: ColumnPath,
    },
    /// Gives a column a type that holds all values of the one that it has.
    WidenColumn {
        /// The column.
        column: ColumnPath,
        /// Its new type.
        to: DataType,
    },
    /// Allows or forbids NULL in a column. Who forbids it has made sure that there is none.
    SetNullable {
        /// The column.
        column: ColumnPath,
        /// Whether it may be NULL.
        nullable: bool,
    },
    /// Sets a property.
    SetProperty {
        /// Key.
        key: String,
        /// New value.
        value: String,
    },
    /// Removes a property.
    UnsetProperty {
        /// Key.
        key: String,
    },
    /// Sets or removes the comment of a column, or of the table.
    SetComment {
        /// The column; `None` for the table itself.
        column: Option<String>,
        /// The comment; `None` removes it.
        text: Option<String>,
    },
    /// Changes a rule that rows fulfil.
    Rule(RuleChange),
    /// The first change of a table that is created: all of its definition but identity and name
    /// is that of another table. What the creation says beside these does not count.
    CloneOf(CloneSource),
    /// Drops a feature of the table format.
    DropFeature(String),
    /// Makes the table one that no database manages: the last commit of its database.
    Release,
    /// Clusters new data by columns (names as the table shows them, a field of a struct by its
    /// path), or by none.
    ClusterBy(Vec<NamePath>),
    /// Sets a domain of the user's, or (`None`) removes it.
    SetDomain {
        /// Its name.
        domain: String,
        /// Its configuration, usually JSON text.
        configuration: Option<String>,
    },
    /// Goes back to an earlier definition, except for what must never go back.
    Restore(Earlier),
    /// Replaces schema and partitioning.
    ReplaceSchema {
        /// New columns.
        schema: Schema,
        /// New partition columns.
        partition_columns: Vec<String>,
        /// Random; as that of a [`NewColumn`].
        seed: Uuid,
    },
}

/// The table as it was, to go back to.
#[derive(Clone, Debug)]
pub struct Earlier(pub Arc<TableState>);

/// States of one table are equal when their versions are.
impl PartialEq for Earlier {
    fn eq(&self, other: &Self) -> bool {
        self.0.version == other.0.version
    }
}

/// The table that a clone is made of, at the version in question.
#[derive(Clone, Debug)]
pub struct CloneSource(pub Arc<TableState>);

impl PartialEq for CloneSource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// New deletions in a file that stays.
#[derive(Clone, Debug, PartialEq)]
pub struct FileUpdate {
    /// The file as it was.
    pub old: Arc<DataFile>,
    /// Its new vector, a superset of the old one; `None` when every row is deleted, so that
    /// the file is removed.
    pub new: Option<DvDescriptor>,
}

/// One commit to one table.
#[derive(Clone, Debug)]
pub struct Commit<'a> {
    /// The state the commit applies to; `None` creates the table.
    pub head: Option<&'a TableState>,
    /// The definition, when the table is created.
    pub create: Option<&'a TableDefinition>,
    /// Name of the operation, for the history (`WRITE`, `DELETE`, ...).
    pub operation: &'a str,
    /// Its parameters, for the history.
    pub parameters: BTreeMap<String, String>,
    /// Its figures, for the history.
    pub metrics: BTreeMap<String, String>,
    /// New files, and with `restored` files of it, also such that are live with another vector:
    /// these are in `removes` too.
    pub adds: &'a [DataFile],
    /// Files with new deletions.
    pub updates: &'a [FileUpdate],
    /// Files that go.
    pub removes: &'a [Arc<DataFile>],
    /// Files of changed rows, where the table has a change data feed and the other files do not
    /// tell the changes by themselves. They then tell all changes of the commit.
    pub changes: &'a [DataFile],
    /// Versions of application transactions that it commits.
    pub app_txns: &'a BTreeMap<String, i64>,
    /// Metadata changes in order.
    pub metadata: &'a [MetadataChange],
    /// The earlier version whose files it brings back.
    pub restored: Option<&'a TableState>,
    /// False when the commit only rearranges rows.
    pub data_change: bool,
    /// Who and when.
    pub stamp: CommitStamp,
}

/// One commit as the format writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Version of the table that it makes.
    pub version: TableVersion,
    /// One action per line, verbatim, without line ends.
    pub lines: Vec<String>,
}

/// What to load.
#[derive(Clone, Copy, Debug)]
pub struct LoadRequest<'a> {
    /// The store.
    pub store: &'a Store,
    /// The table's root in it.
    pub location: &'a Path,
    /// The version wanted.
    pub target: TableVersion,
    /// Files of the table's own log count only at or below this version; `None`: nothing is
    /// published yet.
    pub published: Option<TableVersion>,
    /// What the database log holds, ascending, contiguous up to `target` above `published`.
    /// Its copy of a version wins over a published file.
    pub tail: &'a [Arc<Entry>],
}

/// A checkpoint that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Version it holds.
    pub version: TableVersion,
    /// Its files.
    pub files: Vec<Path>,
    /// Actions in it.
    pub actions: u64,
    /// Bytes of all its files.
    pub size_bytes: u64,
}

/// How much of a table's own log may go.
#[derive(Clone, Debug)]
pub struct LogRequest<'a> {
    /// Everything below the table's log folder, with the store's times.
    pub listing: &'a [ObjectInfo],
    /// This version and all above stay readable.
    pub keep_from: TableVersion,
    /// Only what the store has had since before this time goes.
    pub before: TimestampMs,
    /// Properties of the newest version.
    pub properties: &'a BTreeMap<String, String>,
}

/// What of a table's own log can go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPlan {
    /// The checkpoint that every version kept is read from: it was read back. `None`: there is
    /// none at or below the version to keep, and nothing goes.
    pub cut: Option<TableVersion>,
    /// In the order in which they must go.
    pub files: Vec<ObjectInfo>,
}

/// The codec of one table format.
#[async_trait]
pub trait TableCodec: Send + Sync + Debug {
    /// Name of the format, as a catalog entry spells it.
    fn format(&self) -> &'static str;

    /// This codec for one table, at `location`, that may name files in the folders `bases` of
    /// other tables: a clone.
    fn reaching(&self, location: &Path, bases: &[Path]) -> Arc<dyn TableCodec>;

    /// The state at `request.target`.
    ///
    /// # Errors
    /// Gaps, damage, reader features that are not known.
    async fn load(&self, request: LoadRequest<'_>) -> Result<TableState, TableError>;

    /// As [`Self::load`], but what the log holds is taken at its word: where a checkpoint or a
    /// compaction contradicts a checksum it is used all the same. So a check sees what any other
    /// reader sees.
    ///
    /// # Errors
    /// As [`Self::load`].
    async fn load_at_its_word(&self, request: LoadRequest<'_>) -> Result<TableState, TableError>;

    /// The state after `entry`; pure.
    ///
    /// # Errors
    /// An entry that does not follow `state`, is malformed, or needs unknown reader features.
    fn apply(&self, state: Option<&TableState>, entry: &Entry) -> Result<TableState, TableError>;

    /// The data files that an entry adds, decoded path to size in bytes; pure.
    ///
    /// # Errors
    /// An entry that is malformed.
    fn added_files(&self, entry: &Entry) -> Result<BTreeMap<String, u64>, TableError>;

    /// The entry of a commit; pure.
    ///
    /// # Errors
    /// A change that the format, an unknown writer feature or a property forbids.
    fn encode(&self, commit: &Commit<'_>) -> Result<Entry, TableError>;

    /// What a committed entry did. Deleted rows come as `WholeFile` unless the file is in
    /// `rows_for`, whose vectors are read.
    ///
    /// # Cost
    /// No request without `rows_for`; else at most two ranged GETs per file in it.
    async fn effects(
        &self,
        store: &Store,
        location: &Path,
        entry: &Entry,
        rows_for: &BTreeSet<String>,
    ) -> Result<TableEffects, TableError>;

    /// The rows that `deletion` deletes.
    ///
    /// # Cost
    /// One ranged GET for a vector in a file; none otherwise.
    async fn load_deletion(
        &self,
        store: &Store,
        location: &Path,
        deletion: &Deletion,
    ) -> Result<Arc<RowSet>, TableError>;

    /// Stores vectors, in the order given: small ones inline, the others together in one new
    /// file, which is durable on return.
    ///
    /// # Cost
    /// At most one PUT.
    async fn store_deletions(
        &self,
        store: &Store,
        location: &Path,
        rows: &[Arc<RowSet>],
    ) -> Result<Vec<DvDescriptor>, TableError>;

    /// Key of the published entry of `version`.
    fn published_key(&self, location: &Path, version: TableVersion) -> Path;

    /// Bytes of a published entry.
    fn published_bytes(&self, entry: &Entry) -> Bytes;

    /// The transaction that made a published entry; `None` when the bytes name none.
    fn published_txn(&self, bytes: &[u8]) -> Option<TxnId>;

    /// Writes a checkpoint of `state`, whose version must be published, and the hint to it.
    ///
    /// # Cost
    /// Two PUTs.
    async fn checkpoint(
        &self,
        store: &Store,
        location: &Path,
        state: &TableState,
    ) -> Result<CheckpointInfo, TableError>;

    /// Writes what else the format keeps beside `state`'s version, which is published and was made
    /// by `txn`; versions from `since` on have not had their turn. Put-if-absent, so that anyone
    /// may do it. A failure costs readers work, and nothing else.
    ///
    /// # Cost
    /// One PUT; where a compaction of the log is due, one PUT more and a GET for each commit in it.
    async fn write_side_files(
        &self,
        store: &Store,
        location: &Path,
        state: &TableState,
        since: TableVersion,
        txn: Option<TxnId>,
    ) -> Result<(), TableError>;

    /// Key of a staged entry, not yet committed.
    fn staged_key(&self, location: &Path, version: TableVersion, id: Uuid) -> Path;

    /// The files that a state names.
    ///
    /// # Errors
    /// A vector whose file cannot be named.
    fn references(&self, state: &TableState) -> Result<References, TableError>;

    /// The files that an entry adds: data, deletion vectors, changes; pure.
    ///
    /// # Errors
    /// An entry that is malformed.
    fn entry_references(&self, entry: &Entry) -> Result<References, TableError>;

    /// What of a table's own log can go, and in which order; deletes nothing.
    ///
    /// # Cost
    /// The checkpoint from which the oldest version kept is read, once.
    ///
    /// # Errors
    /// Of the store; a checkpoint that cannot be read only means that nothing goes.
    async fn plan_log_cleanup(
        &self,
        store: &Store,
        location: &Path,
        request: LogRequest<'_>,
    ) -> Result<LogPlan, TableError>;
}
