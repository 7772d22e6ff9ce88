//! The table model: what a table is, whatever open format its metadata is written in.
//!
//! Invariant: nothing here knows a query engine, a database or the bytes of a format; a codec
//! (`TableCodec`) turns those bytes into a [`TableState`] and back.
//! Does not: decide conflicts (`tarndb-txn`), commit (`tarndb-db`) or plan queries (`tarndb-sql`).
//! Spec: Delta PROTOCOL, for the types, partition values, statistics and Parquet layout, which
//! every codec shares.

pub mod change_files;
pub mod change_writer;
pub mod codec;
pub mod deletion_vector;
pub mod error;
pub mod evolve;
pub mod expression;
pub mod files;
pub mod fragment;
pub mod key;
pub mod not_null;
pub mod parquet;
pub mod partition;
pub mod prune;
pub mod references;
pub mod restore;
pub mod row_id;
pub mod row_predicate;
pub mod rules;
pub mod schema;
pub mod state;
pub mod stats;
mod time_text;

pub mod decimal;

pub use change_files::ChangeFiles;
pub use change_writer::{ChangeWriter, Origin, WrittenChange};
pub use codec::{
    CheckpointInfo, CloneSource, Commit, CommitStamp, Earlier, Entry, FileUpdate, LoadRequest,
    LogPlan, LogRequest, MetadataChange, TableCodec, TableDefinition,
};
pub use deletion_vector::{Deletion, DvDescriptor, DvStorage, RowSet};
pub use error::{ErrorClass, TableError};
pub use evolve::{NewColumn, Position};
pub use expression::{Expression, ExpressionError};
pub use files::{Complete, Files, PACKED_MIN, Packed, Packer, StatsNeeded};
pub use fragment::{DataFile, data_key};
pub use key::{KeyBounds, KeyColumns, Keys, key_hash, row_text};
pub use not_null::NotNullCheck;
pub use parquet::damage::{check_footer, guarded};
pub use parquet::read::{
    DataFileReader, FileToRead, LiveRows, Opened, ReadOptions, Selected, Wanted, file_statistics,
    open_file, parquet_row_count, read_file, read_file_rows, without_int96,
};
pub use parquet::upload::store_held;
pub use parquet::write::{HeldLimits, TableWriter, Written};
pub use parquet::write_options::{WriteOptions, parse_size};
pub use partition::{
    check_partition_columns, encode_partition_value, parse_partition_value, partition_dir,
    scalar_to_array, uri_encode,
};
pub use prune::{Comparison, Predicate, is_true, matching_files, may_match};
pub use references::{OwnFile, References, own_file};
pub use restore::{Difference, RestoreReport};
pub use row_id::{RowIdColumns, StableId, id_arrays, stable_ids};
pub use row_predicate::RowPredicate;
pub use rules::{IdentityUse, RowRules, RuleChange, RuleError, Supplied, Supply};
pub use schema::conform::conform_batch;
pub use schema::path::ColumnPath;
pub use schema::{DataType, Field, Physical, Schema};
pub use state::{FormatState, TableState};
pub use stats::{
    ColumnStats, Indexed, NamePath, Scalar, Statistics, StatsCollector, parse_column_list,
};
pub use time_text::time_text;
