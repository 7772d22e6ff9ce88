//! OPTIMIZE, CHECKPOINT and ANALYZE.
//!
//! Does not: know which columns a table has.

use datafusion::sql::sqlparser::ast::Expr;

use super::ast::TableName;
use super::cursor::Cursor;
use super::{ddl, dml};
use crate::error::SqlError;

/// A statement that changes how data is stored and not what it says.
#[derive(Clone, Debug)]
pub enum Upkeep {
    /// OPTIMIZE.
    Optimize(Box<Optimize>),
    /// CHECKPOINT.
    Checkpoint {
        /// The table; `None`: DATABASE.
        name: Option<TableName>,
    },
    /// ANALYZE.
    Analyze {
        /// The table.
        name: TableName,
    },
}

impl Upkeep {
    /// What it is called.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Self::Optimize(_) => "OPTIMIZE",
            Self::Checkpoint { .. } => "CHECKPOINT",
            Self::Analyze { .. } => "ANALYZE",
        }
    }
}

/// OPTIMIZE.
#[derive(Clone, Debug)]
pub struct Optimize {
    /// The table.
    pub name: TableName,
    /// FULL: every file, whether it needs it or not.
    pub full: bool,
    /// WHERE: the files that may hold such rows.
    pub filter: Option<Expr>,
    /// ZORDER BY or CLUSTER BY: columns, fields inside them by their paths.
    pub order: Vec<Vec<String>>,
}

/// OPTIMIZE, CHECKPOINT or ANALYZE, when the statement is one.
pub(super) fn statement(cursor: &mut Cursor<'_>) -> Result<Option<Upkeep>, SqlError> {
    Ok(Some(if cursor.word("optimize") {
        Upkeep::Optimize(Box::new(optimize(cursor)?))
    } else if cursor.word("checkpoint") {
        let name = match cursor.is_end() || cursor.word("database") {
            true => None,
            false => Some(cursor.table_name()?),
        };
        Upkeep::Checkpoint { name }
    } else if cursor.word("analyze") {
        cursor.word("table");
        let name = cursor.table_name()?;
        if cursor.word("compute") {
            cursor.expect_word("statistics")?;
        }
        Upkeep::Analyze { name }
    } else {
        return Ok(None);
    }))
}

/// `table [FULL] [WHERE ..] [ZORDER | CLUSTER BY (..)]`.
fn optimize(cursor: &mut Cursor<'_>) -> Result<Optimize, SqlError> {
    cursor.word("table");
    let name = cursor.table_name()?;
    let full = cursor.word("full");
    let filter = dml::filter(cursor)?;
    let mut order = Vec::new();
    if cursor.words(&["zorder", "by"]) || cursor.words(&["cluster", "by"]) {
        order = ddl::cluster_columns(cursor)?;
        if order.is_empty() {
            return Err(cursor.expected("columns in brackets"));
        }
    }
    Ok(Optimize {
        name,
        full,
        filter,
        order,
    })
}
