//! Stores against the contract that the database needs from them.

mod conform;
mod damaged;
mod lying;
