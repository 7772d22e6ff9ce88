//! The rules of rows in CREATE TABLE and ALTER TABLE: CHECK, DEFAULT, GENERATED, IDENTITY.
//!
//! Invariant: the text of an expression is taken as it was written; it is Spark SQL, which the
//! table stores and other engines read, not this crate's dialect.
//! Does not: read expressions; `tarndb_table::Expression` does.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::SqlError;
use crate::parser::ast::{ColumnRule, Constraint, PrimaryKey};
use crate::parser::cursor::Cursor;

/// Words that end an expression without brackets around it.
const AFTER_DEFAULT: &[&str] = &[
    "not",
    "null",
    "comment",
    "generated",
    "check",
    "constraint",
    "default",
    "primary",
    "unique",
    "references",
    "first",
    "after",
];

/// What CREATE TABLE says of its rows.
#[derive(Debug, Default)]
pub(crate) struct Constraints {
    /// CHECK, of columns and of the table.
    pub(crate) checks: Vec<Constraint>,
    /// PRIMARY KEY.
    pub(crate) primary_key: Option<PrimaryKey>,
}

impl Constraints {
    /// Takes a constraint of the table; false when none follows.
    pub(crate) fn take(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, SqlError> {
        if let Some(key) = primary_key(cursor, None)? {
            self.set_primary_key(cursor, key)?;
            return Ok(true);
        }
        let check = constraint(cursor)?;
        let found = check.is_some();
        self.checks.extend(check);
        Ok(found)
    }

    /// The same behind the type of a column.
    pub(crate) fn take_of_column(
        &mut self,
        cursor: &mut Cursor<'_>,
        column: &str,
    ) -> Result<bool, SqlError> {
        if let Some(key) = primary_key(cursor, Some(column))? {
            self.set_primary_key(cursor, key)?;
            return Ok(true);
        }
        let check = constraint(cursor)?;
        let found = check.is_some();
        self.checks.extend(check);
        Ok(found)
    }

    fn set_primary_key(&mut self, cursor: &Cursor<'_>, key: PrimaryKey) -> Result<(), SqlError> {
        match self.primary_key.replace(key) {
            None => Ok(()),
            Some(_) => Err(cursor.error("a table has one PRIMARY KEY")),
        }
    }
}

/// `[CONSTRAINT name] PRIMARY KEY (..) NOT ENFORCED`, without the columns behind `column`;
/// `None` when no such words follow.
pub(crate) fn primary_key(
    cursor: &mut Cursor<'_>,
    column: Option<&str>,
) -> Result<Option<PrimaryKey>, SqlError> {
    let is_key = |c: &Cursor<'_>, ahead: usize| {
        c.at_word_ahead(ahead, "primary") && c.at_word_ahead(ahead + 1, "key")
    };
    let named = cursor.at_word("constraint") && is_key(cursor, 2);
    if !named && !is_key(cursor, 0) {
        return Ok(None);
    }
    let name = match cursor.words(&["constraint"]) {
        true => Some(cursor.identifier("a constraint name")?),
        false => None,
    };
    let _ = cursor.words(&["primary", "key"]);
    let columns = match column {
        Some(column) => vec![column.to_owned()],
        None => cursor.list(|c| c.identifier("a column"))?,
    };
    if !cursor.words(&["not", "enforced"]) {
        return Err(cursor.unsupported(
            "a PRIMARY KEY that is enforced",
            "say PRIMARY KEY .. NOT ENFORCED, and INSERT .. ON CONFLICT, which adds no key twice",
        ));
    }
    let _ = cursor.word("rely") || cursor.word("norely");
    Ok(Some(PrimaryKey { name, columns }))
}

/// `[CONSTRAINT name] CHECK (..)`; `None` when neither word follows.
pub(crate) fn constraint(cursor: &mut Cursor<'_>) -> Result<Option<Constraint>, SqlError> {
    let name = if cursor.at_word("constraint") && matches!(cursor.peek_at(1), Token::Word(_)) {
        cursor.skip();
        Some(cursor.identifier("a constraint name")?)
    } else {
        None
    };
    if cursor.at_word("check") && cursor.peek_at(1) == &Token::LParen {
        cursor.skip();
        let expression = cursor.bracketed_text()?;
        // What the rows are checked by when they are written is all there is.
        let _ = cursor.words(&["enforced"]);
        return Ok(Some(Constraint { name, expression }));
    }
    match name {
        Some(_) => Err(cursor.unsupported(
            &format!(
                "the constraint {}",
                cursor.peek().to_string().to_uppercase()
            ),
            "NOT NULL, CHECK (..) and PRIMARY KEY (..) NOT ENFORCED are there",
        )),
        None => Ok(None),
    }
}

/// DEFAULT or GENERATED after a column's type; `None` when neither word follows.
pub(crate) fn column_rule(cursor: &mut Cursor<'_>) -> Result<Option<ColumnRule>, SqlError> {
    if cursor.word("default") {
        return Ok(Some(ColumnRule::Default(default_text(cursor)?)));
    }
    if !cursor.word("generated") {
        return Ok(None);
    }
    let always = cursor.word("always");
    if !always && !cursor.words(&["by", "default"]) {
        return Err(cursor.expected("ALWAYS or BY DEFAULT"));
    }
    cursor.expect_word("as")?;
    if cursor.word("identity") {
        let (start, step) = if cursor.peek() == &Token::LParen {
            identity_options(cursor)?
        } else {
            (1, 1)
        };
        return Ok(Some(ColumnRule::Identity {
            start,
            step,
            explicit: !always,
        }));
    }
    if !always {
        return Err(cursor.expected("IDENTITY"));
    }
    let text = cursor.bracketed_text()?;
    if cursor.at_any(&["stored", "virtual"]) {
        if cursor.at_word("virtual") {
            return Err(cursor.unsupported("a VIRTUAL column", "generated values are stored"));
        }
        cursor.skip();
    }
    Ok(Some(ColumnRule::Generated(text)))
}

/// The text of a default.
pub(crate) fn default_text(cursor: &mut Cursor<'_>) -> Result<String, SqlError> {
    cursor.text_before(AFTER_DEFAULT, "the default")
}

/// `(START WITH n INCREMENT BY n)`, in any order.
fn identity_options(cursor: &mut Cursor<'_>) -> Result<(i64, i64), SqlError> {
    cursor.expect(&Token::LParen)?;
    let (mut start, mut step) = (1, 1);
    loop {
        if cursor.words(&["start", "with"]) {
            start = signed(cursor)?;
        } else if cursor.words(&["increment", "by"]) {
            step = signed(cursor)?;
        } else if !cursor.token(&Token::Comma) {
            break;
        }
    }
    cursor.expect(&Token::RParen)?;
    if step == 0 {
        return Err(cursor.error("INCREMENT BY must not be 0"));
    }
    Ok((start, step))
}

fn signed(cursor: &mut Cursor<'_>) -> Result<i64, SqlError> {
    let minus = cursor.token(&Token::Minus);
    let text = match cursor.peek() {
        Token::Number(text, _) => format!("{}{text}", if minus { "-" } else { "" }),
        _ => return Err(cursor.expected("a whole number")),
    };
    let number = text
        .parse()
        .map_err(|_| cursor.expected("a whole number of 64 bits"))?;
    cursor.skip();
    Ok(number)
}
