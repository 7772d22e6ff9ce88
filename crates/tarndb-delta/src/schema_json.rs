//! `schemaString`: the schema as JSON text.
//!
//! Invariant: field metadata is kept whole, in both directions; what this build cannot read
//! is refused with the name of column and type.
//! Spec: Delta PROTOCOL, "Schema Serialization Format".

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tarndb_table::{DataType, Field, Schema};

use crate::error::DeltaError;

/// Spark keeps the declared `char(n)` / `varchar(n)` here.
const CHAR_VARCHAR: &str = "__CHAR_VARCHAR_TYPE_STRING";

/// Reads a `schemaString`.
///
/// # Errors
/// `BadSchema`, `UnsupportedType`.
pub fn parse_schema(text: &str) -> Result<Schema, DeltaError> {
    let value: Value = serde_json::from_str(text).map_err(|error| DeltaError::BadSchema {
        reason: format!("not JSON, {error}"),
        at: "schemaString".to_owned(),
    })?;
    match parse_type(&value, "schema", &mut BTreeMap::new())? {
        DataType::Struct(fields) => Ok(Schema { fields }),
        _ => Err(bad("not a struct", "schema")),
    }
}

fn bad(reason: &str, at: &str) -> DeltaError {
    DeltaError::BadSchema {
        reason: reason.to_owned(),
        at: at.to_owned(),
    }
}

fn parse_type(
    value: &Value,
    at: &str,
    metadata: &mut BTreeMap<String, Value>,
) -> Result<DataType, DeltaError> {
    match value {
        Value::String(name) => parse_primitive(name, at, metadata),
        Value::Object(object) => match object.get("type").and_then(Value::as_str) {
            Some("struct") => Ok(DataType::Struct(parse_fields(object.get("fields"), at)?)),
            Some("array") => Ok(DataType::Array {
                element: Box::new(member(object, "elementType", at)?),
                contains_null: flag(object, "containsNull", at)?,
            }),
            Some("map") => Ok(DataType::Map {
                key: Box::new(member(object, "keyType", at)?),
                value: Box::new(member(object, "valueType", at)?),
                value_contains_null: flag(object, "valueContainsNull", at)?,
            }),
            Some("variant") => Ok(DataType::Variant),
            Some(other) => Err(DeltaError::UnsupportedType {
                column: at.to_owned(),
                type_name: other.to_owned(),
            }),
            None => Err(bad("a type object without a type", at)),
        },
        _ => Err(bad("a type is neither a name nor an object", at)),
    }
}

type Object = serde_json::Map<String, Value>;

fn member(object: &Object, key: &str, at: &str) -> Result<DataType, DeltaError> {
    let value = object
        .get(key)
        .ok_or_else(|| bad(&format!("{key} is missing"), at))?;
    let name = key.strip_suffix("Type").unwrap_or(key);
    parse_type(value, &format!("{at}.{name}"), &mut BTreeMap::new())
}

fn flag(object: &Object, key: &str, at: &str) -> Result<bool, DeltaError> {
    match object.get(key) {
        Some(Value::Bool(flag)) => Ok(*flag),
        None | Some(Value::Null) => Ok(true),
        Some(_) => Err(bad(&format!("{key} is not a boolean"), at)),
    }
}

fn parse_fields(value: Option<&Value>, at: &str) -> Result<Vec<Field>, DeltaError> {
    let Some(Value::Array(items)) = value else {
        return Err(bad("a struct without fields", at));
    };
    items.iter().map(|item| parse_field(item, at)).collect()
}

