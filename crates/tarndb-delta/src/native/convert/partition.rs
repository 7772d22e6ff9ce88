//! Partition values from the folders of a file, `column=value`.
//!
//! Invariant: the folders are exactly the columns given, in their order, or the file is an error; a
//! value is decoded once and written in the form of the log.
//! Spec: docs/format/native.md, "Converting"; Delta PROTOCOL, "Partition Value Serialization".

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use tarndb_table::{Field, encode_partition_value, parse_partition_value, scalar_to_array};

use super::error::ConvertError;

/// The folder of NULL.
const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The values of the file `key`, in the form of the log.
pub(super) fn partition_values(
    key: &str,
    partitions: &[Field],
) -> Result<BTreeMap<String, Option<String>>, ConvertError> {
    let wrong = || ConvertError::Folders {
        file: key.to_owned(),
        expected: partitions
            .iter()
            .map(|field| format!("{}=../", field.name))
            .collect(),
    };
    let folders = key.rsplit_once('/').map_or("", |(folders, _)| folders);
    let mut named = Vec::new();
    for segment in folders.split('/') {
        if let Some((column, value)) = segment.split_once('=') {
            named.push((decoded(column).ok_or_else(wrong)?, value));
        }
    }
    if named.len() != partitions.len() {
        return Err(wrong());
    }
    let mut values = BTreeMap::new();
    for (field, (column, value)) in partitions.iter().zip(named) {
        if column.to_lowercase() != field.name.to_lowercase() {
            return Err(wrong());
        }
        let text = match value {
            HIVE_NULL => None,
            value => Some(decoded(value).ok_or_else(wrong)?),
        };
        let in_log = in_form_of_log(field, text.as_deref());
        let in_log = in_log.ok_or_else(|| ConvertError::Value {
            file: key.to_owned(),
            column: field.name.clone(),
            value: value.to_owned(),
            data_type: field.data_type.to_string(),
        })?;
        values.insert(field.name.clone(), in_log);
    }
    Ok(values)
}

fn decoded(text: &str) -> Option<String> {
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// `None` when the text is no value of the type.
#[expect(clippy::option_option, reason = "no value of the type; NULL; a value")]
fn in_form_of_log(field: &Field, text: Option<&str>) -> Option<Option<String>> {
    let value = parse_partition_value(text, &field.data_type).ok()?;
    let array = scalar_to_array(value.as_ref(), &field.data_type, 1).ok()?;
    encode_partition_value(&array, 0, &field.data_type).ok()
}

#[cfg(test)]
mod tests {
    use tarndb_table::{DataType, Field};

    use super::partition_values;

    #[test]
    fn folders_give_values_in_the_form_of_the_log_or_name_the_file() {
        let columns = [
            Field::new("Day", DataType::Date, true),
            Field::new(
                "price",
                DataType::Decimal {
                    precision: 6,
                    scale: 2,
                },
                true,
            ),
        ];
        for (key, expected) in [
            (
                "day=2024-01-02/price=1.5/x.parquet",
                r#"{"Day": Some("2024-01-02"), "price": Some("1.50")}"#,
            ),
            (
                "sub/day=__HIVE_DEFAULT_PARTITION__/price=0/x.parquet",
                r#"{"Day": None, "price": Some("0.00")}"#,
            ),
            (
                "day=2024%2D01%2D02/price=2/x",
                r#"{"Day": Some("2024-01-02"), "price": Some("2.00")}"#,
            ),
        ] {
            let values = partition_values(key, &columns).unwrap();
            assert_eq!(format!("{values:?}"), expected);
        }
        for key in [
            "x.parquet",
            "day=2024-01-02/x.parquet",
            "price=1/day=2024-01-02/x.parquet",
            "day=2024-01-02/price=1/more=2/x.parquet",
            "day=yesterday/price=1/x.parquet",
            "day=2024-01-02/price=1.234/x.parquet",
        ] {
            let error = partition_values(key, &columns).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
        assert!(partition_values("a=1/x.parquet", &[]).is_err());
    }
}
