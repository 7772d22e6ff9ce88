//! Numbered logs on an object store: names, listing, appending, choosing what to read.
//!
//! Invariant: a version is written once, by put-if-absent, and an append reports what is true
//! in the store and not what an answer claimed. Does not: know what an entry means.
//! Spec: docs/format/log.md, "The log" and "Appending".
//!
//! - [`dir`]: one folder of entries; [`append`](LogDir::append) is the commit primitive.
//! - [`segment`]: which checkpoint and entries make up a version; a pure function.
//! - [`hint`]: the file that names a recent checkpoint and may lie.

mod append;
pub mod dir;
pub mod error;
pub mod hint;
pub mod name;
pub mod segment;

pub use append::{After, Appended};
pub use dir::LogDir;
pub use error::LogError;
pub use hint::{read_hint, write_hint};
pub use name::FileName;
pub use segment::{CheckpointName, Segment, SegmentError, select_segment};
