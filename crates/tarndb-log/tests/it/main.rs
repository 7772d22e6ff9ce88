//! Appending to a log whose store misbehaves.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

mod append;
mod clock;
mod race;
