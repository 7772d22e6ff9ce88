//! CREATE, DROP, ALTER, COMMENT ON and TRUNCATE.
//!
//! Invariant: the clauses of CREATE TABLE may come in any order, each at most once, with
//! `AS query` last.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::SqlError;
use crate::name::same;
use crate::parser::ast::{AlterAction, ColumnDef, CreateTable, Statement, TableName};
use crate::parser::cursor::Cursor;
use crate::parser::rule::Constraints;
use crate::parser::{alter, clone, dml, rule, types};

/// What other databases create.
const OTHERS: &[&str] = &[
    "access",
    "aggregate",
    "cast",
    "catalog",
    "collation",
    "constraint",
    "conversion",
    "domain",
    "event",
    "extension",
    "external",
    "foreign",
    "fulltext",
    "function",
    "global",
    "group",
    "index",
    "language",
    "local",
    "macro",
    "materialized",
    "operator",
    "persistent",
    "policy",
    "procedure",
    "publication",
    "recursive",
    "role",
    "rule",
    "secret",
    "sequence",
    "server",
    "spatial",
    "statistics",
    "subscription",
    "synonym",
    "temp",
    "temporary",
    "text",
    "transient",
    "trigger",
    "type",
    "unique",
    "unlogged",
    "user",
    "virtual",
];

/// A statement of this module; the cursor stands on its first word.
pub(crate) fn statement(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.word("truncate") {
        cursor.word("table");
        return Ok(Statement::Truncate {
            name: cursor.table_name()?,
        });
    }
    if cursor.word("alter") {
        return alter_table(cursor);
    }
    if cursor.word("drop") {
        return drop(cursor);
    }
    if cursor.word("comment") {
        return comment(cursor);
    }
    cursor.expect_word("create")?;
    let or_replace = cursor.words(&["or", "replace"]);
    if cursor.at_word("schema") || cursor.at_word("database") {
        cursor.skip();
        if or_replace {
            return Err(cursor.error("a schema cannot be replaced: drop it first"));
        }
        let if_not_exists = cursor.words(&["if", "not", "exists"]);
        let name = cursor.identifier("a schema name")?;
        return Ok(Statement::CreateSchema {
            name,
            if_not_exists,
        });
    }
    cursor.word("managed");
    if cursor.word("table") {
        return create_table(cursor, or_replace);
    }
    Err(match cursor.peek() {
        Token::EOF => cursor.expected("TABLE or SCHEMA"),
        // Another database's statement is named so; a word that is none may be mistyped.
        Token::Word(word) if !OTHERS.contains(&word.value.to_lowercase().as_str()) => {
            cursor.expected("TABLE, SCHEMA, VIEW or TAG")
        }
        token => {
            let what = format!("CREATE {}", token.to_string().to_uppercase());
            cursor.unsupported(&what, "tables, schemas, views and tags can be created")
        }
    })
}

fn drop(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.at_word("schema") || cursor.at_word("database") {
        cursor.skip();
        let if_exists = cursor.words(&["if", "exists"]);
        let name = cursor.identifier("a schema name")?;
        let cascade = cursor.word("cascade");
        if !cascade {
            cursor.word("restrict");
        }
        return Ok(Statement::DropSchema {
            name,
            if_exists,
            cascade,
        });
    }
    cursor.expect_word("table")?;
    let if_exists = cursor.words(&["if", "exists"]);
    let mut names = vec![cursor.table_name()?];
    while cursor.token(&Token::Comma) {
        names.push(cursor.table_name()?);
    }
    // Nothing depends on a table, so both words mean the same.
    let _ = cursor.word("restrict") || cursor.word("cascade");
    Ok(Statement::DropTable { names, if_exists })
}

fn alter_table(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect_word("table")?;
    let if_exists = cursor.words(&["if", "exists"]);
    let name = cursor.table_name()?;
    let action = alter_action(cursor)?;
    Ok(Statement::AlterTable {
        name,
        if_exists,
        action,
    })
}

