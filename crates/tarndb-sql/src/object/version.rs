//! Versions of the database in SQL: tags, `tarndb.as_of`, RESTORE DATABASE, UNDROP TABLE and
//! SHOW TRANSACTIONS.
//!
//! Invariant: a session that reads an older version changes nothing, whatever the statement; it
//! keeps the very snapshot that was found when the setting was made.
//! Spec: docs/guide/sql.md, "Versions of the database".

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use tarndb_db::{Catalog, Database, DatabaseRestore, ObjectError, Snapshot, TableChange};
use tarndb_types::{DbVersion, TimestampMs, TxnRef};

use crate::engine::DEFAULT_SCHEMA;
use crate::error::{SqlError, translate::translate};
use crate::function::travel::timestamp;
use crate::name::{Spelling, near};
use crate::outcome::Outcome;
use crate::parser::{DatabaseVersion, ObjectStatement, Statement, TableName};
use crate::query::Scope;
use crate::session::Session;

/// The version that a session reads.
pub(crate) const AS_OF: &str = "tarndb.as_of";

/// Transactions that SHOW TRANSACTIONS lists unless it says how many.
const LISTED: u64 = 100;

/// An older version that a session reads.
#[derive(Clone, Debug)]
pub(crate) struct AsOf {
    /// As set.
    pub(crate) text: String,
    /// What it found.
    pub(crate) snapshot: Snapshot,
}

impl Session {
    /// SET tarndb.as_of and its RESET, and what was done; `None` for other settings.
    pub(crate) async fn change_as_of(
        &mut self,
        statement: &Statement,
    ) -> Result<Option<&'static str>, SqlError> {
        let value = match statement {
            Statement::Set { name, value } if name == AS_OF => value,
            Statement::Reset { name } if name == AS_OF => {
                self.as_of = None;
                return Ok(Some("RESET"));
            }
            _ => return Ok(None),
        };
        let wanted = parse(value)?;
        let newest = self.db.snapshot().await?;
        let version = resolve(&self.db, newest.catalog(), &wanted).await?;
        let snapshot = self.db.snapshot_at(version).await?;
        let text = value.clone();
        self.as_of = Some(AsOf { text, snapshot });
        Ok(Some("SET"))
    }

    /// Refuses what changes something while an older version is read.
    pub(crate) fn check_as_of(&self, statement: &Statement) -> Result<(), SqlError> {
        match &self.as_of {
            Some(as_of) if !only_reads(statement) => Err(as_of.refused()),
            _ => Ok(()),
        }
    }
}

impl AsOf {
    /// A statement that would change something.
    pub(crate) fn refused(&self) -> SqlError {
        SqlError::ReadsOlderVersion {
            version: self.snapshot.version(),
        }
    }
}

fn only_reads(statement: &Statement) -> bool {
    match statement {
        Statement::Query(_)
        | Statement::Explain(_)
        | Statement::Copy(_)
        | Statement::Describe { .. }
        | Statement::DescribeHistory { .. }
        | Statement::Show(_)
        | Statement::Set { .. }
        | Statement::Reset { .. }
        | Statement::Begin { .. }
        | Statement::Commit
        | Statement::Rollback
        | Statement::Savepoint(_)
        // What EXECUTE runs comes here too.
        | Statement::Prepared(_) => true,
        Statement::Object(statement) => statement.only_reads(),
        _ => false,
    }
}

impl ObjectStatement {
    fn only_reads(&self) -> bool {
        matches!(
            self,
            Self::ShowViews { .. }
                | Self::ShowTags
                | Self::ShowTransactions { .. }
                | Self::ShowColumns { .. }
                | Self::ShowCreateTable { .. }
                | Self::ShowCreateView { .. }
        )
    }
}

/// `version N`, `timestamp ..` or `tag x`.
fn parse(value: &str) -> Result<DatabaseVersion, SqlError> {
    let refused = || SqlError::Setting {
        name: AS_OF.to_owned(),
        reason: "takes 'version N', 'timestamp 2026-01-31 12:00:00' or 'tag NAME'; RESET ends it"
            .to_owned(),
    };
    let (kind, rest) = value
        .trim()
        .split_once(char::is_whitespace)
        .ok_or_else(refused)?;
    let rest = rest.trim();
    match kind.to_lowercase().as_str() {
        "version" => Ok(DatabaseVersion::Version(
            rest.parse().map_err(|_| refused())?,
        )),
        "timestamp" => Ok(DatabaseVersion::Timestamp(rest.to_owned())),
        "tag" => Ok(DatabaseVersion::Tag(rest.to_owned())),
        _ => Err(refused()),
    }
}

