//! The draft of a table that is created as a clone.
//!
//! Invariant: schema with its ids, partitioning, properties, rules, features and domains are the
//! source's; identity, name, and what counts the source's own versions are not. The marks of row
//! and column ids go on where the source's stand.
//! Does not: know files; those are added like any others.
//! Spec: docs/format/delta.md, "Clones"; Delta PROTOCOL, "Change Metadata", "Row Tracking".

use std::collections::BTreeSet;

use tarndb_table::{CloneSource, Commit, MetadataChange, TableDefinition};

use super::domains::Domains;
use super::draft::Draft;
use super::membership::IN_COMMIT_TIMESTAMPS;
use super::{Authority, DOMAIN};
use crate::action::{Metadata, Protocol};
use crate::clustering;
use crate::column_mapping::table_schema;
use crate::error::DeltaError;
use crate::feature;
use crate::native::protocol::writer_features;
use crate::state::DeltaState;

/// Versions below this one are protected from cleanups; a clone has none of them.
const PROTECTED_BEFORE: &str = "delta.requireCheckpointProtectionBeforeVersion";

/// The table that the commit creates a clone of.
pub(super) fn source<'a>(commit: &Commit<'a>) -> Option<&'a CloneSource> {
    match commit.metadata.first() {
        Some(MetadataChange::CloneOf(source)) if commit.head.is_none() => Some(source),
        _ => None,
    }
}

impl Draft {
    /// The definition of a clone.
    ///
    /// # Errors
    /// A source that is not this format's, or that a catalog of another kind manages.
    pub(super) fn cloned(
        definition: &TableDefinition,
        source: &CloneSource,
        commit: &Commit<'_>,
        authority: Authority,
    ) -> Result<Self, DeltaError> {
        let delta = DeltaState::of(&source.0)?;
        let protocol = protocol(&delta.protocol, authority)?;
        let metadata = metadata(&delta.metadata, definition, commit, authority);
        let mut domains = Domains::default();
        let kept = delta.domains.iter().filter(|(name, _)| *name != DOMAIN);
        for (name, configuration) in kept {
            domains.set(name, Some(configuration.clone()));
        }
        Ok(Self {
            authority,
            base: None,
            schema: table_schema(&protocol, &metadata)?,
            protocol,
            metadata,
            features: BTreeSet::new(),
            clustering: clustering::columns_of(&delta.domains),
            domains,
            dropped: BTreeSet::new(),
            released: false,
            changes: Vec::new(),
            restored: false,
        })
    }
}

impl Draft {
    /// Has the table vectors without asking for more of them, as its source has?
    pub(super) fn has_cloned_vectors(&self, commit: &Commit<'_>) -> bool {
        let listed = self
            .protocol
            .lists_writer_feature(feature::DELETION_VECTORS);
        listed && source(commit).is_some()
    }

    /// A table that is there already never becomes a clone.
    pub(super) fn check_cloned(&self) -> Result<(), DeltaError> {
        match &self.base {
            None => Ok(()),
            Some(_) => Err(DeltaError::IllegalCommit {
                rule: "a clone is made when its table is created",
                detail: self.metadata.id.clone(),
            }),
        }
    }
}

/// The source's protocol in the form that its new authority asks for.
fn protocol(source: &Protocol, authority: Authority) -> Result<Protocol, DeltaError> {
    if source.lists_reader_feature(feature::CATALOG_MANAGED) {
        return Err(DeltaError::CatalogManaged);
    }
    let mut features: BTreeSet<&'static str> = BTreeSet::new();
    for name in writer_features(source) {
        if name == feature::MANAGED {
            continue;
        }
        let known = feature::writable(name);
        features.insert(known.ok_or_else(|| DeltaError::UnsupportedWriterFeature {
            feature: name.to_owned(),
        })?);
    }
    Ok(if authority.is_database() {
        feature::managed_protocol(&features)
    } else {
        crate::native::protocol::lowest_protocol(&features)
    })
}

fn metadata(
    source: &Metadata,
    definition: &TableDefinition,
    commit: &Commit<'_>,
    authority: Authority,
) -> Metadata {
    let mut metadata = Metadata {
        id: definition.id.to_string(),
        name: Some(definition.name.clone()),
        created_time: Some(commit.stamp.timestamp.0),
        ..source.clone()
    };
    let configuration = &mut metadata.configuration;
    for key in ["Version", "Timestamp"] {
        configuration.remove(&format!("delta.inCommitTimestampEnablement{key}"));
    }
    configuration.remove(PROTECTED_BEFORE);
    if authority.is_database() {
        configuration.insert(IN_COMMIT_TIMESTAMPS.to_owned(), "true".to_owned());
    }
    metadata
}