fn alter_action(cursor: &mut Cursor<'_>) -> Result<AlterAction, SqlError> {
    if cursor.words(&["rename", "to"]) {
        return Ok(AlterAction::Rename(cursor.table_name()?));
    }
    if cursor.words(&["set", "schema"]) {
        return Ok(AlterAction::SetSchema(cursor.identifier("a schema name")?));
    }
    if cursor.words(&["add", "feature"]) {
        return Ok(AlterAction::AddFeature(feature_name(cursor)?));
    }
    if cursor.words(&["drop", "feature"]) {
        let name = feature_name(cursor)?;
        if cursor.at_word("truncate") {
            let hint = "leave it out: older versions stay and are protected";
            return Err(cursor.unsupported("DROP FEATURE .. TRUNCATE HISTORY", hint));
        }
        return Ok(AlterAction::DropFeature(name));
    }
    if cursor.words(&["cluster", "by"]) {
        return Ok(AlterAction::ClusterBy(cluster_columns(cursor)?));
    }
    if let Some(action) = alter::column_action(cursor)? {
        return Ok(action);
    }
    if cursor.words(&["drop", "primary", "key"]) {
        let if_exists = cursor.words(&["if", "exists"]);
        return Ok(AlterAction::DropPrimaryKey { if_exists });
    }
    if cursor.word("add") {
        if let Some(key) = rule::primary_key(cursor, None)? {
            return Ok(AlterAction::AddPrimaryKey(key));
        }
        if let Some(constraint) = rule::constraint(cursor)? {
            return Ok(AlterAction::AddConstraint(constraint));
        }
        return alter::add(cursor);
    }
    if cursor.words(&["drop", "constraint"]) {
        let if_exists = cursor.words(&["if", "exists"]);
        let name = cursor.identifier("a constraint name")?;
        return Ok(AlterAction::DropConstraint { name, if_exists });
    }
    if cursor.word("set") {
        let _ = cursor.word("tblproperties") || cursor.word("properties");
        return Ok(AlterAction::SetOptions(cursor.list(option)?));
    }
    if cursor.at_word("unset") || cursor.at_word("reset") {
        cursor.skip();
        let _ = cursor.word("tblproperties") || cursor.word("properties");
        return Ok(AlterAction::UnsetOptions(cursor.list(option_key)?));
    }
    Err(cursor.unsupported(
        "this form of ALTER TABLE",
        "RENAME TO, ADD, RENAME, DROP and ALTER COLUMN, ADD and DROP CONSTRAINT, SET and UNSET \
         TBLPROPERTIES are there",
    ))
}

/// A feature's name: a word, or text in quotes.
fn feature_name(cursor: &mut Cursor<'_>) -> Result<String, SqlError> {
    match cursor.string() {
        Some(name) => Ok(name),
        None => cursor.identifier("the name of a table feature"),
    }
}

/// `(a, b.c)`, or NONE.
pub(super) fn cluster_columns(cursor: &mut Cursor<'_>) -> Result<Vec<Vec<String>>, SqlError> {
    if cursor.word("none") {
        return Ok(Vec::new());
    }
    cursor.list(|cursor| {
        let mut path = vec![cursor.identifier("a column")?];
        while cursor.token(&Token::Period) {
            path.push(cursor.identifier("a field")?);
        }
        Ok(path)
    })
}

/// COMMENT ON TABLE or COLUMN.
fn comment(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect_word("on")?;
    let (name, column) = if cursor.word("column") {
        let first = cursor.identifier("a table name")?;
        cursor.expect(&Token::Period)?;
        let second = cursor.identifier("a column")?;
        if cursor.token(&Token::Period) {
            let column = cursor.identifier("a column")?;
            let schema = Some(first);
            (
                TableName {
                    schema,
                    name: second,
                },
                Some(column),
            )
        } else {
            let (schema, name) = (None, first);
            (TableName { schema, name }, Some(second))
        }
    } else if cursor.word("table") {
        (cursor.table_name()?, None)
    } else {
        return Err(cursor.expected("TABLE or COLUMN"));
    };
    cursor.expect_word("is")?;
    let text = if cursor.word("null") {
        None
    } else {
        Some(cursor.expect_string("the comment as text, or NULL")?)
    };
    Ok(Statement::AlterTable {
        name,
        if_exists: false,
        action: AlterAction::SetComment { column, text },
    })
}

