//! MERGE.
//!
//! Invariant: a clause says what it does with which rows; a combination that means nothing
//! (INSERT of a row that is there) is refused here.
//! Does not: know columns.
//! Spec: docs/sql/merge.md.

use datafusion::sql::sqlparser::ast::{Expr, Query, TableFactor};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::SqlError;
use crate::name::fold;
use crate::parser::ast::{Merge, MergeAction, MergeClause, MergeWhen, TableName};
use crate::parser::cursor::Cursor;
use crate::parser::dml::{alias, all_of_factor, assignment};

/// The statement; the cursor stands on its first word.
pub(super) fn statement(cursor: &mut Cursor<'_>) -> Result<Merge, SqlError> {
    cursor.expect_word("merge")?;
    let evolve = cursor.words(&["with", "schema", "evolution"]);
    cursor.expect_word("into")?;
    let table = cursor.table_name()?;
    let alias = alias(cursor, &["using"])?;
    cursor.expect_word("using")?;
    let (source, source_name) = source(cursor)?;
    cursor.expect_word("on")?;
    let on = cursor.engine(|parser| parser.parse_expr())?;
    let mut clauses: Vec<MergeClause> = Vec::new();
    while cursor.word("when") {
        let start = cursor.error("no row reaches this WHEN: one before it takes all of them");
        let next = clause(cursor, &table, alias.as_deref())?;
        let takes_all =
            |earlier: &MergeClause| earlier.when == next.when && earlier.condition.is_none();
        if clauses.iter().any(takes_all) {
            return Err(start);
        }
        clauses.push(next);
    }
    if clauses.is_empty() {
        return Err(cursor.expected("WHEN"));
    }
    if cursor.at_word("returning") {
        return Err(cursor.unsupported(
            "RETURNING in MERGE",
            "select the rows in the same transaction",
        ));
    }
    Ok(Merge {
        table,
        alias,
        evolve,
        source,
        source_name,
        on,
        clauses,
    })
}

/// The query of all rows of USING, and how its columns are qualified.
fn source(cursor: &mut Cursor<'_>) -> Result<(Box<Query>, String), SqlError> {
    let start = cursor.expected("a table, or a query in brackets with a name: (SELECT ..) AS s");
    let factor = cursor.engine(|parser| parser.parse_table_factor())?;
    let named = match &factor {
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias), ..
        }
        | TableFactor::NestedJoin {
            alias: Some(alias), ..
        } => Some(alias.name.value.clone()),
        TableFactor::Table { name, .. } => {
            let last = name.0.last().and_then(|part| part.as_ident());
            last.map(|ident| ident.value.clone())
        }
        _ => None,
    };
    let name = named.ok_or(start)?;
    Ok((all_of_factor(factor)?, fold(&name)))
}

fn clause(
    cursor: &mut Cursor<'_>,
    table: &TableName,
    alias: Option<&str>,
) -> Result<MergeClause, SqlError> {
    let not = cursor.word("not");
    cursor.expect_word("matched")?;
    let when = match not {
        false => MergeWhen::Matched,
        true if cursor.words(&["by", "source"]) => MergeWhen::NotMatchedBySource,
        true => {
            if cursor.word("by") {
                cursor.expect_word("target")?;
            }
            MergeWhen::NotMatched
        }
    };
    let condition = match cursor.word("and") {
        true => Some(cursor.engine(|parser| parser.parse_expr())?),
        false => None,
    };
    cursor.expect_word("then")?;
    let action = if cursor.words(&["do", "nothing"]) {
        MergeAction::Nothing
    } else if when == MergeWhen::NotMatched {
        cursor.expect_word("insert")?;
        insert(cursor)?
    } else if cursor.word("delete") {
        MergeAction::Delete
    } else if cursor.word("update") {
        cursor.expect_word("set")?;
        update(cursor, when, table, alias)?
    } else {
        return Err(cursor.expected("UPDATE, DELETE or DO NOTHING"));
    };
    Ok(MergeClause {
        when,
        condition,
        action,
    })
}

fn update(
    cursor: &mut Cursor<'_>,
    when: MergeWhen,
    table: &TableName,
    alias: Option<&str>,
) -> Result<MergeAction, SqlError> {
    if cursor.peek() == &Token::Mul {
        if when == MergeWhen::NotMatchedBySource {
            return Err(cursor.expected("assignments (there is no row of the source)"));
        }
        cursor.skip();
        return Ok(MergeAction::UpdateAll);
    }
    let mut assignments = vec![assignment(cursor, table, alias)?];
    while cursor.token(&Token::Comma) {
        assignments.push(assignment(cursor, table, alias)?);
    }
    Ok(MergeAction::Update(assignments))
}

fn insert(cursor: &mut Cursor<'_>) -> Result<MergeAction, SqlError> {
    if cursor.token(&Token::Mul) {
        return Ok(MergeAction::InsertAll);
    }
    let columns = match cursor.peek() {
        Token::LParen => cursor.list(|c| c.identifier("a column"))?,
        _ => Vec::new(),
    };
    cursor.expect_word("values")?;
    let values: Vec<Expr> = cursor.list(|c| c.engine(|parser| parser.parse_expr()))?;
    Ok(MergeAction::Insert { columns, values })
}
