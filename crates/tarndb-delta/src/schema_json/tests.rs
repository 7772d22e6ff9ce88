//! Tests of the schema as JSON: types there and back.

use serde_json::Value;
use tarndb_table::{DataType, Field, Schema};

use super::{parse_schema, schema_string, type_text};
use crate::error::DeltaError;

fn one_column(type_json: &str) -> String {
    format!(
        r#"{{"type":"struct","fields":[{{"name":"c","type":{type_json},"nullable":true,"metadata":{{}}}}]}}"#
    )
}

#[test]
fn every_type_round_trips_with_its_metadata() {
    let text = concat!(
        r#"{"type":"struct","fields":["#,
        r#"{"name":"a","type":"decimal(10,2)","nullable":false,"metadata":{"comment":"x","delta.invariants":{"k":[1,null]}}},"#,
        r#"{"name":"b","type":{"type":"array","elementType":{"type":"map","keyType":"string","valueType":"timestamp_ntz","valueContainsNull":false},"containsNull":false},"nullable":true,"metadata":{}},"#,
        r#"{"name":"C","type":{"type":"struct","fields":[{"name":"d","type":"void","nullable":true,"metadata":{"u":1.5}}]},"nullable":true,"metadata":{}}"#,
        r#"]}"#
    );
    let schema = parse_schema(text).unwrap();
    assert_eq!(schema.fields[0].metadata["comment"], Value::from("x"));
    assert_eq!(schema_string(&schema).unwrap(), text);
}

#[test]
fn spellings_of_other_writers_are_read() {
    for (json, expected) in [
        (
            r#""decimal""#,
            DataType::Decimal {
                precision: 10,
                scale: 0,
            },
        ),
        (
            r#""decimal( 12 , 3 )""#,
            DataType::Decimal {
                precision: 12,
                scale: 3,
            },
        ),
        (r#""varchar(5)""#, DataType::String),
        (r#""char(5)""#, DataType::String),
    ] {
        assert_eq!(
            parse_schema(&one_column(json)).unwrap().fields[0].data_type,
            expected,
            "{json}"
        );
    }
    let varchar = parse_schema(&one_column(r#""varchar(5)""#)).unwrap();
    assert_eq!(
        varchar.fields[0].metadata["__CHAR_VARCHAR_TYPE_STRING"],
        Value::from("varchar(5)")
    );
    let bare = r#"{"type":"struct","fields":[{"name":"c","type":"long"}],"extra":1}"#;
    assert_eq!(
        parse_schema(bare).unwrap().fields[0],
        Field::new("c", DataType::Long, true)
    );
}

#[test]
fn unknown_types_are_refused_by_column_and_name() {
    for (json, name) in [
        (r#""interval day to second""#, "interval"),
        (r#""decimal(39,0)""#, "decimal(39,0)"),
    ] {
        let error = parse_schema(&one_column(json)).unwrap_err();
        assert!(
            matches!(&error, DeltaError::UnsupportedType { column, type_name }
            if column == "c" && type_name.contains(name)),
            "{json}: {error}"
        );
    }
}

#[test]
fn damaged_schemas_are_refused() {
    for text in [
        "",
        "[]",
        r#"{"type":"struct"}"#,
        r#""long""#,
        &one_column(r#"{"type":"array"}"#),
    ] {
        assert!(
            matches!(parse_schema(text), Err(DeltaError::BadSchema { .. })),
            "{text}"
        );
    }
}

#[test]
fn type_texts_differ_where_types_differ() {
    let list = |contains_null| DataType::Array {
        element: Box::new(DataType::Long),
        contains_null,
    };
    assert_eq!(type_text(&DataType::Long).unwrap(), "long");
    assert_ne!(
        type_text(&list(true)).unwrap(),
        type_text(&list(false)).unwrap()
    );
    assert_eq!(
        schema_string(&Schema::default()).unwrap(),
        r#"{"type":"struct","fields":[]}"#
    );
}
