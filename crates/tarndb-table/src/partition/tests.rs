//! Tests of partition values and directories.

use object_store::path::Path;
use percent_encoding::percent_decode_str;
use proptest::prelude::*;

use super::*;
use crate::schema::Field;

fn encode(scalar: &Scalar, data_type: &DataType) -> Result<Option<String>, TableError> {
    let array = scalar_to_array(Some(scalar), data_type, 1)?;
    encode_partition_value(&array, 0, data_type)
}

#[track_caller]
fn check(scalar: Scalar, data_type: &DataType, expected: &str) {
    let text = encode(&scalar, data_type).unwrap();
    assert_eq!(text.as_deref(), Some(expected));
    let back = parse_partition_value(text.as_deref(), data_type)
        .unwrap()
        .unwrap();
    // NaN is not equal to itself.
    assert_eq!(format!("{back:?}"), format!("{scalar:?}"));
}

#[test]
fn floats_are_spelled_as_java_does() {
    let double = |value, text| check(Scalar::Double(value), &DataType::Double, text);
    double(0.0, "0.0");
    double(-0.0, "-0.0");
    double(1.5, "1.5");
    double(1e10, "1.0E10");
    double(1_234_567.0, "1234567.0");
    double(12_345_678.0, "1.2345678E7");
    double(0.001, "0.001");
    double(0.012_5, "0.0125");
    double(0.000_1, "1.0E-4");
    double(-100.0, "-100.0");
    double(f64::NAN, "NaN");
    double(f64::INFINITY, "Infinity");
    double(f64::NEG_INFINITY, "-Infinity");
    check(Scalar::Double(f64::from(0.1_f32)), &DataType::Float, "0.1");
}

#[test]
fn times_are_spelled_as_the_protocol_prefers() {
    let micros = 1_718_479_845_000_000;
    check(
        Scalar::TimestampMicros(micros),
        &DataType::Timestamp,
        "2024-06-15T19:30:45.000000Z",
    );
    check(
        Scalar::TimestampMicros(micros),
        &DataType::TimestampNtz,
        "2024-06-15 19:30:45",
    );
    let text = "2024-06-15 19:30:45.000001";
    check(
        Scalar::TimestampMicros(micros + 1),
        &DataType::TimestampNtz,
        text,
    );
    check(
        Scalar::TimestampMicros(-1),
        &DataType::Timestamp,
        "1969-12-31T23:59:59.999999Z",
    );
    check(Scalar::Date(0), &DataType::Date, "1970-01-01");
    check(Scalar::Date(-719_529), &DataType::Date, "-0001-12-31");
    check(
        Scalar::Decimal(4200, 2),
        &DataType::Decimal {
            precision: 5,
            scale: 2,
        },
        "42.00",
    );
}

#[test]
fn foreign_spellings_are_read() {
    let parse = |text, data_type| {
        parse_partition_value(Some(text), data_type)
            .unwrap()
            .unwrap()
    };
    let micros = Scalar::TimestampMicros(1_718_479_845_120_000);
    for text in [
        "2024-06-15 19:30:45.12",
        "2024-06-15T19:30:45.120Z",
        "2024-06-15T21:30:45.12+02:00",
        "2024-06-15 18:00:45.120000000-0130",
    ] {
        assert_eq!(parse(text, &DataType::Timestamp), micros, "{text}");
    }
    assert_eq!(
        parse("1970-01-02", &DataType::TimestampNtz),
        Scalar::TimestampMicros(86_400_000_000)
    );
    assert_eq!(parse("TRUE", &DataType::Boolean), Scalar::Boolean(true));
    assert_eq!(parse("1e3", &DataType::Double), Scalar::Double(1000.0));
    let decimal = DataType::Decimal {
        precision: 5,
        scale: 2,
    };
    assert_eq!(parse("4.2E1", &decimal), Scalar::Decimal(4200, 2));
}

#[test]
fn null_and_empty_read_as_null() {
    for data_type in [DataType::String, DataType::Long, DataType::Binary] {
        assert_eq!(parse_partition_value(None, &data_type).unwrap(), None);
        assert_eq!(parse_partition_value(Some(""), &data_type).unwrap(), None);
    }
}

#[test]
fn malformed_values_are_refused() {
    let cases = [
        (DataType::Long, "1.0"),
        (DataType::Byte, "128"),
        (DataType::Boolean, "yes"),
        (DataType::Date, "2024-02-30"),
        (DataType::Date, "24-01-01"),
        (DataType::Timestamp, "2024-06-15T19:30:45."),
        (DataType::Timestamp, "2024-06-15T25:00:00"),
        (DataType::Timestamp, "2024-06-15T19:30:45.0000001"),
        (DataType::Timestamp, "2024-06-15T19:30:45+99:00"),
        (
            DataType::Decimal {
                precision: 3,
                scale: 2,
            },
            "10.00",
        ),
        (DataType::Double, "one"),
    ];
    for (data_type, text) in cases {
        let error = parse_partition_value(Some(text), &data_type);
        assert!(
            matches!(error, Err(TableError::MalformedPartitionValue { .. })),
            "{text}"
        );
    }
}

#[test]
fn empty_values_encode_as_null_and_binary_must_be_text() {
    assert_eq!(
        encode(&Scalar::String(String::new()), &DataType::String).unwrap(),
        None
    );
    assert_eq!(
        encode(&Scalar::Binary(vec![]), &DataType::Binary).unwrap(),
        None
    );
    check(
        Scalar::Binary(b"a\x01".to_vec()),
        &DataType::Binary,
        "a\u{1}",
    );
    let error = encode(&Scalar::Binary(vec![0xFF]), &DataType::Binary).unwrap_err();
    assert!(error.to_string().contains("not UTF-8"), "{error}");
}

