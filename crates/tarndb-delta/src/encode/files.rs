//! The file actions of a commit, and the rules they must keep.
//!
//! Invariant: at most one add and one remove per path, never with the same vector id; a
//! remove repeats the live add byte for byte where it must.
//! Spec: Delta PROTOCOL, "Add File and Remove File", "Action Reconciliation".

use std::collections::BTreeSet;

use tarndb_table::{Commit, DataFile, Deletion, DvDescriptor, FileUpdate, Statistics};

use super::draft::Draft;
use super::restore::{restored_file, stores_vector};
use crate::action::{Action, Add, Cdc, Remove};
use crate::checkpoint::write::tags;
use crate::error::DeltaError;
use crate::state::vector_id;
use crate::{dv, path, stats_json};

/// Property that keeps rows from being removed.
const APPEND_ONLY: &str = "delta.appendOnly";
/// Property that asks for a change data feed.
const CHANGE_DATA_FEED: &str = "delta.enableChangeDataFeed";

fn illegal(rule: &'static str, detail: impl Into<String>) -> DeltaError {
    DeltaError::IllegalCommit {
        rule,
        detail: detail.into(),
    }
}

/// Does the commit store any deletion vector?
pub(super) fn stores_vectors(commit: &Commit<'_>) -> bool {
    commit.updates.iter().any(|update| update.new.is_some())
        || commit.adds.iter().any(|add| stores_vector(commit, add))
}

/// Removes, then adds.
pub(super) fn file_actions(commit: &Commit<'_>, draft: &Draft) -> Result<Vec<Action>, DeltaError> {
    let gone = || {
        commit
            .updates
            .iter()
            .map(|update| &update.old)
            .chain(commit.removes)
    };
    let append_only = draft.is_append_only() || (draft.restored && draft.was_on(APPEND_ONLY));
    if commit.data_change && append_only && gone().next().is_some() {
        return Err(DeltaError::AppendOnly);
    }
    let mut removed = BTreeSet::new();
    let mut actions = Vec::new();
    for file in gone() {
        check_live(commit, file)?;
        if !removed.insert(file.path.as_str()) {
            return Err(illegal("a path is removed once", &file.path));
        }
        actions.push(Action::Remove(Box::new(remove(file, commit))));
    }
    let mut added = BTreeSet::new();
    for update in commit.updates {
        if let Some(vector) = &update.new {
            added.insert(update.old.path.as_str());
            actions.push(Action::Add(Box::new(updated_add(
                update, vector, commit, draft,
            )?)));
        }
    }
    let live = |path: &str| {
        commit
            .head
            .is_some_and(|head| head.files.contains_key(path))
    };
    for file in commit.adds {
        if !added.insert(file.path.as_str()) {
            return Err(illegal("a path is added once", &file.path));
        }
        let goes = removed.contains(file.path.as_str());
        let add = match restored_file(commit, file) {
            Some(then) => {
                check_restored(commit, file, goes)?;
                restored_add(file, &then, commit, draft)?
            }
            None if goes || live(&file.path) => {
                return Err(illegal("a new file has a new path", &file.path));
            }
            None => new_add(file, commit, draft)?,
        };
        actions.push(Action::Add(Box::new(add)));
    }
    // Without a feed nobody asks for them.
    if draft.is_on(CHANGE_DATA_FEED) {
        for file in commit.changes {
            check_new(file, draft)?;
            actions.push(Action::Cdc(Box::new(changed_rows(file))));
        }
    }
    Ok(actions)
}

fn changed_rows(file: &DataFile) -> Cdc {
    Cdc {
        path: file.raw_path.clone(),
        partition_values: file.partition_values.clone(),
        size: i64::try_from(file.size_bytes).unwrap_or(i64::MAX),
        data_change: false,
        tags: None,
    }
}

/// Is the file live in the head, with the vector that it is said to have?
fn check_live(commit: &Commit<'_>, file: &DataFile) -> Result<(), DeltaError> {
    let live = commit.head.and_then(|head| head.files.get(&file.path));
    match live {
        Some(live)
            if live.raw_path == file.raw_path
                && vector_id(&live.deletion) == vector_id(&file.deletion)
                && !matches!(file.deletion, Deletion::Loaded(_)) =>
        {
            Ok(())
        }
        _ => Err(illegal(
            "only a live file with its present vector is removed",
            &file.path,
        )),
    }
}

fn remove(file: &DataFile, commit: &Commit<'_>) -> Remove {
    Remove {
        path: file.raw_path.clone(),
        deletion_timestamp: Some(commit.stamp.timestamp.0),
        data_change: commit.data_change,
        extended_file_metadata: Some(true),
        partition_values: Some(file.partition_values.clone()),
        size: Some(i64::try_from(file.size_bytes).unwrap_or(i64::MAX)),
        stats: file.raw_stats.clone(),
        tags: tags(file),
        deletion_vector: match &file.deletion {
            Deletion::Stored(descriptor) => Some(dv::from_descriptor(descriptor)),
            Deletion::None | Deletion::Loaded(_) => None,
        },
        base_row_id: file.base_row_id,
        default_row_commit_version: file.default_row_commit_version,
    }
}

