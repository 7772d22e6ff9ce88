//! Statements against a database in memory.

mod dml;
mod files;
mod import;
mod names;
mod query;
mod support;
mod transaction;
mod types;
