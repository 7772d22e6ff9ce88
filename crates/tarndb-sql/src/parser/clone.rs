//! `[SHALLOW | DEEP] CLONE source [VERSION AS OF n | TIMESTAMP AS OF '..']`, behind
//! `CREATE TABLE name`.
//!
//! Invariant: without a word a clone is deep: what it shares with its source is said, never
//! assumed. Nothing may follow.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::SqlError;
use crate::parser::ast::{AsOf, CloneTable, TableName};
use crate::parser::cursor::Cursor;

/// Whether a clone follows the name of a new table.
pub(crate) fn at_clone(cursor: &Cursor<'_>) -> bool {
    let word = |at: usize| cursor.at_word_ahead(at, "clone");
    word(0) || (cursor.at_any(&["shallow", "deep"]) && word(1))
}

/// What follows the name.
pub(crate) fn clone(
    cursor: &mut Cursor<'_>,
    name: TableName,
    or_replace: bool,
    if_not_exists: bool,
) -> Result<CloneTable, SqlError> {
    let shallow = cursor.word("shallow");
    if !shallow {
        cursor.word("deep");
    }
    cursor.expect_word("clone")?;
    let source = cursor.table_name()?;
    let as_of = as_of(cursor)?;
    if cursor.at_any(&["tblproperties", "location", "with"]) {
        let what = format!("{} behind CLONE", cursor.peek().to_string().to_uppercase());
        return Err(cursor.unsupported(
            &what,
            "a clone has the properties of its source: ALTER TABLE changes them afterwards",
        ));
    }
    cursor.expect_end()?;
    Ok(CloneTable {
        name,
        or_replace,
        if_not_exists,
        shallow,
        source,
        as_of,
    })
}

/// `[FOR] VERSION AS OF n` or `[FOR] TIMESTAMP AS OF '..'`, if it is there.
fn as_of(cursor: &mut Cursor<'_>) -> Result<Option<AsOf>, SqlError> {
    if cursor.at_word("for") && matches!(cursor.peek_at(1), Token::Word(_)) {
        cursor.skip();
    }
    if cursor.words(&["version", "as", "of"]) {
        return Ok(Some(AsOf::Version(cursor.unsigned()?)));
    }
    if cursor.words(&["timestamp", "as", "of"]) {
        let text = cursor.expect_string("a time as text")?;
        return Ok(Some(AsOf::Timestamp(text)));
    }
    Ok(None)
}
