//! May this build commit to a table whose own log decides?
//!
//! Invariant: a writer feature is either fulfilled here, or shown not to be in use, or the
//! commit is refused by the feature's name before anything is written.
//! Does not: judge reading (`feature::check_read`).
//! Spec: Delta PROTOCOL, "Requirements for Writers"; docs/format/native.md, "Protocol".

use tarndb_table::{DataType, Schema};

use super::protocol::writer_features;
use crate::action::{Metadata, Protocol};
use crate::error::DeltaError;
use crate::feature;

/// What a listed feature asks of a commit to a native table.
enum Duty {
    /// Every commit fulfils it.
    Fulfilled,
    /// Nothing while the property is not `true`.
    Property(&'static str),
    /// Nothing while no column has a variant in it.
    Variant,
}

/// Features that native tables may have. Not on the list: those that ask something of every commit
/// which is not done here.
const DUTIES: [(&str, Duty); 25] = [
    ("appendOnly", Duty::Fulfilled),
    // Rows are filled and checked when they are written; what cannot be evaluated stops them.
    ("invariants", Duty::Fulfilled),
    ("checkConstraints", Duty::Fulfilled),
    ("generatedColumns", Duty::Fulfilled),
    ("allowColumnDefaults", Duty::Fulfilled),
    // The marks move in the commit that takes the numbers, which is a change of metadata.
    ("identityColumns", Duty::Fulfilled),
    // Commits whose own files do not tell the changes write files that do.
    ("changeDataFeed", Duty::Fulfilled),
    ("columnMapping", Duty::Fulfilled),
    ("typeWidening", Duty::Fulfilled),
    ("deletionVectors", Duty::Fulfilled),
    ("timestampNtz", Duty::Fulfilled),
    // Files are numbered when a commit is encoded, on each head anew; copied rows keep their ids.
    ("rowTracking", Duty::Fulfilled),
    // New files have statistics of the columns; none says that it is clustered.
    ("clustering", Duty::Fulfilled),
    // Classic checkpoints stay legal with it.
    ("v2Checkpoint", Duty::Fulfilled),
    ("domainMetadata", Duty::Fulfilled),
    ("inCommitTimestamp", Duty::Fulfilled),
    ("vacuumProtocolCheck", Duty::Fulfilled),
    // Checkpoints are made at the newest version only; the log's cleanup obeys it.
    ("checkpointProtection", Duty::Fulfilled),
    ("variantType", Duty::Variant),
    ("variantType-preview", Duty::Variant),
    ("variantShredding", Duty::Variant),
    ("variantShredding-preview", Duty::Variant),
    (
        "icebergCompatV1",
        Duty::Property("delta.enableIcebergCompatV1"),
    ),
    (
        "icebergCompatV2",
        Duty::Property("delta.enableIcebergCompatV2"),
    ),
    (
        "icebergCompatV3",
        Duty::Property("delta.enableIcebergCompatV3"),
    ),
];

impl Duty {
    /// What calls for it, when something does.
    fn called_for_by(&self, metadata: &Metadata, schema: &Schema) -> Option<String> {
        let configuration = &metadata.configuration;
        match self {
            Self::Fulfilled => None,
            Self::Property(key) => configuration
                .get(*key)
                .filter(|value| value.eq_ignore_ascii_case("true"))
                .map(|_| (*key).to_owned()),
            Self::Variant => schema
                .fields
                .iter()
                .find(|field| {
                    let variant = |data_type: &DataType| *data_type == DataType::Variant;
                    field.data_type.any(&variant)
                })
                .map(|field| format!("column {}", field.name)),
        }
    }
}

/// Whether a feature of the list asks something of writers in some tables only, and not in this
/// one.
pub(crate) fn is_unused(name: &str, metadata: &Metadata, schema: &Schema) -> bool {
    DUTIES.iter().any(|(known, duty)| {
        *known == name
            && !matches!(duty, Duty::Fulfilled)
            && duty.called_for_by(metadata, schema).is_none()
    })
}

/// Checks a table before a commit to it.
///
/// # Errors
/// `UnsupportedWriterFeature` (the name, and what uses it), `ManagedByDatabase`,
/// `InvalidProtocol`.
pub(crate) fn check_native_write(
    protocol: &Protocol,
    metadata: &Metadata,
    schema: &Schema,
) -> Result<(), DeltaError> {
    let refuse = |feature: String| Err(DeltaError::UnsupportedWriterFeature { feature });
    if !(1..=7).contains(&protocol.min_writer_version) {
        return refuse(format!("writer version {}", protocol.min_writer_version));
    }
    feature::check_valid(protocol)?;
    for name in writer_features(protocol) {
        if name == feature::MANAGED {
            return Err(DeltaError::ManagedByDatabase);
        }
        let Some((_, duty)) = DUTIES.iter().find(|(known, _)| *known == name) else {
            return refuse(name.to_owned());
        };
        if let Some(user) = duty.called_for_by(metadata, schema) {
            return refuse(format!("{name} ({user})"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema_json::parse_schema;

    fn judged(protocol: &str, configuration: &[(&str, &str)], field: &str) -> String {
        let protocol: Protocol = serde_json::from_str(protocol).unwrap();
        let schema = format!(
            r#"{{"type":"struct","fields":[{{"name":"a","type":"long","nullable":true,"metadata":{field}}}]}}"#
        );
        let metadata = Metadata {
            id: "1".to_owned(),
            name: None,
            description: None,
            format: crate::action::Format::default(),
            schema_string: schema.clone(),
            partition_columns: Vec::new(),
            created_time: None,
            configuration: configuration
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        };
        match check_native_write(&protocol, &metadata, &parse_schema(&schema).unwrap()) {
            Ok(()) => "ok".to_owned(),
            Err(DeltaError::UnsupportedWriterFeature { feature }) => feature,
            Err(DeltaError::ManagedByDatabase) => "managed".to_owned(),
            Err(other) => other.to_string(),
        }
    }

    fn listed(name: &str) -> String {
        format!(r#"{{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["{name}"]}}"#)
    }

    fn version(writer: i32) -> String {
        format!(r#"{{"minReaderVersion":1,"minWriterVersion":{writer}}}"#)
    }

    #[test]
    fn legacy_version_is_written_while_what_it_implies_is_not_in_use() {
        let used = r#"{"delta.generationExpression":"a"}"#;
        for (writer, configuration, field, expected) in [
            (1, vec![], "{}", "ok"),
            (2, vec![("delta.appendOnly", "true")], "{}", "ok"),
            (3, vec![], "{}", "ok"),
            (3, vec![("delta.constraints.c", "a > 0")], "{}", "ok"),
            // What the version does not imply is not honoured by anybody.
            (2, vec![("delta.constraints.c", "a > 0")], "{}", "ok"),
            (4, vec![("delta.enableChangeDataFeed", "true")], "{}", "ok"),
            (4, vec![], used, "ok"),
            (6, vec![], "{}", "ok"),
            (8, vec![], "{}", "writer version 8"),
        ] {
            assert_eq!(judged(&version(writer), &configuration, field), expected);
        }
    }

    #[test]
    fn listed_feature_is_fulfilled_or_idle_or_refused_by_name() {
        for (name, field, expected) in [
            ("invariants", r#"{"delta.invariants":"{}"}"#, "ok"),
            ("identityColumns", r#"{"delta.identity.start":1}"#, "ok"),
            ("rowTracking", "{}", "ok"),
            ("clustering", "{}", "ok"),
            ("collations", "{}", "collations"),
            (
                "materializePartitionColumns",
                "{}",
                "materializePartitionColumns",
            ),
            ("com.example.x", "{}", "com.example.x"),
            ("allowColumnDefaults", r#"{"CURRENT_DEFAULT":"1"}"#, "ok"),
            ("allowColumnDefaults", "{}", "ok"),
            ("inCommitTimestamp", "{}", "ok"),
            ("tarndbManaged", "{}", "managed"),
        ] {
            assert_eq!(judged(&listed(name), &[], field), expected);
        }
        let on = [("delta.enableIcebergCompatV2", "true")];
        assert_eq!(
            judged(&listed("icebergCompatV2"), &on, "{}"),
            "icebergCompatV2 (delta.enableIcebergCompatV2)"
        );
    }
}
