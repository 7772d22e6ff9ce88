//! ALTER TABLE on columns: ADD, RENAME, DROP and ALTER COLUMN.
//!
//! Invariant: a column is named by its path, `a` or `a.b`; into an array leads `element`, into a
//! map `key` and `value`. A form that is not here leaves the cursor where it was.
//! Spec: docs/guide/sql.md, "Tables".

use datafusion::sql::sqlparser::tokenizer::Token;
use tarndb_table::{ColumnPath, Position};

use crate::error::SqlError;
use crate::parser::ast::{AddedColumn, AlterAction};
use crate::parser::cursor::Cursor;
use crate::parser::{ddl, rule, types};

/// An action on columns; `None` when it is another one.
pub(crate) fn column_action(cursor: &mut Cursor<'_>) -> Result<Option<AlterAction>, SqlError> {
    if cursor.words(&["rename", "column"]) || cursor.word("rename") {
        let column = path(cursor)?;
        cursor.expect_word("to")?;
        let to = cursor.identifier("the new name")?;
        return Ok(Some(AlterAction::RenameColumn { column, to }));
    }
    if cursor.words(&["add", "column"]) || cursor.words(&["add", "columns"]) {
        return add(cursor).map(Some);
    }
    if cursor.words(&["drop", "column"]) || cursor.words(&["drop", "columns"]) {
        return drop(cursor).map(Some);
    }
    if cursor.words(&["alter", "column"]) || cursor.words(&["change", "column"]) {
        return alter(cursor).map(Some);
    }
    Ok(None)
}

/// What follows ADD COLUMN.
pub(crate) fn add(cursor: &mut Cursor<'_>) -> Result<AlterAction, SqlError> {
    let if_not_exists = cursor.words(&["if", "not", "exists"]);
    let columns = if cursor.peek() == &Token::LParen {
        cursor.list(added)?
    } else {
        vec![added(cursor)?]
    };
    Ok(AlterAction::AddColumns {
        columns,
        if_not_exists,
    })
}

fn added(cursor: &mut Cursor<'_>) -> Result<AddedColumn, SqlError> {
    let mut parents = Vec::new();
    while cursor.peek_at(1) == &Token::Period {
        parents.push(cursor.identifier("a column name")?);
        cursor.expect(&Token::Period)?;
    }
    let mut column = ddl::plain_column(cursor)?;
    if !parents.is_empty() {
        // Inside of a type a length is read and not enforced.
        column.length = None;
    }
    let position = if cursor.word("first") {
        Position::First
    } else if cursor.word("after") {
        Position::After(cursor.identifier("a column name")?)
    } else {
        Position::Last
    };
    Ok(AddedColumn {
        parents,
        column,
        position,
    })
}

fn drop(cursor: &mut Cursor<'_>) -> Result<AlterAction, SqlError> {
    let if_exists = cursor.words(&["if", "exists"]);
    let columns = if cursor.peek() == &Token::LParen {
        cursor.list(path)?
    } else {
        let mut columns = vec![path(cursor)?];
        while cursor.token(&Token::Comma) {
            columns.push(path(cursor)?);
        }
        columns
    };
    // What refers to a column keeps it from being dropped.
    cursor.word("restrict");
    Ok(AlterAction::DropColumns { columns, if_exists })
}

fn alter(cursor: &mut Cursor<'_>) -> Result<AlterAction, SqlError> {
    let column = path(cursor)?;
    if cursor.word("type") || cursor.words(&["set", "data", "type"]) {
        let (data_type, length) = types::declared(cursor)?;
        if length.is_some() {
            return Err(cursor.unsupported(
                "a change of the length of a text",
                "a CHECK constraint holds a length too: ADD CHECK (length(c) <= n)",
            ));
        }
        return Ok(AlterAction::SetType { column, data_type });
    }
    let default = if cursor.words(&["set", "default"]) {
        Some(Some(rule::default_text(cursor)?))
    } else if cursor.words(&["drop", "default"]) {
        Some(None)
    } else {
        None
    };
    if let Some(expression) = default {
        return Ok(AlterAction::SetDefault { column, expression });
    }
    let nullable = if cursor.words(&["set", "not", "null"]) {
        false
    } else if cursor.words(&["drop", "not", "null"]) {
        true
    } else {
        return Err(cursor.unsupported(
            "this form of ALTER COLUMN",
            "TYPE, SET and DROP NOT NULL, SET and DROP DEFAULT are there",
        ));
    };
    Ok(AlterAction::SetNullable { column, nullable })
}

fn path(cursor: &mut Cursor<'_>) -> Result<ColumnPath, SqlError> {
    let mut path = ColumnPath::top(cursor.identifier("a column name")?);
    while cursor.token(&Token::Period) {
        path = path.child(cursor.identifier("a field")?);
    }
    Ok(path)
}
