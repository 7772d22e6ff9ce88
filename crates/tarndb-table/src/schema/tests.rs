//! Tests of the logical schema.

use arrow_schema::{DataType as A, Field as AF, Schema as AS, TimeUnit};
use proptest::prelude::*;

use super::arrow::Nanoseconds;
use super::*;

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn from_one(data_type: A) -> Result<DataType, TableError> {
    let schema = Schema::from_arrow(&AS::new(vec![AF::new("c", data_type, true)]))?;
    Ok(schema.fields[0].data_type.clone())
}

#[test]
fn types_display_as_delta_names() {
    let nested = DataType::Map {
        key: Box::new(DataType::String),
        value: Box::new(DataType::Array {
            element: Box::new(DataType::Struct(vec![
                field("a", DataType::Long),
                field(
                    "b",
                    DataType::Decimal {
                        precision: 10,
                        scale: 2,
                    },
                ),
            ])),
            contains_null: true,
        }),
        value_contains_null: true,
    };
    assert_eq!(
        nested.to_string(),
        "map<string,array<struct<a:long,b:decimal(10,2)>>>"
    );
}

#[test]
fn primitive_names_parse_with_their_variants() {
    let parse = |text| DataType::parse_primitive(text).unwrap();
    assert_eq!(parse("timestamp_ntz"), DataType::TimestampNtz);
    assert_eq!(
        parse("decimal"),
        DataType::Decimal {
            precision: 10,
            scale: 0
        }
    );
    assert_eq!(
        parse("decimal( 7 , 7 )"),
        DataType::Decimal {
            precision: 7,
            scale: 7
        }
    );
    assert_eq!(parse("varchar(3)"), DataType::String);
    for bad in [
        "",
        "Long",
        "decimal(39,0)",
        "decimal(2,3)",
        "decimal(1",
        "varchar(x)",
        "map",
    ] {
        assert!(DataType::parse_primitive(bad).is_err(), "{bad}");
    }
}

#[test]
fn lookup_ignores_case_and_prefers_the_exact_name() {
    let schema = Schema::new(vec![
        field("Id", DataType::Long),
        field("id", DataType::String),
    ]);
    assert_eq!(schema.field("id").unwrap().0, 1);
    assert_eq!(schema.field("ID").unwrap().0, 0);
    assert!(schema.field("x").is_none());
}

#[test]
fn names_that_differ_by_case_only_are_refused_at_every_level() {
    let top = Schema::new(vec![
        field("Id", DataType::Long),
        field("iD", DataType::Long),
    ]);
    assert!(matches!(
        top.validate(),
        Err(TableError::DuplicateColumn { .. })
    ));
    let inner = DataType::Struct(vec![field("a", DataType::Long), field("A", DataType::Long)]);
    let nested = Schema::new(vec![field(
        "s",
        DataType::Array {
            element: Box::new(inner),
            contains_null: true,
        },
    )]);
    let message = nested.validate().unwrap_err().to_string();
    assert!(message.contains("s.element.A"), "{message}");
}

#[test]
fn forbidden_characters_are_refused_with_the_column() {
    for c in " ,;{}()\n\t=".chars() {
        let schema = Schema::new(vec![field(&format!("a{c}b"), DataType::Long)]);
        let error = schema.validate().unwrap_err();
        assert!(matches!(error, TableError::IllegalColumnName { character, .. } if character == c));
    }
    let legal = Schema::new(vec![
        field("a.b-c/d'e\"f%", DataType::Long),
        field("_file", DataType::Long),
    ]);
    legal.validate().unwrap();
}

#[test]
fn empty_schemas_structs_and_void_are_refused() {
    assert!(Schema::default().validate().is_err());
    for data_type in [DataType::Void, DataType::Struct(vec![])] {
        assert!(Schema::new(vec![field("a", data_type)]).validate().is_err());
    }
    assert!(
        Schema::new(vec![field("", DataType::Long)])
            .validate()
            .is_err()
    );
}

