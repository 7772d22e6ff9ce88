//! ATTACH TABLE and DETACH TABLE: each a statement by itself, never part of a transaction.
//!
//! Invariant: both change the table's own log beside the database's, which a rollback could not
//! undo; so inside BEGIN they are refused.
//! Spec: docs/guide/sql.md, "Attaching tables".

use tarndb_db::{DEFAULT_SCHEMA, Database};

use crate::error::SqlError;
use crate::name::near;
use crate::outcome::Outcome;
use crate::parser::{Statement, TableName};

/// The refusal inside a transaction.
pub(crate) fn refused() -> SqlError {
    SqlError::Unsupported {
        what: "ATTACH TABLE and DETACH TABLE inside a transaction".to_owned(),
        hint: Some("they change the table's own log too: COMMIT first".to_owned()),
    }
}

/// Runs the statement: the notices and the outcome; `None` when it is another.
pub(crate) async fn run(
    db: &Database,
    statement: &Statement,
) -> Result<Option<(Vec<String>, Outcome)>, SqlError> {
    match statement {
        Statement::Attach { url, name } => attach(db, url, name).await.map(Some),
        Statement::Detach { name, if_exists } => detach(db, name, *if_exists).await.map(Some),
        _ => Ok(None),
    }
}

async fn attach(
    db: &Database,
    url: &str,
    name: &TableName,
) -> Result<(Vec<String>, Outcome), SqlError> {
    let schema = name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
    let attached = db.attach_table(schema, &name.name, url).await?;
    let notice = format!(
        "{url} is table {schema}.{} from its version {} on; other engines only read it now",
        name.name, attached.table_version
    );
    let tag = "ATTACH TABLE";
    Ok((vec![notice], Outcome::Done { tag }))
}

async fn detach(
    db: &Database,
    name: &TableName,
    if_exists: bool,
) -> Result<(Vec<String>, Outcome), SqlError> {
    let tag = "DETACH TABLE";
    let snapshot = db.snapshot().await?;
    let schema = name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
    let catalog = snapshot.catalog();
    let Some(table) = catalog.find(schema, &name.name) else {
        if if_exists {
            let notice = format!("table {name} does not exist");
            return Ok((vec![notice], Outcome::Done { tag }));
        }
        return Err(SqlError::UnknownTable {
            name: name.to_string(),
            near: near(
                &name.name,
                catalog.tables().map(|table| table.name.as_str()),
            ),
        });
    };
    let detached = db.detach_table(table.id).await?;
    let mut notices = detached.notices;
    let told = format!("{} is a table of its own again", detached.place);
    notices.push(told);
    Ok((notices, Outcome::Done { tag }))
}
