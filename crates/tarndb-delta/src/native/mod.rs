//! Any Delta table by path: no database, the table's own log decides.
//!
//! Invariant: what is read is that of the version read; what is written is committed by
//! put-if-absent of the next version, side by side with other engines.
//! Spec: Delta PROTOCOL; docs/format/native.md.
//!
//! - `open`: reading, by version or time; `catalog`: with what a catalog says; `changes`: the
//!   change feed; `history`.
//! - `protocol`, `permit`: which tables may be written.
//! - [`table`]: a table open for writing; `write`, `rows`, `compact`, `alter`, `restore`: what can be
//!   done to it; `copy`, `feed`: what these need.
//! - `commit`: the loop that commits; [`conflict`], `allowed`: who may be committed after whom.
//! - `attach`: a table becomes one of a database.
//! - `convert`: a folder of Parquet files becomes a table.
//! - `checksum`: the file beside a commit.
//! - `cleanup`, `vacuum`, `vacuum_mark`: what of the log, and of the files, nothing needs any more.

pub(crate) mod permit;
pub(crate) mod protocol;

mod allowed;
mod alter;
mod attach;
mod catalog;
mod changes;
mod cleanup;
mod commit;
mod compact;
pub mod conflict;
mod convert;
mod copy;
pub mod error;
mod feed;
mod history;
mod open;
mod restore;
mod rows;
pub mod table;
mod times;
mod vacuum;
mod vacuum_mark;
mod write;

pub use attach::{Mark, Marked, mark_managed};
pub use catalog::{CatalogTail, RatifiedCommit, RatifiedContent, open_with_tail};
pub use changes::native_changes;
pub use cleanup::{NativeCleaned, NativeCleanup};
pub use commit::NativeCommit;
pub use compact::Compacted;
pub use conflict::{Conflict, ConflictKind, NativeIsolation, Reads};
pub use convert::{ConvertError, Converted, convert_to_delta};
pub use error::NativeError;
pub use history::{HistoryEntry, native_history};
pub use open::{NativeTarget, open_native};
pub use table::NativeTable;
pub use vacuum::NativeVacuum;
pub use write::ReplacedPartitions;