#[test]
fn arrow_types_from_outside_are_widened_or_flattened() {
    let dictionary = A::Dictionary(Box::new(A::Int32), Box::new(A::LargeUtf8));
    let cases = [
        (A::UInt8, "short"),
        (A::UInt16, "integer"),
        (A::UInt32, "long"),
        (A::UInt64, "decimal(20,0)"),
        (A::Float16, "float"),
        (A::Utf8View, "string"),
        (dictionary, "string"),
        (A::FixedSizeBinary(4), "binary"),
        (A::Date64, "date"),
        (
            A::Timestamp(TimeUnit::Second, Some("+02:00".into())),
            "timestamp",
        ),
        (A::Timestamp(TimeUnit::Millisecond, None), "timestamp_ntz"),
        (A::Decimal256(38, 3), "decimal(38,3)"),
        (A::Decimal32(5, -2), "decimal(7,0)"),
        (A::Decimal64(2, 4), "decimal(4,4)"),
        (A::new_large_list(A::UInt8, true), "array<short>"),
        (A::new_fixed_size_list(A::Int8, 3, true), "array<byte>"),
    ];
    for (arrow, expected) in cases {
        assert_eq!(
            from_one(arrow.clone()).unwrap().to_string(),
            expected,
            "{arrow}"
        );
    }
}

#[test]
fn arrow_types_a_table_cannot_hold_name_the_column() {
    for arrow in [
        A::Time64(TimeUnit::Microsecond),
        A::Duration(TimeUnit::Second),
        A::Decimal256(39, 0),
        A::new_list(A::Time32(TimeUnit::Second), true),
    ] {
        let message = from_one(arrow.clone()).unwrap_err().to_string();
        assert!(message.contains("column=c"), "{message}");
    }
}

#[test]
fn nanoseconds_are_refused_unless_asked_for() {
    let nanos = A::Timestamp(TimeUnit::Nanosecond, None);
    let message = from_one(nanos.clone()).unwrap_err().to_string();
    assert!(
        message.contains("nanoseconds would be lost; cast to TIMESTAMP(6)"),
        "{message}"
    );
    let asked = DataType::from_arrow(&nanos, "c", Nanoseconds::CheckEachValue).unwrap();
    assert_eq!(asked, DataType::TimestampNtz);
}

fn any_type() -> impl Strategy<Value = DataType> {
    let leaf = prop_oneof![
        Just(DataType::Boolean),
        Just(DataType::Byte),
        Just(DataType::Short),
        Just(DataType::Integer),
        Just(DataType::Long),
        Just(DataType::Float),
        Just(DataType::Double),
        Just(DataType::String),
        Just(DataType::Binary),
        Just(DataType::Date),
        Just(DataType::Timestamp),
        Just(DataType::TimestampNtz),
        (1_u8..=38).prop_flat_map(|precision| (0..=precision)
            .prop_map(move |scale| DataType::Decimal { precision, scale })),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), any::<bool>()).prop_map(|(element, contains_null)| DataType::Array {
                element: Box::new(element),
                contains_null
            }),
            (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(k, v, null)| DataType::Map {
                key: Box::new(k),
                value: Box::new(v),
                value_contains_null: null
            }),
            prop::collection::vec((inner, any::<bool>()), 1..3).prop_map(|fields| {
                let named = fields.into_iter().enumerate();
                DataType::Struct(
                    named
                        .map(|(i, (t, null))| Field::new(format!("f{i}"), t, null))
                        .collect(),
                )
            }),
        ]
    })
}

proptest! {
    #[test]
    fn arrow_and_back_is_identity(data_type in any_type(), nullable: bool) {
        let schema = Schema::new(vec![Field::new("C", data_type, nullable)]);
        let arrow = schema.to_arrow();
        prop_assert_eq!(&Schema::from_arrow(&arrow).unwrap(), &schema);
        let text = format!("{arrow:?}");
        prop_assert!(!text.contains("View"));
    }
}
