//! COPY .. TO a file and COPY .. FROM files.
//!
//! Does not: know which options a format has; `copy` and `copy_from` do.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::SqlError;
use crate::parser::ast::{Copy, CopyFrom, Statement};
use crate::parser::cursor::Cursor;
use crate::parser::{ddl, dml};

/// What follows COPY.
pub(super) fn copy(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let query = if cursor.token(&Token::LParen) {
        let query = dml::query(cursor)?;
        cursor.expect(&Token::RParen)?;
        query
    } else {
        let table = cursor.table_name()?;
        let columns = match cursor.peek() {
            Token::LParen => cursor.list(|c| c.identifier("a column"))?,
            _ => Vec::new(),
        };
        if cursor.word("from") {
            let source = cursor.expect_string("a file name as text")?;
            let (format, options) = options(cursor)?;
            return Ok(Statement::CopyFrom(Box::new(CopyFrom {
                table,
                columns,
                source,
                format,
                options,
            })));
        }
        if !columns.is_empty() {
            return Err(
                cursor.unsupported("columns in COPY .. TO", "COPY (SELECT a, b FROM t) TO '..'")
            );
        }
        dml::all_of(&table)?
    };
    cursor.expect_word("to")?;
    let target = cursor.expect_string("a file name as text")?;
    let (format, options) = options(cursor)?;
    Ok(Statement::Copy(Copy {
        query,
        target,
        format,
        options,
    }))
}

type Options = (Option<String>, Vec<(String, String)>);

/// The format and the other options.
fn options(cursor: &mut Cursor<'_>) -> Result<Options, SqlError> {
    let (mut format, mut options) = (None, Vec::new());
    while !cursor.is_end() {
        if cursor.words(&["stored", "as"]) {
            format = Some(cursor.identifier("a format")?.to_lowercase());
            continue;
        }
        let _ = cursor.word("with") || cursor.word("options");
        for (key, value) in cursor.list(option)? {
            if key == "format" {
                format = Some(value.to_lowercase());
            } else {
                options.push((key, value));
            }
        }
    }
    Ok((format, options))
}

fn option(cursor: &mut Cursor<'_>) -> Result<(String, String), SqlError> {
    // NULL is a word that never is a name, but an option here.
    let key = match cursor.string() {
        Some(key) => key.to_lowercase(),
        None if cursor.word("null") => "null".to_owned(),
        None => cursor.dotted("an option")?.to_lowercase(),
    };
    cursor.token(&Token::Eq);
    if matches!(cursor.peek(), Token::Comma | Token::RParen) {
        return Ok((key, "true".to_owned()));
    }
    Ok((key, ddl::option_value(cursor)?))
}
