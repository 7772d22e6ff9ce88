//! Integration tests of the database over an in-memory store.

mod bad_input;
mod concurrency;
mod conflicts;
mod ddl;
mod faults;
mod publishing;
mod requests;
mod snapshots;
mod support;
mod sweep;
mod transactions;
