//! OPTIMIZE, CHECKPOINT and ANALYZE: they run beside transactions, not in one.
//!
//! Invariant: each commits by itself, or writes what carries no promise; neither could be undone
//! by a rollback, so inside BEGIN they are refused.
//! Spec: docs/guide/maintenance.md.

use std::sync::Arc;

use futures::FutureExt as _;
use tarndb_db::{CheckpointReport, DEFAULT_SCHEMA};
use tarndb_table::DataFile;
use tarndb_types::TableId;

use crate::error::SqlError;
use crate::name::Spelling;
use crate::outcome::Outcome;
use crate::parser::{TableName, Upkeep};
use crate::session::Session;
use crate::show::text_rows;
use crate::{native, optimize, vacuum};

/// Runs it.
pub(crate) async fn run(
    session: &mut Session,
    statement: &Upkeep,
    spelling: &Spelling,
) -> Result<Outcome, SqlError> {
    match statement {
        Upkeep::Optimize(statement) => {
            by_name(&statement.name, "OPTIMIZE")?;
            optimize::run(session, statement, spelling).boxed().await
        }
        Upkeep::Checkpoint { name: None } => checkpoints(&session.db.checkpoint().await?),
        Upkeep::Checkpoint { name: Some(name) } => {
            by_name(name, "CHECKPOINT")?;
            let id = find(session, name).await?;
            checkpoints(&session.db.checkpoint_table(id).await?)
        }
        Upkeep::Analyze { name } => {
            by_name(name, "ANALYZE")?;
            analyze(session, name).await
        }
    }
}

/// Says that there is nothing to do: files that the database writes have their statistics from
/// the start. Those of other writers may have none.
async fn analyze(session: &mut Session, name: &TableName) -> Result<Outcome, SqlError> {
    let id = find(session, name).await?;
    let state = session.db.snapshot().await?.table(id).await?;
    let is_bare = |file: &Arc<DataFile>| {
        let stats = file.stats.as_ref();
        stats.is_none_or(|stats| stats.num_records.is_none() || stats.columns.is_empty())
    };
    let files = state.files.len();
    match state.files.values().filter(is_bare).count() {
        0 => {
            let notice = format!("table {name} has statistics of all of its {files} files");
            session.notices.push(notice);
            Ok(Outcome::Done { tag: "ANALYZE" })
        }
        bare => Err(SqlError::Unsupported {
            what: format!("ANALYZE of {bare} files without statistics in table {name}"),
            hint: Some(format!(
                "OPTIMIZE {name} FULL writes them anew, with statistics"
            )),
        }),
    }
}

/// A table by its name in the database.
pub(crate) async fn find(session: &Session, name: &TableName) -> Result<TableId, SqlError> {
    let snapshot = session.db.snapshot().await?;
    let schema = name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
    let found = snapshot.catalog().find(schema, &name.name);
    let table = found.ok_or_else(|| vacuum::unknown(name, &snapshot))?;
    Ok(table.id)
}

fn by_name(name: &TableName, what: &str) -> Result<(), SqlError> {
    match native::path_of(name) {
        None => Ok(()),
        Some(path) => Err(SqlError::Unsupported {
            what: format!("{what} of table {path} by its path"),
            hint: Some("ATTACH TABLE makes it a table of the database".to_owned()),
        }),
    }
}

fn checkpoints(report: &CheckpointReport) -> Result<Outcome, SqlError> {
    let catalog = vec![None, Some(report.catalog.to_string())];
    let tables = report.tables.iter();
    let tables =
        tables.map(|(name, info)| vec![Some(name.clone()), Some(info.version.to_string())]);
    let rows = std::iter::once(catalog).chain(tables);
    text_rows(&["table", "version"], rows.collect())
}

/// The refusal inside a transaction.
pub(crate) fn refused(statement: &Upkeep) -> SqlError {
    SqlError::Unsupported {
        what: format!("{} inside a transaction", statement.tag()),
        hint: Some("COMMIT or ROLLBACK first".to_owned()),
    }
}
