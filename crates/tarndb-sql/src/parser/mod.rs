//! Our own parser of statements over the engine's tokens.
//!
//! Invariant: a script is cut at `;` outside strings, comments and dollar quotes; every
//! statement keeps its own text and position; a syntax error names line and column of the
//! script. Queries and expressions inside are read by the engine's parser.
//! Does not: resolve names or types of expressions.

mod admin;
mod alter;
pub(crate) mod ast;
mod clone;
mod copy;
mod cursor;
mod ddl;
mod depth;
mod dialect;
mod dml;
mod insert;
mod merge;
mod object;
mod operator;
mod rule;
pub(crate) mod source;
pub(crate) mod template;
#[cfg(test)]
mod tests;
mod types;
mod upkeep;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

pub use ast::{
    AddedColumn, AlterAction, AsOf, CloneTable, ColumnDef, ColumnRule, Conflict, ConflictAction,
    Constraint, Copy, CopyFrom, CreateTable, Delete, Explain, Insert, Merge, MergeAction,
    MergeClause, MergeWhen, Prepared, PrimaryKey, Restore, RestoreTarget, Savepoint, Show,
    Statement, TableName, Update, Vacuum,
};
pub(crate) use cursor::is_reserved;
pub use object::{CreateView, DatabaseVersion, ObjectStatement};
pub(crate) use types::parse_type;
pub use upkeep::{Optimize, Upkeep};

use crate::error::SqlError;
use crate::name::Spelling;
use cursor::Cursor;
use source::Source;

/// One statement of a script.
#[derive(Clone, Debug)]
pub struct ParsedStatement {
    /// The text of the statement, without the `;`.
    pub text: String,
    /// Line and column (1-based, in characters) where it starts in the script.
    pub position: (u64, u64),
    /// What it says.
    pub statement: Statement,
    /// Spelling of the names in it.
    pub(crate) spelling: Spelling,
}

/// Cuts a script into statements and parses each.
///
/// # Errors
///
/// [`SqlError::Syntax`] for the first statement that does not parse: nothing of the script is
/// returned then. [`SqlError::Unsupported`] for known SQL that is not there.
pub fn parse(text: &str) -> Result<Vec<ParsedStatement>, SqlError> {
    let source = Source::new(text)?;
    let mut statements = Vec::new();
    for tokens in source
        .tokens()
        .split(|token| token.token == Token::SemiColon)
    {
        if let Some(first) = tokens.first() {
            template::refuse_parameters(&source, tokens)?;
            statements.push(parse_one(&source, first, tokens)?);
        }
    }
    Ok(statements)
}

/// Whether `text` ends in the middle of a statement: an open quote or comment, or no `;` at
/// the end. For line editors.
pub fn is_incomplete(text: &str) -> bool {
    match Source::new(text) {
        Ok(source) => source
            .tokens()
            .last()
            .is_some_and(|t| t.token != Token::SemiColon),
        Err(_) => true,
    }
}

/// The name of a table in a text: `[schema.]table`.
pub(crate) fn parse_table_name(text: &str) -> Result<TableName, SqlError> {
    let source = Source::new(text)?;
    let mut cursor = Cursor::new(&source, source.tokens().to_vec());
    let name = cursor.table_name()?;
    cursor.expect_end()?;
    Ok(name)
}

fn parse_one(
    source: &Source<'_>,
    first: &TokenWithSpan,
    tokens: &[TokenWithSpan],
) -> Result<ParsedStatement, SqlError> {
    let mut cursor = Cursor::new(source, tokens.to_vec());
    let statement = parse_statement(&mut cursor)?;
    cursor.expect_end()?;
    let end = tokens.last().map(|last| last.span.end);
    let mut spelling = Spelling::default();
    for token in tokens {
        if let Token::Word(word) = &token.token {
            spelling.note_word(&word.value);
        }
    }
    Ok(ParsedStatement {
        text: source.slice(first.span.start, end).to_owned(),
        position: (first.span.start.line, first.span.start.column),
        statement,
        spelling,
    })
}

fn parse_statement(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if let Some(statement) = object::statement(cursor)? {
        return Ok(Statement::Object(Box::new(statement)));
    }
    if cursor.at_any(&["select", "with", "values", "table", "from"])
        || cursor.peek() == &Token::LParen
    {
        return dml::query(cursor).map(Statement::Query);
    }
    if cursor.at_any(&[
        "begin",
        "start",
        "commit",
        "end",
        "rollback",
        "abort",
        "savepoint",
        "release",
    ]) {
        return admin::transaction(cursor);
    }
    if cursor.at_any(&["create", "drop", "alter", "truncate", "comment"]) {
        return ddl::statement(cursor);
    }
    if cursor.at_any(&["insert", "update", "delete", "merge"]) {
        return dml::statement(cursor);
    }
    if cursor.at_any(&["prepare", "execute", "deallocate"]) {
        return template::statement(cursor).map(Statement::Prepared);
    }
    admin::statement(cursor)
}
