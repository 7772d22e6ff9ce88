//! Integration tests of the Delta codec: the acceptance tables, and tables of our own.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at what it did not expect, and the acceptance table is printed"
)]

mod acceptance;
mod aged;
mod cases;
mod catalog;
mod checkpoint_damage;
mod checksum;
mod commits;
mod convert;
mod many_files;
mod native;
mod native_alter;
mod native_cleanup;
mod native_feed;
mod native_restore;
mod native_row_ids;
mod native_rules;
mod outside;
mod side_files;
mod support;
