//! The text of a script: its tokens, and the way from a token back to line, column and byte.
//!
//! Invariant: lines and columns are 1-based, columns count characters; an offset made here lies
//! on a character boundary of the text.

use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::error::{SqlError, SyntaxError};
use crate::parser::dialect::TarnDialect;
use crate::parser::operator::without_signs;

/// A script and its tokens without white space and comments.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    text: &'a str,
    line_starts: Vec<usize>,
    tokens: Vec<TokenWithSpan>,
}

impl<'a> Source<'a> {
    /// Cuts `text` into tokens.
    pub(crate) fn new(text: &'a str) -> Result<Self, SqlError> {
        let line_starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect::<Vec<_>>();
        let mut source = Self {
            text,
            line_starts,
            tokens: Vec::new(),
        };
        let dialect = TarnDialect::default();
        let tokens = Tokenizer::new(&dialect, text)
            .tokenize_with_location()
            .map_err(|error| source.error(error.location, error.message))?;
        source.tokens = tokens
            .into_iter()
            .filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF))
            .flat_map(without_signs)
            .collect();
        Ok(source)
    }

    /// All tokens in order.
    pub(crate) fn tokens(&self) -> &[TokenWithSpan] {
        &self.tokens
    }

    /// The text from `from` to `to` (both positions of tokens), without white space around it.
    pub(crate) fn slice(&self, from: Location, to: Option<Location>) -> &'a str {
        let start = self.offset(from);
        let end = to.map_or(self.text.len(), |to| self.offset(to));
        self.text
            .get(start..end.max(start))
            .unwrap_or_default()
            .trim()
    }

    /// An error at `at`, with the line it stands on.
    pub(crate) fn error(&self, at: Location, message: impl Into<String>) -> SqlError {
        let line = at.line.max(1);
        let index = usize::try_from(line - 1).unwrap_or(usize::MAX);
        let start = self
            .line_starts
            .get(index)
            .copied()
            .unwrap_or(self.text.len());
        let excerpt = self.text.get(start..).unwrap_or_default();
        SqlError::Syntax(Box::new(SyntaxError {
            message: message.into(),
            line,
            column: at.column.max(1),
            excerpt: excerpt.lines().next().unwrap_or_default().to_owned(),
            hint: None,
        }))
    }

    /// The position behind the last character.
    pub(crate) fn end(&self) -> Location {
        let trimmed = self.text.trim_end();
        let line_start = trimmed.rfind('\n').map_or(0, |at| at + 1);
        let line = trimmed.matches('\n').count() + 1;
        let column = trimmed
            .get(line_start..)
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        Location {
            line: u64::try_from(line).unwrap_or(u64::MAX),
            column: u64::try_from(column).unwrap_or(u64::MAX),
        }
    }

    fn offset(&self, at: Location) -> usize {
        let index = usize::try_from(at.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(start) = self.line_starts.get(index).copied() else {
            return self.text.len();
        };
        let rest = self.text.get(start..).unwrap_or_default();
        let skip = usize::try_from(at.column.saturating_sub(1)).unwrap_or(usize::MAX);
        start
            + rest
                .char_indices()
                .nth(skip)
                .map_or(rest.len(), |(offset, _)| offset)
    }
}
