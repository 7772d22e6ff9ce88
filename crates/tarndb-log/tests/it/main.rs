//! Appending to a log whose store misbehaves.

mod append;
mod clock;
mod race;
