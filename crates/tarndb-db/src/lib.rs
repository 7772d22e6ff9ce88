//! The database: many tables, one log, one conditional put per commit.
//!
//! A [`Database`] is a handle on a prefix of an object store. [`Snapshot`] is the whole of it
//! at one version; [`Transaction`] changes any number of tables, which become visible together
//! by the put of one log record. Conflicts are judged by `tarndb-txn`, bytes of tables are made
//! by the codec of their format; here is what joins them.
//!
//! Invariant: what is acknowledged is in the log, and the log alone decides what is committed.
//! Does not: know SQL or a query engine.
//! Spec: docs/format/log.md, docs/format/checkpoint.md, docs/format/publishing.md.
//!
//! - [`record`], [`catalog`], [`invariants`], [`checkpoint`]: what is on disk, pure.
//! - `open`, `head`, `states`, `inline`, `clock`, `moment`: from disk to memory.
//! - [`database`], [`snapshot`], [`transaction`]: what callers hold.
//! - `commit`, [`publish`]: what makes changes visible, here and to foreign readers.
//! - [`attach`]: tables that were there before, and their end in the database.
//! - [`compact`]: files written anew, their rows unchanged.
//! - [`upkeep`]: what a handle does for its tables by itself.
//! - [`vacuum`], [`cleanup`]: files and records that nothing needs any more.
//! - [`travel`]: earlier versions of a table.
//! - [`status`], [`history`], [`check`]: what is there, what was done, whether it is sound.

pub mod attach;
pub mod catalog;
mod change_writer;
pub mod check;
pub mod checkpoint;
pub mod cleanup;
mod clock;
mod commit;
pub mod compact;
pub mod database;
pub mod error;
mod hash;
mod head;
pub mod history;
mod inline;
pub mod invariants;
mod layout;
mod leftover;
pub mod metrics;
mod moment;
mod open;
pub mod options;
mod priority;
pub mod publish;
pub mod record;
pub mod retry;
mod scan;
pub mod snapshot;
mod states;
pub mod status;
pub mod transaction;
pub mod travel;
pub mod upkeep;
pub mod upsert;
pub mod vacuum;

pub use attach::error::AttachError;
pub use attach::{AttachedTable, DetachedTable};
pub use catalog::error::ObjectError;
pub use catalog::{
    Attached, CATALOG_NAME, Catalog, DEFAULT_SCHEMA, SchemaEntry, TableEntry, TagEntry, ViewEntry,
};
pub use check::{CheckReport, Finding, Progress};
pub use cleanup::{LogCleanupOptions, LogCleanupReport};
pub use compact::{Clustering, CompactOptions, CompactReport, Rewritten, RowSorter, SortedRows};
pub use database::Database;
pub use error::{DbError, Divergence, ErrorKind, TxnOutcome, TxnStatus, table_kind};
pub use history::{LogEntry, TableChange};
pub use metrics::Metrics;
pub use options::{DbOptions, PublishMode, TxnOptions};
pub use publish::{CheckpointReport, PublishReport, PublishedTable};
pub use record::{ViewColumn, ViewDefinition};
pub use retry::{Retry, RetryPolicy, TransactError};
pub use snapshot::{ScannedRows, Snapshot};
pub use status::{Status, TableStatus};
pub use transaction::{
    CloneReport, CloneTable, Committed, DatabaseRestore, Mark, MergeCounts, MergedFiles,
    MergedRows, NativeSource, NewTable, OverwriteReport, Transaction,
};
pub use travel::error::TravelError;
pub use travel::history::TableHistoryEntry;
pub use travel::{TableChanges, TableTarget};
pub use upkeep::UpkeepOptions;
pub use upsert::{DoubledKeys, MergeKeys, SoughtKeys, UpsertReport};
pub use vacuum::{Doomed, Reason as DoomedReason, TableVacuum, VacuumOptions, VacuumReport};
