//! delta.`<url>`: changing a table by path, what a transaction has read of such tables, and
//! CONVERT TO DELTA.
//!
//! Invariant: the table's own log is the authority, so a change is a commit of its own and
//! never part of a transaction over several tables; saying so is an error. A statement reads the
//! version that its commit is judged by.
//! Spec: docs/sql/transactions.md, "Tables by path"; docs/format/native.md.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt as _;
use tarndb_db::{ErrorKind, TableTarget};
use tarndb_delta::{NativeError, NativeTable, NativeTarget, Reads, convert_to_delta};
use tarndb_storage::Path;
use tarndb_table::{Field, RowRules, TableError, TableWriter, Written, WrittenChange};

use crate::dml::insert::plan_insert;
use crate::dml::rows::live_rows;
use crate::dml::target::{ChangeTarget, Found, Twice};
use crate::dml::update::{plan_update_of, supplied, twice};
use crate::dml::write::{Destination, stream_of, write_updates};
use crate::error::{SqlError, translate::translate};
use crate::function::{missing, pin_state, store_of};
use crate::name::Spelling;
use crate::options::SessionOptions;
use crate::outcome::Outcome;
use crate::parser::{Delete, Insert, ParsedStatement, Restore, Statement, TableName, Update};
use crate::provider::Pinned;
use crate::query::{Planned, Scope, Storage};

/// The schema under which paths are names.
const SCHEMA: &str = "delta";

/// Whether a quoted name is a path.
pub(crate) fn is_path(name: &str) -> bool {
    name.contains('/')
}

/// Whether `schema.name` is a table by path.
pub(crate) fn names_path(schema: &str, name: &str) -> bool {
    schema.eq_ignore_ascii_case(SCHEMA) && is_path(name)
}

/// The path that a name is.
pub(crate) fn path_of(name: &TableName) -> Option<&str> {
    let schema = name.schema.as_deref()?;
    names_path(schema, &name.name).then_some(name.name.as_str())
}

/// The path of the table that a statement changes.
pub(crate) fn changed(statement: &Statement) -> Option<&str> {
    path_of(match statement {
        Statement::Insert(insert) => &insert.table,
        Statement::Update(update) => &update.table,
        Statement::Delete(delete) => &delete.table,
        Statement::Truncate { name } => name,
        Statement::AlterTable { name, .. } => name,
        Statement::Restore(restore) => &restore.name,
        _ => return None,
    })
}

/// A table by path where only one of the database can stand.
pub(crate) fn not_here(path: &str) -> SqlError {
    SqlError::Unsupported {
        what: format!("table {path} by its path here"),
        hint: Some(
            "a table by path is read in queries, and changed by INSERT, UPDATE, DELETE, TRUNCATE, \
             ALTER TABLE and RESTORE outside a transaction: it commits by its own log"
                .to_owned(),
        ),
    }
}

/// A serializable transaction that writes has read a table by path.
pub(crate) fn not_serializable(path: &str) -> SqlError {
    SqlError::Unsupported {
        what: format!(
            "a serializable transaction that writes and has read table {path} by its path"
        ),
        hint: Some("read it outside, or use the isolation level snapshot".to_owned()),
    }
}

/// The tables by path that a transaction has read; each stays at the version first read.
#[derive(Debug, Default)]
pub(crate) struct Pins(Mutex<BTreeMap<String, Pin>>);

#[derive(Debug)]
struct Pin {
    pinned: Arc<Pinned>,
    is_read: bool,
}

impl Pins {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Pin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all, for the next transaction.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// The table as it was read before, which is read now.
    pub(crate) fn get(&self, path: &str) -> Option<Arc<Pinned>> {
        let mut pins = self.lock();
        let pin = pins.get_mut(path)?;
        pin.is_read = true;
        Some(Arc::clone(&pin.pinned))
    }

    /// Notes a table that is read.
    pub(crate) fn read(&self, path: &str, pinned: &Arc<Pinned>) {
        let pin = Pin {
            pinned: Arc::clone(pinned),
            is_read: true,
        };
        self.lock().insert(path.to_owned(), pin);
    }

    /// Fixes the version that reads of a table will see.
    fn fix(&self, path: &str, pinned: &Arc<Pinned>) {
        let pin = Pin {
            pinned: Arc::clone(pinned),
            is_read: false,
        };
        self.lock().insert(path.to_owned(), pin);
    }

    fn is_read(&self, path: &str) -> bool {
        self.lock().get(path).is_some_and(|pin| pin.is_read)
    }

    /// A table that was read.
    pub(crate) fn first(&self) -> Option<String> {
        let pins = self.lock();
        let read = pins.iter().find(|(_, pin)| pin.is_read);
        read.map(|(path, _)| path.clone())
    }
}

