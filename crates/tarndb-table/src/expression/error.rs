//! `ExpressionError`: why an expression of a rule cannot be used.
//!
//! Invariant: each case shows the expression; what is not supported is named.
//! Spec: docs/expressions.md.

use crate::error::ErrorClass;

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// More text or more words than an expression may have.
    #[error("the expression is too long: limit={limit} {unit}")]
    TooLong {
        /// The limit.
        limit: usize,
        /// Of what.
        unit: &'static str,
    },
    /// Nested deeper than an expression may be.
    #[error("the expression nests too deeply: limit={limit} expression={text}")]
    TooDeep {
        /// The limit.
        limit: usize,
        /// The expression.
        text: String,
    },
    /// No Spark SQL expression.
    #[error("not an expression: reason={reason} expression={text}")]
    Malformed {
        /// What the parser says.
        reason: String,
        /// The expression.
        text: String,
    },
    /// Spark SQL that this build does not evaluate.
    #[error("the expression uses what this build does not evaluate: {construct} expression={text}")]
    Unsupported {
        /// The construct, by name.
        construct: String,
        /// The expression.
        text: String,
    },
    /// A column that the table does not have.
    #[error(
        "the expression names a column that the table does not have: column={column} expression={text}"
    )]
    UnknownColumn {
        /// The column.
        column: String,
        /// The expression.
        text: String,
    },
    /// Parts whose types do not go together.
    #[error("the expression's types do not fit; {reason}: expression={text}")]
    Types {
        /// What does not fit what, and what to write instead.
        reason: String,
        /// The expression.
        text: String,
    },
    /// A value for which the expression cannot be computed.
    #[error("the expression cannot be computed for a value: {reason} expression={text}")]
    Failed {
        /// Which value, and why.
        reason: String,
        /// The expression.
        text: String,
    },
}

impl ExpressionError {
    /// What a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unsupported { .. } => ErrorClass::Unsupported,
            _ => ErrorClass::Invalid,
        }
    }
}
