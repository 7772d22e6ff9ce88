//! Tests of conforming batches.

use std::sync::Arc;

use ::arrow::buffer::NullBuffer;
use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_schema::{DataType as A, Field as AF, Schema as AS, TimeUnit};
use proptest::prelude::*;

use super::*;

fn conform(array: ArrayRef, data_type: DataType, nullable: bool) -> Result<ArrayRef, TableError> {
    let source = AS::new(vec![AF::new("x", array.data_type().clone(), true)]);
    let batch = RecordBatch::try_new(Arc::new(source), vec![array]).unwrap();
    let schema = Schema::new(vec![Field::new("c", data_type, nullable)]);
    let conformed = conform_batch(&batch, &schema)?;
    assert_eq!(conformed.schema(), schema.to_arrow());
    Ok(conformed.column(0).clone())
}

#[track_caller]
fn check_refused(array: impl Array + 'static, data_type: DataType, value: &str) {
    let message = conform(Arc::new(array), data_type, true)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("column=c") || message.contains("column c"),
        "{message}"
    );
    assert!(message.contains(value), "{message}");
}

#[test]
fn values_that_fit_are_widened_and_narrowed() {
    let narrow = conform(
        Arc::new(Int64Array::from(vec![Some(1), None])),
        DataType::Byte,
        true,
    );
    assert_eq!(
        narrow.unwrap().as_primitive::<Int8Type>(),
        &Int8Array::from(vec![Some(1), None])
    );
    let unsigned = conform(
        Arc::new(UInt64Array::from(vec![u64::MAX])),
        DataType::Decimal {
            precision: 20,
            scale: 0,
        },
        true,
    );
    assert_eq!(
        unsigned
            .unwrap()
            .as_primitive::<types::Decimal128Type>()
            .value(0),
        i128::from(u64::MAX)
    );
    let whole = conform(
        Arc::new(Float64Array::from(vec![2.0, -0.0])),
        DataType::Long,
        true,
    );
    assert_eq!(
        whole.unwrap().as_primitive::<types::Int64Type>().value(0),
        2
    );
    let infinite = conform(
        Arc::new(Float64Array::from(vec![f64::INFINITY])),
        DataType::Float,
        true,
    );
    assert!(
        infinite
            .unwrap()
            .as_primitive::<types::Float32Type>()
            .value(0)
            .is_infinite()
    );
}

#[test]
fn values_that_do_not_fit_are_errors_with_column_and_value() {
    check_refused(Int64Array::from(vec![1, 300]), DataType::Byte, "300");
    check_refused(Float64Array::from(vec![1.5]), DataType::Integer, "1.5");
    check_refused(Float64Array::from(vec![f64::NAN]), DataType::Integer, "NaN");
    check_refused(Float64Array::from(vec![1e300]), DataType::Float, "1e300");
    check_refused(StringArray::from(vec!["12", "x1"]), DataType::Long, "x1");
    check_refused(
        StringArray::from(vec!["2024-13-01"]),
        DataType::Date,
        "2024-13-01",
    );
    let decimal = Decimal128Array::from(vec![12345])
        .with_precision_and_scale(5, 2)
        .unwrap();
    check_refused(decimal.clone(), DataType::Integer, "123.45");
    check_refused(
        decimal,
        DataType::Decimal {
            precision: 3,
            scale: 1,
        },
        "123.45",
    );
    check_refused(
        TimestampSecondArray::from(vec![i64::MAX]),
        DataType::TimestampNtz,
        "",
    );
    check_refused(
        BinaryArray::from(vec![&[0xFF_u8][..]]),
        DataType::String,
        "value=ff",
    );
}

#[test]
fn types_are_not_reinterpreted() {
    check_refused(Int64Array::from(vec![1]), DataType::Timestamp, "Int64");
    check_refused(Int64Array::from(vec![1]), DataType::Boolean, "Int64");
    check_refused(BooleanArray::from(vec![true]), DataType::Long, "Boolean");
    check_refused(Date32Array::from(vec![1]), DataType::Integer, "Date32");
    let list = DataType::Array {
        element: Box::new(DataType::Long),
        contains_null: true,
    };
    check_refused(Int64Array::from(vec![1]), list, "Int64");
}

#[test]
fn nanoseconds_pass_only_when_nothing_is_lost() {
    let nanos = |value| Arc::new(TimestampNanosecondArray::from(vec![None, Some(value)]));
    let exact = conform(nanos(-5_000), DataType::TimestampNtz, true).unwrap();
    assert_eq!(
        exact
            .as_primitive::<types::TimestampMicrosecondType>()
            .value(1),
        -5
    );
    let message = conform(nanos(5_001), DataType::TimestampNtz, true)
        .unwrap_err()
        .to_string();
    assert!(message.contains("column c: nanoseconds would be lost; cast to TIMESTAMP(6)"));
    assert!(
        message.contains("1970-01-01T00:00:00.000005001"),
        "{message}"
    );
}

#[test]
fn null_in_not_null_names_column_and_row() {
    let array = Arc::new(Int32Array::from(vec![Some(1), None]));
    let error = conform(array, DataType::Integer, false).unwrap_err();
    assert!(matches!(error, TableError::NullInNotNull { column, row: 1 } if column == "c"));
    let nulls = conform(Arc::new(NullArray::new(1)), DataType::String, false).unwrap_err();
    assert!(matches!(nulls, TableError::NullInNotNull { row: 0, .. }));
}

#[test]
fn the_number_of_columns_is_checked() {
    let batch = RecordBatch::new_empty(Arc::new(AS::empty()));
    let schema = Schema::new(vec![Field::new("c", DataType::Long, true)]);
    assert!(matches!(
        conform_batch(&batch, &schema),
        Err(TableError::ColumnCount { .. })
    ));
}

