//! What a session needs to know of a statement before it runs.
//!
//! Invariant: "reads nothing" is said only where no view of the data decides what is done.
//! Does not: look at anything but the statement.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::visit_relations;

use crate::parser::Statement;

/// Whether a statement needs no more than the columns of its table: an INSERT of values, or a
/// query without tables.
pub(crate) fn reads_nothing(statement: &Statement) -> bool {
    let query = match statement {
        Statement::Insert(insert) if insert.reads_its_table() => return false,
        Statement::Insert(insert) => &insert.query,
        Statement::Query(query) => query,
        _ => return false,
    };
    visit_relations(query.as_ref(), |_| ControlFlow::Break(())).is_continue()
}

/// Whether a statement says IF EXISTS or IF NOT EXISTS.
pub(crate) fn is_conditional(statement: &Statement) -> bool {
    match statement {
        Statement::CreateTable(create) => create.if_not_exists,
        Statement::CloneTable(clone) => clone.if_not_exists,
        Statement::CreateSchema { if_not_exists, .. } => *if_not_exists,
        Statement::Object(statement) => statement.is_conditional(),
        Statement::DropSchema { if_exists, .. }
        | Statement::DropTable { if_exists, .. }
        | Statement::AlterTable { if_exists, .. } => *if_exists,
        _ => false,
    }
}
