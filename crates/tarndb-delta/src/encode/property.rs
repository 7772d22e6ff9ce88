//! Table properties: which ones a managed table may have and what they ask for.
//!
//! Invariant: a property that this build would not obey is refused, never stored.
//! Spec: Delta PROTOCOL, "Table Features" (activation), "Table Properties".

use super::Authority;
use crate::error::DeltaError;
use crate::feature;

/// What becomes of a property that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// It is stored.
    Nothing,
    /// It is stored, and the feature is raised.
    Feature(&'static str),
    /// The feature is raised; the property itself is not stored.
    OnlyFeature(&'static str),
}

/// Properties whose duty this build does not fulfil unless they have the value that is given.
const ONLY_OFF: [(&str, &str); 12] = [
    ("delta.enableChangeDataFeed", "false"),
    ("delta.enableRowTracking", "false"),
    ("delta.enableTypeWidening", "false"),
    ("delta.enableVariantShredding", "false"),
    ("delta.enableIcebergCompatV1", "false"),
    ("delta.enableIcebergCompatV2", "false"),
    ("delta.enableIcebergCompatV3", "false"),
    ("delta.enableIcebergWriterCompatV1", "false"),
    ("delta.checkpointPolicy", "classic"),
    ("delta.columnMapping.mode", "none"),
    ("delta.checkpoint.writeStatsAsStruct", "false"),
    ("delta.rowTrackingSuspended", "false"),
];

/// Prefixes of keys that other engines obey and this build does not.
const REFUSED_PREFIXES: [&str; 7] = [
    "delta.constraints.",
    "delta.columnMapping.maxColumnId",
    "delta.inCommitTimestampEnablement",
    "delta.rowTracking.",
    "delta.universalFormat.",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
];

/// Judges a property that is set.
///
/// # Errors
/// `PropertyRefused`.
pub(super) fn judge(key: &str, value: &str, authority: Authority) -> Result<Asks, DeltaError> {
    let refuse = |reason| {
        Err(DeltaError::PropertyRefused {
            key: key.to_owned(),
            value: value.to_owned(),
            reason,
        })
    };
    if let Some(name) = key.strip_prefix("delta.feature.") {
        let known = feature::WRITER_FEATURES
            .iter()
            .find(|known| **known == name)
            .filter(|known| authority.is_database() || **known != feature::MANAGED);
        return match known {
            Some(name) => Ok(Asks::OnlyFeature(name)),
            None => refuse("this build does not have the feature"),
        };
    }
    let on = value.eq_ignore_ascii_case("true");
    match key {
        "delta.appendOnly" if on => return Ok(Asks::Feature(feature::APPEND_ONLY)),
        "delta.enableDeletionVectors" if on => {
            return Ok(Asks::Feature(feature::DELETION_VECTORS));
        }
        "delta.enableDeletionVectors" if authority.is_database() => {
            return refuse("set tarndb.deletionVectors to 'off' instead");
        }
        "delta.enableInCommitTimestamps" if on => {
            return Ok(Asks::Feature(feature::IN_COMMIT_TIMESTAMP));
        }
        "delta.enableInCommitTimestamps" if authority.is_database() => {
            return refuse("tables of a database always have in-commit timestamps");
        }
        "delta.enableInCommitTimestamps" => {
            return refuse("this build does not turn in-commit timestamps off");
        }
        _ => {}
    }
    if ONLY_OFF
        .iter()
        .any(|(off, only)| *off == key && !value.eq_ignore_ascii_case(only))
    {
        return refuse("this build does not do what it asks for");
    }
    if REFUSED_PREFIXES
        .iter()
        .any(|prefix| key.starts_with(prefix))
    {
        return refuse("this build does not do what it asks for");
    }
    Ok(Asks::Nothing)
}

/// May the property be dropped?
///
/// # Errors
/// `PropertyRefused`.
pub(super) fn judge_unset(key: &str, authority: Authority) -> Result<(), DeltaError> {
    let reason = match authority {
        Authority::Database => "tables of a database always have in-commit timestamps",
        Authority::OwnLog { .. } => "this build does not turn in-commit timestamps off",
    };
    if key == "delta.enableInCommitTimestamps" {
        return Err(DeltaError::PropertyRefused {
            key: key.to_owned(),
            value: String::new(),
            reason,
        });
    }
    Ok(())
}
