//! Column types: from the words of SQL to the types of a table.
//!
//! Invariant: the tables of names here and in `docs/sql/types.md` agree (a test compares them).
//! A type that no table can store is refused by name, never mapped to something near it.

use datafusion::sql::sqlparser::tokenizer::Token;
use tarndb_table::{DataType, Field};

use crate::error::SqlError;
use crate::parser::cursor::Cursor;
use crate::parser::source::Source;
use crate::types::{self, Named, STRUCT_LEVELS};

/// A type written alone, as the engine's parser prints it; `None` when it is not one of ours.
pub(crate) fn parse_type(text: &str) -> Option<DataType> {
    let source = Source::new(text).ok()?;
    let mut cursor = Cursor::new(&source, source.tokens().to_vec());
    let data_type = data_type(&mut cursor).ok()?;
    cursor.is_end().then_some(data_type)
}

/// A type, with `[]` behind it for arrays; lengths of texts are read over.
pub(crate) fn data_type(cursor: &mut Cursor<'_>) -> Result<DataType, SqlError> {
    Ok(declared(cursor)?.0)
}

/// A type, and `varchar(n)` or `char(n)` where a text is written with a length.
pub(crate) fn declared(cursor: &mut Cursor<'_>) -> Result<(DataType, Option<String>), SqlError> {
    let (mut data_type, mut length) = match cursor.peek() {
        Token::Word(_) => base_type(cursor)?,
        _ => return Err(cursor.expected("a type")),
    };
    let mut levels = None;
    while cursor.peek() == &Token::LBracket {
        let deeper = levels.unwrap_or_else(|| types::levels(&data_type)) + 1;
        cursor.fits_type(deeper)?;
        levels = Some(deeper);
        cursor.skip();
        if let Token::Number(..) = cursor.peek() {
            cursor.skip();
        }
        cursor.expect(&Token::RBracket)?;
        data_type = array_of(data_type);
        length = None;
    }
    Ok((data_type, length))
}

fn array_of(element: DataType) -> DataType {
    DataType::Array {
        element: Box::new(element),
        contains_null: true,
    }
}

fn base_type(cursor: &mut Cursor<'_>) -> Result<(DataType, Option<String>), SqlError> {
    if cursor.at_word("array") || cursor.at_word("list") {
        cursor.skip();
        let close = open_bracket(cursor)?;
        let element = cursor.inside_type(1, data_type)?;
        close_bracket(cursor, close)?;
        return Ok((array_of(element), None));
    }
    if cursor.word("map") {
        let close = open_bracket(cursor)?;
        let key = cursor.inside_type(1, data_type)?;
        cursor.expect(&Token::Comma)?;
        let value = cursor.inside_type(1, data_type)?;
        close_bracket(cursor, close)?;
        let map = DataType::Map {
            key: Box::new(key),
            value: Box::new(value),
            value_contains_null: true,
        };
        return Ok((map, None));
    }
    if cursor.at_word("struct") || cursor.at_word("row") {
        cursor.skip();
        let close = open_bracket(cursor)?;
        let mut fields = vec![cursor.inside_type(STRUCT_LEVELS, struct_field)?];
        while cursor.token(&Token::Comma) {
            fields.push(cursor.inside_type(STRUCT_LEVELS, struct_field)?);
        }
        close_bracket(cursor, close)?;
        return Ok((DataType::Struct(fields), None));
    }
    named_type(cursor)
}

fn open_bracket(cursor: &mut Cursor<'_>) -> Result<Token, SqlError> {
    match cursor.peek() {
        Token::Lt => {
            cursor.skip();
            Ok(Token::Gt)
        }
        Token::LParen => {
            cursor.skip();
            Ok(Token::RParen)
        }
        _ => Err(cursor.expected("'<' and the types inside")),
    }
}

fn close_bracket(cursor: &mut Cursor<'_>, close: Token) -> Result<(), SqlError> {
    if close == Token::Gt {
        cursor.expect_close_angle()
    } else {
        cursor.expect(&close)
    }
}

fn struct_field(cursor: &mut Cursor<'_>) -> Result<Field, SqlError> {
    let name = cursor.identifier("a field name")?;
    cursor.token(&Token::Colon);
    let data_type = data_type(cursor)?;
    let nullable = !cursor.words(&["not", "null"]);
    let mut field = Field::new(name, data_type, nullable);
    if cursor.word("comment") {
        let text = cursor.expect_string("the comment as text")?;
        field
            .metadata
            .insert("comment".to_owned(), serde_json::Value::String(text));
    }
    Ok(field)
}

fn named_type(cursor: &mut Cursor<'_>) -> Result<(DataType, Option<String>), SqlError> {
    let start = cursor.expected("a type that tables can store");
    let mut name = cursor.identifier("a type")?.to_lowercase();
    for (first, second) in [
        ("double", "precision"),
        ("character", "varying"),
        ("char", "varying"),
    ] {
        if name == first && cursor.word(second) {
            name = format!("{first} {second}");
        }
    }
    let mut arguments = Vec::new();
    if cursor.peek() == &Token::LParen {
        arguments = cursor.list(Cursor::unsigned)?;
    }
    for suffix in [
        &["with", "local", "time", "zone"][..],
        &["with", "time", "zone"],
        &["without", "time", "zone"],
        &["unsigned"],
    ] {
        if cursor.words(suffix) {
            name = format!("{name} {}", suffix.join(" "));
        }
    }
    match types::named(&name, &arguments) {
        Named::Type(data_type) => Ok((data_type, types::length(&name, &arguments))),
        Named::Refused(hint) => Err(start.with_hint(hint)),
        Named::Unknown => {
            let near = types::near_names(&name);
            Err(if near.is_empty() {
                start
            } else {
                start.with_hint(format!("did you mean {near}?"))
            })
        }
    }
}
