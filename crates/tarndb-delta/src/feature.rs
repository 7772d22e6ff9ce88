//! Protocol versions and table features: what this build may read and write.
//!
//! Invariant: names that stand only in the writer list never stop a reader; an unknown name
//! in the list that matters refuses by that name; a listed feature is never dropped.
//! Spec: Delta PROTOCOL, "Table Features".

use std::collections::BTreeSet;

use tarndb_table::{DataType, Field, TableState, rules};

use crate::action::{Metadata, Protocol};
use crate::column_mapping;
use crate::error::DeltaError;
use crate::state::DeltaState;

pub(crate) const DELETION_VECTORS: &str = "deletionVectors";
pub(crate) const TIMESTAMP_NTZ: &str = "timestampNtz";
pub(crate) const APPEND_ONLY: &str = "appendOnly";
pub(crate) const INVARIANTS: &str = "invariants";
pub(crate) const DOMAIN_METADATA: &str = "domainMetadata";
pub(crate) const IN_COMMIT_TIMESTAMP: &str = "inCommitTimestamp";
pub(crate) const ALLOW_COLUMN_DEFAULTS: &str = "allowColumnDefaults";
pub(crate) const CHECK_CONSTRAINTS: &str = "checkConstraints";
pub(crate) const GENERATED_COLUMNS: &str = "generatedColumns";
pub(crate) const IDENTITY_COLUMNS: &str = "identityColumns";
pub(crate) const CHANGE_DATA_FEED: &str = "changeDataFeed";
pub(crate) const COLUMN_MAPPING: &str = "columnMapping";
pub(crate) const TYPE_WIDENING: &str = "typeWidening";
pub(crate) const CHECKPOINT_PROTECTION: &str = "checkpointProtection";
pub(crate) const CLUSTERING: &str = "clustering";
pub(crate) const ROW_TRACKING: &str = "rowTracking";
pub(crate) const V2_CHECKPOINT: &str = "v2Checkpoint";
pub(crate) const VACUUM_PROTOCOL_CHECK: &str = "vacuumProtocolCheck";
/// Writer-only feature of tables that a TarnDB database manages.
pub const MANAGED: &str = "tarndbManaged";

/// Reader features whose duty this build fulfils.
pub const READER_FEATURES: [&str; 12] = [
    CATALOG_MANAGED,
    "columnMapping",
    DELETION_VECTORS,
    TIMESTAMP_NTZ,
    "timestampWithoutTimezone",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantType",
    "variantType-preview",
    // Files that make use of it are refused one by one.
    "variantShredding",
];
/// Reader feature of tables whose commits a catalog decides.
pub(crate) const CATALOG_MANAGED: &str = "catalogManaged";

/// Writer features whose duty this build fulfils on managed tables.
pub const WRITER_FEATURES: &[&str] = &[
    ALLOW_COLUMN_DEFAULTS,
    APPEND_ONLY,
    CHECK_CONSTRAINTS,
    COLUMN_MAPPING,
    CHANGE_DATA_FEED,
    CHECKPOINT_PROTECTION,
    CLUSTERING,
    DELETION_VECTORS,
    DOMAIN_METADATA,
    GENERATED_COLUMNS,
    IDENTITY_COLUMNS,
    IN_COMMIT_TIMESTAMP,
    INVARIANTS,
    MANAGED,
    ROW_TRACKING,
    TIMESTAMP_NTZ,
    TYPE_WIDENING,
    V2_CHECKPOINT,
    VACUUM_PROTOCOL_CHECK,
];

/// Features that stand in the reader list too.
pub(crate) const READER_WRITER: &[&str] = &[
    COLUMN_MAPPING,
    DELETION_VECTORS,
    TIMESTAMP_NTZ,
    TYPE_WIDENING,
    V2_CHECKPOINT,
    VACUUM_PROTOCOL_CHECK,
];