/// Runs a statement that changes rows of the table at `path`, and commits: the command's tag and
/// the rows.
///
/// # Cost
/// That of opening the table; what the statement reads; its files; one PUT of the commit and one
/// of its checksum.
pub(crate) async fn change(
    scope: &Scope<'_>,
    options: &SessionOptions,
    path: &str,
    parsed: &ParsedStatement,
) -> Result<(&'static str, u64), SqlError> {
    let store = store_of(path, scope.storage)?;
    let table = NativeTable::open(&store).await.map_err(failed(path))?;
    let state = Arc::clone(table.state().map_err(failed(path))?);
    let location = Path::default();
    let now_micros = store.context().now().0.saturating_mul(1000);
    let rules = RowRules::of(&state, now_micros).map_err(SqlError::table(path))?;
    let destination = Destination::of_state(path, &state, rules, location, options)?;
    let pinned = pin_state(path, store, state, scope.engine, scope.storage)?;
    scope.engine.functions.pins.fix(path, &pinned);
    let mut change = NativeChange {
        scope,
        path,
        table,
        pinned,
        destination,
        spelling: &parsed.spelling,
    };
    refuse_returning(&parsed.statement)?;
    match &parsed.statement {
        Statement::Insert(insert) => Ok(("INSERT", change.insert(insert).await?)),
        Statement::Update(update) => Ok(("UPDATE", change.update(update).await?)),
        Statement::Delete(delete) => Ok(("DELETE", change.delete(delete).await?)),
        Statement::Truncate { .. } => Ok(("TRUNCATE TABLE", change.truncate().await?)),
        _ => Err(not_here(path)),
    }
}

/// # Errors
/// RETURNING: the commit of a table by path is its own, and its rows are not kept for it.
fn refuse_returning(statement: &Statement) -> Result<(), SqlError> {
    let returning = match statement {
        Statement::Insert(insert) => &insert.returning,
        Statement::Update(update) => &update.returning,
        Statement::Delete(delete) => &delete.returning,
        _ => &None,
    };
    match returning {
        None => Ok(()),
        Some(_) => Err(only_of_a_database("RETURNING")),
    }
}

/// A clause that tables by path do not have.
fn only_of_a_database(clause: &str) -> SqlError {
    SqlError::Unsupported {
        what: format!("{clause} of a table by its path"),
        hint: Some("ATTACH TABLE makes it a table of the database".to_owned()),
    }
}

/// Takes the table at `path` back to an earlier version.
pub(crate) async fn restore(
    storage: &Storage,
    path: &str,
    statement: &Restore,
) -> Result<Outcome, SqlError> {
    let to = match crate::restore::target(&statement.to)? {
        TableTarget::Version(version) => NativeTarget::Version(version.0),
        TableTarget::Timestamp(at) => NativeTarget::Timestamp(at.0),
    };
    let store = store_of(path, storage)?;
    let mut table = NativeTable::open(&store).await.map_err(failed(path))?;
    let (report, _) = table.restore(to).await.map_err(failed(path))?;
    crate::restore::outcome(&report)
}

/// Makes a folder of Parquet files a table: what to tell, and the outcome.
pub(crate) async fn convert(
    storage: &Storage,
    url: &str,
    partitions: &[Field],
) -> Result<(String, Outcome), SqlError> {
    let store = store_of(url, storage)?;
    let converted = convert_to_delta(&store, partitions.to_vec()).await;
    let converted = converted.map_err(failed(url))?;
    let notice = match converted.made {
        Some((files, rows)) => format!("{url} is a Delta table of {files} files and {rows} rows"),
        None => format!("{url} was a Delta table already"),
    };
    let tag = "CONVERT TO DELTA";
    Ok((notice, Outcome::Done { tag }))
}

/// One statement on one table by path.
struct NativeChange<'a> {
    scope: &'a Scope<'a>,
    path: &'a str,
    table: NativeTable,
    pinned: Arc<Pinned>,
    destination: Destination,
    spelling: &'a Spelling,
}

