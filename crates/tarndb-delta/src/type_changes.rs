//! `delta.typeChanges`: how the types of a column were widened.
//!
//! Invariant: a recorded change that is not on the format's list is refused by its column, for
//! what older files hold could not be told.
//! Does not: convert values (`tarndb-table` does, as files are read).
//! Spec: Delta PROTOCOL, "Type Widening".

use serde_json::Value;
use tarndb_table::{DataType, Field, Schema};

use crate::action::Protocol;
use crate::error::DeltaError;

/// Field metadata with the changes.
pub(crate) const TYPE_CHANGES: &str = "delta.typeChanges";
/// Names of the feature.
const FEATURES: [&str; 2] = ["typeWidening", "typeWidening-preview"];

/// Checks the changes that a schema records, where the protocol gives them a meaning.
///
/// # Errors
/// `UnsupportedTypeChange`, `BadSchema`.
pub(crate) fn check(protocol: &Protocol, schema: &Schema) -> Result<(), DeltaError> {
    let mut features = FEATURES.iter();
    if !features.any(|name| protocol.lists_reader_feature(name)) {
        return Ok(());
    }
    schema
        .fields
        .iter()
        .try_for_each(|field| check_field(field, ""))
}

fn check_field(field: &Field, parent: &str) -> Result<(), DeltaError> {
    let at = match parent {
        "" => field.name.clone(),
        parent => format!("{parent}.{}", field.name),
    };
    if let Some(changes) = field.metadata.get(TYPE_CHANGES) {
        let bad = || DeltaError::BadSchema {
            reason: format!("{TYPE_CHANGES} is not a list of changes"),
            at: at.clone(),
        };
        for change in changes.as_array().ok_or_else(bad)? {
            let type_of = |key| change.get(key).and_then(Value::as_str).ok_or_else(bad);
            check_change(type_of("fromType")?, type_of("toType")?, &at)?;
        }
    }
    check_type(&field.data_type, &at)
}

fn check_type(data_type: &DataType, at: &str) -> Result<(), DeltaError> {
    match data_type {
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check_field(field, at)),
        DataType::Array { element, .. } => check_type(element, at),
        DataType::Map { key, value, .. } => {
            check_type(key, at)?;
            check_type(value, at)
        }
        _ => Ok(()),
    }
}

fn check_change(from: &str, to: &str, at: &str) -> Result<(), DeltaError> {
    let types = (
        DataType::parse_primitive(from),
        DataType::parse_primitive(to),
    );
    match types {
        (Ok(from), Ok(to)) if from.widens_to(&to) => Ok(()),
        _ => Err(DeltaError::UnsupportedTypeChange {
            column: at.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::action::Protocol;
    use crate::schema_json::parse_schema;

    fn checked(feature: &str, changes: &str) -> Result<(), String> {
        let schema = r#"{"type":"struct","fields":[{"name":"s","nullable":true,"metadata":{},"type":
            {"type":"array","containsNull":true,"elementType":{"type":"struct","fields":[
            {"name":"x","type":"long","nullable":true,"metadata":{"delta.typeChanges":CHANGES}}]}}}]}"#;
        let list = || Some([feature.to_owned()].into());
        let protocol = Protocol {
            min_reader_version: 3,
            min_writer_version: 7,
            reader_features: list(),
            writer_features: list(),
        };
        let schema = parse_schema(&schema.replace("CHANGES", changes)).unwrap();
        check(&protocol, &schema).map_err(|error| error.to_string())
    }

    #[test]
    fn recorded_changes_are_known_ones_or_refused_with_the_column() {
        let known = r#"[{"fromType":"byte","toType":"integer","tableVersion":1},
            {"fromType":"integer","toType":"long","fieldPath":"element"}]"#;
        checked("typeWidening", known).unwrap();
        for (unknown, reason) in [
            (r#"[{"fromType":"string","toType":"long"}]"#, "s.x"),
            (r#"[{"fromType":"long","toType":"integer"}]"#, "s.x"),
            (r#"[{"fromType":"someday","toType":"long"}]"#, "someday"),
            (r#"[{"toType":"long"}]"#, "s.x"),
            ("7", "s.x"),
        ] {
            for feature in ["typeWidening", "typeWidening-preview"] {
                let error = checked(feature, unknown).unwrap_err();
                assert!(error.contains(reason), "{error}");
            }
            // What was left behind by a dropped feature means nothing.
            checked("deletionVectors", unknown).unwrap();
        }
    }
}
