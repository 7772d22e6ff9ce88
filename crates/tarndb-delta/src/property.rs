//! Every table property that Delta gives a meaning to: its form, default, feature and duty.
//!
//! Invariant: one row per property; a value that is not well-formed, and one that this build
//! would not obey, is never stored. What other engines stored is read leniently: an unusable
//! value counts as the default.
//! Does not: decide who is bound by a change (`tarndb-txn`), or change a table (`encode`).
//! Spec: docs/format/delta.md, "Properties"; Delta PROTOCOL, "Table Features".

use std::collections::BTreeMap;

use tarndb_table::parse_column_list;

use crate::checkpoint::retention::duration_ms;
use crate::feature;

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `true` or `false`, in any case.
    Boolean,
    /// A whole number of at least this.
    Count(i64),
    /// `interval 1 week`, `interval 2 days 3 hours`.
    Duration,
    /// Columns with commas between them, dots inside, back-ticks around odd names.
    Columns,
    /// One of these words, in any case.
    Word(&'static [&'static str]),
    /// Anything.
    Text,
}

/// What this build does about a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// It does what the property says.
    Obeyed,
    /// Advice that binds nobody: it is kept.
    Advice,
    /// It has only this value here; the reason is told for any other.
    Only(&'static str, &'static str),
    /// Not set by hand; what to do instead.
    Refused(&'static str),
}

/// One property.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Property {
    /// The key; one that ends in `.` stands for all keys that begin with it.
    pub(crate) key: &'static str,
    pub(crate) form: Form,
    /// What counts where it is not set; `None`: nothing does.
    pub(crate) default: Option<&'static str>,
    /// The value that needs a feature, and the feature.
    pub(crate) raises: Option<(&'static str, &'static str)>,
    pub(crate) duty: Duty,
}

const fn property(
    key: &'static str,
    form: Form,
    default: Option<&'static str>,
    duty: Duty,
) -> Property {
    Property {
        key,
        form,
        default,
        raises: None,
        duty,
    }
}

const fn switch(key: &'static str, feature: &'static str, duty: Duty) -> Property {
    Property {
        key,
        form: Form::Boolean,
        default: Some("false"),
        raises: Some(("true", feature)),
        duty,
    }
}

const LACKS: &str = "this build does not do what it asks for";
const FEATURE_FOLLOWS: &str = "the protocol follows from the features in use; add one with \
                               delta.feature.<name> = 'supported'";
const OWN: &str = "it is kept by the writers themselves";

