//! A position in the tokens of one statement, with the small steps every rule is made of.
//!
//! Invariant: a step that returns `false` or `None` has not moved; every error names the
//! place where the parser stood.
//! Does not: know any statement.

use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Whitespace, Word};

use crate::error::SqlError;
use crate::name::fold;
use crate::parser::ast::TableName;
use crate::parser::depth;
use crate::parser::dialect::TarnDialect;
use crate::parser::source::Source;
use crate::types::{LEVELS_MAX, too_nested};

/// How deep expressions may nest.
const RECURSION_LIMIT: usize = 200;

/// Words that end a name: without quotes they are never one.
const RESERVED: &[&str] = &[
    "select",
    "from",
    "where",
    "and",
    "or",
    "not",
    "null",
    "as",
    "on",
    "set",
    "into",
    "values",
    "group",
    "order",
    "having",
    "limit",
    "union",
    "join",
    "case",
    "when",
    "then",
    "else",
    "create",
    "table",
    "with",
    "in",
    "is",
    "using",
    "returning",
];

/// Whether a name needs quotes to be one.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Words that end the items of a SELECT.
const AFTER_ITEMS: &[&str] = &[
    "from",
    "into",
    "where",
    "group",
    "having",
    "window",
    "qualify",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "except",
    "intersect",
];