fn create_table(cursor: &mut Cursor<'_>, or_replace: bool) -> Result<Statement, SqlError> {
    let if_not_exists = cursor.words(&["if", "not", "exists"]);
    if or_replace && if_not_exists {
        return Err(cursor.error("OR REPLACE and IF NOT EXISTS exclude each other"));
    }
    let name = cursor.table_name()?;
    if clone::at_clone(cursor) {
        let cloned = clone::clone(cursor, name, or_replace, if_not_exists)?;
        return Ok(Statement::CloneTable(Box::new(cloned)));
    }
    let mut constraints = Constraints::default();
    let columns = if cursor.peek() == &Token::LParen {
        let items = cursor.list(|cursor| table_item(cursor, &mut constraints))?;
        items.into_iter().flatten().collect()
    } else {
        Vec::new()
    };
    let mut table = CreateTable {
        name,
        or_replace,
        if_not_exists,
        columns,
        constraints: constraints.checks,
        primary_key: constraints.primary_key,
        partition_columns: Vec::new(),
        cluster_columns: Vec::new(),
        options: Vec::new(),
        comment: None,
        query: None,
    };
    while !cursor.is_end() {
        clause(cursor, &mut table)?;
    }
    match (&table.query, table.columns.is_empty()) {
        (None, true) => Err(cursor.expected("the columns in brackets, or AS and a query")),
        _ => Ok(Statement::CreateTable(Box::new(table))),
    }
}

fn clause(cursor: &mut Cursor<'_>, table: &mut CreateTable) -> Result<(), SqlError> {
    if cursor.word("using") {
        let format = cursor.identifier("a format")?;
        if !same(&format, "delta") {
            let what = format!("the table format {format}");
            return Err(cursor.unsupported(&what, "tables are Delta tables: USING DELTA"));
        }
    } else if cursor.words(&["partitioned", "by"]) || cursor.words(&["partition", "by"]) {
        if !table.partition_columns.is_empty() {
            return Err(cursor.error("PARTITIONED BY is said twice"));
        }
        let repeated = cursor.list(partition_column)?;
        for (name, column) in repeated {
            table.columns.extend(column);
            table.partition_columns.push(name);
        }
    } else if cursor.at_any(&["with", "tblproperties", "options"]) {
        cursor.skip();
        table.options.extend(cursor.list(option)?);
    } else if cursor.word("comment") {
        cursor.token(&Token::Eq);
        table.comment = Some(cursor.expect_string("the comment as text")?);
    } else if cursor.word("as") {
        table.query = Some(dml::query(cursor)?);
        cursor.expect_end()?;
    } else if cursor.words(&["cluster", "by"]) {
        if !table.cluster_columns.is_empty() {
            return Err(cursor.error("CLUSTER BY is said twice"));
        }
        table.cluster_columns = cluster_columns(cursor)?;
    } else if cursor.at_any(&["location", "like", "clustered"]) {
        let what = format!("{} in CREATE TABLE", cursor.peek());
        return Err(cursor.unsupported(&what, "the database places its tables itself"));
    } else {
        return Err(cursor.expected(
            "USING, PARTITIONED BY, CLUSTER BY, WITH, TBLPROPERTIES, COMMENT, AS or the end",
        ));
    }
    Ok(())
}

/// `name`, or `name type` which also declares the column.
fn partition_column(cursor: &mut Cursor<'_>) -> Result<(String, Option<ColumnDef>), SqlError> {
    if matches!(cursor.peek_at(1), Token::Comma | Token::RParen) {
        return Ok((cursor.identifier("a column")?, None));
    }
    let column = plain_column(cursor)?;
    Ok((column.name.clone(), Some(column)))
}

