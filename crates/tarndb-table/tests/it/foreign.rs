//! Files that another writer wrote, or that are older than the table's schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::*;
use bytes::Bytes;
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use parquet::data_type::{Int96, Int96Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tarndb_table::{DataFile, DataType, Deletion, Field, Schema, TableError};

use crate::fixture::*;

pub(crate) async fn store_file(
    table: &Table,
    bytes: Vec<u8>,
    partition: Option<(&str, &str)>,
) -> DataFile {
    let path = "other/f.parquet";
    let key = Path::parse(format!("{}/{path}", table.location)).unwrap();
    let size_bytes = bytes.len() as u64;
    table.store.put(&key, Bytes::from(bytes)).await.unwrap();
    let value = |(name, value): (&str, &str)| (name.to_owned(), Some(value.to_owned()));
    DataFile {
        path: path.into(),
        raw_path: path.into(),
        partition_values: partition.map(value).into_iter().collect(),
        size_bytes,
        modification_time_ms: 0,
        stats: None,
        raw_stats: None,
        deletion: Deletion::None,
        base_row_id: None,
        default_row_commit_version: None,
        tags: BTreeMap::new(),
        clustering_provider: None,
        held: None,
        beside: None,
    }
}

pub(crate) fn parquet_bytes(rows: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), None).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    bytes
}

#[tokio::test]
async fn columns_come_by_name_and_missing_ones_are_null() {
    let fields = vec![
        field("ID", DataType::Long),
        Field::new("added", DataType::String, false),
        field("p", DataType::Integer),
        field("x", DataType::Double),
    ];
    let table = Table::new(fields, &["p"]);
    let rows = batch(vec![
        ("extra", Arc::new(Int64Array::from(vec![9, 9]))),
        ("x", Arc::new(Float32Array::from(vec![Some(1.5), None]))),
        // The log's value wins over a materialised one.
        ("p", Arc::new(Int32Array::from(vec![1, 1]))),
        ("id", Arc::new(Int32Array::from(vec![Some(1), Some(2)]))),
    ]);
    let file = store_file(&table, parquet_bytes(&rows), Some(("P", "7"))).await;
    let [read] = table.read(&file, None).await.unwrap().try_into().unwrap();
    assert_eq!(lines_of(&read), ["1|NULL|7|1.5", "2|NULL|7|NULL"]);
    assert!(read.schema().field(1).is_nullable());
}

#[tokio::test]
async fn the_exact_name_wins_over_one_in_another_case() {
    let table = Table::new(vec![field("id", DataType::Long)], &[]);
    let rows = batch(vec![
        ("ID", Arc::new(Int64Array::from(vec![1]))),
        ("id", Arc::new(Int64Array::from(vec![2]))),
    ]);
    let file = store_file(&table, parquet_bytes(&rows), None).await;
    assert_eq!(lines_of(&table.read(&file, None).await.unwrap()[0]), ["2"]);
}

#[tokio::test]
async fn only_partition_columns_still_give_every_row() {
    let table = Table::new(
        vec![field("n", DataType::Long), field("p", DataType::Date)],
        &["p"],
    );
    let rows = batch(vec![("n", Arc::new(Int64Array::from(vec![1, 2, 3])))]);
    let file = store_file(&table, parquet_bytes(&rows), Some(("p", "2024-02-29"))).await;
    let schema = Schema::new(vec![field("p", DataType::Date)]);
    let [read] = table
        .read_as(&file, &schema, None)
        .await
        .unwrap()
        .try_into()
        .unwrap();
    assert_eq!(lines_of(&read), ["2024-02-29"; 3]);
    let nothing = table
        .read_as(&file, &Schema::default(), None)
        .await
        .unwrap();
    assert_eq!(nothing.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
}

#[tokio::test]
async fn narrower_types_and_nested_fields_are_widened() {
    let inner = DataType::Struct(vec![
        field("new", DataType::String),
        field("a", DataType::Long),
    ]);
    let decimal = DataType::Decimal {
        precision: 20,
        scale: 3,
    };
    let fields = vec![
        field("s", inner),
        field("d", decimal),
        field("t", DataType::TimestampNtz),
    ];
    let table = Table::new(fields, &[]);
    let structs = StructArray::new(
        vec![arrow_schema::Field::new(
            "A",
            arrow_schema::DataType::Int16,
            true,
        )]
        .into(),
        vec![Arc::new(Int16Array::from(vec![5]))],
        None,
    );
    let rows = batch(vec![
        ("s", Arc::new(structs)),
        (
            "d",
            Arc::new(
                Decimal128Array::from(vec![125])
                    .with_precision_and_scale(5, 2)
                    .unwrap(),
            ),
        ),
        ("t", Arc::new(Date32Array::from(vec![1]))),
    ]);
    let file = store_file(&table, parquet_bytes(&rows), None).await;
    let [read] = table.read(&file, None).await.unwrap().try_into().unwrap();
    assert_eq!(
        lines_of(&read),
        ["{new: NULL, a: 5}|1.250|1970-01-02T00:00:00"]
    );
}

#[tokio::test]
async fn another_type_or_a_null_in_not_null_is_damage() {
    let rows = batch(vec![("c", Arc::new(BooleanArray::from(vec![true])))]);
    let table = Table::new(vec![field("c", DataType::Date)], &[]);
    let file = store_file(&table, parquet_bytes(&rows), None).await;
    let error = table.read(&file, None).await.unwrap_err();
    assert!(matches!(error, TableError::DataFileType { column, .. } if column == "c"));
    let rows = batch(vec![("c", Arc::new(Int64Array::from(vec![None, Some(1)])))]);
    let table = Table::new(vec![Field::new("c", DataType::Long, false)], &[]);
    let file = store_file(&table, parquet_bytes(&rows), None).await;
    let error = table.read(&file, None).await.unwrap_err();
    assert!(matches!(error, TableError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn int96_outside_the_range_of_nanoseconds_is_read() {
    let message = "message m { required int64 a; optional int96 t; }";
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<parquet::data_type::Int64Type>()
        .write_batch(&[1, 2], None, None)
        .unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    // Julian days of 9999-12-31 and 0001-01-01, a microsecond past midnight.
    let day = |julian: u32| {
        let mut value = Int96::new();
        value.set_data(1000, 0, julian);
        value
    };
    let values = [day(5_373_484), day(1_721_426)];
    column
        .typed::<Int96Type>()
        .write_batch(&values, Some(&[1, 1]), None)
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let table = Table::new(
        vec![field("t", DataType::Timestamp), field("a", DataType::Long)],
        &[],
    );
    let file = store_file(&table, bytes, None).await;
    let [read] = table.read(&file, None).await.unwrap().try_into().unwrap();
    assert_eq!(
        lines_of(&read),
        [
            "9999-12-31T00:00:00.000001Z|1",
            "0001-01-01T00:00:00.000001Z|2"
        ]
    );
}
