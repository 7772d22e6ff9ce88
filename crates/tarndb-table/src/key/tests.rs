//! Tests of keys: which are equal, what their bytes are, which files can hold them.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    StringArray, TimestampMicrosecondArray,
};

use super::*;

fn batch(columns: Vec<(&str, DataType, ArrayRef)>) -> (Schema, RecordBatch) {
    let fields = columns
        .iter()
        .map(|(name, data_type, _)| Field::new(*name, data_type.clone(), true));
    let schema = Schema::new(fields.collect());
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    let batch = RecordBatch::try_new(schema.to_arrow(), arrays).unwrap();
    (schema, batch)
}

fn keys_of(columns: Vec<(&str, DataType, ArrayRef)>) -> Vec<Option<Vec<u8>>> {
    let (schema, batch) = batch(columns);
    let names: Vec<&str> = schema
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    let key = KeyColumns::new(&schema, &names).unwrap();
    let keys = key.of(&batch).unwrap();
    let mut bytes = Vec::new();
    let read = |row| keys.read(row, &mut bytes).then(|| bytes.clone());
    (0..batch.num_rows()).map(read).collect()
}

fn floats(values: Vec<f64>) -> ArrayRef {
    Arc::new(Float64Array::from(values))
}

/// These bytes are in the records of databases: they may never change.
#[test]
fn the_bytes_and_hashes_of_keys_are_fixed() {
    let keys = keys_of(vec![
        ("i", DataType::Long, Arc::new(Int64Array::from(vec![-2]))),
        (
            "s",
            DataType::String,
            Arc::new(StringArray::from(vec!["ab"])),
        ),
        ("d", DataType::Date, Arc::new(Date32Array::from(vec![1]))),
    ]);
    let expected = [
        &[2, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF][..],
        &[5, 2, 0, 0, 0, 0, 0, 0, 0, b'a', b'b'],
        &[7, 1, 0, 0, 0],
    ]
    .concat();
    assert_eq!(keys, [Some(expected)]);
    // SHA-256 of "abc" begins ba7816bf 8f01cfea.
    assert_eq!(key_hash(b"abc"), 0xEACF_018F_BF16_78BA);
}

#[test]
fn keys_are_equal_where_values_are() {
    let keys = keys_of(vec![(
        "f",
        DataType::Double,
        floats(vec![-0.0, 0.0, f64::NAN, -f64::NAN, 1.5]),
    )]);
    assert_eq!(keys[0], keys[1]);
    assert_eq!(keys[2], keys[3]);
    assert_ne!(keys[1], keys[4]);
    let narrow: ArrayRef = Arc::new(Float32Array::from(vec![1.5_f32]));
    assert_eq!(keys_of(vec![("f", DataType::Float, narrow)])[0], keys[4]);
    let int: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    let long: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    assert_eq!(
        keys_of(vec![("i", DataType::Integer, int)]),
        keys_of(vec![("i", DataType::Long, long)])
    );
    let decimal = |unscaled, scale| {
        let data_type = DataType::Decimal {
            precision: 10,
            scale,
        };
        let array = Decimal128Array::from(vec![unscaled]).with_data_type(data_type.to_arrow());
        keys_of(vec![("d", data_type, Arc::new(array))])
    };
    assert_eq!(decimal(150, 2), decimal(15, 1));
    assert_eq!(decimal(0, 2), decimal(0, 0));
    assert_ne!(decimal(15, 2), decimal(15, 1));
}

#[test]
fn columns_do_not_run_into_each_other_and_null_is_no_key() {
    let keys = keys_of(vec![
        (
            "a",
            DataType::String,
            Arc::new(StringArray::from(vec![
                Some("x"),
                Some("xy"),
                None,
                Some(""),
            ])),
        ),
        (
            "b",
            DataType::String,
            Arc::new(StringArray::from(vec![
                Some("yz"),
                Some("z"),
                Some("z"),
                None,
            ])),
        ),
    ]);
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[2..], [None, None]);
}

#[test]
fn a_wrong_key_is_refused_by_name() {
    let element = Box::new(DataType::Long);
    let schema = Schema::new(vec![
        Field::new("Id", DataType::Long, true),
        Field::new(
            "list",
            DataType::Array {
                element,
                contains_null: true,
            },
            true,
        ),
    ]);
    assert_eq!(KeyColumns::new(&schema, &["id"]).unwrap().names(), ["Id"]);
    for (on, wrong) in [
        (vec!["nope"], "nope"),
        (vec!["id", "ID"], "named twice"),
        (vec!["list"], "not keys"),
        (vec![], "at least one"),
    ] {
        let error = KeyColumns::new(&schema, &on).unwrap_err().to_string();
        assert!(error.contains(wrong), "{error}");
    }
}

#[test]
fn keys_are_told_in_words() {
    let (schema, batch) = batch(vec![
        ("id", DataType::Long, Arc::new(Int64Array::from(vec![7]))),
        (
            "name",
            DataType::String,
            Arc::new(StringArray::from(vec!["x\"y"])),
        ),
    ]);
    let key = KeyColumns::new(&schema, &["name", "id"]).unwrap();
    assert_eq!(
        key.of(&batch).unwrap().describe(0),
        "name = \"x\\\"y\", id = 7"
    );
}

#[test]
fn bounds_enclose_all_keys() {
    let (schema, batch) = batch(vec![
        (
            "id",
            DataType::Long,
            Arc::new(Int64Array::from(vec![Some(7), None, Some(3)])),
        ),
        ("f", DataType::Double, floats(vec![1.0, f64::NAN, 2.0])),
        (
            "at",
            DataType::Timestamp,
            Arc::new(TimestampMicrosecondArray::from(vec![5, 6, 7]).with_timezone("UTC")),
        ),
    ]);
    let key = KeyColumns::new(&schema, &["f", "id", "at"]).unwrap();
    let bounds = key.bounds([&batch]).to_string();
    assert_eq!(
        bounds,
        "id >= 3 AND id <= 7 AND at >= TIMESTAMP '1970-01-01 00:00:00.000005' AND \
         at <= TIMESTAMP '1970-01-01 00:00:00.001006'"
    );
}
