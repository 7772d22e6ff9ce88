//! Integration tests of the conflict algebra.
//!
//! Invariant: each property is checked against the public functions only.
//! Spec: docs/conflicts.md.

mod docs;
mod laws;
mod matrix;
mod messages;
mod model;
