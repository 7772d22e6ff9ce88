//! Integration tests of the Delta codec: the acceptance tables, and tables of our own.

mod acceptance;
mod checksum;
mod commits;
mod support;
