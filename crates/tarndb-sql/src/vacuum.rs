//! VACUUM: runs beside transactions, not in one.
//!
//! Invariant: it commits records of its own and deletes files, neither of which a rollback could
//! undo; so inside BEGIN it is refused.
//! Spec: docs/guide/maintenance.md.

use tarndb_db::{DEFAULT_SCHEMA, VacuumOptions, VacuumReport};

use crate::error::SqlError;
use crate::name::near;
use crate::outcome::Outcome;
use crate::parser::{TableName, Vacuum};
use crate::session::Session;
use crate::show::text_rows;

/// Runs it and lists what went, or would go.
pub(crate) async fn run(session: &Session, vacuum: &Vacuum) -> Result<Outcome, SqlError> {
    let mut options = VacuumOptions {
        dry_run: vacuum.dry_run,
        ..VacuumOptions::default()
    };
    if let Some(retention) = vacuum.retention {
        options.retention = retention;
    }
    if let Some(name) = &vacuum.name {
        let snapshot = session.db.snapshot().await?;
        let schema = name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        let found = snapshot.catalog().find(schema, &name.name);
        let table = found.ok_or_else(|| unknown(name, &snapshot))?;
        options.tables = Some([table.id].into());
    }
    listed(&session.db.vacuum(&options, |_| {}).await?)
}

fn unknown(name: &TableName, snapshot: &tarndb_db::Snapshot) -> SqlError {
    let tables = snapshot.catalog().tables();
    SqlError::UnknownTable {
        name: name.to_string(),
        near: near(&name.name, tables.map(|table| table.name.as_str())),
    }
}

fn listed(report: &VacuumReport) -> Result<Outcome, SqlError> {
    let rows = report.tables.iter().flat_map(|table| {
        table.files.iter().map(|file| {
            vec![
                Some(table.name.clone()),
                Some(file.key.to_string()),
                Some(file.size_bytes.to_string()),
                Some(file.reason.to_string()),
            ]
        })
    });
    text_rows(&["table", "file", "bytes", "reason"], rows.collect())
}

/// The refusal inside a transaction.
pub(crate) fn refused() -> SqlError {
    SqlError::Unsupported {
        what: "VACUUM inside a transaction".to_owned(),
        hint: Some("COMMIT or ROLLBACK first".to_owned()),
    }
}
