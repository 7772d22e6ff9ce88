//! Statements against a database in memory.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod attach;
mod cases;
mod cases_writes;
mod clones;
mod copy;
mod damage;
mod dml;
mod features;
mod files;
mod fixtures;
mod import;
mod insert;
mod joined;
mod merge;
mod merge_model;
mod names;
mod native;
mod numbers;
mod optimize;
mod prepared;
mod pruning;
mod query;
mod requests;
mod returning;
mod rules;
mod savepoints;
mod serializable;
mod show_create;
mod slt;
mod statistics;
mod support;
mod tags;
mod transaction;
mod travel;
mod types;
mod upkeep;
mod upsert;
mod views;
