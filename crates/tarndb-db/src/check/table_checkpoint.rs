//! Checking a table's checkpoints against the commits in the database log.
//!
//! Invariant: a reader may begin at any checkpoint, so each must give the state that its commits
//! give. Reads what a reader would read; says nothing about versions that the log no longer has.
//! Spec: docs/format/checkpoint.md.

use std::collections::BTreeSet;

use tarndb_storage::ObjectInfo;
use tarndb_table::TableState;
use tarndb_table::codec::LoadRequest;
use tarndb_types::TableVersion;

use super::log::Replayed;
use super::published::checkpoint_versions;
use super::{CheckReport, Finding, chain, is_store_failure, kind};
use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;

pub(super) async fn check_table_checkpoints(
    inner: &Inner,
    table: &TableEntry,
    replayed: &Replayed,
    listed: &[ObjectInfo],
    report: &mut CheckReport,
) -> Result<(), DbError> {
    let versions: BTreeSet<u64> = checkpoint_versions(table, listed)
        .filter(|version| *version <= table.version.0)
        .collect();
    let Some(last) = versions.last() else {
        return Ok(());
    };
    let name = table.display_name();
    let codec = inner.codec_of(table)?;
    let mut state: Option<TableState> = None;
    for version in (0..=*last).map(TableVersion) {
        let Some(expected) = replayed.entries.get(&(table.id, version)) else {
            return Ok(());
        };
        let entry = match inner.entry_at(table, version, expected.position).await {
            Ok(entry) => entry,
            Err(error) if is_store_failure(&error) => return Err(error),
            // Told where records and staged entries are checked.
            Err(_) => return Ok(()),
        };
        let Ok(next) = codec.apply(state.as_ref(), &entry) else {
            return Ok(());
        };
        if versions.contains(&version.0)
            && let Some(detail) = compare(inner, table, version, &next).await?
        {
            let finding = Finding::new(kind::TABLE_CHECKPOINT, detail).table(name.as_str());
            report.findings.push(finding.version(version).file(format!(
                "{}/_delta_log/{version:020}.checkpoint",
                table.location
            )));
        }
        state = Some(next);
    }
    Ok(())
}

/// What is wrong with the state that a reader gets from the checkpoint at `version`.
async fn compare(
    inner: &Inner,
    table: &TableEntry,
    version: TableVersion,
    expected: &TableState,
) -> Result<Option<String>, DbError> {
    let name = table.display_name();
    let codec = inner.codec_of(table)?;
    let request = LoadRequest {
        store: &inner.store,
        location: &table.location,
        target: version,
        published: Some(version),
        tail: &[],
    };
    let loaded = codec.load_at_its_word(request).await;
    match loaded.map_err(DbError::table(name)) {
        Ok(loaded) => Ok(difference(expected, &loaded)),
        Err(error) if is_store_failure(&error) => Err(error),
        Err(error) => Ok(Some(chain(&error))),
    }
}

fn difference(expected: &TableState, loaded: &TableState) -> Option<String> {
    if expected.schema != loaded.schema
        || expected.partition_columns != loaded.partition_columns
        || expected.properties != loaded.properties
    {
        return Some("it has another schema or other properties than the commits".to_owned());
    }
    let lost = expected.files.without_statistics().find(|file| {
        loaded.files.get(&file.path).is_none_or(|found| {
            found.size_bytes != file.size_bytes
                || found.deletion != file.deletion
                || found.partition_values != file.partition_values
        })
    });
    if let Some(file) = lost {
        let path = &file.path;
        return Some(format!("it lacks a live file or changes it: file={path}"));
    }
    let extra = loaded
        .files
        .paths()
        .find(|path| !expected.files.contains_key(path));
    extra.map(|path| format!("it has a file that is not live: file={path}"))
}