#[test]
fn instants_without_a_text_form_are_refused() {
    assert!(encode(&Scalar::TimestampMicros(i64::MAX), &DataType::Timestamp).is_err());
    assert!(encode(&Scalar::Date(i32::MAX), &DataType::Date).is_err());
}

#[test]
fn directories_are_hive_escaped_then_uri_escaped() {
    let (key, spelled) = partition_dir(&[("region", Some("US/East")), ("n", None)]);
    assert_eq!(key, "region=US%2FEast/n=__HIVE_DEFAULT_PARTITION__");
    assert_eq!(spelled, "region=US%252FEast/n=__HIVE_DEFAULT_PARTITION__");
    let (key, spelled) = partition_dir(&[("p", Some("a b}\u{e9}+"))]);
    assert_eq!(key, "p=a b}\u{e9}+");
    assert_eq!(spelled, "p=a%20b%7D%C3%A9+");
    assert_eq!(partition_dir(&[]), (String::new(), String::new()));
    assert_eq!(
        partition_dir(&[("p", Some(""))]).0,
        "p=__HIVE_DEFAULT_PARTITION__"
    );
}

#[test]
fn every_code_point_below_256_gives_a_legal_key_and_decodes_once() {
    for code in 1..=255_u32 {
        let value = format!("x{}y", char::from_u32(code).unwrap());
        let (key, spelled) = partition_dir(&[("p", Some(&value))]);
        assert_eq!(Path::parse(&key).unwrap().as_ref(), key, "{code}");
        assert!(spelled.is_ascii() && !spelled.contains(' '), "{code}");
        assert_eq!(
            percent_decode_str(&spelled).decode_utf8().unwrap(),
            key,
            "{code}"
        );
        let alone = value.trim_matches(['x', 'y']).to_owned();
        assert_eq!(
            Path::parse(partition_dir(&[("p", Some(&alone))]).0)
                .unwrap()
                .parts()
                .count(),
            1
        );
        check(Scalar::String(value.clone()), &DataType::String, &value);
    }
}

#[test]
fn long_values_give_short_directories() {
    for value in ["x".repeat(500), "\u{20AC}".repeat(100), "%".repeat(300)] {
        let (key, spelled) = partition_dir(&[("p", Some(&value))]);
        assert!(key.len() <= 200);
        assert_eq!(percent_decode_str(&spelled).decode_utf8().unwrap(), key);
    }
}

#[test]
fn partition_columns_are_checked() {
    let nested = DataType::Array {
        element: Box::new(DataType::Long),
        contains_null: true,
    };
    let schema = Schema::new(vec![
        Field::new("a", DataType::Long, true),
        Field::new("b", nested, true),
    ]);
    let check = |columns: &[&str]| {
        let columns: Vec<String> = columns.iter().map(|c| (*c).to_owned()).collect();
        check_partition_columns(&schema, &columns)
    };
    check(&["A"]).unwrap();
    check(&[]).unwrap();
    for bad in [&["b"][..], &["c"], &["a", "A"], &["a", "b"]] {
        assert!(check(bad).is_err(), "{bad:?}");
    }
}

fn any_value() -> impl Strategy<Value = (Scalar, DataType)> {
    // Within the years that have a text form.
    let micros = -9_000_000_000_000_000_i64..9_000_000_000_000_000;
    prop_oneof![
        any::<bool>().prop_map(|v| (Scalar::Boolean(v), DataType::Boolean)),
        any::<i8>().prop_map(|v| (Scalar::Long(v.into()), DataType::Byte)),
        any::<i16>().prop_map(|v| (Scalar::Long(v.into()), DataType::Short)),
        any::<i32>().prop_map(|v| (Scalar::Long(v.into()), DataType::Integer)),
        any::<i64>().prop_map(|v| (Scalar::Long(v), DataType::Long)),
        any::<f32>().prop_map(|v| (Scalar::Double(v.into()), DataType::Float)),
        any::<f64>().prop_map(|v| (Scalar::Double(v), DataType::Double)),
        (any::<i64>(), 0_u8..=38).prop_map(|(v, scale)| {
            (
                Scalar::Decimal(v.into(), scale),
                DataType::Decimal {
                    precision: 38,
                    scale,
                },
            )
        }),
        ".{1,20}".prop_map(|v| (Scalar::String(v), DataType::String)),
        ".{1,20}".prop_map(|v| (Scalar::Binary(v.into_bytes()), DataType::Binary)),
        (-9_000_000..90_000_000_i32).prop_map(|v| (Scalar::Date(v), DataType::Date)),
        micros
            .clone()
            .prop_map(|v| (Scalar::TimestampMicros(v), DataType::Timestamp)),
        micros.prop_map(|v| (Scalar::TimestampMicros(v), DataType::TimestampNtz)),
    ]
}

proptest! {
    #[test]
    fn encoded_values_read_back((scalar, data_type) in any_value()) {
        let text = encode(&scalar, &data_type).unwrap();
        let back = parse_partition_value(text.as_deref(), &data_type).unwrap().unwrap();
        prop_assert_eq!(format!("{:?}", back), format!("{:?}", scalar));
    }

    #[test]
    fn any_text_parses_or_is_refused(text in ".{0,30}", (_, data_type) in any_value()) {
        let _ = parse_partition_value(Some(&text), &data_type);
    }
}