/// All of them, by key.
pub(crate) const PROPERTIES: &[Property] = &[
    switch("delta.appendOnly", feature::APPEND_ONLY, Duty::Obeyed),
    property("delta.autoOptimize.", Form::Text, None, Duty::Advice),
    property(
        "delta.checkpoint.writeStatsAsJson",
        Form::Boolean,
        Some("true"),
        Duty::Obeyed,
    ),
    property(
        "delta.checkpoint.writeStatsAsStruct",
        Form::Boolean,
        Some("false"),
        Duty::Obeyed,
    ),
    property(
        "delta.checkpointInterval",
        Form::Count(1),
        Some("10"),
        Duty::Obeyed,
    ),
    Property {
        key: "delta.checkpointPolicy",
        form: Form::Word(&["classic", "v2"]),
        default: Some("classic"),
        raises: Some(("v2", feature::V2_CHECKPOINT)),
        duty: Duty::Obeyed,
    },
    property(
        "delta.checkpointRetentionDuration",
        Form::Duration,
        Some("interval 2 days"),
        Duty::Advice,
    ),
    property(
        "delta.columnMapping.maxColumnId",
        Form::Text,
        None,
        Duty::Refused(OWN),
    ),
    property(
        "delta.columnMapping.mode",
        Form::Word(&["none", "name", "id"]),
        Some("none"),
        Duty::Obeyed,
    ),
    property(
        "delta.constraints.",
        Form::Text,
        None,
        Duty::Refused("say ALTER TABLE .. ADD CONSTRAINT or DROP CONSTRAINT"),
    ),
    property(
        "delta.coordinatedCommits.",
        Form::Text,
        None,
        Duty::Refused(LACKS),
    ),
    property(
        "delta.dataSkippingNumIndexedCols",
        Form::Count(-1),
        Some("32"),
        Duty::Obeyed,
    ),
    property(
        "delta.dataSkippingStatsColumns",
        Form::Columns,
        None,
        Duty::Obeyed,
    ),
    property(
        "delta.deletedFileRetentionDuration",
        Form::Duration,
        Some("interval 1 week"),
        Duty::Obeyed,
    ),
    switch(
        "delta.enableChangeDataFeed",
        feature::CHANGE_DATA_FEED,
        Duty::Obeyed,
    ),
    switch(
        "delta.enableDeletionVectors",
        feature::DELETION_VECTORS,
        Duty::Obeyed,
    ),
    property(
        "delta.enableExpiredLogCleanup",
        Form::Boolean,
        Some("true"),
        Duty::Obeyed,
    ),
    property(
        "delta.enableIcebergCompatV1",
        Form::Boolean,
        Some("false"),
        Duty::Only("false", LACKS),
    ),
    property(
        "delta.enableIcebergCompatV2",
        Form::Boolean,
        Some("false"),
        Duty::Only("false", LACKS),
    ),
    property(
        "delta.enableIcebergCompatV3",
        Form::Boolean,
        Some("false"),
        Duty::Only("false", LACKS),
    ),
    property(
        "delta.enableIcebergWriterCompatV1",
        Form::Boolean,
        Some("false"),
        Duty::Only("false", LACKS),
    ),
    property(
        "delta.enableIcebergWriterCompatV3",
        Form::Boolean,
        Some("false"),
        Duty::Only("false", LACKS),
    ),
    switch(
        "delta.enableInCommitTimestamps",
        feature::IN_COMMIT_TIMESTAMP,
        Duty::Only(
            "true",
            "in-commit timestamps stay on, and tables of a database always have them",
        ),
    ),
    switch(
        "delta.enableRowTracking",
        feature::ROW_TRACKING,
        Duty::Obeyed,
    ),
    switch(
        "delta.enableTypeWidening",
        feature::TYPE_WIDENING,
        Duty::Obeyed,
    ),
    property(
        "delta.enableVariantShredding",
        Form::Boolean,
        Some("false"),
        Duty::Only("false", LACKS),
    ),
    property(
        "delta.inCommitTimestampEnablement",
        Form::Text,
        None,
        Duty::Refused(OWN),
    ),
    property(
        "delta.isolationLevel",
        Form::Word(&["Serializable"]),
        Some("Serializable"),
        Duty::Advice,
    ),
    property(
        "delta.logRetentionDuration",
        Form::Duration,
        Some("interval 30 days"),
        Duty::Obeyed,
    ),
    property(
        "delta.minReaderVersion",
        Form::Text,
        None,
        Duty::Refused(FEATURE_FOLLOWS),
    ),
    property(
        "delta.minWriterVersion",
        Form::Text,
        None,
        Duty::Refused(FEATURE_FOLLOWS),
    ),
    property(
        "delta.parquet.compression.codec",
        Form::Word(&["zstd", "snappy", "gzip", "lz4_raw", "uncompressed", "none"]),
        Some("zstd"),
        Duty::Obeyed,
    ),
    property(
        "delta.parquet.format.version",
        Form::Word(&["1.0.0"]),
        Some("1.0.0"),
        Duty::Obeyed,
    ),
    property(
        "delta.randomPrefixLength",
        Form::Count(1),
        Some("2"),
        Duty::Obeyed,
    ),
    property(
        "delta.randomizeFilePrefixes",
        Form::Boolean,
        Some("false"),
        Duty::Obeyed,
    ),
    Property {
        key: "delta.requireCheckpointProtectionBeforeVersion",
        form: Form::Count(0),
        default: Some("0"),
        raises: None,
        duty: Duty::Refused(OWN),
    },
    property("delta.rowTracking.", Form::Text, None, Duty::Refused(OWN)),
    property(
        "delta.rowTrackingSuspended",
        Form::Boolean,
        Some("false"),
        Duty::Obeyed,
    ),
    property(
        "delta.setTransactionRetentionDuration",
        Form::Duration,
        None,
        Duty::Obeyed,
    ),
    property("delta.targetFileSize", Form::Text, None, Duty::Advice),
    property(
        "delta.tuneFileSizesForRewrites",
        Form::Boolean,
        None,
        Duty::Advice,
    ),
    property(
        "delta.universalFormat.",
        Form::Text,
        None,
        Duty::Refused(LACKS),
    ),
    property(
        "delta.writePartitionColumnsToParquet",
        Form::Boolean,
        Some("false"),
        Duty::Advice,
    ),
];

/// The row of a key; `None`: Delta gives it no meaning that this build knows of.
pub(crate) fn find(key: &str) -> Option<&'static Property> {
    PROPERTIES.iter().find(|property| {
        let family = property.key.ends_with('.')
            || matches!(property.key, "delta.inCommitTimestampEnablement");
        property.key == key || (family && key.starts_with(property.key))
    })
}

impl Form {
    /// Is `value` of this form?
    pub(crate) fn accepts(self, value: &str) -> bool {
        let value = value.trim();
        match self {
            Self::Boolean => boolean(value).is_some(),
            Self::Count(least) => value.parse::<i64>().is_ok_and(|count| count >= least),
            Self::Duration => duration_ms(value).is_some(),
            Self::Columns => parse_column_list(value).is_some(),
            Self::Word(words) => words.iter().any(|word| word.eq_ignore_ascii_case(value)),
            Self::Text => true,
        }
    }

    /// The form in words, for an error.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Boolean => "'true' or 'false'".to_owned(),
            Self::Count(least) => format!("a whole number of at least {least}"),
            Self::Duration => "a duration such as 'interval 1 week' or 'interval 2 days 3 hours' \
                               (no months or years)"
                .to_owned(),
            Self::Columns => "columns with commas between them, like 'a, b.c'".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Text => "a text".to_owned(),
        }
    }
}

fn boolean(value: &str) -> Option<bool> {
    let is = |word: &str| value.trim().eq_ignore_ascii_case(word);
    if is("true") {
        return Some(true);
    }
    is("false").then_some(false)
}

/// What the table says, else the default.
fn effective<'a>(configuration: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    let property = find(key)?;
    let told = configuration
        .get(key)
        .map(String::as_str)
        .filter(|value| property.form.accepts(value));
    told.or(property.default)
}

/// Is the switch on?
pub(crate) fn is_on(configuration: &BTreeMap<String, String>, key: &str) -> bool {
    effective(configuration, key).and_then(boolean) == Some(true)
}

#[cfg(test)]
mod tests;
