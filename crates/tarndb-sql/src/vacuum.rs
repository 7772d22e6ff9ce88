//! VACUUM: runs beside transactions, not in one.
//!
//! Invariant: it commits records of its own and deletes files, neither of which a rollback could
//! undo; so inside BEGIN it is refused.
//! Spec: docs/guide/maintenance.md.

use futures::FutureExt as _;
use tarndb_db::{VacuumOptions, VacuumReport};
use tarndb_delta::{NativeTable, NativeVacuum};

use crate::error::SqlError;
use crate::function::store_of;
use crate::name::near;
use crate::outcome::Outcome;
use crate::parser::{TableName, Vacuum};
use crate::session::Session;
use crate::show::text_rows;
use crate::{native, upkeep};

/// Runs it and lists what went, or would go.
pub(crate) async fn run(session: &Session, vacuum: &Vacuum) -> Result<Outcome, SqlError> {
    if let Some(path) = vacuum.name.as_ref().and_then(native::path_of) {
        return by_path(session, path, vacuum).boxed().await;
    }
    let mut options = VacuumOptions {
        dry_run: vacuum.dry_run,
        ..VacuumOptions::default()
    };
    if let Some(retention) = vacuum.retention {
        options.retention = retention;
    }
    if let Some(name) = &vacuum.name {
        options.tables = Some([upkeep::find(session, name).await?].into());
    }
    listed(&session.db.vacuum(&options, |_| {}).await?)
}

/// No table of the name.
pub(crate) fn unknown(name: &TableName, snapshot: &tarndb_db::Snapshot) -> SqlError {
    let tables = snapshot.catalog().tables();
    SqlError::UnknownTable {
        name: name.to_string(),
        near: near(&name.name, tables.map(|table| table.name.as_str())),
    }
}

/// Vacuums a table by path: its own log says what it needs.
async fn by_path(session: &Session, path: &str, vacuum: &Vacuum) -> Result<Outcome, SqlError> {
    let store = store_of(path, &session.storage)?;
    let failed = native::failed(path);
    let mut table = NativeTable::open(&store).await.map_err(&failed)?;
    let options = NativeVacuum {
        retention: vacuum.retention,
        force: false,
        dry_run: vacuum.dry_run,
    };
    let gone = table.vacuum(&options).await.map_err(&failed)?;
    let rows = gone.into_iter().map(|file| {
        vec![
            Some(path.to_owned()),
            Some(file.key.to_string()),
            Some(file.size_bytes.to_string()),
            Some("no version within the retention needs it".to_owned()),
        ]
    });
    text_rows(COLUMNS, rows.collect())
}

const COLUMNS: &[&str] = &["table", "file", "bytes", "reason"];

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
    text_rows(COLUMNS, rows.collect())
}

/// The refusal inside a transaction.
pub(crate) fn refused() -> SqlError {
    SqlError::Unsupported {
        what: "VACUUM inside a transaction".to_owned(),
        hint: Some("COMMIT or ROLLBACK first".to_owned()),
    }
}
