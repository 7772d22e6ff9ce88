//! Statements about views, tags, versions of the database and definitions.
//!
//! Invariant: a statement is taken here by its first words; what is not one of these is left to
//! the other rules with the cursor where it was. The text of a view's query is kept as written.

use datafusion::sql::sqlparser::ast::{Expr, Query, Value, Visit, Visitor};
use datafusion::sql::sqlparser::tokenizer::Token;
use std::ops::ControlFlow;

use crate::error::SqlError;
use crate::parser::TableName;
use crate::parser::cursor::Cursor;
use crate::parser::dml;

/// A statement about something that is no table.
#[derive(Clone, Debug)]
pub enum ObjectStatement {
    /// CREATE VIEW.
    CreateView(CreateView),
    /// DROP VIEW.
    DropView {
        /// The views.
        names: Vec<TableName>,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// ALTER VIEW .. RENAME TO, SET SCHEMA.
    RenameView {
        /// The view.
        name: TableName,
        /// IF EXISTS.
        if_exists: bool,
        /// Its new name; `None`: as it was.
        to: Option<String>,
        /// Its new schema; `None`: as it was.
        schema: Option<String>,
    },
    /// COMMENT ON VIEW.
    CommentView {
        /// The view.
        name: TableName,
        /// The comment; `None` removes it.
        text: Option<String>,
    },
    /// CREATE TAG.
    CreateTag {
        /// The tag.
        name: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// The version; `None`: the newest.
        version: Option<DatabaseVersion>,
    },
    /// DROP TAG.
    DropTag {
        /// The tag.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// RESTORE DATABASE.
    RestoreDatabase {
        /// The version that it goes back to.
        to: DatabaseVersion,
    },
    /// UNDROP TABLE.
    Undrop {
        /// The table.
        name: TableName,
    },
    /// SHOW VIEWS.
    ShowViews {
        /// Of one schema only.
        schema: Option<String>,
    },
    /// SHOW TAGS.
    ShowTags,
    /// SHOW TRANSACTIONS.
    ShowTransactions {
        /// LIMIT.
        limit: Option<u64>,
    },
    /// SHOW COLUMNS.
    ShowColumns {
        /// The table or view.
        name: TableName,
    },
    /// SHOW CREATE TABLE.
    ShowCreateTable {
        /// The table.
        name: TableName,
    },
    /// SHOW CREATE VIEW.
    ShowCreateView {
        /// The view.
        name: TableName,
    },
}

/// CREATE VIEW.
#[derive(Clone, Debug)]
pub struct CreateView {
    /// The view.
    pub name: TableName,
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Names of its columns; empty: those of the query.
    pub columns: Vec<String>,
    /// COMMENT.
    pub comment: Option<String>,
    /// AS, as written.
    pub text: String,
    /// The same for the engine.
    pub query: Box<Query>,
}

/// Which version of the database is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseVersion {
    /// VERSION AS OF.
    Version(u64),
    /// TIMESTAMP AS OF, as written.
    Timestamp(String),
    /// TAG.
    Tag(String),
}

/// A statement of this module; `None` when another begins here.
pub(crate) fn statement(cursor: &mut Cursor<'_>) -> Result<Option<ObjectStatement>, SqlError> {
    let found = if cursor.at_word("create") {
        create(cursor)?
    } else if cursor.words(&["drop", "view"]) {
        let if_exists = cursor.words(&["if", "exists"]);
        let mut names = vec![cursor.table_name()?];
        while cursor.token(&Token::Comma) {
            names.push(cursor.table_name()?);
        }
        // Nothing depends on a view but the text of others, so both words mean the same.
        let _ = cursor.word("restrict") || cursor.word("cascade");
        Some(ObjectStatement::DropView { names, if_exists })
    } else if cursor.words(&["drop", "tag"]) {
        let if_exists = cursor.words(&["if", "exists"]);
        let name = cursor.identifier("a tag")?;
        Some(ObjectStatement::DropTag { name, if_exists })
    } else if cursor.words(&["alter", "view"]) {
        Some(alter_view(cursor)?)
    } else if cursor.words(&["comment", "on", "view"]) {
        let name = cursor.table_name()?;
        cursor.expect_word("is")?;
        let text = match cursor.word("null") {
            true => None,
            false => Some(cursor.expect_string("the comment as text, or NULL")?),
        };
        Some(ObjectStatement::CommentView { name, text })
    } else if cursor.words(&["restore", "database"]) {
        cursor.expect_word("to")?;
        let to = version(cursor)?;
        let to = to.ok_or_else(|| {
            cursor.expected("VERSION AS OF n, TIMESTAMP AS OF '..' or TAG and its name")
        })?;
        Some(ObjectStatement::RestoreDatabase { to })
    } else if cursor.word("undrop") {
        cursor.expect_word("table")?;
        let name = cursor.table_name()?;
        Some(ObjectStatement::Undrop { name })
    } else if cursor.at_word("show") {
        show(cursor)?
    } else {
        None
    };
    Ok(found)
}

fn create(cursor: &mut Cursor<'_>) -> Result<Option<ObjectStatement>, SqlError> {
    let or_replace = cursor.words(&["create", "or", "replace", "view"]);
    if or_replace || cursor.words(&["create", "view"]) {
        let view = create_view(cursor, or_replace)?;
        return Ok(Some(ObjectStatement::CreateView(view)));
    }
    if cursor.words(&["create", "tag"]) {
        let if_not_exists = cursor.words(&["if", "not", "exists"]);
        let name = cursor.identifier("a tag")?;
        return Ok(Some(ObjectStatement::CreateTag {
            name,
            if_not_exists,
            version: version(cursor)?,
        }));
    }
    Ok(None)
}

fn create_view(cursor: &mut Cursor<'_>, or_replace: bool) -> Result<CreateView, SqlError> {
    let if_not_exists = cursor.words(&["if", "not", "exists"]);
    if or_replace && if_not_exists {
        return Err(cursor.error("OR REPLACE and IF NOT EXISTS exclude each other"));
    }
    let name = cursor.table_name()?;
    let columns = match cursor.peek() {
        Token::LParen => cursor.list(|cursor| cursor.identifier("a column"))?,
        _ => Vec::new(),
    };
    let mut comment = None;
    if cursor.word("comment") {
        cursor.token(&Token::Eq);
        comment = Some(cursor.expect_string("the comment as text")?);
    }
    cursor.expect_word("as")?;
    let begin = cursor.place();
    let query = dml::query(cursor)?;
    if let ControlFlow::Break(name) = query.visit(&mut Placeholders) {
        let what = format!("the parameter {name} in a view");
        return Err(cursor.unsupported(&what, "say its value"));
    }
    Ok(CreateView {
        name,
        or_replace,
        if_not_exists,
        columns,
        comment,
        text: cursor.text_since(begin),
        query,
    })
}

/// Finds a parameter.
struct Placeholders;

impl Visitor for Placeholders {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        match expr {
            Expr::Value(value) => match &value.value {
                Value::Placeholder(name) => ControlFlow::Break(name.clone()),
                _ => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

fn alter_view(cursor: &mut Cursor<'_>) -> Result<ObjectStatement, SqlError> {
    let if_exists = cursor.words(&["if", "exists"]);
    let name = cursor.table_name()?;
    let (to, schema) = if cursor.words(&["rename", "to"]) {
        let to = cursor.table_name()?;
        (Some(to.name), to.schema)
    } else if cursor.words(&["set", "schema"]) {
        (None, Some(cursor.identifier("a schema name")?))
    } else {
        return Err(cursor.expected("RENAME TO or SET SCHEMA"));
    };
    Ok(ObjectStatement::RenameView {
        name,
        if_exists,
        to,
        schema,
    })
}

/// `VERSION AS OF n | TIMESTAMP AS OF '..' | TAG x`; `None` when none of them follows.
pub(crate) fn version(cursor: &mut Cursor<'_>) -> Result<Option<DatabaseVersion>, SqlError> {
    if cursor.words(&["version", "as", "of"]) {
        return cursor.unsigned().map(DatabaseVersion::Version).map(Some);
    }
    if cursor.words(&["timestamp", "as", "of"]) {
        let text = cursor.expect_string("a timestamp such as '2026-01-31 12:00:00'")?;
        return Ok(Some(DatabaseVersion::Timestamp(text)));
    }
    if cursor.word("tag") {
        return cursor
            .identifier("a tag")
            .map(DatabaseVersion::Tag)
            .map(Some);
    }
    Ok(None)
}

fn show(cursor: &mut Cursor<'_>) -> Result<Option<ObjectStatement>, SqlError> {
    if cursor.words(&["show", "views"]) {
        let said = cursor.word("in") || cursor.word("from");
        let schema = said.then(|| cursor.identifier("a schema name"));
        let schema = schema.transpose()?;
        return Ok(Some(ObjectStatement::ShowViews { schema }));
    }
    if cursor.words(&["show", "tags"]) {
        return Ok(Some(ObjectStatement::ShowTags));
    }
    if cursor.words(&["show", "transactions"]) {
        let limit = cursor.word("limit").then(|| cursor.unsigned());
        let limit = limit.transpose()?;
        return Ok(Some(ObjectStatement::ShowTransactions { limit }));
    }
    if cursor.words(&["show", "columns"]) {
        if !cursor.word("in") {
            cursor.expect_word("from")?;
        }
        let name = cursor.table_name()?;
        return Ok(Some(ObjectStatement::ShowColumns { name }));
    }
    if cursor.words(&["show", "create", "table"]) {
        let name = cursor.table_name()?;
        return Ok(Some(ObjectStatement::ShowCreateTable { name }));
    }
    if cursor.words(&["show", "create", "view"]) {
        let name = cursor.table_name()?;
        return Ok(Some(ObjectStatement::ShowCreateView { name }));
    }
    Ok(None)
}
