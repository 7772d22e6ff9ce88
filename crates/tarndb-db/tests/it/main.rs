//! Integration tests of the database over an in-memory store.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking"
)]

mod adversity;
mod attach;
mod bad_input;
mod cases;
mod cases_firsts;
mod chaos;
mod cleanup;
mod clock;
mod clones;
mod clones_crash;
mod clones_vacuum;
mod clustering;
mod compaction;
mod compaction_sweep;
mod concurrency;
mod conflicts;
mod ddl;
mod evolution;
mod far;
mod fault_kinds;
mod faults;
mod features;
mod groups;
mod handles;
mod hook;
mod http;
mod inline;
mod late_writers;
mod objects;
mod outcomes;
mod paused;
mod power_cut;
mod publishing;
mod requests;
mod requests_scan;
mod restore;
mod rounds;
mod row_history;
mod rules;
mod secrets;
mod serial_histories;
mod serializable;
mod snapshots;
mod support;
mod sweep;
mod timed;
mod transact;
mod transactions;
mod travel;
mod upkeep;
mod upserts;
mod urls;
mod vacuum;
mod vacuum_beside;
