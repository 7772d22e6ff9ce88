//! Prepared statements: PREPARE, EXECUTE and DEALLOCATE, and the binding of values.
//!
//! Invariant: a value takes the place of its parameter as tokens in brackets of their own,
//! never as text, so that no value changes what the statement is. Arguments are constants.
//! Does not: plan anything ahead; a bound statement is one like any other.
//! Spec: docs/guide/sql.md, "Prepared statements".

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, visit_expressions};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

use crate::error::SqlError;
use crate::parser::ast::Prepared;
use crate::parser::cursor::Cursor;
use crate::parser::source::Source;
use crate::parser::{ParsedStatement, parse_one, parse_type, types};

/// Parameters of one statement at most, as PostgreSQL's protocol has it.
const PARAMETERS_MAX: usize = 65_535;

/// Words that begin a statement that can be prepared.
const PREPARABLE: &[&str] = &[
    "select", "with", "values", "table", "from", "insert", "update", "delete", "merge",
];

/// A statement with parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The statement, moved to the place that it has in its script.
    text: String,
    /// Types that were declared, by parameter.
    types: Vec<String>,
    parameters: usize,
}

/// A constant expression, as text that was read as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument(String);

/// A value for a parameter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Parameter {
    /// NULL.
    Null,
    /// BOOLEAN.
    Boolean(bool),
    /// BIGINT.
    Integer(i64),
    /// DOUBLE.
    Double(f64),
    /// TEXT.
    Text(String),
    /// BINARY.
    Binary(Vec<u8>),
    /// A value of any other type, as text: `("12.50", "DECIMAL(10,2)")`.
    Typed(String, String),
}

impl Template {
    /// How many values it takes.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    fn new(text: String, types: Vec<String>) -> Result<Self, SqlError> {
        let source = Source::new(&text)?;
        let mut used = BTreeSet::new();
        let mut by_order = 0_usize;
        for token in source.tokens() {
            match placeholder(&token.token) {
                Some(None) => by_order += 1,
                Some(Some(number)) if (1..=PARAMETERS_MAX).contains(&number) => {
                    used.insert(number);
                }
                Some(Some(_)) => {
                    let message = format!("parameters are $1 to ${PARAMETERS_MAX}");
                    return Err(source.error(token.span.start, message));
                }
                None => {}
            }
        }
        if by_order > 0 && !used.is_empty() {
            let at = source.tokens().first().map(|token| token.span.start);
            return Err(source.error(
                at.unwrap_or_else(|| source.end()),
                "parameters are either all ? or all numbered ($1)",
            ));
        }
        let parameters = used.last().copied().unwrap_or(0).max(by_order);
        let template = Self {
            parameters: parameters.max(types.len()),
            text,
            types,
        };
        // Shows at once what does not parse whatever the values are.
        template.bind(&vec![Argument("NULL".to_owned()); template.parameters])?;
        Ok(template)
    }

    /// A statement as an API prepares it.
    ///
    /// # Errors
    /// `Syntax`; several statements, or one that cannot be prepared.
    pub(crate) fn parse(text: &str) -> Result<Self, SqlError> {
        let text = text.trim_end().trim_end_matches(';').to_owned();
        let source = Source::new(&text)?;
        let mut cursor = Cursor::new(&source, source.tokens().to_vec());
        preparable(&mut cursor)?;
        Self::new(text, Vec::new())
    }

    /// The statement with its values. The number of `values` is the caller's to check.
    ///
    /// # Errors
    /// `Syntax`: a value stands where none may.
    pub(crate) fn bind(&self, values: &[Argument]) -> Result<ParsedStatement, SqlError> {
        let source = Source::new(&self.text)?;
        let mut tokens = Vec::with_capacity(source.tokens().len());
        let mut order = 0;
        for token in source.tokens() {
            let Some(number) = placeholder(&token.token) else {
                tokens.push(token.clone());
                continue;
            };
            order += 1;
            let index = number.unwrap_or(order) - 1;
            let Some(Argument(value)) = values.get(index) else {
                return Err(source.error(token.span.start, "a parameter without a value"));
            };
            let data_type = self.types.get(index).map(String::as_str);
            insert_value(value, data_type, token.span, &mut tokens)?;
        }
        match tokens.first() {
            Some(first) => parse_one(&source, first, &tokens),
            None => Err(source.error(source.end(), "the statement is empty")),
        }
    }
}

impl Parameter {
    /// The value as an expression.
    ///
    /// # Errors
    /// A type that is none.
    pub(crate) fn argument(&self) -> Result<Argument, SqlError> {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let cast = |text: &str, data_type: &str| format!("CAST({} AS {data_type})", quoted(text));
        Ok(Argument(match self {
            Self::Null => "NULL".to_owned(),
            Self::Boolean(value) => value.to_string().to_uppercase(),
            Self::Integer(value @ 0..=0x7fff_ffff) => value.to_string(),
            Self::Integer(value) => cast(&value.to_string(), "BIGINT"),
            Self::Double(value) => cast(&format!("{value:?}"), "DOUBLE"),
            Self::Text(text) => quoted(text),
            Self::Binary(bytes) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("X'{digits}'")
            }
            Self::Typed(text, data_type) => {
                if parse_type(data_type).is_none() {
                    return Err(SqlError::UnknownType {
                        name: data_type.clone(),
                    });
                }
                cast(text, data_type)
            }
        }))
    }
}

