//! The binary `tarndb`, run as its users run it.

mod commands;
mod errors;
mod harness;
mod output;
mod transactions;
