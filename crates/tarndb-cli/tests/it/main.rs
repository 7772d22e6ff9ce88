//! The binary `tarndb`, run as its users run it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod commands;
mod errors;
mod harness;
mod output;
mod transactions;
mod upkeep;
