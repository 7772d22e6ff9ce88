//! INSERT with all its clauses, and RETURNING.
//!
//! Invariant: a clause is read wholly or refused by name; none is read over.
//! Spec: docs/sql/insert.md.
//! Does not: know the table's columns, so BY NAME and DEFAULT VALUES are resolved later.

use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::SqlError;
use crate::parser::ast::{Conflict, ConflictAction, Insert};
use crate::parser::cursor::Cursor;
use crate::parser::dml;
use crate::parser::source::Source;

/// What follows INSERT.
pub(super) fn insert(cursor: &mut Cursor<'_>) -> Result<Insert, SqlError> {
    if cursor.at_word("or") {
        return Err(cursor.unsupported(
            "INSERT OR",
            "say INSERT INTO .. ON CONFLICT (key) DO UPDATE or DO NOTHING",
        ));
    }
    let overwrite = cursor.word("overwrite");
    if !overwrite {
        cursor.expect_word("into")?;
    } else {
        cursor.word("into");
    }
    cursor.word("table");
    let table = cursor.table_name()?;
    let alias = match cursor.word("as") {
        true => Some(cursor.identifier("an alias")?),
        false => None,
    };
    if cursor.at_word("partition") {
        return Err(cursor.unsupported(
            "PARTITION",
            "INSERT INTO t REPLACE WHERE <condition> SELECT .. replaces the rows of a condition",
        ));
    }
    let mut insert = Insert {
        overwrite,
        table,
        alias,
        columns: Vec::new(),
        by_name: false,
        default_values: false,
        replace_where: None,
        query: one_row()?,
        conflict: None,
        returning: None,
    };
    target_columns(cursor, &mut insert)?;
    if cursor.words(&["replace", "where"]) {
        insert.replace_where = Some(condition(cursor, overwrite)?);
    }
    if cursor.words(&["default", "values"]) {
        insert.default_values = true;
        if insert.by_name || !insert.columns.is_empty() {
            return Err(cursor.error("DEFAULT VALUES is for all columns of the table"));
        }
    } else {
        insert.query = before_tail(cursor)?;
    }
    if cursor.words(&["on", "conflict"]) {
        let conflict = conflict(cursor)?;
        if insert.overwrite || insert.replace_where.is_some() {
            return Err(cursor.error("ON CONFLICT goes with INSERT INTO without OVERWRITE"));
        }
        insert.conflict = Some(conflict);
    }
    insert.returning = returning(cursor)?;
    Ok(insert)
}

/// `(a, b)`, BY NAME or BY POSITION.
fn target_columns(cursor: &mut Cursor<'_>, insert: &mut Insert) -> Result<(), SqlError> {
    let is_query = ["select", "with", "values", "table", "from"]
        .iter()
        .any(|word| cursor.at_word_ahead(1, word))
        || cursor.peek_at(1) == &Token::LParen;
    if cursor.peek() == &Token::LParen && !is_query {
        insert.columns = cursor.list(|c| c.identifier("a column"))?;
    }
    if cursor.words(&["by", "name"]) {
        if !insert.columns.is_empty() {
            return Err(cursor.error("BY NAME takes the columns from the query: name none"));
        }
        insert.by_name = true;
    } else {
        let _ = cursor.words(&["by", "position"]);
    }
    Ok(())
}

/// The condition of REPLACE WHERE; the query follows it.
fn condition(cursor: &mut Cursor<'_>, overwrite: bool) -> Result<Expr, SqlError> {
    if overwrite {
        return Err(cursor.error("REPLACE WHERE goes with INSERT INTO, not with INSERT OVERWRITE"));
    }
    cursor.engine(|parser| parser.parse_expr())
}

/// The query up to ON CONFLICT, RETURNING or the end.
fn before_tail(cursor: &mut Cursor<'_>) -> Result<Box<Query>, SqlError> {
    let begins = cursor.at_any(&["select", "with", "values", "table", "from"]);
    if !begins && cursor.peek() != &Token::LParen {
        return Err(cursor.expected("VALUES, SELECT or another query"));
    }
    let is_tail = |c: &Cursor<'_>, ahead: usize| {
        c.at_word_ahead(ahead, "returning")
            || (c.at_word_ahead(ahead, "on") && c.at_word_ahead(ahead + 1, "conflict"))
    };
    cursor.before(is_tail, dml::query)
}

/// What follows ON CONFLICT.
fn conflict(cursor: &mut Cursor<'_>) -> Result<Conflict, SqlError> {
    let key = if cursor.peek() == &Token::LParen {
        cursor.list(|c| c.identifier("a column of the key"))?
    } else {
        Vec::new()
    };
    if cursor.at_word("where") || cursor.words(&["on", "constraint"]) {
        return Err(cursor.unsupported(
            "a partial index or a constraint's name after ON CONFLICT",
            "name the columns of the key: ON CONFLICT (id)",
        ));
    }
    cursor.expect_word("do")?;
    if cursor.word("nothing") {
        let action = ConflictAction::Nothing;
        return Ok(Conflict { key, action });
    }
    cursor.expect_word("update")?;
    cursor.expect_word("set")?;
    let mut assignments = vec![dml::bare_assignment(cursor)?];
    while cursor.token(&Token::Comma) {
        assignments.push(dml::bare_assignment(cursor)?);
    }
    let filter = dml::filter(cursor)?.map(Box::new);
    Ok(Conflict {
        key,
        action: ConflictAction::Update {
            assignments,
            filter,
        },
    })
}

/// `RETURNING items` as a SELECT of them without a FROM; `None` when the word does not follow.
pub(super) fn returning(cursor: &mut Cursor<'_>) -> Result<Option<Box<Query>>, SqlError> {
    if !cursor.at_word("returning") {
        return Ok(None);
    }
    // The items get the names that they would have in a SELECT.
    cursor.replace_word("SELECT");
    let texts = cursor.select_items();
    cursor.skip();
    let items = cursor.engine(|p| p.parse_comma_separated(Parser::parse_select_item))?;
    cursor.expect_end()?;
    let mut query = one_row()?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
    }
    dml::name_items(&mut query.body, texts);
    Ok(Some(query))
}

/// A query that stands where there is none.
fn one_row() -> Result<Box<Query>, SqlError> {
    let source = Source::new("SELECT NULL AS nothing")?;
    dml::query(&mut Cursor::new(&source, source.tokens().to_vec()))
}
