//! Command line arguments: what was typed, turned once into what is meant.
//!
//! Invariant: nothing outside this module looks at typed arguments.

mod meant;
mod typed;

pub(crate) use meant::{
    Action, CleanupPlan, Format, ImportPlan, ImportShape, LogChoice, Meant, OptimizePlan,
    SqlSource, TableFiles, VacuumPlan, parse,
};

#[cfg(test)]
mod tests;
