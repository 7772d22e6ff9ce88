//! INSERT, UPDATE, DELETE and queries.
//!
//! Invariant: a clause that would change what is written (LIMIT) is refused by name; it is never
//! read over.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectFlavor, SelectItem, SetExpr, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::SqlError;
use crate::name::same;
use crate::parser::ast::{Delete, Statement, TableName, Update};
use crate::parser::cursor::Cursor;
use crate::parser::source::Source;
use crate::parser::{insert, merge};
use crate::query::is_computed;

/// A statement of this module; the cursor stands on its first word.
pub(crate) fn statement(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.word("insert") {
        return insert::insert(cursor).map(|insert| Statement::Insert(Box::new(insert)));
    }
    if cursor.word("update") {
        return update(cursor).map(Statement::Update);
    }
    if cursor.word("delete") {
        return delete(cursor).map(Statement::Delete);
    }
    merge::statement(cursor).map(|merge| Statement::Merge(Box::new(merge)))
}

/// A query for the engine.
pub(crate) fn query(cursor: &mut Cursor<'_>) -> Result<Box<Query>, SqlError> {
    let start = cursor.expected("a query");
    let items = cursor.select_items();
    let mut query = cursor.engine(|parser| parser.parse_query())?;
    complete(&mut query.body, cursor)?;
    name_items(&mut query.body, items);
    match query.body.as_ref() {
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
            Err(start.with_hint("WITH goes inside the statement: INSERT INTO t WITH .. SELECT .."))
        }
        _ if !query.locks.is_empty() => Err(cursor.unsupported(
            "FOR UPDATE",
            "writers detect conflicts when they commit; no lock is needed",
        )),
        _ => Ok(query),
    }
}

/// `FROM t` and `TABLE t` mean `SELECT * FROM t`.
fn complete(body: &mut SetExpr, cursor: &Cursor<'_>) -> Result<(), SqlError> {
    match body {
        SetExpr::Select(select) => complete_select(select),
        SetExpr::Query(query) => complete(&mut query.body, cursor)?,
        SetExpr::SetOperation { left, right, .. } => {
            complete(left, cursor)?;
            complete(right, cursor)?;
        }
        SetExpr::Table(table) => {
            let name = table
                .table_name
                .clone()
                .ok_or_else(|| cursor.expected("a table name"))?;
            let name = TableName {
                schema: table.schema_name.clone(),
                name,
            };
            *body = *all_of(&name)?.body;
        }
        _ => {}
    }
    Ok(())
}

/// The query `SELECT * FROM name`.
pub(crate) fn all_of(name: &TableName) -> Result<Box<Query>, SqlError> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let from = match &name.schema {
        Some(schema) => format!("{}.{}", quoted(schema), quoted(&name.name)),
        None => quoted(&name.name),
    };
    let text = format!("SELECT * FROM {from}");
    let source = Source::new(&text)?;
    query(&mut Cursor::new(&source, source.tokens().to_vec()))
}

/// The query `SELECT * FROM factor`.
pub(super) fn all_of_factor(factor: TableFactor) -> Result<Box<Query>, SqlError> {
    let name = TableName {
        schema: None,
        name: "t".to_owned(),
    };
    let mut query = all_of(&name)?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(from) = select.from.first_mut()
    {
        from.relation = factor;
        return Ok(query);
    }
    Err(SqlError::Internal {
        context: "a query of all rows",
    })
}