fn parse_field(item: &Value, at: &str) -> Result<Field, DeltaError> {
    let object = item
        .as_object()
        .ok_or_else(|| bad("a field that is not an object", at))?;
    let name = object
        .get("name")
        .and_then(Value::as_str)
        .ok_or_else(|| bad("a field without a name", at))?;
    let at = if at == "schema" {
        name.to_owned()
    } else {
        format!("{at}.{name}")
    };
    let mut metadata: BTreeMap<String, Value> = match object.get("metadata") {
        Some(Value::Object(map)) => map
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        None | Some(Value::Null) => BTreeMap::new(),
        Some(_) => return Err(bad("metadata is not an object", &at)),
    };
    let type_value = object
        .get("type")
        .ok_or_else(|| bad("a field without a type", &at))?;
    let data_type = parse_type(type_value, &at, &mut metadata)?;
    let nullable = flag(object, "nullable", &at)?;
    Ok(Field {
        name: name.to_owned(),
        data_type,
        nullable,
        physical: None,
        metadata,
    })
}

fn parse_primitive(
    name: &str,
    at: &str,
    metadata: &mut BTreeMap<String, Value>,
) -> Result<DataType, DeltaError> {
    let text = name.trim();
    let data_type = DataType::parse_primitive(text).map_err(|_| DeltaError::UnsupportedType {
        column: at.to_owned(),
        type_name: name.to_owned(),
    })?;
    if data_type == DataType::String && text != "string" {
        metadata
            .entry(CHAR_VARCHAR.to_owned())
            .or_insert_with(|| Value::from(text));
    }
    Ok(data_type)
}

#[derive(Serialize)]
#[serde(untagged)]
enum TypeJson<'a> {
    Name(String),
    Struct(StructJson<'a>),
    Array(Box<ArrayJson<'a>>),
    Map(Box<MapJson<'a>>),
}

#[derive(Serialize)]
struct StructJson<'a> {
    r#type: &'static str,
    fields: Vec<FieldJson<'a>>,
}

#[derive(Serialize)]
struct FieldJson<'a> {
    name: &'a str,
    r#type: TypeJson<'a>,
    nullable: bool,
    metadata: &'a BTreeMap<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ArrayJson<'a> {
    r#type: &'static str,
    element_type: TypeJson<'a>,
    contains_null: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MapJson<'a> {
    r#type: &'static str,
    key_type: TypeJson<'a>,
    value_type: TypeJson<'a>,
    value_contains_null: bool,
}

fn struct_json(fields: &[Field]) -> StructJson<'_> {
    StructJson {
        r#type: "struct",
        fields: fields
            .iter()
            .map(|field| FieldJson {
                name: &field.name,
                r#type: type_json(&field.data_type),
                nullable: field.nullable,
                metadata: &field.metadata,
            })
            .collect(),
    }
}

fn type_json(data_type: &DataType) -> TypeJson<'_> {
    match data_type {
        DataType::Struct(fields) => TypeJson::Struct(struct_json(fields)),
        DataType::Array {
            element,
            contains_null,
        } => TypeJson::Array(Box::new(ArrayJson {
            r#type: "array",
            element_type: type_json(element),
            contains_null: *contains_null,
        })),
        DataType::Map {
            key,
            value,
            value_contains_null,
        } => TypeJson::Map(Box::new(MapJson {
            r#type: "map",
            key_type: type_json(key),
            value_type: type_json(value),
            value_contains_null: *value_contains_null,
        })),
        primitive => TypeJson::Name(primitive.to_string()),
    }
}

/// The `schemaString` of a schema; the same text for equal schemas.
///
/// # Errors
/// `Encode` never for schemas of this workspace.
pub fn schema_string(schema: &Schema) -> Result<String, DeltaError> {
    serde_json::to_string(&struct_json(&schema.fields))
        .map_err(|source| DeltaError::Encode { source })
}

/// The text of one type: a name, or JSON for a nested type. Equal texts are equal types.
pub(crate) fn type_text(data_type: &DataType) -> Result<String, DeltaError> {
    match type_json(data_type) {
        TypeJson::Name(name) => Ok(name),
        nested => serde_json::to_string(&nested).map_err(|source| DeltaError::Encode { source }),
    }
}

#[cfg(test)]
mod tests;