impl NativeChange<'_> {
    async fn insert(&mut self, insert: &Insert) -> Result<u64, SqlError> {
        if insert.conflict.is_some() {
            return Err(only_of_a_database("ON CONFLICT"));
        }
        if insert.replace_where.is_some() {
            return Err(only_of_a_database("REPLACE WHERE"));
        }
        let destination = self.destination.clone();
        let (destination, planned, plan) =
            plan_insert(self.scope, destination, insert, self.spelling).await?;
        let plan = destination.prepare(plan)?;
        let stream = stream_of(self.scope.engine, plan, &planned.spelling)?;
        let writer = destination.writer_to(&self.pinned.store);
        let written = write_rows(writer, &destination, stream, &planned.spelling).await?;
        let rows = written.rows;
        let reads = match self.scope.engine.functions.pins.is_read(self.path) {
            true => Reads::Table,
            false => Reads::Nothing,
        };
        let failed = failed(self.path);
        if insert.overwrite {
            self.table.overwrite(written, None).await.map_err(failed)?;
        } else if rows > 0 {
            let appended = self.table.append(written, BTreeMap::new(), reads).await;
            appended.map_err(failed)?;
        }
        Ok(rows)
    }

    async fn delete(&mut self, delete: &Delete) -> Result<u64, SqlError> {
        if delete.filter.is_none() && delete.using.is_empty() {
            return self.truncate().await;
        }
        let target = self.target(delete.alias.as_deref());
        let target = match delete.using.is_empty() {
            true => target,
            false => target.with_twice(Twice::Allowed),
        };
        let query = target.joined(Vec::new(), &delete.using, delete.filter.clone())?;
        let planned = self
            .scope
            .plan(&query, self.spelling, Some(target.target()));
        let planned = planned.await?;
        let plan = self.scope.physical(&planned).await?;
        let mut stream = stream_of(self.scope.engine, plan, &planned.spelling)?;
        let mut found = target.nothing_found();
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(|error| translate(error, &planned.spelling))?;
            found.take(&batch, target.provider.kept())?;
        }
        self.commit(&target, found, WrittenChange::default()).await
    }

    async fn update(&mut self, update: &Update) -> Result<u64, SqlError> {
        let target = self.target(update.alias.as_deref());
        let target = target.with_twice(twice(update));
        let planned: Planned = plan_update_of(self.scope, &target, update, self.spelling).await?;
        let plan = self.scope.physical(&planned).await?;
        let destination = self.destination.clone();
        let destination = destination.with_supplied(supplied(&self.destination, update));
        let plan = destination.prepare(plan)?;
        let stream = stream_of(self.scope.engine, plan, &planned.spelling)?;
        let options = Some(destination.options());
        let writer = self.table.change_writer(options);
        let writer = writer.map_err(failed(self.path))?;
        let spelling = &planned.spelling;
        let written = write_updates(writer, &destination, &target, stream, spelling);
        let (written, found) = written.await?;
        self.commit(&target, found, written).await
    }

    async fn truncate(&mut self) -> Result<u64, SqlError> {
        let rows = live_rows(&self.pinned).await?;
        let done = self.table.overwrite(Written::default(), None).await;
        done.map_err(failed(self.path))?;
        Ok(rows)
    }

    fn target(&self, alias: Option<&str>) -> ChangeTarget {
        ChangeTarget::by_path_of(Arc::clone(&self.pinned), alias)
    }

    /// Commits the rows that go and those that come.
    async fn commit(
        &mut self,
        target: &ChangeTarget,
        found: Found,
        written: WrittenChange,
    ) -> Result<u64, SqlError> {
        let count = found.len();
        let rows = target.by_path(found).await?;
        // A file without such rows may have been left out by its statistics. What others make
        // of its rows counts as added, which conflicts whatever the partition.
        let reads = match self.scope.engine.functions.pins.is_read(self.path) {
            true => Reads::Table,
            false => Reads::Rows {
                partitions: None,
                files: rows.keys().cloned().collect::<BTreeSet<_>>(),
            },
        };
        let done = self.table.change_rows(rows, written, reads).await;
        done.map_err(failed(self.path))?;
        Ok(count)
    }
}

/// Writes the rows of a stream.
async fn write_rows(
    mut writer: TableWriter,
    destination: &Destination,
    mut stream: SendableRecordBatchStream,
    spelling: &Spelling,
) -> Result<Written, SqlError> {
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| translate(error, spelling))?;
        if batch.num_rows() == 0 {
            continue;
        }
        let written = writer.write(&batch).await;
        written.map_err(SqlError::table(&destination.name))?;
    }
    let written = writer.finish().await;
    written.map_err(SqlError::table(&destination.name))
}

/// What an error of a table by path is to the user.
pub(crate) fn failed(path: &str) -> impl Fn(NativeError) -> SqlError {
    move |error| {
        let (sqlstate, kind, hint) = match &error {
            NativeError::Conflict(_) | NativeError::Busy { .. } => (
                "40001",
                ErrorKind::ConflictRetryable,
                "run the statement again",
            ),
            NativeError::Pending { .. } | NativeError::OutcomeExpired { .. } => (
                "08007",
                ErrorKind::Pending,
                "look for the transaction's id in the table's history before running it again",
            ),
            NativeError::NullInDeletedRow { .. } => (
                "22000",
                ErrorKind::Invalid,
                "compact the table, all files of it, and try again",
            ),
            NativeError::Table(_) | NativeError::Log(_) => {
                return match error {
                    NativeError::Table(error) => of_table(path, error),
                    other => SqlError::File {
                        path: path.to_owned(),
                        reason: other.to_string(),
                    },
                };
            }
            NativeError::FilesGone { .. } => (
                "58P01",
                ErrorKind::NotFound,
                "name a version whose files are there",
            ),
            _ => ("22000", ErrorKind::Invalid, "correct the statement"),
        };
        SqlError::Engine {
            message: format!("table {path}: {error}"),
            sqlstate,
            kind,
            hint: Some(hint.to_owned()),
        }
    }
}

fn of_table(path: &str, error: TableError) -> SqlError {
    missing(path, error)
}
