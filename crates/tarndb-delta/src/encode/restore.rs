//! Going back to an earlier definition of a table, and to files that it had.
//!
//! Invariant: what must never go back stays as it is at the head: features of the protocol, the
//! highest column number, marks of identity columns and row ids, in-commit timestamps, protected
//! checkpoints, application transactions. All else is as it was, verbatim.
//! Does not: say which files come back and go; whoever commits does.
//! Spec: Delta PROTOCOL, "Protocol Evolution", "Column Mapping", "Row Tracking"; docs/format/delta.md,
//! "Restoring a version".

use tarndb_table::rules::{IDENTITY_MARK, Identity};
use tarndb_table::{Commit, DataFile, Deletion, Schema, TableState};

use super::DOMAIN;
use super::draft::Draft;
use super::mapping::MAX_ID;
use super::row_ids::ROW_TRACKING_DOMAIN;
use crate::action::{Change, Metadata};
use crate::clustering;
use crate::column_mapping::table_schema;
use crate::error::DeltaError;
use crate::feature;
use crate::native::protocol::{has_feature, writer_features};
use crate::state::{DeltaState, vector_id};

/// Properties of the head that stay, there or not.
const STAY: [&str; 4] = [
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.requireCheckpointProtectionBeforeVersion",
];

/// Whether two states of a table have one definition: protocol, columns, properties, domains.
/// What a database and row tracking keep in domains of their own is none of it.
///
/// # Errors
/// A state of another format.
pub fn same_definition(one: &TableState, other: &TableState) -> Result<bool, DeltaError> {
    let (one, other) = (DeltaState::of(one)?, DeltaState::of(other)?);
    Ok(one.protocol == other.protocol
        && one.metadata == other.metadata
        && users(one).eq(users(other)))
}

/// Domains that are part of a definition.
fn users(state: &DeltaState) -> impl Iterator<Item = (&String, &String)> {
    let kept = |domain: &str| domain == DOMAIN || domain == ROW_TRACKING_DOMAIN;
    state
        .domains
        .iter()
        .filter(move |(domain, _)| !kept(domain))
}

/// Gives the draft the definition of `earlier`.
///
/// # Errors
/// A table that is new; a feature that this build may not add to a table.
pub(super) fn restore(
    draft: &mut Draft,
    commit: &Commit<'_>,
    earlier: &TableState,
) -> Result<(), DeltaError> {
    let head = commit.head.ok_or_else(|| DeltaError::IllegalCommit {
        rule: "a new table has no earlier version",
        detail: earlier.version.to_string(),
    })?;
    let (head, then) = (DeltaState::of(head)?, DeltaState::of(earlier)?);
    for name in writer_features(&then.protocol) {
        // Whose table it is now, an earlier version does not say.
        if name != feature::MANAGED && !has_feature(&draft.protocol, name) {
            let known = feature::writable(name);
            draft.raise(known.ok_or_else(|| DeltaError::UnsupportedWriterFeature {
                feature: name.to_owned(),
            })?);
        }
    }
    draft.metadata = kept_metadata(&then.metadata, &draft.metadata);
    let mut schema = table_schema(&then.protocol, &then.metadata)?;
    let marked = keep_marks(&mut schema, &draft.schema)?;
    draft.schema = schema;
    if marked {
        draft.refresh_schema()?;
    }
    for (domain, configuration) in users(then) {
        if head.domains.get(domain) != Some(configuration) {
            draft.domains.set(domain, Some(configuration.clone()));
        }
    }
    for (domain, _) in users(head).filter(|(domain, _)| !then.domains.contains_key(*domain)) {
        draft.domains.set(domain, None);
    }
    draft.clustering = clustering::columns_of(&then.domains);
    draft.restored = true;
    draft.changes.push(Change::ReplaceSchema);
    Ok(())
}

/// `then` with what stays of `now`.
fn kept_metadata(then: &Metadata, now: &Metadata) -> Metadata {
    let mut kept = Metadata {
        id: now.id.clone(),
        ..then.clone()
    };
    for key in STAY {
        match now.configuration.get(key) {
            Some(value) => kept.configuration.insert(key.to_owned(), value.clone()),
            None => kept.configuration.remove(key),
        };
    }
    let number = |metadata: &Metadata| -> Option<i64> {
        let text = metadata.configuration.get(MAX_ID)?;
        text.trim().parse().ok()
    };
    if let Some(highest) = number(now).filter(|now| number(then).is_none_or(|then| then < *now)) {
        let highest = highest.to_string();
        kept.configuration.insert(MAX_ID.to_owned(), highest);
    }
    kept
}

/// Moves the marks of identity columns to those of `now`, where these are further.
fn keep_marks(then: &mut Schema, now: &Schema) -> Result<bool, DeltaError> {
    let rule = |error: tarndb_table::RuleError| DeltaError::from_table(error.into());
    let mut marked = false;
    for field in &mut then.fields {
        let Some(identity) = Identity::of(field).map_err(rule)? else {
            continue;
        };
        // One that was renamed since has the name that files know it by.
        let same = now
            .fields
            .iter()
            .find(|other| match (&field.physical, &other.physical) {
                (Some(one), Some(other)) => one.id == other.id,
                _ => field
                    .stored_name()
                    .eq_ignore_ascii_case(other.stored_name()),
            });
        let mark = match same.map(Identity::of).transpose().map_err(rule)?.flatten() {
            Some(same) => same.mark.filter(|mark| identity.is_beyond(*mark)),
            None => None,
        };
        if let Some(mark) = mark {
            field.metadata.insert(IDENTITY_MARK.to_owned(), mark.into());
            marked = true;
        }
    }
    Ok(marked)
}

/// The file of the version that the commit restores which `file` is, whatever was deleted in it
/// since.
pub(super) fn restored_file(
    commit: &Commit<'_>,
    file: &DataFile,
) -> Option<std::sync::Arc<DataFile>> {
    let then = commit.restored?.files.get(&file.path)?;
    (then.raw_path == file.raw_path).then_some(then)
}

/// Whether the commit stores a vector for the file, rather than naming the one that it had.
pub(super) fn stores_vector(commit: &Commit<'_>, file: &DataFile) -> bool {
    match (&file.deletion, restored_file(commit, file)) {
        (Deletion::None, _) => false,
        (ours, Some(then)) => vector_id(ours) != vector_id(&then.deletion),
        (_, None) => true,
    }
}