/// A column of CREATE TABLE, or a constraint of the table, which is none.
fn table_item(
    cursor: &mut Cursor<'_>,
    constraints: &mut Constraints,
) -> Result<Option<ColumnDef>, SqlError> {
    match constraints.take(cursor)? {
        true => Ok(None),
        false => column(cursor, constraints).map(Some),
    }
}

/// A column where no constraint can stand.
pub(crate) fn plain_column(cursor: &mut Cursor<'_>) -> Result<ColumnDef, SqlError> {
    let mut constraints = Constraints::default();
    let column = column(cursor, &mut constraints)?;
    if constraints.checks.is_empty() && constraints.primary_key.is_none() {
        return Ok(column);
    }
    Err(cursor.unsupported(
        "a constraint with the column",
        "add the constraint afterwards: ALTER TABLE .. ADD CONSTRAINT",
    ))
}

fn column(cursor: &mut Cursor<'_>, constraints: &mut Constraints) -> Result<ColumnDef, SqlError> {
    let constraint = ["constraint", "primary", "unique", "foreign", "check"];
    if cursor.at_any(&constraint) && matches!(cursor.peek_at(1), Token::LParen | Token::Word(_)) {
        let second = ["key", "("];
        let is_constraint = cursor.at_word("constraint")
            || second
                .iter()
                .any(|s| cursor.peek_at(1).to_string().eq_ignore_ascii_case(s));
        if is_constraint {
            return Err(constraint_error(cursor));
        }
    }
    let name = cursor.identifier("a column name")?;
    let (data_type, length) = types::declared(cursor)?;
    let mut column = ColumnDef {
        name,
        data_type,
        length,
        nullable: true,
        comment: None,
        rule: None,
    };
    loop {
        if constraints.take_of_column(cursor, &column.name)? {
            // Noted.
        } else if cursor.words(&["not", "null"]) {
            column.nullable = false;
        } else if cursor.word("comment") {
            column.comment = Some(cursor.expect_string("the comment as text")?);
        } else if cursor.word("null") {
            column.nullable = true;
        } else if cursor.at_any(&["primary", "unique", "references", "check", "constraint"]) {
            return Err(constraint_error(cursor));
        } else if cursor.at_word("as") {
            return Err(
                cursor.unsupported("AS (..) after a column", "say GENERATED ALWAYS AS (..)")
            );
        } else if let Some(rule) = rule::column_rule(cursor)? {
            if column.rule.replace(rule).is_some() {
                return Err(cursor.error("a column has one of DEFAULT, GENERATED and IDENTITY"));
            }
        } else {
            return Ok(column);
        }
    }
}

fn constraint_error(cursor: &Cursor<'_>) -> SqlError {
    let what = format!(
        "the constraint {}",
        cursor.peek().to_string().to_uppercase()
    );
    let hint = "NOT NULL, CHECK (..) and PRIMARY KEY (..) NOT ENFORCED are there";
    cursor.unsupported(&what, hint)
}

fn option(cursor: &mut Cursor<'_>) -> Result<(String, String), SqlError> {
    let key = option_key(cursor)?;
    cursor.expect(&Token::Eq)?;
    Ok((key, option_value(cursor)?))
}

fn option_key(cursor: &mut Cursor<'_>) -> Result<String, SqlError> {
    match cursor.string() {
        Some(key) => Ok(key),
        None => cursor.dotted("an option"),
    }
}

/// A value of an option: text, number or word.
pub(crate) fn option_value(cursor: &mut Cursor<'_>) -> Result<String, SqlError> {
    if let Some(text) = cursor.string() {
        return Ok(text);
    }
    let minus = if cursor.token(&Token::Minus) { "-" } else { "" };
    let value = match cursor.peek() {
        Token::Number(number, _) => format!("{minus}{number}"),
        Token::Word(word) if minus.is_empty() => word.value.clone(),
        _ => return Err(cursor.expected("a value: text in single quotes, a number or a word")),
    };
    cursor.skip();
    Ok(value)
}