/// The version that is meant; `catalog` knows the tags.
pub(crate) async fn resolve(
    db: &Database,
    catalog: &Catalog,
    wanted: &DatabaseVersion,
) -> Result<DbVersion, SqlError> {
    match wanted {
        DatabaseVersion::Version(version) => Ok(DbVersion(*version)),
        DatabaseVersion::Timestamp(text) => {
            let at: TimestampMs = timestamp(text)?;
            Ok(db.version_at(at).await?)
        }
        DatabaseVersion::Tag(name) => match catalog.tag(name) {
            Some(tag) => Ok(tag.version),
            None => Err(unknown_tag(catalog, name)),
        },
    }
}

pub(super) fn unknown_tag(catalog: &Catalog, name: &str) -> SqlError {
    let near = near(name, catalog.tags().map(|tag| tag.name.as_str()));
    let name = name.to_owned();
    SqlError::UnknownTag { name, near }
}

/// SHOW TAGS.
pub(super) fn show_tags(scope: &Scope<'_>) -> Result<Outcome, SqlError> {
    let tags: Vec<_> = scope.txn.catalog().tags().collect();
    let names: StringArray = tags.iter().map(|tag| Some(tag.name.as_str())).collect();
    let versions: Int64Array = tags.iter().map(|tag| number(tag.version.0)).collect();
    table(vec![
        ("name", Arc::new(names)),
        ("version", Arc::new(versions)),
        ("created", times(tags.iter().map(|tag| tag.timestamp))),
    ])
}

/// SHOW TRANSACTIONS: those of the transaction's snapshot, newest first.
pub(super) async fn show_transactions(
    scope: &Scope<'_>,
    limit: Option<u64>,
) -> Result<Outcome, SqlError> {
    let limit = usize::try_from(limit.unwrap_or(LISTED)).unwrap_or(usize::MAX);
    let newest = scope.txn.snapshot().version();
    let entries = scope.db.log_at(newest, limit).await?;
    let texts = |of: &dyn Fn(&tarndb_db::LogEntry) -> String| -> ArrayRef {
        Arc::new(
            entries
                .iter()
                .map(|entry| Some(of(entry)))
                .collect::<StringArray>(),
        )
    };
    let id = |entry: &tarndb_db::LogEntry| {
        let reference = TxnRef {
            base: entry.read_version,
            id: entry.txn,
        };
        reference.to_string()
    };
    let tables = |entry: &tarndb_db::LogEntry| {
        let tables: Vec<String> = entry.tables.iter().map(changed).collect();
        tables.join(", ")
    };
    let versions: Int64Array = entries
        .iter()
        .map(|entry| number(entry.version.0))
        .collect();
    table(vec![
        ("version", Arc::new(versions)),
        (
            "timestamp",
            times(entries.iter().map(|entry| entry.timestamp)),
        ),
        ("transaction", texts(&id)),
        ("operation", texts(&|entry| entry.operation.clone())),
        ("tables", texts(&tables)),
        ("isolation", texts(&|entry| entry.isolation.clone())),
    ])
}

/// `main.t version 7`, or the name alone.
fn changed(table: &TableChange) -> String {
    match table.version {
        Some(version) => format!("{} version {version}", table.name),
        None => table.name.clone(),
    }
}

/// The figures of RESTORE DATABASE.
pub(super) fn restored(report: &DatabaseRestore) -> Result<Outcome, SqlError> {
    let figures = [
        ("tables_restored", report.tables_restored),
        ("tables_undropped", report.tables_undropped),
        ("tables_dropped", report.tables_dropped),
        ("tables_renamed", report.tables_renamed),
        ("views_changed", report.views_changed),
    ];
    let columns = figures.map(|(name, figure)| {
        let array = Int64Array::from(vec![number(figure)]);
        (name, Arc::new(array) as ArrayRef)
    });
    table(columns.to_vec())
}

/// The parts of the name of a dropped table.
pub(super) fn dropped_name(name: &TableName) -> (&str, &str) {
    (name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA), &name.name)
}

/// What is said of UNDROP where a name is in the way, or a schema is gone.
pub(super) fn undrop_error(error: tarndb_db::DbError, name: &TableName) -> SqlError {
    match error {
        tarndb_db::DbError::Object(ObjectError::NothingDropped { .. }) => {
            SqlError::NothingDropped {
                name: name.to_string(),
            }
        }
        other => other.into(),
    }
}

fn number(value: u64) -> Option<i64> {
    i64::try_from(value).ok()
}

fn times(values: impl Iterator<Item = TimestampMs>) -> ArrayRef {
    let times = values.map(|time| time.0.checked_mul(1000));
    let times = times.collect::<TimestampMicrosecondArray>();
    Arc::new(times.with_timezone("UTC"))
}

fn table(columns: Vec<(&str, ArrayRef)>) -> Result<Outcome, SqlError> {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns)
        .map(Outcome::of_batch)
        .map_err(|error| translate(error.into(), &Spelling::default()))
}
