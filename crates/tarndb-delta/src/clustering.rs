//! Clustering columns: the domain that names them.
//!
//! Invariant: columns are named by their stored names, so that a rename changes nothing here; a
//! table is clustered or partitioned, never both.
//! Does not: order any data; files are written as before, with statistics of these columns.
//! Spec: Delta PROTOCOL, "Clustered Table"; docs/format/delta.md, "Domains and clustering".

use serde_json::{Value, json};
use tarndb_table::{DataType, NamePath, Schema};

use crate::error::DeltaError;

/// The domain.
pub(crate) const CLUSTERING_DOMAIN: &str = "delta.clustering";

/// Clustering columns at most; as many as other engines take.
const COLUMNS_MAX: usize = 4;

/// The clustering columns of a table, by stored names. Both forms that engines write are read;
/// what is neither counts as none, for nobody depends on it.
pub(crate) fn columns_of(domains: &imbl::OrdMap<String, String>) -> Vec<NamePath> {
    let text = domains.get(CLUSTERING_DOMAIN);
    text.map(|text| columns_in(text)).unwrap_or_default()
}

/// The columns in a configuration of the domain.
pub(crate) fn columns_in(configuration: &str) -> Vec<NamePath> {
    let value = serde_json::from_str::<Value>(configuration).ok();
    let columns = value
        .as_ref()
        .and_then(|value| value.get("clusteringColumns"));
    let columns = columns.and_then(Value::as_array).into_iter().flatten();
    columns
        .filter_map(|column| match column {
            Value::String(name) => Some(vec![name.clone()]),
            Value::Array(parts) => {
                let parts = parts.iter().map(|part| part.as_str().map(str::to_owned));
                parts.collect::<Option<NamePath>>()
            }
            _ => None,
        })
        .filter(|column| !column.is_empty())
        .collect()
}

/// The domain's configuration for columns of `schema`, by the names that the table shows.
///
/// # Errors
/// `NoSuchColumn`, `ClusteringRefused`.
pub(crate) fn configuration(
    columns: &[NamePath],
    schema: &Schema,
    partition_columns: &[String],
) -> Result<String, DeltaError> {
    let refused = |column: &[String], reason| DeltaError::ClusteringRefused {
        column: column.join("."),
        reason,
    };
    if let (Some(column), false) = (columns.first(), partition_columns.is_empty()) {
        return Err(refused(column, "a partitioned table cannot be clustered"));
    }
    let mut stored: Vec<NamePath> = Vec::new();
    for column in columns {
        let (path, data_type) = find(column, schema)?;
        if !has_bounds(data_type) {
            let reason = "there are no statistics of a column of this type to skip files by";
            return Err(refused(column, reason));
        }
        if stored.contains(&path) {
            return Err(refused(column, "it is named twice"));
        }
        stored.push(path);
    }
    if let Some(further) = columns.get(COLUMNS_MAX) {
        return Err(refused(further, "more than four columns"));
    }
    let configuration = json!({"clusteringColumns": stored, "domainName": CLUSTERING_DOMAIN});
    Ok(configuration.to_string())
}

/// The stored path and the type of a column, or of a field inside one.
fn find<'a>(column: &[String], schema: &'a Schema) -> Result<(NamePath, &'a DataType), DeltaError> {
    let missing = || DeltaError::NoSuchColumn {
        column: column.join("."),
    };
    let (first, rest) = column.split_first().ok_or_else(missing)?;
    let (_, field) = schema.field(first).ok_or_else(missing)?;
    let mut path = vec![field.stored_name().to_owned()];
    let mut data_type = &field.data_type;
    for name in rest {
        let DataType::Struct(fields) = data_type else {
            return Err(missing());
        };
        let same = |name: &str, other: &str| name.to_lowercase() == other.to_lowercase();
        let field = fields.iter().find(|field| same(&field.name, name));
        let field = field.ok_or_else(missing)?;
        path.push(field.stored_name().to_owned());
        data_type = &field.data_type;
    }
    Ok((path, data_type))
}

/// Do statistics hold bounds of the type?
pub(crate) fn has_bounds(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Byte
            | DataType::Short
            | DataType::Integer
            | DataType::Long
            | DataType::Float
            | DataType::Double
            | DataType::Decimal { .. }
            | DataType::String
            | DataType::Date
            | DataType::Timestamp
            | DataType::TimestampNtz
    )
}

#[cfg(test)]
mod tests {
    use tarndb_table::Field;

    use super::*;

    fn domains(text: &str) -> imbl::OrdMap<String, String> {
        std::iter::once((CLUSTERING_DOMAIN.to_owned(), text.to_owned())).collect()
    }

    #[test]
    fn both_forms_of_the_domain_are_read_and_nonsense_is_none() {
        let nested = columns_of(&domains(r#"{"clusteringColumns":[["a"],["s","x"]]}"#));
        assert_eq!(nested, [vec!["a"], vec!["s", "x"]]);
        let flat = columns_of(&domains(r#"{"clusteringColumns":["a","b"]}"#));
        assert_eq!(flat, [["a"], ["b"]]);
        for text in [
            "",
            "{}",
            r#"{"clusteringColumns":7}"#,
            r#"{"clusteringColumns":[[]]}"#,
        ] {
            assert!(columns_of(&domains(text)).is_empty(), "{text}");
        }
    }

    #[test]
    fn columns_that_cannot_be_clustered_by_are_refused_with_the_reason() {
        let inner = vec![Field::new("x", DataType::Date, true)];
        let schema = Schema::new(vec![
            Field::new("a", DataType::Long, true),
            Field::new("b", DataType::Boolean, true),
            Field::new("s", DataType::Struct(inner), true),
        ]);
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<NamePath>();
        let good = configuration(&[path("A"), path("s.X")], &schema, &[]).unwrap();
        assert!(good.contains(r#"[["a"],["s","x"]]"#), "{good}");
        for (columns, partitions, reason) in [
            (vec!["b"], vec![], "no statistics"),
            (vec!["s"], vec![], "no statistics"),
            (vec!["a", "A"], vec![], "twice"),
            (vec!["a"], vec!["b".to_owned()], "partitioned"),
            (vec!["z"], vec![], "no such column"),
            (vec!["a.x"], vec![], "no such column"),
        ] {
            let columns: Vec<NamePath> = columns.into_iter().map(path).collect();
            let error = configuration(&columns, &schema, &partitions).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        assert!(configuration(&[], &schema, &["b".to_owned()]).is_ok());
    }
}
