//! Spark SQL expressions of CHECK constraints, generated columns and column defaults.
//!
//! Invariant: an allow-list. What is on it is evaluated as Spark does with ANSI off and the
//! session's zone UTC; everything else is an error that names the construct. Length and depth
//! are bounded before anything recurses, so that no text from outside exhausts the stack.
//! Does not: know what an expression is for (`rules`).
//! Spec: docs/expressions.md.

mod assign;
mod calendar;
mod cast;
mod error;
mod evaluate;
mod function;
mod function_value;
mod literal;
mod lower;
mod node;
mod types;

use std::collections::BTreeSet;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use sqlparser::dialect::DatabricksDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

pub use error::ExpressionError;
pub(crate) use evaluate::ordered;

use self::evaluate::Rows;
use self::lower::Lower;
use self::node::{Node, Typed};
use crate::error::TableError;
use crate::schema::{DataType, Schema};

/// Most bytes of an expression.
const TEXT_MAX: usize = 16 << 10;
/// Most words and signs of an expression.
const TOKENS_MAX: usize = 1000;
/// How deep the parser may recurse.
const PARSER_DEPTH: usize = 80;

/// An expression over the columns of one schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Typed,
    /// What `root` casts to the type of the column that it gives the value of.
    assigned: Option<Typed>,
}

impl Expression {
    /// Reads a Spark SQL expression; columns are looked up in `schema` without regard to case.
    ///
    /// # Errors
    /// [`ExpressionError`]: no expression, an unknown column, types that do not fit, or a
    /// construct that is not on the allow-list, by name.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, ExpressionError> {
        if text.len() > TEXT_MAX {
            return Err(ExpressionError::TooLong {
                limit: TEXT_MAX,
                unit: "bytes",
            });
        }
        let malformed = |reason: String| ExpressionError::Malformed {
            reason,
            text: text.to_owned(),
        };
        let dialect = DatabricksDialect {};
        let tokens = Tokenizer::new(&dialect, text)
            .with_unescape(true)
            .tokenize()
            .map_err(|error| malformed(error.to_string()))?;
        let words = |token: &&Token| !matches!(token, Token::Whitespace(_));
        if tokens.iter().filter(words).count() > TOKENS_MAX {
            return Err(ExpressionError::TooLong {
                limit: TOKENS_MAX,
                unit: "words",
            });
        }
        let mut parser = Parser::new(&dialect)
            .with_recursion_limit(PARSER_DEPTH)
            .with_tokens(tokens);
        let expr = parser
            .parse_expr()
            .map_err(|error| malformed(error.to_string()))?;
        let rest = parser.peek_token().token;
        if rest != Token::EOF {
            return Err(malformed(format!("the expression ends before {rest}")));
        }
        let root = Lower { schema, text }.lower(&expr, 0)?;
        Ok(Self {
            text: text.to_owned(),
            root,
            assigned: None,
        })
    }

    /// As [`Self::parse`], for an expression that must be a condition.
    ///
    /// # Errors
    /// As [`Self::parse`], and when it is no condition.
    pub fn parse_condition(text: &str, schema: &Schema) -> Result<Self, ExpressionError> {
        let expression = Self::parse(text, schema)?;
        match expression.data_type() {
            DataType::Boolean | DataType::Void => Ok(expression),
            other => Err(ExpressionError::Types {
                reason: format!("a condition must be a BOOLEAN, not {other}"),
                text: text.to_owned(),
            }),
        }
    }

    /// As [`Self::parse`], for the value of a column of type `to`: a value that does not fit it
    /// is an error when it is evaluated, never another value.
    ///
    /// # Errors
    /// As [`Self::parse`], and when the types do not fit.
    pub fn parse_value(
        text: &str,
        schema: &Schema,
        to: &DataType,
    ) -> Result<Self, ExpressionError> {
        let expression = Self::parse(text, schema)?;
        let lower = Lower { schema, text };
        let root = lower.cast(expression.root.clone(), to.clone())?;
        Ok(Self {
            root,
            assigned: Some(expression.root),
            ..expression
        })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The type of its values; `Void` when it is only NULL.
    pub fn data_type(&self) -> &DataType {
        &self.root.data_type
    }

    /// Places of the top level columns that it uses, in the schema it was made for.
    pub fn columns(&self) -> BTreeSet<usize> {
        let mut places = BTreeSet::new();
        self.root.visit(&mut |typed| {
            if let Node::Column(path) = &typed.node {
                places.extend(path.first());
            }
        });
        places
    }

    /// Whether its value depends on the time of the statement.
    pub fn uses_clock(&self) -> bool {
        let mut uses = false;
        self.root
            .visit(&mut |typed| uses |= typed.node == Node::Now);
        uses
    }

    /// Its value for each row. `batch` has the columns of the schema that it was made for, in
    /// that order; those that it does not use may be anything. `now_micros`: the time of the
    /// statement, microseconds since 1970 UTC.
    ///
    /// # Errors
    /// [`ExpressionError::Failed`] for a value outside the calendar.
    pub fn evaluate(&self, batch: &RecordBatch, now_micros: i64) -> Result<ArrayRef, TableError> {
        let rows = Rows { batch, now_micros };
        let values = evaluate::evaluate(&self.root, rows).map_err(|reason| self.failed(reason))?;
        if let Some(assigned) = &self.assigned
            && assigned.data_type != self.root.data_type
        {
            let given = evaluate::evaluate(assigned, rows);
            let given = given.map_err(|reason| self.failed(reason))?;
            assign::check(&given, &values, &self.root.data_type)
                .map_err(|reason| self.failed(reason))?;
        }
        Ok(values)
    }

    /// Whether it is true, false or NULL for each row; as [`Self::evaluate`].
    ///
    /// # Errors
    /// As [`Self::evaluate`]; an expression that is no condition.
    pub fn holds(&self, batch: &RecordBatch, now_micros: i64) -> Result<BooleanArray, TableError> {
        if *self.data_type() == DataType::Void {
            return Ok(BooleanArray::new_null(batch.num_rows()));
        }
        let rows = Rows { batch, now_micros };
        evaluate::condition(&self.root, rows).map_err(|reason| self.failed(reason))
    }

    fn failed(&self, reason: String) -> TableError {
        TableError::Expression(ExpressionError::Failed {
            reason,
            text: self.text.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
