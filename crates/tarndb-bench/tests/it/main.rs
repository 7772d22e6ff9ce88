//! The harness measures what it says, in its smallest form.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod measurements;
mod time;
