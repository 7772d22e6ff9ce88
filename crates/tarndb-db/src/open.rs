//! From a prefix to a catalog: the newest usable checkpoint and the records after it.
//!
//! Invariant: a missing, wrong or torn hint or checkpoint costs requests, never a wrong
//! answer; only a hole above the newest checkpoint, confirmed by a GET, is corruption.
//! Spec: docs/format/log.md, "Opening".

use std::sync::Arc;
use std::time::Duration;

use tarndb_log::{LogDir, LogError, hint};
use tarndb_storage::Store;
use tarndb_types::DbVersion;

use crate::catalog::Catalog;
use crate::error::DbError;
use crate::moment::Moment;
use crate::record::{self, Record};
use crate::{checkpoint, invariants, layout};

/// Reader features of the log that this build knows.
const READER_FEATURES: [&str; 3] = [
    record::ATTACH_FEATURE,
    record::INLINE_FILES,
    record::UNDROP_FEATURE,
];

/// Records after the listed ones that are asked for at the same time, at most.
const READ_AHEAD_MAX: u64 = 16;
/// Loads of the newest catalog before a slow one is taken as it is.
const LOADS_MAX: u32 = 3;

/// A catalog and the records that were read to get it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) catalog: Catalog,
    pub(crate) records: Vec<Arc<Record>>,
}

/// Parses and checks the record at `version`.
pub(crate) fn decode_record(
    log: &LogDir,
    version: DbVersion,
    bytes: &[u8],
) -> Result<Record, DbError> {
    let record = record::parse(bytes).map_err(|source| DbError::RecordDamaged {
        key: log.key(version.0).to_string(),
        source,
    })?;
    invariants::check_record(&record, version)
        .map_err(|violation| DbError::Invariant { version, violation })?;
    check_readable(&record.reader_features, version)?;
    Ok(record)
}

fn check_readable(features: &[String], version: DbVersion) -> Result<(), DbError> {
    let unknown = features
        .iter()
        .find(|name| !READER_FEATURES.contains(&name.as_str()));
    match unknown {
        Some(feature) => Err(DbError::UnknownReaderFeature {
            version,
            feature: feature.clone(),
        }),
        None => Ok(()),
    }
}

pub(crate) fn record_missing(log: &LogDir, missing: DbVersion) -> DbError {
    DbError::RecordMissing {
        missing,
        key: log.key(missing.0).to_string(),
    }
}

pub(crate) fn log_error(log: &LogDir, error: LogError) -> DbError {
    match error {
        LogError::Missing { version, .. } => record_missing(log, DbVersion(version)),
        other => DbError::log(other),
    }
}

/// The newest catalog and a moment at which the log held nothing after it. What took so long
/// that a cleanup may have come in between is loaded again; should that not help, the moment
/// tells.
///
/// # Cost
/// As [`load_latest`].
pub(crate) async fn load_in_time(
    store: &Store,
    log: &LogDir,
    expiry: Duration,
) -> Result<(Opened, Moment), DbError> {
    let mut attempt = 1;
    loop {
        let asked = Moment::now(store.context());
        let opened = load_latest(store, log).await?;
        if asked.age(store.context()) <= expiry || attempt == LOADS_MAX {
            return Ok((opened, asked));
        }
        attempt += 1;
    }
}

/// The newest catalog.
///
/// # Cost
/// Three rounds: the hint; the checkpoint and a LIST of the log after it; the tail, 64 records
/// at a time, and the record after it, which is not there.
async fn load_latest(store: &Store, log: &LogDir) -> Result<Opened, DbError> {
    let hinted = hint::read_hint(store, &layout::hint_key())
        .await
        .map(DbVersion);
    if let Some(version) = hinted {
        let (base, listed) = tokio::join!(
            checkpoint::read(store, version),
            log.list_after(Some(version.0))
        );
        let listed = listed.map_err(DbError::log)?;
        if let Some(base) = usable(base)? {
            return finish(store, log, Some(base), listed).await;
        }
        tracing::warn!(
            version = version.0,
            "the checkpoint hint is wrong, listing instead"
        );
    }
    let (listed, checkpoints) = tokio::join!(log.list_after(None), checkpoint::list(store));
    let (listed, checkpoints) = (listed.map_err(DbError::log)?, checkpoints?);
    let base = newest_usable(store, &checkpoints).await?;
    finish(store, log, base, listed).await
}