impl From<i64> for Parameter {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Parameter {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<bool> for Parameter {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<&str> for Parameter {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl<T: Into<Parameter>> From<Option<T>> for Parameter {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Refuses parameters outside PREPARE, where nothing gives them a value.
pub(super) fn refuse_parameters(
    source: &Source<'_>,
    tokens: &[TokenWithSpan],
) -> Result<(), SqlError> {
    let is_prepare = matches!(tokens.first().map(|first| &first.token), Some(Token::Word(word))
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("prepare"));
    let found = tokens
        .iter()
        .find(|token| placeholder(&token.token).is_some());
    match found.filter(|_| !is_prepare) {
        None => Ok(()),
        Some(token) => {
            let error = source.error(token.span.start, "a parameter has no value here");
            Err(error.with_hint("PREPARE the statement, then EXECUTE it with values"))
        }
    }
}

/// PREPARE, EXECUTE, DEALLOCATE.
pub(super) fn statement(cursor: &mut Cursor<'_>) -> Result<Prepared, SqlError> {
    if cursor.word("prepare") {
        return prepare(cursor);
    }
    if cursor.word("execute") {
        let name = cursor.identifier("the name of a prepared statement")?;
        let arguments = if cursor.token(&Token::LParen) {
            arguments(cursor)?
        } else {
            Vec::new()
        };
        return Ok(Prepared::Execute { name, arguments });
    }
    cursor.expect_word("deallocate")?;
    cursor.word("prepare");
    let name = if cursor.word("all") {
        None
    } else {
        Some(cursor.identifier("the name of a prepared statement or ALL")?)
    };
    Ok(Prepared::Deallocate { name })
}

fn prepare(cursor: &mut Cursor<'_>) -> Result<Prepared, SqlError> {
    let name = cursor.identifier("the name of the prepared statement")?;
    let mut types = Vec::new();
    if cursor.token(&Token::LParen) {
        loop {
            let place = cursor.place();
            types::data_type(cursor)?;
            types.push(cursor.text_since(place));
            if !cursor.token(&Token::Comma) {
                break;
            }
        }
        cursor.expect(&Token::RParen)?;
    }
    cursor.expect_word("as")?;
    preparable(cursor)?;
    let at = cursor.location();
    let text = cursor.text_before(&[], "a statement")?;
    // Errors then name the place in the script.
    let lines = usize::try_from(at.line.saturating_sub(1)).unwrap_or(0);
    let columns = usize::try_from(at.column.saturating_sub(1)).unwrap_or(0);
    let text = format!("{}{}{text}", "\n".repeat(lines), " ".repeat(columns));
    let template = Template::new(text, types)?;
    Ok(Prepared::Prepare { name, template })
}

fn preparable(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    if cursor.at_any(PREPARABLE) || cursor.peek() == &Token::LParen {
        return Ok(());
    }
    Err(cursor.expected("SELECT, INSERT, UPDATE, DELETE or MERGE (these can be prepared)"))
}

fn arguments(cursor: &mut Cursor<'_>) -> Result<Vec<Argument>, SqlError> {
    let mut arguments = Vec::new();
    while !cursor.token(&Token::RParen) {
        if !arguments.is_empty() {
            cursor.expect(&Token::Comma)?;
        }
        let place = cursor.place();
        let expression = cursor.engine(|parser| parser.parse_expr())?;
        let text = cursor.text_since(place);
        if !is_constant(&expression) {
            return Err(cursor.error(format!("an argument is a constant expression, not {text}")));
        }
        arguments.push(Argument(text));
    }
    Ok(arguments)
}

fn is_constant(expression: &Expr) -> bool {
    let found = visit_expressions(expression, |part| match part {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Subquery(_)
        | Expr::InSubquery { .. }
        | Expr::Exists { .. }
        | Expr::Wildcard(_)
        | Expr::QualifiedWildcard(..) => ControlFlow::Break(()),
        Expr::Value(value) if value.to_string().starts_with(['$', '?']) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_continue()
}

/// The number of a parameter; `Some(None)`: the next one.
fn placeholder(token: &Token) -> Option<Option<usize>> {
    match token {
        Token::Question => Some(None),
        Token::Placeholder(text) if text == "?" => Some(None),
        // A number that is none counts as one too large.
        Token::Placeholder(text) => {
            let digits = text.strip_prefix('$')?;
            Some(Some(digits.parse().unwrap_or(0)))
        }
        _ => None,
    }
}

fn insert_value(
    value: &str,
    data_type: Option<&str>,
    span: Span,
    into: &mut Vec<TokenWithSpan>,
) -> Result<(), SqlError> {
    let word = |text: &str, keyword| {
        Token::Word(Word {
            value: text.to_owned(),
            quote_style: None,
            keyword,
        })
    };
    let mut put = |token: Token| into.push(TokenWithSpan::new(token, span));
    let tokens = Source::new(value)?.tokens().to_vec();
    match (data_type, tokens.len()) {
        (None, 1) => {}
        (None, _) => put(Token::LParen),
        (Some(_), _) => {
            put(word("CAST", Keyword::CAST));
            put(Token::LParen);
        }
    }
    let bare = data_type.is_none() && tokens.len() == 1;
    tokens.into_iter().for_each(|token| put(token.token));
    if let Some(data_type) = data_type {
        put(word("AS", Keyword::AS));
        let tokens = Source::new(data_type)?.tokens().to_vec();
        tokens.into_iter().for_each(|token| put(token.token));
    }
    if !bare {
        put(Token::RParen);
    }
    Ok(())
}
