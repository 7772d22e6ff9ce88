//! Stores against the contract that the database needs from them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking"
)]

mod clouds;
mod conform;
mod damaged;
mod lying;
mod wire;
