//! Checkpoints: a state as a Parquet file, so that old commits need not be replayed.
//!
//! Invariant: a checkpoint holds exactly what replay of the commits up to its version gives
//! (less expired tombstones); one that lacks protocol or metadata is never used.
//! Spec: Delta PROTOCOL, "Checkpoints".

mod batch;
mod columns;
pub(crate) mod read;
pub(crate) mod retention;
mod schema;
mod source;
mod stats_form;
mod stats_parsed;
pub(crate) mod v2;
mod window;
pub(crate) mod write;
