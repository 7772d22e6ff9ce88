//! Changes of protocol and metadata that leave concurrent transactions alone.
//!
//! Invariant: a list of what is known to be harmless; everything else is told by name.
//! Spec: docs/format/native.md, "Conflicts".

use std::collections::BTreeMap;

use serde_json::Value;
use tarndb_table::rules::IDENTITY_MARK;

use super::protocol::writer_features;
use crate::action::{Metadata, Protocol};

/// Features whose enabling asks nothing of a transaction that has begun, or what a commit on top
/// fulfils when it is encoded again.
const FEATURES: [&str; 15] = [
    "appendOnly",
    "changeDataFeed",
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "rowTracking",
    "domainMetadata",
    "icebergCompatV1",
    "icebergCompatV2",
    "icebergCompatV3",
    "v2Checkpoint",
    "catalogManaged",
    "typeWidening",
    "inCommitTimestamp",
    "vacuumProtocolCheck",
];

/// Properties that may be given any value once: files that a transaction has written may have been
/// written by the one before.
const ONCE: [&str; 2] = [
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
];

/// Property and the value that it may be given; `None` for any.
const PROPERTIES: [(&str, Option<&str>); 9] = [
    ("delta.enableRowTracking", Some("true")),
    ("delta.columnMapping.mode", Some("name")),
    ("delta.columnMapping.maxColumnId", None),
    ("delta.enableDeletionVectors", Some("true")),
    ("delta.checkpointPolicy", Some("v2")),
    ("delta.enableInCommitTimestamps", Some("true")),
    ("delta.inCommitTimestampEnablementVersion", None),
    ("delta.inCommitTimestampEnablementTimestamp", None),
    ("io.unitycatalog.tableId", None),
];

/// Is the change of protocol one that concurrent transactions may ignore?
///
/// # Errors
/// The feature at issue.
pub(crate) fn protocol_change(before: &Protocol, after: &Protocol) -> Result<(), String> {
    let (old, new) = (writer_features(before), writer_features(after));
    if let Some(dropped) = old.difference(&new).next() {
        return Err(format!("feature {dropped} was dropped"));
    }
    let added = new.difference(&old).find(|name| !FEATURES.contains(*name));
    match added {
        Some(name) => Err(format!("feature {name} was added")),
        None => Ok(()),
    }
}

/// Is the change of metadata one that concurrent transactions may ignore?
///
/// # Errors
/// The part or property at issue.
pub(crate) fn metadata_change(before: &Metadata, after: &Metadata) -> Result<(), String> {
    let rest = |metadata: &Metadata| Metadata {
        schema_string: String::new(),
        configuration: BTreeMap::new(),
        ..metadata.clone()
    };
    if rest(before) != rest(after) {
        return Err("name, comment, partitioning or identity".to_owned());
    }
    let (old, new) = (&before.configuration, &after.configuration);
    if let Some(key) = old.keys().find(|key| !new.contains_key(*key)) {
        return Err(format!("property {key} was removed"));
    }
    for (key, value) in new
        .iter()
        .filter(|(key, value)| old.get(*key) != Some(value))
    {
        let allowed = PROPERTIES.iter().any(|(known, only)| {
            known == key && only.is_none_or(|only| value.eq_ignore_ascii_case(only))
        });
        let once = ONCE.contains(&key.as_str()) && !old.contains_key(key);
        if !allowed && !once {
            return Err(format!("property {key}"));
        }
    }
    let same_schema = before.schema_string == after.schema_string
        || unmapped(&before.schema_string).is_some_and(|schema| {
            unmapped(&after.schema_string).is_some_and(|after| after == schema)
        });
    if same_schema {
        Ok(())
    } else {
        Err("the schema".to_owned())
    }
}

/// A schema without the annotations that an upgrade to column mapping by name gives it, and
/// without the marks of identity columns: whoever takes numbers changes the metadata too, and is
/// judged by that.
fn unmapped(schema: &str) -> Option<Value> {
    let mut schema = serde_json::from_str(schema).ok()?;
    strip(&mut schema);
    Some(schema)
}

/// Bounded by the JSON reader's own bound on nesting.
fn strip(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(members) => {
            let name = members.get("name").cloned();
            if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
                metadata.remove(IDENTITY_MARK);
                let physical = metadata.get("delta.columnMapping.physicalName");
                // Another name than the column's means that columns were renamed or replaced.
                if physical.is_none() || physical == name.as_ref() {
                    metadata.remove("delta.columnMapping.physicalName");
                    metadata.remove("delta.columnMapping.id");
                }
            }
            members.values_mut().for_each(strip);
        }
        _ => {}
    }
}
