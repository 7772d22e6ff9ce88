//! Which properties and features bind the writers of a table.
//!
//! Invariant: unknown means bound. A `delta.` property or a feature that is not listed as
//! harmless is taken to be obeyed, because its meaning cannot be guessed.
//! Does not validate values.
//! Spec: docs/conflicts.md, "Properties and features".

use crate::effects::ConfigEffect;

/// Whom a change of property concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obeyed {
    /// No writer: it may change beside any data.
    ByNobody,
    /// Writers that delete rows.
    ByDeletes,
    /// Every writer of data.
    ByData,
}

/// The property that turns deletion vectors on in Delta.
pub const ENABLE_DELETION_VECTORS: &str = "delta.enableDeletionVectors";
/// The property that makes a table copy-on-write.
pub const COPY_ON_WRITE: &str = "tarndb.deletionVectors";

/// `delta.` properties that change how a table is kept, not what a writer must do.
pub const HARMLESS_KEYS: &[&str] = &[
    "delta.autoOptimize.autoCompact",
    "delta.autoOptimize.optimizeWrite",
    "delta.checkpoint.writeStatsAsJson",
    "delta.checkpoint.writeStatsAsStruct",
    "delta.checkpointInterval",
    "delta.checkpointPolicy",
    "delta.checkpointRetentionDuration",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.deletedFileRetentionDuration",
    "delta.enableExpiredLogCleanup",
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.inCommitTimestampEnablementVersion",
    "delta.isolationLevel",
    "delta.logRetentionDuration",
    "delta.parquet.compression.codec",
    "delta.randomPrefixLength",
    "delta.randomizeFilePrefixes",
    "delta.setTransactionRetentionDuration",
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
];

/// Features that may be raised beside any data: a property turns them on, or they concern how
/// the table is kept.
pub const HARMLESS_FEATURES: &[&str] = &[
    "appendOnly",
    "catalogManaged",
    "changeDataFeed",
    "columnMapping",
    "deletionVectors",
    "domainMetadata",
    "icebergCompatV1",
    "icebergCompatV2",
    "icebergCompatV3",
    "inCommitTimestamp",
    "rowTracking",
    "tarndbManaged",
    "timestampNtz",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
];

/// Properties that bind later writers only; data committed before them cannot break them.
pub const SWITCHES: &[&str] = &[
    "delta.appendOnly",
    "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors",
    "delta.enableRowTracking",
    "delta.enableTypeWidening",
    COPY_ON_WRITE,
];

/// Whether a change of this property can make what a concurrent writer did wrong.
#[must_use]
pub fn writer_obeys(key: &str) -> bool {
    key_obeyed(key) != Obeyed::ByNobody
}

/// Whom a property concerns, whatever its value.
#[must_use]
pub fn key_obeyed(key: &str) -> Obeyed {
    if key == COPY_ON_WRITE || key == ENABLE_DELETION_VECTORS {
        return Obeyed::ByDeletes;
    }
    if let Some(feature) = key.strip_prefix("delta.feature.") {
        return feature_obeyed(feature);
    }
    if key.starts_with("delta.") && !HARMLESS_KEYS.contains(&key) {
        return Obeyed::ByData;
    }
    Obeyed::ByNobody
}

/// Whom the raising of a feature concerns.
#[must_use]
pub fn feature_obeyed(name: &str) -> Obeyed {
    if HARMLESS_FEATURES.contains(&name) {
        Obeyed::ByNobody
    } else {
        Obeyed::ByData
    }
}

/// The property that maps columns to names in files.
pub const COLUMN_MAPPING: &str = "delta.columnMapping.mode";

/// Whom a change concerns. Turning deletion vectors on concerns nobody: whoever wrote without
/// them wrote something that stays right. So does mapping columns by name: what was written
/// before has the names that the columns had until then, which is what they are mapped to.
#[must_use]
pub fn change_obeyed(change: &ConfigEffect) -> Obeyed {
    match change {
        ConfigEffect::Set { key, value }
            if key == ENABLE_DELETION_VECTORS && value.eq_ignore_ascii_case("true")
                || key == COLUMN_MAPPING && value.eq_ignore_ascii_case("name") =>
        {
            Obeyed::ByNobody
        }
        ConfigEffect::Set { key, .. } | ConfigEffect::Unset { key } => key_obeyed(key),
        ConfigEffect::AddFeature { name } => feature_obeyed(name),
        ConfigEffect::TakeIdentity { .. } => Obeyed::ByNobody,
    }
}

/// Whether data committed before the change can break what it demands.
#[must_use]
pub fn binds_existing_data(key: &str) -> bool {
    key_obeyed(key) != Obeyed::ByNobody && !SWITCHES.contains(&key)
}
