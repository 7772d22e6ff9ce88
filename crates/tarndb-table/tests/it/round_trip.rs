//! Every type is written and read back unchanged.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::*;
use bytes::Bytes;
use futures::TryStreamExt;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Type as PhysicalType;
use tarndb_table::{
    DataType, Field, Indexed, ReadOptions, RowSet, Statistics, TableError, WriteOptions,
    file_statistics, parquet_row_count, read_file_rows,
};

use crate::fixture::*;

fn list() -> ArrayRef {
    let mut builder = ListBuilder::new(Int64Builder::new());
    builder.append_value([Some(1), None]);
    builder.append_null();
    builder.append_value([]);
    Arc::new(builder.finish())
}

fn map() -> ArrayRef {
    let names = MapFieldNames {
        entry: "key_value".into(),
        key: "key".into(),
        value: "value".into(),
    };
    let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), Int64Builder::new());
    builder.keys().append_value("a");
    builder.values().append_null();
    builder.append(true).unwrap();
    builder.append(false).unwrap();
    builder.append(true).unwrap();
    Arc::new(builder.finish())
}

fn all_types() -> (Vec<Field>, RecordBatch) {
    let array = DataType::Array {
        element: Box::new(DataType::Long),
        contains_null: true,
    };
    let map_type = DataType::Map {
        key: Box::new(DataType::String),
        value: Box::new(DataType::Long),
        value_contains_null: true,
    };
    let decimal = |precision, scale, values: Vec<Option<i128>>| -> ArrayRef {
        let array = Decimal128Array::from(values);
        Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
    };
    let micros = vec![Some(-1), None, Some(253_402_300_799_999_999)];
    let columns: Vec<(&str, DataType, ArrayRef)> = vec![
        (
            "boolean",
            DataType::Boolean,
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        ),
        (
            "byte",
            DataType::Byte,
            Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)])),
        ),
        (
            "short",
            DataType::Short,
            Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(1)])),
        ),
        (
            "integer",
            DataType::Integer,
            Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(1)])),
        ),
        (
            "long",
            DataType::Long,
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        ),
        (
            "float",
            DataType::Float,
            Arc::new(Float32Array::from(vec![Some(-0.0), None, Some(1.5)])),
        ),
        (
            "double",
            DataType::Double,
            Arc::new(Float64Array::from(vec![Some(f64::NAN), None, Some(1e300)])),
        ),
        (
            "d9",
            DataType::Decimal {
                precision: 9,
                scale: 2,
            },
            decimal(9, 2, vec![Some(-5), None, Some(999_999_999)]),
        ),
        (
            "d18",
            DataType::Decimal {
                precision: 18,
                scale: 0,
            },
            decimal(18, 0, vec![Some(-5), None, Some(7)]),
        ),
        (
            "d38",
            DataType::Decimal {
                precision: 38,
                scale: 38,
            },
            decimal(38, 38, vec![Some(-(10_i128.pow(38) - 1)), None, Some(7)]),
        ),
        (
            "string",
            DataType::String,
            Arc::new(StringArray::from(vec![Some(""), None, Some("\u{0}\u{e9}")])),
        ),
        (
            "binary",
            DataType::Binary,
            Arc::new(BinaryArray::from(vec![
                Some(&[0xFF_u8][..]),
                None,
                Some(&[]),
            ])),
        ),
        (
            "date",
            DataType::Date,
            Arc::new(Date32Array::from(vec![Some(-1), None, Some(20_000)])),
        ),
        (
            "timestamp",
            DataType::Timestamp,
            Arc::new(TimestampMicrosecondArray::from(micros.clone()).with_timezone("UTC")),
        ),
        (
            "ntz",
            DataType::TimestampNtz,
            Arc::new(TimestampMicrosecondArray::from(micros)),
        ),
        ("array", array, list()),
        ("map", map_type, map()),
        (
            "struct",
            DataType::Struct(vec![field("X", DataType::Long)]),
            Arc::new(StructArray::new(
                vec![arrow_schema::Field::new(
                    "X",
                    arrow_schema::DataType::Int64,
                    true,
                )]
                .into(),
                vec![Arc::new(Int64Array::from(vec![Some(1), Some(2), None]))],
                Some(vec![true, false, true].into()),
            )),
        ),
    ];
    let fields = columns
        .iter()
        .map(|(n, t, _)| field(n, t.clone()))
        .collect();
    let arrays = columns
        .into_iter()
        .map(|(name, _, array)| (name, array))
        .collect();
    (fields, batch(arrays))
}

#[tokio::test]
async fn every_type_comes_back_unchanged() {
    let (fields, rows) = all_types();
    let table = Table::new(fields, &[]);
    let written = table
        .write(std::slice::from_ref(&rows), WriteOptions::default())
        .await
        .unwrap();
    let [file] = written.files.as_slice() else {
        panic!("one file")
    };
    assert_eq!((written.rows, file.num_records()), (3, Some(3)));
    assert_eq!(written.bytes, file.size_bytes);
    let [read] = table.read(file, None).await.unwrap().try_into().unwrap();
    assert_eq!(read.schema(), table.schema.to_arrow());
    assert_eq!(lines_of(&read), lines_of(&rows));
    let count = parquet_row_count(&table.store, &table.location, file);
    assert_eq!(count.await.unwrap(), 3);
}