/// A position in the tokens of one statement.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    source: &'a Source<'a>,
    tokens: Vec<TokenWithSpan>,
    at: usize,
    /// Whether the tokens from here on are known to be no tree too deep.
    is_measured: bool,
    /// How deep the type that is being read stands in others.
    type_levels: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first of `tokens`, which belong to `source`.
    pub(crate) fn new(source: &'a Source<'a>, tokens: Vec<TokenWithSpan>) -> Self {
        Self {
            source,
            tokens,
            at: 0,
            is_measured: false,
            type_levels: 0,
        }
    }

    /// The token under the cursor.
    pub(crate) fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    /// The token `ahead` places further.
    pub(crate) fn peek_at(&self, ahead: usize) -> &Token {
        self.tokens
            .get(self.at + ahead)
            .map_or(&Token::EOF, |t| &t.token)
    }

    /// Where the cursor stands in the script.
    pub(crate) fn location(&self) -> Location {
        match self.tokens.get(self.at) {
            Some(token) => token.span.start,
            None => self
                .tokens
                .last()
                .map_or_else(|| self.source.end(), |t| t.span.end),
        }
    }

    /// Whether all tokens are used.
    pub(crate) fn is_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Moves over the token under the cursor.
    pub(crate) fn skip(&mut self) {
        self.at += 1;
    }

    /// Whether the word under the cursor is `word` (lower case), written without quotes.
    pub(crate) fn at_word(&self, word: &str) -> bool {
        self.at_word_ahead(0, word)
    }

    /// The same, `ahead` tokens further.
    pub(crate) fn at_word_ahead(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek_at(ahead), Token::Word(w)
            if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    /// Whether the word under the cursor is one of `words`.
    pub(crate) fn at_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.at_word(word))
    }

    /// Moves over the words if all of them follow.
    pub(crate) fn words(&mut self, words: &[&str]) -> bool {
        let all = words
            .iter()
            .enumerate()
            .all(|(i, word)| self.at_word_ahead(i, word));
        if all {
            self.at += words.len();
        }
        all
    }

    /// Moves over `word` if it follows.
    pub(crate) fn word(&mut self, word: &str) -> bool {
        self.words(&[word])
    }

    /// Moves over `word` or fails.
    pub(crate) fn expect_word(&mut self, word: &str) -> Result<(), SqlError> {
        if self.word(word) {
            Ok(())
        } else {
            Err(self.expected(&word.to_uppercase()))
        }
    }

    /// Moves over `token` if it follows.
    pub(crate) fn token(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.at += 1;
        }
        found
    }

    /// Moves over `token` or fails.
    pub(crate) fn expect(&mut self, token: &Token) -> Result<(), SqlError> {
        if self.token(token) {
            Ok(())
        } else {
            Err(self.expected(&format!("'{token}'")))
        }
    }

    /// Reads the part of a type that stands `levels` deeper.
    pub(crate) fn inside_type<T>(
        &mut self,
        levels: usize,
        read: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.fits_type(levels)?;
        self.type_levels += levels;
        let value = read(self);
        self.type_levels -= levels;
        value
    }

    /// Refuses a type that would stand `levels` deeper than the present one, when that is too deep.
    pub(crate) fn fits_type(&self, levels: usize) -> Result<(), SqlError> {
        if self.type_levels + levels <= LEVELS_MAX {
            return Ok(());
        }
        Err(self.error(too_nested()))
    }

    /// Moves over a closing angle bracket, also one of several that the tokenizer took for one
    /// operator.
    pub(crate) fn expect_close_angle(&mut self) -> Result<(), SqlError> {
        let rest = match self.peek() {
            Token::ShiftRight => Token::Gt,
            Token::CustomBinaryOperator(text)
                if text.len() > 2 && text.bytes().all(|b| b == b'>') =>
            {
                match text.len() {
                    3 => Token::ShiftRight,
                    length => Token::CustomBinaryOperator(">".repeat(length - 1)),
                }
            }
            _ => return self.expect(&Token::Gt),
        };
        if let Some(token) = self.tokens.get_mut(self.at) {
            token.token = rest;
        }
        Ok(())
    }

    /// A name as it was written.
    pub(crate) fn identifier(&mut self, what: &str) -> Result<String, SqlError> {
        if let Token::Word(word) = self.peek() {
            let reserved = word.quote_style.is_none()
                && RESERVED.iter().any(|r| word.value.eq_ignore_ascii_case(r));
            if !reserved {
                let value = word.value.clone();
                if value.is_empty() {
                    return Err(self.error("a name is empty"));
                }
                self.at += 1;
                return Ok(value);
            }
        }
        Err(self.expected(what))
    }

    /// `[schema.]table`.
    pub(crate) fn table_name(&mut self) -> Result<TableName, SqlError> {
        let first = self.identifier("a table name")?;
        if !self.token(&Token::Period) {
            return Ok(TableName {
                schema: None,
                name: first,
            });
        }
        let second = self.identifier("a table name after the schema")?;
        if self.peek() == &Token::Period {
            return Err(self.error("a table is named schema.table; there is no third level"));
        }
        Ok(TableName {
            schema: Some(first),
            name: second,
        })
    }

    /// `a.b.c`, joined by dots.
    pub(crate) fn dotted(&mut self, what: &str) -> Result<String, SqlError> {
        let mut name = self.identifier(what)?;
        while self.token(&Token::Period) {
            name.push('.');
            name.push_str(&self.identifier("a name after the dot")?);
        }
        Ok(name)
    }

    /// A text literal.
    pub(crate) fn string(&mut self) -> Option<String> {
        let text = match self.peek() {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text.clone(),
            Token::DollarQuotedString(text) => text.value.clone(),
            _ => return None,
        };
        self.at += 1;
        Some(text)
    }

    /// A text literal or a failure.
    pub(crate) fn expect_string(&mut self, what: &str) -> Result<String, SqlError> {
        self.string().ok_or_else(|| self.expected(what))
    }

    /// A whole number that is not negative.
    pub(crate) fn unsigned(&mut self) -> Result<u64, SqlError> {
        if let Token::Number(text, _) = self.peek()
            && let Ok(number) = text.parse()
        {
            self.at += 1;
            return Ok(number);
        }
        Err(self.expected("a whole number"))
    }

    /// A list in round brackets, at least one element.
    pub(crate) fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, SqlError> {
        self.expect(&Token::LParen)?;
        let mut elements = vec![element(self)?];
        while self.token(&Token::Comma) {
            elements.push(element(self)?);
        }
        self.expect(&Token::RParen)?;
        Ok(elements)
    }

    /// The text between the round bracket here and the one that closes it, as written; moves
    /// behind it.
    pub(crate) fn bracketed_text(&mut self) -> Result<String, SqlError> {
        self.expect(&Token::LParen)?;
        let text = self.text_before(&[], "an expression")?;
        self.expect(&Token::RParen)?;
        Ok(text)
    }

    /// The text up to a comma or closing bracket that is not inside others, to one of `words`
    /// (not as the first), or to the end of the statement; as written.
    pub(crate) fn text_before(&mut self, words: &[&str], what: &str) -> Result<String, SqlError> {
        let begin = self.at;
        let mut depth = 0_usize;
        // A comma ends a text that is not in brackets of its own.
        let comma_ends = !words.is_empty();
        loop {
            match self.peek() {
                Token::EOF => break,
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => break,
                Token::RParen => depth -= 1,
                Token::Comma if depth == 0 && comma_ends => break,
                Token::Word(_) if depth == 0 && self.at > begin && self.at_any(words) => break,
                _ => {}
            }
            self.at += 1;
        }
        let text = self.text_of(self.tokens.get(begin..self.at));
        if text.is_empty() {
            return Err(self.expected(what));
        }
        Ok(text)
    }

    /// Lets the engine's parser read from here, with all names folded, and moves behind what
    /// it read.
    pub(crate) fn engine<T>(
        &mut self,
        read: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>,
    ) -> Result<T, SqlError> {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        if !self.is_measured {
            depth::check(rest)?;
            self.is_measured = true;
        }
        let dialect = TarnDialect::default();
        let mut folded: Vec<TokenWithSpan> = rest.iter().map(fold_token).collect();
        blank_for(&mut folded);
        let mut parser = Parser::new(&dialect)
            .with_recursion_limit(RECURSION_LIMIT)
            .with_tokens_with_locations(folded);
        match read(&mut parser) {
            Ok(value) => {
                self.at += parser.index();
                Ok(value)
            }
            Err(error) => Err(self.engine_error(error)),
        }
    }

    /// Lets `read` have the tokens up to where `ends` holds first, outside of brackets; it is
    /// asked how many tokens ahead.
    pub(crate) fn before<T>(
        &mut self,
        ends: impl Fn(&Self, usize) -> bool,
        read: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let (mut depth, mut ahead) = (0_usize, 0);
        loop {
            match self.peek_at(ahead) {
                Token::EOF => break,
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ if depth == 0 && ends(self, ahead) => break,
                _ => {}
            }
            ahead += 1;
        }
        let rest = self
            .tokens
            .split_off((self.at + ahead).min(self.tokens.len()));
        let value = read(self);
        if value.is_ok() {
            self.expect_end()?;
        }
        self.tokens.extend(rest);
        self.is_measured = false;
        value
    }

    /// Puts another word in the place of the one under the cursor.
    pub(crate) fn replace_word(&mut self, word: &str) {
        if let Some(token) = self.tokens.get_mut(self.at) {
            token.token = Token::make_word(word, None);
        }
    }

    /// The items of the SELECT that begins here (behind its WITH, if any), each as written;
    /// empty when no SELECT begins here.
    pub(crate) fn select_items(&self) -> Vec<String> {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        let is = |at: usize, word: &str| {
            matches!(rest.get(at).map(|t| &t.token), Some(Token::Word(w))
                if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
        };
        let mut items = Vec::new();
        let (mut depth, mut first, mut started) = (0_usize, 0, false);
        for (at, token) in rest.iter().enumerate() {
            if depth == 0 && !started {
                let behind_with = at > 0
                    && is(0, "with")
                    && at.checked_sub(1).is_some_and(|before| {
                        rest.get(before).is_some_and(|t| t.token == Token::RParen)
                    });
                if is(at, "select") && (at == 0 || behind_with) {
                    started = true;
                    first = at + 1;
                    if is(first, "distinct") || is(first, "all") {
                        first += 1;
                    }
                    continue;
                }
            }
            match &token.token {
                Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
                Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
                Token::RParen if depth == 0 => {
                    items.extend(started.then(|| self.text_of(rest.get(first..at))));
                    return items;
                }
                Token::RParen => depth -= 1,
                Token::Comma if depth == 0 && started => {
                    items.push(self.text_of(rest.get(first..at)));
                    first = at + 1;
                }
                Token::Word(_) if depth == 0 && started => {
                    let is_operand = is(at, "from") && at > 0 && is(at - 1, "distinct");
                    if !is_operand && AFTER_ITEMS.iter().any(|word| is(at, word)) {
                        items.push(self.text_of(rest.get(first..at)));
                        return items;
                    }
                }
                _ => {}
            }
        }
        items.extend(started.then(|| self.text_of(rest.get(first..))));
        items
    }

    fn text_of(&self, tokens: Option<&[TokenWithSpan]>) -> String {
        match tokens {
            Some([first, .., last]) => self.source.slice(first.span.start, Some(last.span.end)),
            Some([only]) => self.source.slice(only.span.start, Some(only.span.end)),
            _ => "",
        }
        .to_owned()
    }

    /// The present place, for [`Self::text_since`].
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    /// What was read since `place`, as written.
    pub(crate) fn text_since(&self, place: usize) -> String {
        self.text_of(self.tokens.get(place..self.at))
    }

    /// Fails unless all tokens are used.
    pub(crate) fn expect_end(&self) -> Result<(), SqlError> {
        if self.is_end() {
            Ok(())
        } else {
            Err(self.expected("the end of the statement"))
        }
    }

    /// "expected .., found .." at the cursor.
    pub(crate) fn expected(&self, what: &str) -> SqlError {
        let found = match self.peek() {
            Token::EOF => "the end of the statement".to_owned(),
            token => format!("{token}"),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    /// An error at the cursor.
    pub(crate) fn error(&self, message: impl Into<String>) -> SqlError {
        self.source.error(self.location(), message)
    }

    /// A statement that parses but is not there yet, at the cursor.
    pub(crate) fn unsupported(&self, what: &str, hint: &str) -> SqlError {
        SqlError::Unsupported {
            what: what.to_owned(),
            hint: Some(hint.to_owned()),
        }
    }

    fn engine_error(&self, error: ParserError) -> SqlError {
        let message = match error {
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
            ParserError::RecursionLimitExceeded => {
                return self.error(format!("an expression nests deeper than {RECURSION_LIMIT}"));
            }
        };
        match split_location(&message) {
            Some((text, location)) => self.source.error(location, lower_first(text)),
            None if message.ends_with("found: EOF") => {
                let end = self
                    .tokens
                    .last()
                    .map_or_else(|| self.location(), |t| t.span.end);
                let text = message.trim_end_matches("EOF").to_owned() + "the end of the statement";
                self.source.error(end, lower_first(&text))
            }
            None => self.error(lower_first(&message)),
        }
    }
}

/// The same token with its name folded. File names and paths in quotes stay as written.
fn fold_token(token: &TokenWithSpan) -> TokenWithSpan {
    match &token.token {
        Token::Word(word) if !is_file_name(word) => {
            let folded = Word {
                value: fold(&word.value),
                ..word.clone()
            };
            TokenWithSpan {
                token: Token::Word(folded),
                span: token.span,
            }
        }
        _ => token.clone(),
    }
}

/// Takes the FOR from `FOR VERSION AS OF` and `FOR TIMESTAMP AS OF`, which the engine's parser
/// knows without it. A space stands in its place, so that places stay.
fn blank_for(tokens: &mut [TokenWithSpan]) {
    let is = |token: &TokenWithSpan, word: &str| {
        matches!(&token.token, Token::Word(w) if w.quote_style.is_none()
            && w.value.eq_ignore_ascii_case(word))
    };
    let starts: Vec<usize> = tokens
        .windows(4)
        .enumerate()
        .filter(|(_, next)| match next {
            [first, what, then, of] => {
                is(first, "for")
                    && (is(what, "version") || is(what, "timestamp"))
                    && is(then, "as")
                    && is(of, "of")
            }
            _ => false,
        })
        .map(|(at, _)| at)
        .collect();
    for at in starts {
        if let Some(token) = tokens.get_mut(at) {
            token.token = Token::Whitespace(Whitespace::Space);
        }
    }
}

fn is_file_name(word: &Word) -> bool {
    word.quote_style.is_some()
        && (crate::function::is_file_name(&word.value) || crate::native::is_path(&word.value))
}

/// Cuts " at Line: 1, Column: 5" from the end of the engine's message.
fn split_location(message: &str) -> Option<(&str, Location)> {
    let (text, place) = message.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    Some((
        text,
        Location {
            line: line.parse().ok()?,
            column: column.parse().ok()?,
        },
    ))
}

fn lower_first(text: &str) -> String {
    let text = text
        .replacen("Expected: ", "expected ", 1)
        .replacen(", found: ", ", found ", 1);
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}
