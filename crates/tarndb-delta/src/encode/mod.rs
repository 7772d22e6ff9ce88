//! Encoding a commit: from what is to change to the lines of the log.
//!
//! Invariant: pure and deterministic; changes of metadata are applied to the head's own
//! actions, so nothing that this build does not know is lost; a commit that breaks a rule of
//! the format is refused before anything is stored.
//! Spec: Delta PROTOCOL, "Requirements for Writers"; docs/format/publishing.md.

mod authority;
mod cloned;
mod depends;
mod domains;
mod draft;
mod drop_feature;
mod evolve;
mod files;
mod mapping;
pub(crate) mod membership;
mod property;
mod restore;
pub(crate) mod row_ids;
mod rules;
mod stats_columns;
mod widen;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tarndb_table::{Commit, Entry, MetadataChange};

pub(crate) use self::authority::Authority;
use self::draft::Draft;
pub(crate) use self::draft::checked_partitioning;
use self::drop_feature::drop_feature;
use self::restore::restore;
pub use self::restore::same_definition;
use self::row_ids::RowIds;
use crate::action::{Action, AppTxn, Change, CommitInfo, TarnInfo};
use crate::error::DeltaError;

/// Domain in which the database and its log position stand.
pub(crate) const DOMAIN: &str = "tarndb";

/// Says that a commit changes nothing of the metadata but marks of identity columns.
const IDENTITY_TAG: &str = "delta.identity.schemaUpdate";
/// Says that rows which were copied have kept their ids.
const ROW_IDS_TAG: &str = "delta.rowTracking.preserved";

/// The entry of a commit to a managed table.
///
/// # Errors
/// As [`encode_for`].
pub(crate) fn encode(commit: &Commit<'_>) -> Result<Entry, DeltaError> {
    encode_for(commit, Authority::Database)
}

/// The entry of a commit to a table whose next commit `authority` decides.
///
/// # Errors
/// `IllegalCommit` (a bug of the caller), `UnsupportedWriterFeature`, and the errors about
/// columns, properties and append-only tables that a user can cause.
pub(crate) fn encode_for(commit: &Commit<'_>, authority: Authority) -> Result<Entry, DeltaError> {
    let mut draft = Draft::start(commit, authority)?;
    for change in commit.metadata {
        match change {
            MetadataChange::DropFeature(name) => drop_feature(&mut draft, commit, name)?,
            MetadataChange::Restore(earlier) => restore(&mut draft, commit, &earlier.0)?,
            MetadataChange::Release => membership::release(&mut draft, commit)?,
            change => draft.change(change)?,
        }
    }
    if files::stores_vectors(commit) && !draft.has_cloned_vectors(commit) {
        draft.enable_deletion_vectors()?;
    }
    draft.enable_in_commit_timestamps(commit);
    draft.check_replaced_rules()?;
    draft.raise_features()?;
    draft.check_write()?;
    check_stamp(commit)?;
    let mut domains = std::mem::take(&mut draft.domains).actions(commit)?;
    let mut file_actions = files::file_actions(commit, &draft)?;
    if let Some(mut ids) = RowIds::start(commit, &draft)? {
        ids.number(commit, &mut file_actions)?;
        let mark = ids.domain()?;
        domains.retain(|domain| {
            mark.as_ref()
                .is_none_or(|mark| mark.domain != domain.domain)
        });
        domains.extend(mark);
    }

    let mut actions = vec![Action::CommitInfo(commit_info(commit, &draft))];
    actions.extend(draft.new_protocol().map(Action::Protocol));
    actions.extend(
        draft
            .new_metadata()
            .map(|metadata| Action::Metadata(Box::new(metadata))),
    );
    if authority.is_database() {
        domains.push(match draft.released {
            true => membership::ended(commit)?,
            false => membership::of_commit(commit)?,
        });
    }
    actions.extend(domains.into_iter().map(Action::Domain));
    actions.extend(app_transactions(commit));
    actions.extend(file_actions);
    let lines = actions
        .iter()
        .map(Action::to_line)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Entry {
        version: commit.stamp.version,
        lines,
    })
}

/// Does the commit follow its head?
fn check_stamp(commit: &Commit<'_>) -> Result<(), DeltaError> {
    let illegal = |rule, detail| Err(DeltaError::IllegalCommit { rule, detail });
    let stamp = &commit.stamp;
    let next = commit.head.map_or(0, |head| head.version.0 + 1);
    if stamp.version.0 != next {
        return illegal(
            "versions are consecutive",
            format!("{} after {next}", stamp.version),
        );
    }
    let last = commit.head.and_then(|head| head.in_commit_timestamp);
    if last.is_some_and(|last| stamp.timestamp.0 <= last) {
        return illegal("in-commit timestamps grow", stamp.timestamp.to_string());
    }
    Ok(())
}

fn commit_info(commit: &Commit<'_>, draft: &Draft) -> CommitInfo {
    let stamp = &commit.stamp;
    CommitInfo {
        timestamp: Some(stamp.timestamp.0),
        in_commit_timestamp: draft
            .has_in_commit_timestamps()
            .then_some(stamp.timestamp.0),
        operation: Some(commit.operation.to_owned()),
        operation_parameters: commit.parameters.clone(),
        operation_metrics: commit.metrics.clone(),
        read_version: stamp
            .read_version
            .and_then(|version| i64::try_from(version.0).ok()),
        isolation_level: Some(stamp.isolation.to_owned()),
        is_blind_append: Some(draft.authority.is_blind_append()),
        engine_info: Some(stamp.engine.to_owned()),
        txn_id: Some(stamp.txn.to_string()),
        tags: tags(commit, draft),
        tarndb: Some(TarnInfo {
            created: commit.head.is_none(),
            changes: draft.changes.clone(),
        }),
    }
}

/// What other engines look for in a commit.
fn tags(commit: &Commit<'_>, draft: &Draft) -> BTreeMap<String, String> {
    let mut tags = BTreeMap::new();
    let mut changes = draft.changes.iter();
    let only_marks = changes.all(|change| matches!(change, Change::Identity { .. }));
    if only_marks && !draft.changes.is_empty() {
        tags.insert(IDENTITY_TAG.to_owned(), "true".to_owned());
    }
    let changes_files =
        !(commit.adds.is_empty() && commit.updates.is_empty() && commit.removes.is_empty());
    if changes_files && draft.keeps_row_ids() {
        tags.insert(ROW_IDS_TAG.to_owned(), "true".to_owned());
    }
    tags
}

fn app_transactions<'a>(commit: &'a Commit<'_>) -> impl Iterator<Item = Action> + 'a {
    commit.app_txns.iter().map(|(app_id, version)| {
        Action::Txn(AppTxn {
            app_id: app_id.clone(),
            version: *version,
            last_updated: Some(commit.stamp.timestamp.0),
        })
    })
}
