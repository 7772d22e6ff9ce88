//! Checking a table's live files and deletion vectors.
//!
//! Invariant: looks at the table's newest state; files that no version references are garbage
//! of no concern here.

use std::collections::BTreeMap;

use tarndb_storage::{ObjectInfo, Path};
use tarndb_table::{DataFile, Deletion, TableState};

use super::data::check_data;
use super::{CheckReport, Finding, Progress, chain, is_store_failure, kind};
use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;

/// What there is of a table's files.
#[derive(Debug)]
pub(super) struct FilesPlace<'a> {
    pub(super) table: &'a TableEntry,
    pub(super) listed: &'a [ObjectInfo],
    /// Files that are in records and need not be stored yet, with their sizes.
    pub(super) waiting: BTreeMap<String, u64>,
}

pub(super) async fn check_files(
    inner: &Inner,
    place: &FilesPlace<'_>,
    deep: bool,
    report: &mut CheckReport,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), DbError> {
    let table = place.table;
    let name = table.display_name();
    let state = match inner.table_state(table).await {
        Ok(state) => state,
        Err(error) if is_store_failure(&error) => return Err(error),
        Err(error) => {
            let finding = Finding::new(kind::TABLE_UNREADABLE, chain(&error));
            report
                .findings
                .push(finding.table(name).version(table.version));
            return Ok(());
        }
    };
    let mut shared = Vec::new();
    for base in table.bases.iter() {
        shared.extend(inner.store.list_after(base, None).await?);
    }
    let sizes: BTreeMap<&Path, u64> = place
        .listed
        .iter()
        .chain(&shared)
        .map(|object| (&object.key, object.size_bytes))
        .collect();
    let total = Some(state.files.len() as u64);
    for (done, file) in state.files.values().enumerate() {
        report.files += 1;
        progress(Progress {
            stage: name.clone(),
            done: done as u64,
            total,
        });
        let key = file.key(&table.location);
        let stored = key.ok().and_then(|key| sizes.get(&key).copied());
        let size = stored.or_else(|| place.waiting.get(&file.path).copied());
        if let Some(finding) = check_file(table, &state, &file, size) {
            report.findings.push(finding);
            continue;
        }
        check_vector(inner, table, &file, report).await?;
        if deep {
            // What this handle has in memory says nothing about what is stored.
            let store = match stored {
                Some(_) => inner.store.direct(),
                None => inner.store.clone(),
            };
            check_data(&store, table, &state, &file, report).await?;
        }
    }
    Ok(())
}

/// The file is there with its size, stored or in a record.
fn check_file(
    table: &TableEntry,
    state: &TableState,
    file: &DataFile,
    size: Option<u64>,
) -> Option<Finding> {
    let found = |kind, detail: String| {
        let finding = Finding::new(kind, detail).table(table.display_name());
        Some(finding.version(state.version).file(file.path.clone()))
    };
    if let Err(error) = file.key(&table.location) {
        return found(kind::FILE_UNREADABLE, chain(&error));
    }
    match size {
        None => found(kind::FILE_MISSING, "the data file is missing".to_owned()),
        Some(size) if size != file.size_bytes => {
            let stated = file.size_bytes;
            found(
                kind::FILE_SIZE,
                format!("the file has {size} bytes, the log says {stated}"),
            )
        }
        Some(_) => None,
    }
}

async fn check_vector(
    inner: &Inner,
    table: &TableEntry,
    file: &DataFile,
    report: &mut CheckReport,
) -> Result<(), DbError> {
    let Deletion::Stored(_) = &file.deletion else {
        return Ok(());
    };
    let mut found = |kind, detail: String| {
        let finding = Finding::new(kind, detail).table(table.display_name());
        report
            .findings
            .push(finding.version(table.version).file(file.path.clone()));
    };
    let codec = inner.codec(&table.format, &table.display_name())?;
    let loaded = codec
        .load_deletion(&inner.store, &table.location, &file.deletion)
        .await;
    let rows = match loaded.map_err(DbError::table(table.display_name())) {
        Ok(rows) => rows,
        Err(error) if is_store_failure(&error) => return Err(error),
        Err(error) => {
            found(kind::VECTOR_UNREADABLE, chain(&error));
            return Ok(());
        }
    };
    if let (Some(last), Some(count)) = (rows.max(), file.num_records())
        && last >= count
    {
        let detail = format!("the vector deletes row {last}, the file has {count} rows");
        found(kind::VECTOR_BEYOND, detail);
    }
    Ok(())
}