#[test]
fn views_large_types_and_dictionaries_become_plain() {
    let dictionary: DictionaryArray<Int8Type> =
        vec![Some("a"), None, Some("a")].into_iter().collect();
    let expected = StringArray::from(vec![Some("a"), None, Some("a")]);
    let arrays: [ArrayRef; 3] = [
        Arc::new(dictionary),
        Arc::new(StringViewArray::from(vec![Some("a"), None, Some("a")])),
        Arc::new(LargeStringArray::from(vec![Some("a"), None, Some("a")])),
    ];
    for array in arrays {
        let conformed = conform(array, DataType::String, true).unwrap();
        assert_eq!(conformed.as_string::<i32>(), &expected);
    }
}

fn pair(first: &str, second: &str) -> StructArray {
    let field = |name: &str| AF::new(name, A::Int64, true);
    StructArray::new(
        vec![field(first), field(second)].into(),
        vec![
            Arc::new(Int64Array::from(vec![Some(1), None])),
            Arc::new(Int64Array::from(vec![Some(2), Some(20)])),
        ],
        Some(NullBuffer::from(vec![true, false])),
    )
}

fn pair_type(nullable: bool) -> DataType {
    DataType::Struct(vec![
        Field::new("a", DataType::Byte, nullable),
        Field::new("b", DataType::Long, true),
    ])
}

#[test]
fn struct_fields_go_by_name_else_by_position() {
    let by_name = conform(Arc::new(pair("B", "A")), pair_type(true), true).unwrap();
    assert_eq!(
        by_name
            .as_struct()
            .column(0)
            .as_primitive::<Int8Type>()
            .value(0),
        2
    );
    let by_position = conform(Arc::new(pair("c0", "c1")), pair_type(true), true).unwrap();
    assert_eq!(
        by_position
            .as_struct()
            .column(0)
            .as_primitive::<Int8Type>()
            .value(0),
        1
    );
    assert!(by_position.is_null(1));
}

#[test]
fn a_null_parent_excuses_a_not_null_child_and_a_valid_one_does_not() {
    conform(Arc::new(pair("a", "b")), pair_type(false), true).unwrap();
    let (fields, arrays, _) = pair("a", "b").into_parts();
    let all_valid = StructArray::new(fields, arrays, None);
    let error = conform(Arc::new(all_valid), pair_type(false), true).unwrap_err();
    assert!(matches!(error, TableError::NullInNotNull { column, row: 1 } if column == "c.a"));
}

#[test]
fn a_sliced_list_is_judged_by_its_own_values_only() {
    let mut builder = ListBuilder::new(Int32Builder::new());
    builder.append_value([Some(1000), None]);
    builder.append_value([Some(7), Some(8)]);
    builder.append_null();
    let list = builder.finish();
    let bytes = DataType::Array {
        element: Box::new(DataType::Byte),
        contains_null: false,
    };
    let sliced = conform(Arc::new(list.slice(1, 2)), bytes.clone(), true).unwrap();
    let values = sliced.as_list::<i32>().value(0);
    assert_eq!(
        values.as_primitive::<Int8Type>(),
        &Int8Array::from(vec![7, 8])
    );
    assert!(sliced.is_null(1));
    let message = conform(Arc::new(list), bytes, true)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("column=c.element") && message.contains("1000"),
        "{message}"
    );
}

#[test]
fn maps_are_cast_and_checked() {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    builder.keys().append_value("k");
    builder.values().append_null();
    builder.append(true).unwrap();
    let map = builder.finish();
    let target = |value_contains_null| DataType::Map {
        key: Box::new(DataType::String),
        value: Box::new(DataType::Long),
        value_contains_null,
    };
    let conformed = conform(Arc::new(map.clone()), target(true), true).unwrap();
    assert_eq!(conformed.as_map().value_length(0), 1);
    let message = conform(Arc::new(map), target(false), true)
        .unwrap_err()
        .to_string();
    assert!(message.contains("column=c.value"), "{message}");
}

#[test]
fn zoned_timestamps_keep_the_instant() {
    let array = TimestampMillisecondArray::from(vec![0]).with_timezone("+02:00");
    let conformed = conform(Arc::new(array), DataType::Timestamp, true).unwrap();
    assert_eq!(
        conformed.data_type(),
        &A::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    );
    assert_eq!(
        conformed
            .as_primitive::<types::TimestampMicrosecondType>()
            .value(0),
        0
    );
}

proptest! {
    #[test]
    fn an_integer_arrives_unchanged_or_is_refused(value: i64) {
        for target in [DataType::Byte, DataType::Short, DataType::Integer, DataType::Long] {
            let array = Arc::new(Int64Array::from(vec![value]));
            if let Ok(cast) = conform(array, target, true) {
                let back = ::arrow::compute::cast(&cast, &A::Int64).unwrap();
                prop_assert_eq!(back.as_primitive::<types::Int64Type>().value(0), value);
            }
        }
    }

    #[test]
    fn a_double_in_an_integer_column_is_whole(value in prop_oneof![any::<f64>(), -1e6..1e6, (-99_i32..99).prop_map(f64::from)]) {
        let array = Arc::new(Float64Array::from(vec![value]));
        match conform(array, DataType::Integer, true) {
            Ok(cast) => {
                let cast = cast.as_primitive::<types::Int32Type>().value(0);
                prop_assert_eq!(f64::from(cast), value);
            }
            Err(_) => prop_assert!(value.fract() != 0.0 || value.abs() > 2e9 || value.is_nan()),
        }
    }
}
