//! The harness measures what it says, in its smallest form.

mod measurements;
mod time;
