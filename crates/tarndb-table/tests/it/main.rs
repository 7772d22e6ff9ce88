//! Writing and reading data files over a store in memory.
//!
//! Spec: none.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests are tests as well"
)]

mod damage;
mod fixture;
mod fixtures;
mod foreign;
mod mapped;
mod partitions;
mod round_trip;
mod sizes;