#[tokio::test]
async fn files_are_laid_out_as_the_protocol_says() {
    let (fields, rows) = all_types();
    let table = Table::new(fields, &[]);
    let written = table.write(&[rows], WriteOptions::default()).await.unwrap();
    let key = written.files[0].key(&table.location).unwrap();
    let bytes: Bytes = table.store.get_required(&key).await.unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
    let mut text = Vec::new();
    parquet::schema::printer::print_schema(&mut text, builder.parquet_schema().root_schema());
    let text = String::from_utf8(text).unwrap();
    for expected in [
        "OPTIONAL INT32 byte (INTEGER(8,true));",
        "OPTIONAL INT32 d9 (DECIMAL(9,2));",
        "OPTIONAL INT64 d18 (DECIMAL(18,0));",
        "OPTIONAL BYTE_ARRAY string (STRING);",
        "OPTIONAL INT32 date (DATE);",
        "OPTIONAL INT64 timestamp (TIMESTAMP(MICROS,true));",
        "OPTIONAL INT64 ntz (TIMESTAMP(MICROS,false));",
        "REPEATED group list {\n      OPTIONAL INT64 element;",
        "REPEATED group key_value {\n      REQUIRED BYTE_ARRAY key (STRING);\n      OPTIONAL INT64 value;",
    ] {
        assert!(text.contains(expected), "{expected} not in {text}");
    }
    assert!(!format!("{:?}", builder.schema()).contains("View"));
    let column = builder.metadata().row_group(0).column(4);
    assert!(format!("{:?}", column.compression()).contains("ZSTD"));
    for column in builder.metadata().row_group(0).columns() {
        let path = column.column_path().string();
        let bounds = column.statistics().and_then(|s| s.max_bytes_opt());
        let float = matches!(
            column.column_type(),
            PhysicalType::FLOAT | PhysicalType::DOUBLE
        );
        assert!(!float || bounds.is_none(), "{path} would prune NaN");
        assert!(
            path != "integer" || bounds.is_some(),
            "{path} has no bounds"
        );
    }
}

#[tokio::test]
async fn a_small_file_costs_one_put_and_reading_it_two_gets() {
    let (fields, rows) = all_types();
    let table = Table::new(fields, &[]);
    let before = table.store.meter().counts();
    let written = table.write(&[rows], WriteOptions::default()).await.unwrap();
    let counts = table.store.meter().counts() - before;
    assert_eq!(
        (counts.put, counts.multipart, counts.get, counts.head),
        (1, 0, 0, 0)
    );
    let before = table.store.meter().counts();
    table.read(&written.files[0], None).await.unwrap();
    let counts = table.store.meter().counts() - before;
    assert_eq!((counts.get, counts.head), (0, 0));
    assert!(counts.get_range >= 1, "{counts}");
}

#[tokio::test]
async fn statistics_computed_from_a_file_equal_the_writers() {
    let (fields, rows) = all_types();
    let table = Table::new(fields, &[]);
    let written = table.write(&[rows], WriteOptions::default()).await.unwrap();
    let file = &written.files[0];
    let (store, location, schema) = (&table.store, &table.location, &table.schema);
    let computed: Statistics =
        file_statistics(store, location, file, schema, &[], &Indexed::from(32))
            .await
            .unwrap();
    assert_eq!(Some(&computed), file.stats.as_deref());
    assert_eq!(computed.columns.len(), 18);
}

fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
    batch(vec![("n", Arc::new(Int64Array::from_iter_values(range)))])
}

#[tokio::test]
async fn deleted_rows_are_left_out_and_positions_count_them() {
    let table = Table::new(vec![field("n", DataType::Long)], &[]);
    let options = WriteOptions {
        row_group_rows: 1000,
        ..WriteOptions::default()
    };
    let written = table.write(&[numbers(0..5000)], options).await.unwrap();
    let deleted: RowSet = (0..5000)
        .filter(|n| n % 3 == 0 || (900..2100).contains(n))
        .collect();
    let (store, location, file) = (&table.store, &table.location, &written.files[0]);
    let options = ReadOptions { batch_rows: 128 };
    let rows = read_file_rows(
        store,
        location,
        file,
        &table.schema,
        &[],
        Some(&deleted),
        options,
    );
    let rows: Vec<_> = rows.await.unwrap().try_collect().await.unwrap();
    let mut seen: Vec<u64> = Vec::new();
    for rows in &rows {
        let values: &Int64Array = rows.batch.column(0).as_any().downcast_ref().unwrap();
        assert_eq!(
            values
                .values()
                .iter()
                .map(|v| *v as u64)
                .collect::<Vec<_>>(),
            rows.positions
        );
        assert!(rows.positions.len() <= 128);
        seen.extend(rows.positions.iter().copied());
    }
    assert_eq!(
        seen,
        (0..5000)
            .filter(|n| !deleted.contains(*n))
            .collect::<Vec<_>>()
    );
    let all = (0..5000).collect();
    assert_eq!(table.read(file, Some(&all)).await.unwrap().len(), 0);
}

#[tokio::test]
async fn no_rows_make_no_file() {
    let table = Table::new(vec![field("n", DataType::Long)], &[]);
    let written = table
        .write(&[numbers(0..0)], WriteOptions::default())
        .await
        .unwrap();
    assert_eq!(written.files, vec![]);
    assert_eq!(table.store.meter().counts().put, 0);
}

#[tokio::test]
async fn an_abandoned_writer_shows_nothing() {
    let table = Table::new(vec![field("n", DataType::Long)], &[]);
    let mut writer = table.writer(WriteOptions::default());
    writer.write(&numbers(0..10)).await.unwrap();
    writer.abort().await;
    let listing = table.store.list_after(&table.location, None).await.unwrap();
    assert_eq!(listing, vec![]);
}

#[tokio::test]
async fn a_batch_that_was_not_conformed_is_refused() {
    let table = Table::new(vec![field("n", DataType::Integer)], &[]);
    let error = table
        .writer(WriteOptions::default())
        .write(&numbers(0..1))
        .await
        .unwrap_err();
    assert!(matches!(error, TableError::TypeMismatch { .. }), "{error}");
}
