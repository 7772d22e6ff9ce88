//! Measures transactions: how many, how long, at how many requests.
//!
//! Invariant: every figure comes with a check of the data (rows and sums fit what was
//! acknowledged); a run that lost or doubled something is an error, not a figure.
//! Does not: belong to the product, or measure SQL.
//! Spec: docs/performance.md.
//!
//! - [`goodput`]: writers with handles of their own, on different rows of one file.
//! - [`group`]: clients of one handle, inserting.
//! - [`stream`]: a long stream of small inserts into a folder, then publishing and reading it.
//! - [`faults`]: transactions of many processes over a store that misbehaves; no figure.
//! - [`native`]: one process of many that write a Delta table by path; no figure.
//! - [`open`]: opening a table of many commits or files.
//! - [`reading`]: a column of many files at a distance.
//! - [`lab`], [`delayed`]: the store and the time that they run in.

pub mod arguments;
pub mod delayed;
pub mod error;
pub mod faults;
pub mod goodput;
pub mod group;
pub mod lab;
pub mod native;
pub mod open;
pub mod reading;
pub mod report;
pub mod scan;
mod stopping;
pub mod stream;

pub use arguments::Arguments;
pub use error::BenchError;
