//! Integration tests of the conflict algebra.
//!
//! Invariant: each property is checked against the public functions only.
//! Spec: docs/conflicts.md.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests are tests too"
)]

mod cases;
mod docs;
mod history;
mod key_sets;
mod laws;
mod matrix;
mod messages;
mod model;
mod property;
mod row_map;
mod strict;
mod weakened;