/// The catalog at `at`, which must not be above the newest version.
///
/// # Cost
/// One LIST of the checkpoints, one GET, and the records in between in parallel.
pub(crate) async fn load_at(
    store: &Store,
    log: &LogDir,
    at: DbVersion,
    newest: DbVersion,
) -> Result<Opened, DbError> {
    let mut checkpoints = checkpoint::list(store).await?;
    let oldest = checkpoints.first().copied().unwrap_or(DbVersion::ZERO);
    checkpoints.retain(|version| *version <= at);
    let base = newest_usable(store, &checkpoints).await?;
    let start = base.as_ref().map_or(0, |catalog| catalog.version().0 + 1);
    let tail = match log.read_many(start..at.0 + 1).await {
        Err(LogError::Missing { .. }) => {
            return Err(DbError::VersionNotFound {
                wanted: at,
                oldest,
                newest,
            });
        }
        other => other.map_err(DbError::log)?,
    };
    replay(log, base, tail)
}

/// `None` when it is absent or unusable; an error only when the store fails.
fn usable(read: Result<Option<Catalog>, DbError>) -> Result<Option<Catalog>, DbError> {
    match read {
        Ok(Some(catalog)) => {
            let features: Vec<String> = catalog.reader_features().map(str::to_owned).collect();
            check_readable(&features, catalog.version())?;
            Ok(Some(catalog))
        }
        Ok(None) => Ok(None),
        Err(error @ DbError::CheckpointUnusable { .. }) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a checkpoint is unusable"
            );
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

pub(crate) async fn newest_usable(
    store: &Store,
    versions: &[DbVersion],
) -> Result<Option<Catalog>, DbError> {
    for version in versions.iter().rev() {
        if let Some(catalog) = usable(checkpoint::read(store, *version).await)? {
            return Ok(Some(catalog));
        }
    }
    Ok(None)
}

async fn finish(
    store: &Store,
    log: &LogDir,
    base: Option<Catalog>,
    listed: Vec<u64>,
) -> Result<Opened, DbError> {
    let start = base.as_ref().map_or(0, |catalog| catalog.version().0 + 1);
    let listed: Vec<u64> = listed
        .into_iter()
        .filter(|version| *version >= start)
        .collect();
    // The record after the last one listed is asked for by name: a listing may not know yet
    // what was written a moment ago.
    let end = listed.last().map_or(start, |last| last + 1);
    let (tail, after) = tokio::join!(log.read_many(start..end), read_after(log, end));
    let after = after?;
    if start == end && after.is_empty() {
        return match base {
            Some(catalog) => Ok(Opened {
                catalog,
                records: Vec::new(),
            }),
            None => Err(DbError::NotADatabase {
                url: store.url().to_owned(),
            }),
        };
    }
    match tail {
        Ok(mut tail) => {
            tail.extend(after);
            replay(log, base, tail)
        }
        // A cleanup may have removed a prefix that a newer checkpoint covers.
        Err(LogError::Missing { version, .. }) => {
            let checkpoints = checkpoint::list(store).await?;
            let newest = newest_usable(store, &checkpoints).await?;
            let Some(newer) = newest.filter(|catalog| catalog.version().0 >= version) else {
                return Err(record_missing(log, DbVersion(version)));
            };
            let first = newer.version().0 + 1;
            let tail = log.read_many(first..end.max(first));
            let mut tail = tail.await.map_err(|error| log_error(log, error))?;
            tail.extend(read_after(log, end.max(first)).await?);
            replay(log, Some(newer), tail)
        }
        Err(other) => Err(DbError::log(other)),
    }
}

/// Records from `first` on: none, as a rule.
async fn read_after(log: &LogDir, first: u64) -> Result<Vec<(u64, bytes::Bytes)>, DbError> {
    let mut all: Vec<(u64, bytes::Bytes)> = Vec::new();
    let mut width = 1;
    loop {
        let next = first + all.len() as u64;
        let read = log.read_on(next, width).await.map_err(DbError::log)?;
        let is_end = (read.len() as u64) < width;
        all.extend(read);
        if is_end {
            return Ok(all);
        }
        width = (width * 2).min(READ_AHEAD_MAX);
    }
}

fn replay(
    log: &LogDir,
    base: Option<Catalog>,
    tail: Vec<(u64, bytes::Bytes)>,
) -> Result<Opened, DbError> {
    let mut catalog = base;
    let mut records = Vec::with_capacity(tail.len());
    for (version, bytes) in tail {
        let version = DbVersion(version);
        let record = decode_record(log, version, &bytes)?;
        let next = match &catalog {
            Some(catalog) => catalog.apply(&record),
            None => Catalog::genesis(&record),
        };
        catalog = Some(next.map_err(|violation| DbError::Invariant { version, violation })?);
        records.push(Arc::new(record));
    }
    let catalog = catalog.ok_or(DbError::Internal {
        what: "a replay of no record",
    })?;
    invariants::check_catalog(&catalog).map_err(|violation| DbError::Invariant {
        version: catalog.version(),
        violation,
    })?;
    Ok(Opened { catalog, records })
}
