//! Where in its statement an error is that the planner found.
//!
//! Invariant: the place is that of a word of the statement that is the name at fault; the first
//! one where several are. No place is better than a wrong one: a name that the statement does
//! not hold (of a view, of a rule) has none.
//! Does not: place syntax errors; these bring their own.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::SqlError;
use crate::name::same;
use crate::parser::ParsedStatement;
use crate::parser::source::Source;

impl SqlError {
    /// Line and column (from 1, in characters) of the script that `statement` is of.
    pub fn place_in(&self, statement: &ParsedStatement) -> Option<(usize, usize)> {
        if let Some(position) = self.position() {
            return Some(position);
        }
        let (name, is_function) = self.name_at_fault()?;
        let source = Source::new(&statement.text).ok()?;
        let tokens = source.tokens();
        let at = tokens.iter().enumerate().find_map(|(at, token)| {
            let Token::Word(word) = &token.token else {
                return None;
            };
            let called = || tokens.get(at + 1).is_some_and(|t| t.token == Token::LParen);
            (same(&word.value, name) && (!is_function || called())).then_some(token.span.start)
        })?;
        let (line, column) = statement.position;
        let first = at.line <= 1;
        let line = line + at.line.saturating_sub(1);
        let column = if first {
            column + at.column.saturating_sub(1)
        } else {
            at.column
        };
        Some((usize::try_from(line).ok()?, usize::try_from(column).ok()?))
    }

    /// The last part of the name that the error is about, and whether it is a function's.
    fn name_at_fault(&self) -> Option<(&str, bool)> {
        let (name, is_function) = match self {
            Self::UnknownTable { name, .. }
            | Self::UnknownSchema { name, .. }
            | Self::UnknownColumn { name, .. }
            | Self::AmbiguousColumn { name }
            | Self::UnknownSavepoint { name }
            | Self::UnknownPrepared { name } => (name, false),
            Self::UnknownFunction { name, .. } => (name, true),
            _ => return None,
        };
        let last = name.rsplit('.').next().filter(|part| !part.is_empty());
        Some((last.unwrap_or(name), is_function))
    }
}