/// The add of a file that stays with more deleted rows.
fn updated_add(
    update: &FileUpdate,
    vector: &DvDescriptor,
    commit: &Commit<'_>,
    draft: &Draft,
) -> Result<Add, DeltaError> {
    let old = update.old.as_ref();
    let vector = dv::from_descriptor(vector);
    if vector_id(&old.deletion).as_ref() == Some(&vector.unique_id()) {
        return Err(illegal("a new deletion vector has a new id", &old.path));
    }
    let before = i64::try_from(old.deletion.cardinality()).unwrap_or(i64::MAX);
    if vector.cardinality < before {
        return Err(illegal("a deletion vector only grows", &old.path));
    }
    let rows = old.num_records().and_then(|rows| i64::try_from(rows).ok());
    if rows.is_some_and(|rows| vector.cardinality >= rows) {
        return Err(illegal("a file without live rows is removed", &old.path));
    }
    let mut add = base_add(old, commit);
    add.stats = loose_statistics(old, draft);
    if add.stats.is_none() {
        return Err(illegal(
            "a file with a deletion vector states its rows",
            &old.path,
        ));
    }
    add.deletion_vector = Some(vector);
    Ok(add)
}

/// The file's statistics for a set of rows that has shrunk.
fn loose_statistics(file: &DataFile, draft: &Draft) -> Option<String> {
    let kept = file.raw_stats.as_deref().and_then(stats_json::loosened);
    kept.or_else(|| {
        let known = file
            .stats
            .as_ref()
            .filter(|stats| stats.num_records.is_some())?;
        let loose = Statistics {
            tight_bounds: false,
            ..known.as_ref().clone()
        };
        Some(stats_json::write(&loose, &draft.schema))
    })
}

/// Path and partition values of a file that the table did not have.
fn check_new(file: &DataFile, draft: &Draft) -> Result<(), DeltaError> {
    if path::table_path(&file.raw_path)? != file.path
        || (!path::is_inside(&file.path) && file.beside.is_none())
    {
        return Err(illegal(
            "a path of the log names a file below the table",
            &file.raw_path,
        ));
    }
    let columns = draft.metadata.partition_columns.iter();
    let stored = columns.filter_map(|name| Some(draft.schema.field(name)?.1.stored_name()));
    let mut expected = stored.collect::<Vec<_>>();
    expected.sort_unstable();
    if !file.partition_values.keys().eq(expected) {
        return Err(illegal(
            "partition values are those of the table's columns",
            &file.path,
        ));
    }
    if file
        .partition_values
        .values()
        .any(|value| value.as_deref() == Some(""))
    {
        return Err(illegal(
            "an empty partition value is written as null",
            &file.path,
        ));
    }
    Ok(())
}

/// A file that comes back is not live, or goes with another vector in the same commit.
fn check_restored(commit: &Commit<'_>, file: &DataFile, goes: bool) -> Result<(), DeltaError> {
    let live = commit.head.and_then(|head| head.files.get(&file.path));
    match live {
        Some(live) if !goes || vector_id(&live.deletion) == vector_id(&file.deletion) => Err(
            illegal("a file that is live does not come back", &file.path),
        ),
        _ => Ok(()),
    }
}

/// The add of a file that the table had, as it was but for the rows deleted in it now.
fn restored_add(
    file: &DataFile,
    then: &DataFile,
    commit: &Commit<'_>,
    draft: &Draft,
) -> Result<Add, DeltaError> {
    let mut add = base_add(then, commit);
    add.stats = then.raw_stats.clone();
    if vector_id(&file.deletion) != vector_id(&then.deletion) {
        add.stats = loose_statistics(then, draft);
        if file.deletion.cardinality() < then.deletion.cardinality() || add.stats.is_none() {
            return Err(illegal(
                "a deletion vector only grows, for a file that states its rows",
                &file.path,
            ));
        }
    }
    match &file.deletion {
        Deletion::None => {}
        Deletion::Stored(descriptor) => {
            add.deletion_vector = Some(dv::from_descriptor(descriptor));
        }
        Deletion::Loaded(_) => {
            return Err(illegal(
                "deleted rows are stored before they are committed",
                &file.path,
            ));
        }
    }
    Ok(add)
}

/// The add of a file that the table did not have.
fn new_add(file: &DataFile, commit: &Commit<'_>, draft: &Draft) -> Result<Add, DeltaError> {
    check_new(file, draft)?;
    let mut add = base_add(file, commit);
    add.stats = file.raw_stats.clone().or_else(|| {
        file.stats
            .as_ref()
            .map(|statistics| stats_json::write(statistics, &draft.schema))
    });
    match &file.deletion {
        Deletion::None => {}
        Deletion::Loaded(_) => {
            return Err(illegal(
                "deleted rows are stored before they are committed",
                &file.path,
            ));
        }
        Deletion::Stored(_) if file.num_records().is_none() => {
            return Err(illegal(
                "a file with a deletion vector states its rows",
                &file.path,
            ));
        }
        Deletion::Stored(descriptor) => {
            add.deletion_vector = Some(dv::from_descriptor(descriptor));
        }
    }
    Ok(add)
}

fn base_add(file: &DataFile, commit: &Commit<'_>) -> Add {
    Add {
        path: file.raw_path.clone(),
        partition_values: file.partition_values.clone(),
        size: i64::try_from(file.size_bytes).unwrap_or(i64::MAX),
        modification_time: file.modification_time_ms,
        data_change: commit.data_change,
        stats: None,
        tags: tags(file),
        deletion_vector: None,
        base_row_id: file.base_row_id,
        default_row_commit_version: file.default_row_commit_version,
        clustering_provider: file.clustering_provider.clone(),
    }
}
