//! `Membership`: which database a table belongs to, as the table itself says.
//!
//! Invariant: the domain `tarndb` of a managed table names its database; every commit of that
//! database writes it anew and keeps what attaching added to the table, so that detaching can
//! take it away again. A table without the managed feature belongs to nobody, whatever an old
//! domain says.
//! Spec: docs/format/delta.md, "Attaching and detaching".

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tarndb_table::{Commit, TableState};

use super::DOMAIN;
use super::draft::Draft;
use crate::action::{Change, DomainMetadata, Protocol};
use crate::error::DeltaError;
use crate::feature::{CLUSTERING, DOMAIN_METADATA, IN_COMMIT_TIMESTAMP, MANAGED, ROW_TRACKING};
use crate::state::DeltaState;

/// Properties of in-commit timestamps.
pub(crate) const IN_COMMIT_TIMESTAMPS: &str = "delta.enableInCommitTimestamps";
const ENABLED_VERSION: &str = "delta.inCommitTimestampEnablementVersion";
const ENABLED_TIMESTAMP: &str = "delta.inCommitTimestampEnablementTimestamp";

/// What the domain says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Membership {
    /// The database.
    pub(crate) database_id: String,
    /// Its version with the commit; at which it was, in the commit that attached the table.
    pub(crate) db_version: u64,
    /// The table's id there; only in the commit that attached it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) table_id: Option<String>,
    /// Features that attaching added, but for the managed one. `None`: the database created the
    /// table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) added: Option<BTreeSet<String>>,
}

impl Membership {
    /// That of a managed table; `None` when no database manages it.
    ///
    /// # Errors
    /// `BadDomain` when it does not say which one.
    pub(crate) fn of(delta: &DeltaState) -> Result<Option<Self>, DeltaError> {
        if !delta.protocol.lists_writer_feature(MANAGED) {
            return Ok(None);
        }
        let text = delta.domains.get(DOMAIN).map_or("", String::as_str);
        let read = serde_json::from_str(text);
        read.map(Some).map_err(|_| DeltaError::BadDomain {
            domain: DOMAIN.to_owned(),
            configuration: text.to_owned(),
        })
    }

    /// The action that says so.
    ///
    /// # Errors
    /// Never, in fact: all of it has a JSON form.
    pub(crate) fn domain(&self) -> Result<DomainMetadata, DeltaError> {
        let text = serde_json::to_string(self);
        Ok(DomainMetadata {
            domain: DOMAIN.to_owned(),
            configuration: text.map_err(|source| DeltaError::Encode { source })?,
            removed: false,
        })
    }
}

/// What a commit of the database says.
pub(super) fn of_commit(commit: &Commit<'_>) -> Result<DomainMetadata, DeltaError> {
    let membership = Membership {
        database_id: commit.stamp.database.to_string(),
        db_version: commit.stamp.db_version.0,
        table_id: None,
        added: commit.head.map(added_to).transpose()?.flatten(),
    };
    membership.domain()
}

/// What attaching added to a table; an unreadable domain of a table whose database commits to it
/// all the same says nothing.
fn added_to(head: &TableState) -> Result<Option<BTreeSet<String>>, DeltaError> {
    let membership = Membership::of(DeltaState::of(head)?);
    Ok(membership.ok().flatten().and_then(|known| known.added))
}

/// The end of the membership, in the words of the commit before.
pub(super) fn ended(commit: &Commit<'_>) -> Result<DomainMetadata, DeltaError> {
    let head = commit.head.map(DeltaState::of).transpose()?;
    let text = head.and_then(|head| head.domains.get(DOMAIN));
    Ok(DomainMetadata {
        domain: DOMAIN.to_owned(),
        configuration: text.cloned().unwrap_or_else(|| "{}".to_owned()),
        removed: true,
    })
}

/// Makes the table one that no database manages, without what only the database needed.
///
/// # Errors
/// `FeatureMissing` when it is none already.
pub(super) fn release(draft: &mut Draft, commit: &Commit<'_>) -> Result<(), DeltaError> {
    let missing = || DeltaError::FeatureMissing {
        feature: MANAGED.to_owned(),
    };
    let head = commit.head.ok_or_else(missing)?;
    if !draft.protocol.lists_writer_feature(MANAGED) {
        return Err(missing());
    }
    let delta = DeltaState::of(head)?;
    let added = added_to(head)?;
    let by_us = |name: &str| added.as_ref().is_none_or(|added| added.contains(name));
    let mut gone = vec![MANAGED];
    if by_us(IN_COMMIT_TIMESTAMP) {
        gone.push(IN_COMMIT_TIMESTAMP);
        for key in [IN_COMMIT_TIMESTAMPS, ENABLED_VERSION, ENABLED_TIMESTAMP] {
            draft.metadata.configuration.remove(key);
        }
    }
    if by_us(DOMAIN_METADATA) && !needs_domains(&draft.protocol, delta) {
        gone.push(DOMAIN_METADATA);
    }
    for name in gone {
        if let Some(writers) = &mut draft.protocol.writer_features {
            writers.remove(name);
        }
        draft.changes.push(Change::DropFeature {
            name: name.to_owned(),
        });
    }
    draft.released = true;
    Ok(())
}

/// Does anything but the database keep domains in the table?
fn needs_domains(protocol: &Protocol, delta: &DeltaState) -> bool {
    let others = delta.domains.keys().any(|domain| domain != DOMAIN);
    let features = [CLUSTERING, ROW_TRACKING];
    others
        || features
            .iter()
            .any(|name| protocol.lists_writer_feature(name))
}
