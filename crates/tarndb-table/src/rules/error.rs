//! `RuleError`: rows that break a rule of their table, and rules that cannot be used.
//!
//! Invariant: a violation shows the rule, its expression, how many rows of the batch break it
//! and the values of the first.
//! Spec: docs/expressions.md.

use crate::error::ErrorClass;
use crate::expression::ExpressionError;

/// What is wrong with rows or rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// Rows for which a condition is not true.
    #[error(
        "the {rule} is not true for {rows} row(s); NULL is not true either: expression={expression} \
         first row: {row}"
    )]
    Violated {
        /// The rule, with its name.
        rule: String,
        /// Its expression.
        expression: String,
        /// How many rows of the batch break it.
        rows: usize,
        /// The first of them.
        row: String,
    },
    /// Values of a generated column that are not what its expression gives.
    #[error(
        "column {column} is generated and {rows} row(s) hold another value than its expression \
         gives; leave the column out or say DEFAULT: expression={expression} first row: {row}"
    )]
    NotAsGenerated {
        /// The column.
        column: String,
        /// Its expression.
        expression: String,
        /// How many rows of the batch.
        rows: usize,
        /// The first of them.
        row: String,
    },
    /// Texts that are longer than their column's CHAR(n) or VARCHAR(n) says.
    #[error("column {column} holds {data_type}, and {rows} row(s) are longer: first row: {row}")]
    TooLong {
        /// The column.
        column: String,
        /// The declared type.
        data_type: String,
        /// How many rows of the batch.
        rows: usize,
        /// The first of them.
        row: String,
    },
    /// Values for an identity column that takes none.
    #[error("column {column} is GENERATED ALWAYS AS IDENTITY: leave it out or say DEFAULT")]
    IdentityGiven {
        /// The column.
        column: String,
    },
    /// No value is left.
    #[error("the identity column has no value left: column={column} last={last}")]
    IdentityExhausted {
        /// The column.
        column: String,
        /// The last value given out.
        last: String,
    },
    /// Rows that were numbered by an identity column's state that is no longer the table's.
    #[error(
        "the rows were numbered before others of the same transaction; write them anew: \
         column={column}"
    )]
    IdentityStale {
        /// The column.
        column: String,
    },
    /// Files whose rows were not checked against the rules that the table has now.
    #[error(
        "the rows were not checked against the table's rules; write them with a writer of the \
         table as it is now"
    )]
    Unchecked,
    /// A rule that this build cannot evaluate.
    #[error(
        "the table has a rule that this build cannot check, so that it takes no new rows: \
         rule={rule}: {source}"
    )]
    NotEvaluated {
        /// The rule, with its name.
        rule: String,
        /// Why not.
        source: ExpressionError,
    },
    /// A rule that is about to be made and that this build cannot evaluate.
    #[error(
        "the table cannot have this rule, which this build cannot check: rule={rule}: {source}"
    )]
    NotMade {
        /// The rule, with its name.
        rule: String,
        /// Why not.
        source: ExpressionError,
    },
    /// A rule that is not as the format wants it, or that contradicts another.
    #[error("the rule cannot be: rule={rule} reason={reason}")]
    IllegalRule {
        /// The rule, with its name.
        rule: String,
        /// Why not.
        reason: String,
    },
}

impl RuleError {
    /// What a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotEvaluated { source, .. } | Self::NotMade { source, .. } => source.class(),
            _ => ErrorClass::Invalid,
        }
    }
}