/// Names what the outermost SELECT computes by its text as written, where that is one line.
pub(super) fn name_items(body: &mut SetExpr, texts: Vec<String>) {
    match body {
        SetExpr::SetOperation { left, .. } => name_items(left, texts),
        SetExpr::Select(select) if select.projection.len() == texts.len() => {
            for (item, text) in select.projection.iter_mut().zip(texts) {
                let has_name = text.is_empty() || text.contains('\n') || !is_computed(item);
                if let (SelectItem::UnnamedExpr(expr), false) = (&item, has_name) {
                    let (expr, alias) = (expr.clone(), Ident::with_quote('"', text));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
        }
        _ => {}
    }
}

fn complete_select(select: &mut Select) {
    if matches!(select.flavor, SelectFlavor::FromFirstNoSelect) && select.projection.is_empty() {
        select
            .projection
            .push(SelectItem::Wildcard(WildcardAdditionalOptions::default()));
    }
}

fn update(cursor: &mut Cursor<'_>) -> Result<Update, SqlError> {
    let table = cursor.table_name()?;
    let alias = alias(cursor, &["set"])?;
    cursor.expect_word("set")?;
    let mut assignments = vec![assignment(cursor, &table, alias.as_deref())?];
    while cursor.token(&Token::Comma) {
        assignments.push(assignment(cursor, &table, alias.as_deref())?);
    }
    let from = others(cursor, "from")?;
    let filter = filter(cursor)?;
    refuse_tail(cursor, &["limit", "order"])?;
    let returning = insert::returning(cursor)?;
    Ok(Update {
        table,
        alias,
        assignments,
        from,
        filter,
        returning,
    })
}

/// The other tables of a joined change.
fn others(cursor: &mut Cursor<'_>, word: &str) -> Result<Vec<TableWithJoins>, SqlError> {
    if !cursor.word(word) {
        return Ok(Vec::new());
    }
    cursor.engine(|parser| parser.parse_comma_separated(Parser::parse_table_and_joins))
}

pub(super) fn assignment(
    cursor: &mut Cursor<'_>,
    table: &TableName,
    alias: Option<&str>,
) -> Result<(String, Expr), SqlError> {
    if cursor.peek() == &Token::LParen {
        return Err(cursor.unsupported("SET (a, b) = ..", "assign each column by itself"));
    }
    let mut name = cursor.identifier("a column")?;
    if cursor.token(&Token::Period) {
        if !same(&name, alias.unwrap_or(&table.name)) {
            return Err(cursor.unsupported(
                "assigning to one field of a struct",
                "assign the whole column: SET s = named_struct(..)",
            ));
        }
        name = cursor.identifier("a column")?;
    }
    cursor.expect(&Token::Eq)?;
    Ok((name, cursor.engine(|parser| parser.parse_expr())?))
}

/// `column = expression`, where the table is not named.
pub(super) fn bare_assignment(cursor: &mut Cursor<'_>) -> Result<(String, Expr), SqlError> {
    if cursor.peek() == &Token::LParen {
        return Err(cursor.unsupported("SET (a, b) = ..", "assign each column by itself"));
    }
    let name = cursor.identifier("a column")?;
    cursor.expect(&Token::Eq)?;
    Ok((name, cursor.engine(|parser| parser.parse_expr())?))
}

fn delete(cursor: &mut Cursor<'_>) -> Result<Delete, SqlError> {
    cursor.expect_word("from")?;
    let table = cursor.table_name()?;
    let alias = alias(cursor, &["where", "using", "limit", "order", "returning"])?;
    let using = others(cursor, "using")?;
    let filter = filter(cursor)?;
    refuse_tail(cursor, &["limit", "order"])?;
    let returning = insert::returning(cursor)?;
    Ok(Delete {
        table,
        alias,
        using,
        filter,
        returning,
    })
}

pub(super) fn alias(cursor: &mut Cursor<'_>, not: &[&str]) -> Result<Option<String>, SqlError> {
    if cursor.word("as") {
        return cursor.identifier("an alias").map(Some);
    }
    match cursor.peek() {
        Token::Word(_) if !cursor.at_any(not) => cursor.identifier("an alias").map(Some),
        _ => Ok(None),
    }
}

/// WHERE, when it is there.
pub(super) fn filter(cursor: &mut Cursor<'_>) -> Result<Option<Expr>, SqlError> {
    if cursor.word("where") {
        cursor.engine(|parser| parser.parse_expr()).map(Some)
    } else {
        Ok(None)
    }
}

fn refuse_tail(cursor: &Cursor<'_>, words: &[&str]) -> Result<(), SqlError> {
    if cursor.at_any(words) {
        let word = cursor.peek().to_string().to_uppercase();
        let (what, hint) = match word.as_str() {
            "LIMIT" | "ORDER" => (
                "LIMIT in UPDATE and DELETE",
                "choose the rows by a key: WHERE id IN (SELECT id FROM .. LIMIT n)",
            ),
            word => (word, "leave it out"),
        };
        return Err(cursor.unsupported(what, hint));
    }
    Ok(())
}