/// Features that a feature needs beside it.
const NEEDS: &[(&str, &str)] = &[
    (CLUSTERING, DOMAIN_METADATA),
    (ROW_TRACKING, DOMAIN_METADATA),
];

/// Clients of the measured versions that cannot read a table with the feature.
const LOCKED_OUT: &[(&str, &str)] = &[
    (DELETION_VECTORS, "deltalake 1.6.6 outside its SQL"),
    ("typeWidening", "deltalake 1.6.6"),
    (VACUUM_PROTOCOL_CHECK, "deltalake 1.6.6"),
];

/// A feature that this build may add to a table, by its name.
pub(crate) fn writable(name: &str) -> Option<&'static str> {
    WRITER_FEATURES
        .iter()
        .find(|known| **known == name)
        .copied()
}

/// What to tell a user whose change added features that readers must know: which ones, and who
/// is known not to. `None` when no reader is concerned.
pub fn readers_locked_out(before: Option<&TableState>, after: &TableState) -> Option<String> {
    let before = before.and_then(|state| DeltaState::of(state).ok());
    let after = DeltaState::of(after).ok()?;
    let listed = after.protocol.reader_features.iter().flatten();
    let old = |name: &String| before.is_some_and(|old| old.protocol.lists_reader_feature(name));
    let added: Vec<&str> = listed
        .filter(|name| !old(name))
        .map(String::as_str)
        .collect();
    if added.is_empty() {
        // Without lists, version 2 stands for the one feature it brought.
        let before = before.map_or(1, |old| old.protocol.min_reader_version);
        return (before < 2 && after.protocol.min_reader_version == 2)
            .then(|| format!("readers need Delta reader version 2 with {COLUMN_MAPPING}"));
    }
    let clients: Vec<&str> = LOCKED_OUT
        .iter()
        .filter(|(feature, _)| added.contains(feature))
        .map(|(_, client)| *client)
        .collect();
    let mut text = format!(
        "readers need Delta reader version 3 with {}",
        added.join(", ")
    );
    if !clients.is_empty() {
        text.push_str(&format!(" (not: {})", clients.join(", ")));
    }
    Some(text)
}

/// Checks that versions and lists fit each other.
///
/// # Errors
/// `InvalidProtocol`. A reader-writer feature that stands in the writer list alone is let
/// pass, for real tables have it so.
pub(crate) fn check_valid(protocol: &Protocol) -> Result<(), DeltaError> {
    let invalid = |reason: &str| DeltaError::InvalidProtocol {
        reason: reason.to_owned(),
    };
    let Protocol {
        min_reader_version: reader,
        min_writer_version: writer,
        ..
    } = *protocol;
    if protocol.reader_features.is_some() != (reader == 3) {
        return Err(invalid(
            "readerFeatures must be listed exactly with reader version 3",
        ));
    }
    if protocol.writer_features.is_some() != (writer == 7) {
        return Err(invalid(
            "writerFeatures must be listed exactly with writer version 7",
        ));
    }
    if reader == 3 && writer != 7 {
        return Err(invalid("reader version 3 needs writer version 7"));
    }
    if let (Some(readers), Some(writers)) = (&protocol.reader_features, &protocol.writer_features)
        && let Some(name) = readers.iter().find(|name| !writers.contains(*name))
    {
        return Err(invalid(&format!(
            "the reader feature {name} is not a writer feature"
        )));
    }
    Ok(())
}

/// May this build read tables of the protocol?
///
/// # Errors
/// `UnsupportedReaderFeature`, `InvalidProtocol`.
pub(crate) fn check_read(protocol: &Protocol, metadata: &Metadata) -> Result<(), DeltaError> {
    let refuse = |feature: String| Err(DeltaError::UnsupportedReaderFeature { feature });
    let version = protocol.min_reader_version;
    if !(1..=3).contains(&version) {
        return refuse(format!("reader version {version}"));
    }
    // Unknown names are told first: they explain more than a contradiction does.
    let listed = protocol.reader_features.iter().flatten();
    if let Some(name) = listed
        .into_iter()
        .find(|name| !READER_FEATURES.contains(&name.as_str()))
    {
        return refuse(name.clone());
    }
    check_valid(protocol)?;
    column_mapping::mode(protocol, metadata).map(|_| ())
}

