//! The strict rules: matrix, directions, notes, and outcomes measured with Lance itself.
//!
//! Spec: docs/conflicts.md, "Strict rules".

#![expect(
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests are tests too, and a skipped suite says so"
)]

mod fixture;
mod legend;
mod matrix;
mod messages;
mod notes_data;
mod notes_index;
mod sample;
mod samples;
