//! Checking a table's own log against the database log.
//!
//! Invariant: a version that is not published yet is no finding; one that is must have exactly
//! the bytes of its record. What a foreign client's cleanup removed below a checkpoint is none.

use std::collections::BTreeMap;

use tarndb_storage::{ObjectInfo, Path};
use tarndb_types::TableVersion;

use super::log::{Expected, Replayed, has_hash};
use super::{CheckReport, Finding, kind};
use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;
use crate::states::{staged_key, staged_matches};

pub(super) async fn check_published(
    inner: &Inner,
    table: &TableEntry,
    replayed: &Replayed,
    listed: &[ObjectInfo],
    report: &mut CheckReport,
) -> Result<(), DbError> {
    let published = published_files(inner, table, listed)?;
    let checkpointed = newest_checkpoint(table, listed);
    let newest = published.last_key_value().map(|(version, _)| *version);
    for version in 0..=table.version.0 {
        let expected = replayed.entries.get(&(table.id, TableVersion(version)));
        match (published.get(&version), expected) {
            (Some(key), Some(expected)) => {
                compare(inner, table, TableVersion(version), key, expected, report).await?;
            }
            (None, _) if newest > Some(version) && checkpointed < Some(version) => {
                let detail = "the version is missing although newer ones are published";
                report.findings.push(
                    Finding::new(kind::PUBLISHED_MISSING, detail)
                        .table(table.display_name())
                        .version(TableVersion(version)),
                );
            }
            (
                None,
                Some(Expected {
                    staged: Some(staged),
                    ..
                }),
            ) => {
                let key = staged_key(table, staged);
                let bytes = match &key {
                    Some(key) => inner.store.get(key).await?,
                    None => None,
                };
                if !bytes.is_some_and(|bytes| staged_matches(staged, &bytes)) {
                    let detail = "the staged version is missing or has other content";
                    report.findings.push(
                        Finding::new(kind::STAGED_DAMAGED, detail)
                            .table(table.display_name())
                            .version(TableVersion(version))
                            .file(format!("{}/{}", table.location, staged.path)),
                    );
                }
            }
            _ => {}
        }
    }
    for (version, key) in published.range(table.version.0 + 1..) {
        if is_of_a_newer_record(inner, table, *version).await? {
            continue;
        }
        let detail = "a version above the table's own: a foreign writer's";
        report.findings.push(
            Finding::new(kind::PUBLISHED_FOREIGN, detail)
                .table(table.display_name())
                .version(TableVersion(*version))
                .file(key.to_string()),
        );
    }
    Ok(())
}

/// The files of a table's own log.
fn published_files(
    inner: &Inner,
    table: &TableEntry,
    listed: &[ObjectInfo],
) -> Result<BTreeMap<u64, Path>, DbError> {
    let codec = inner.codec(&table.format, &table.display_name())?;
    let published = listed.iter().filter_map(|object| {
        let version = version_of(&object.key)?;
        let key = codec.published_key(&table.location, TableVersion(version));
        (key == object.key).then_some((version, key))
    });
    Ok(published.collect())
}

/// The data files, with their sizes, that need not be stored yet: they ride in the records of
/// versions that are not published.
pub(super) fn waiting_files(
    inner: &Inner,
    table: &TableEntry,
    replayed: &Replayed,
    listed: &[ObjectInfo],
) -> Result<BTreeMap<String, u64>, DbError> {
    let published = published_files(inner, table, listed)?;
    let newest = published.last_key_value().map(|(version, _)| *version);
    let first = newest.map_or(0, |version| version + 1);
    let range = (table.id, TableVersion(first))..=(table.id, table.version);
    let waiting = if range.is_empty() {
        BTreeMap::new()
    } else {
        let entries = replayed.entries.range(range);
        entries
            .flat_map(|(_, expected)| expected.files.clone())
            .collect()
    };
    Ok(waiting)
}

async fn compare(
    inner: &Inner,
    table: &TableEntry,
    version: TableVersion,
    key: &Path,
    expected: &Expected,
    report: &mut CheckReport,
) -> Result<(), DbError> {
    let bytes = inner.store.get(key).await?;
    if !bytes.is_some_and(|bytes| has_hash(&bytes, &expected.hash)) {
        let detail = "the published version has other content than the database log";
        report.findings.push(
            Finding::new(kind::PUBLISHED_DIFFERS, detail)
                .table(table.display_name())
                .version(version)
                .file(key.to_string()),
        );
    }
    Ok(())
}

/// Whether the database committed the version after the check had read the log.
async fn is_of_a_newer_record(
    inner: &Inner,
    table: &TableEntry,
    version: u64,
) -> Result<bool, DbError> {
    inner.refresh().await?;
    let newest = inner.head.catalog();
    let newest = newest.table_or_dropped(table.id);
    Ok(newest.is_some_and(|newest| newest.version.0 >= version))
}

/// The version in a file name that begins with 20 digits.
fn version_of(key: &Path) -> Option<u64> {
    let name = key.filename()?;
    let digits = name
        .get(..20)
        .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
    digits.parse().ok()
}

/// The newest version with a checkpoint.
fn newest_checkpoint(table: &TableEntry, listed: &[ObjectInfo]) -> Option<u64> {
    checkpoint_versions(table, listed).max()
}

/// Versions with a checkpoint, ours or a foreign client's.
pub(super) fn checkpoint_versions<'a>(
    table: &TableEntry,
    listed: &'a [ObjectInfo],
) -> impl Iterator<Item = u64> + 'a {
    let dir = format!("{}/_delta_log/", table.location);
    let keys = listed.iter().map(|object| &object.key);
    keys.filter(move |key| {
        let name = key.as_ref().strip_prefix(&dir);
        name.is_some_and(|name| name.contains(".checkpoint.") && !name.contains('/'))
    })
    .filter_map(version_of)
}