/// May this build write to managed tables of the protocol? `is_unused` says of features that are
/// not on the list whether the table asks nothing of its writers by them.
///
/// # Errors
/// `UnsupportedWriterFeature`, `InvalidProtocol`.
pub(crate) fn check_write(
    protocol: &Protocol,
    is_unused: impl Fn(&str) -> bool,
) -> Result<(), DeltaError> {
    check_valid(protocol)?;
    let Some(listed) = &protocol.writer_features else {
        let feature = format!("writer version {}", protocol.min_writer_version);
        return Err(DeltaError::UnsupportedWriterFeature { feature });
    };
    match listed
        .iter()
        .find(|name| !WRITER_FEATURES.contains(&name.as_str()) && !is_unused(name))
    {
        Some(name) => Err(DeltaError::UnsupportedWriterFeature {
            feature: name.clone(),
        }),
        None => Ok(()),
    }
}

/// The protocol of a new managed table that needs `features` besides the usual ones.
pub(crate) fn managed_protocol(features: &BTreeSet<&'static str>) -> Protocol {
    let base = Protocol {
        min_reader_version: 1,
        min_writer_version: 7,
        reader_features: None,
        writer_features: Some(
            [DOMAIN_METADATA, IN_COMMIT_TIMESTAMP, MANAGED]
                .map(str::to_owned)
                .into(),
        ),
    };
    raise(&base, features)
}

/// `protocol` with `features` added; equal to it when all are there.
pub(crate) fn raise(protocol: &Protocol, features: &BTreeSet<&'static str>) -> Protocol {
    let mut raised = protocol.clone();
    let needed = NEEDS
        .iter()
        .filter(|(name, _)| features.contains(name))
        .map(|(_, needed)| needed);
    for name in features.iter().chain(needed) {
        raised
            .writer_features
            .get_or_insert_default()
            .insert((*name).to_owned());
        if READER_WRITER.contains(name) {
            raised.min_reader_version = 3;
            raised
                .reader_features
                .get_or_insert_default()
                .insert((*name).to_owned());
        }
    }
    raised
}

/// Features that the columns need.
pub(crate) fn features_of(fields: &[Field]) -> BTreeSet<&'static str> {
    let mut features = BTreeSet::new();
    let is_ntz = |data_type: &DataType| matches!(data_type, DataType::TimestampNtz);
    if fields.iter().any(|field| field.data_type.any(&is_ntz)) {
        features.insert(TIMESTAMP_NTZ);
    }
    if fields.iter().any(has_not_null) {
        features.insert(INVARIANTS);
    }
    for field in fields {
        features.extend(features_of_rules(field));
    }
    features
}

/// Features that the rules in a column's metadata need.
fn features_of_rules(field: &Field) -> Vec<&'static str> {
    let keys = [
        (rules::CURRENT_DEFAULT, ALLOW_COLUMN_DEFAULTS),
        (rules::GENERATION_EXPRESSION, GENERATED_COLUMNS),
        (rules::IDENTITY_START, IDENTITY_COLUMNS),
        (rules::INVARIANTS, INVARIANTS),
    ];
    let there = keys
        .iter()
        .filter(|(key, _)| field.metadata.contains_key(*key));
    there.map(|(_, feature)| *feature).collect()
}

/// Is the field, or a struct field below it, NOT NULL?
fn has_not_null(field: &Field) -> bool {
    let nested = |data_type: &DataType| match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| !field.nullable),
        _ => false,
    };
    !field.nullable || field.data_type.any(&nested)
}

#[cfg(test)]
mod tests;
