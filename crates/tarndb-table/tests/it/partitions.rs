//! Partitioned tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::*;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use tarndb_table::{DataType, Field, TableError, WriteOptions};

use crate::fixture::*;

fn table(nullable: bool) -> Table {
    let partition = Field::new("Region", DataType::String, nullable);
    Table::new(
        vec![
            field("n", DataType::Long),
            partition,
            field("v", DataType::String),
        ],
        &["Region"],
    )
}

fn rows(regions: Vec<Option<&str>>) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(0..regions.len() as i64);
    let values: Vec<_> = (0..regions.len()).map(|n| format!("v{n}")).collect();
    batch(vec![
        ("n", Arc::new(numbers)),
        ("Region", Arc::new(StringArray::from(regions))),
        ("v", Arc::new(StringArray::from(values))),
    ])
}

#[tokio::test]
async fn rows_go_to_their_partitions_directory() {
    let table = table(true);
    let input = rows(vec![
        Some("US/East"),
        Some("b c"),
        None,
        Some("US/East"),
        Some("b c"),
    ]);
    let written = table
        .write(std::slice::from_ref(&input), WriteOptions::default())
        .await
        .unwrap();
    assert!(!written.empty_string_as_null);
    assert_eq!(table.lines(&written).await, sorted_lines(&[input]));
    let spelled: BTreeSet<_> = written
        .files
        .iter()
        .map(|f| f.raw_path.rsplit_once('/').unwrap().0.to_owned())
        .collect();
    let expected = [
        "Region=US%252FEast",
        "Region=__HIVE_DEFAULT_PARTITION__",
        "Region=b%20c",
    ]
    .map(str::to_owned);
    assert_eq!(spelled, BTreeSet::from(expected));
    for file in &written.files {
        assert_eq!(
            percent_decode_str(&file.raw_path).decode_utf8().unwrap(),
            file.path
        );
        let bytes: Bytes = table
            .store
            .get_required(&file.key(&table.location).unwrap())
            .await
            .unwrap();
        let schema = ParquetRecordBatchReaderBuilder::try_new(bytes)
            .unwrap()
            .schema()
            .clone();
        assert_eq!(
            schema.fields().iter().map(|f| f.name()).collect::<Vec<_>>(),
            ["n", "v"]
        );
        assert!(
            !file
                .stats
                .as_ref()
                .unwrap()
                .columns
                .contains_key(&vec!["Region".to_owned()])
        );
    }
}

#[tokio::test]
async fn an_empty_string_is_stored_as_null_and_told() {
    let table = table(true);
    let written = table
        .write(&[rows(vec![Some(""), None])], WriteOptions::default())
        .await
        .unwrap();
    assert!(written.empty_string_as_null);
    let [file] = written.files.as_slice() else {
        panic!("one partition")
    };
    assert_eq!(file.partition_values["Region"], None);
    assert_eq!(table.lines(&written).await, ["0|NULL|v0", "1|NULL|v1"]);
}

#[tokio::test]
async fn a_not_null_partition_column_refuses_empty_and_null() {
    let table = table(false);
    let error = table
        .write(&[rows(vec![Some("")])], WriteOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, TableError::EmptyPartitionValue { column } if column == "Region"));
    let error = table
        .write(&[rows(vec![None])], WriteOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, TableError::NullInNotNull { column, .. } if column == "Region"));
}

#[tokio::test]
async fn binary_that_is_not_text_cannot_partition() {
    let table = Table::new(
        vec![field("n", DataType::Long), field("p", DataType::Binary)],
        &["p"],
    );
    let input = batch(vec![
        ("n", Arc::new(Int64Array::from(vec![1]))),
        ("p", Arc::new(BinaryArray::from(vec![&[0xFF_u8][..]]))),
    ]);
    let error = table
        .write(&[input], WriteOptions::default())
        .await
        .unwrap_err();
    assert!(
        matches!(error, TableError::PartitionValueUnwritable { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn many_partitions_in_little_memory_lose_nothing() {
    let table = Table::new(
        vec![field("n", DataType::Long), field("p", DataType::Integer)],
        &["p"],
    );
    let batches: Vec<_> = (0..5_i64)
        .map(|round| {
            let numbers = Int64Array::from_iter_values(round * 1000..(round + 1) * 1000);
            let parts = Int32Array::from_iter_values((0..1000).map(|n| (n * 7919) % 300));
            batch(vec![("n", Arc::new(numbers)), ("p", Arc::new(parts))])
        })
        .collect();
    for memory_bytes in [1, 100_000, 128 << 20] {
        let options = WriteOptions {
            memory_bytes,
            ..WriteOptions::default()
        };
        let written = table.write(&batches, options).await.unwrap();
        assert_eq!(table.lines(&written).await, sorted_lines(&batches));
        assert_eq!(written.rows, 5_000);
        if memory_bytes > 1 << 20 {
            assert_eq!(
                written.files.len(),
                300,
                "one file per partition when memory allows"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_row_arrives_once_whatever_the_options(
        regions in prop::collection::vec(prop::collection::vec(prop::option::of("[a-c%/ \u{e9}]{0,2}"), 0..30), 0..6),
        memory_bytes in prop_oneof![Just(1_usize), Just(2000), Just(1 << 26)],
        target_file_bytes in prop_oneof![Just(1_u64), Just(1 << 26)],
    ) {
        let table = table(true);
        let batches: Vec<_> = regions
            .iter()
            .map(|regions| rows(regions.iter().map(Option::as_deref).collect()))
            .collect();
        let options = WriteOptions { memory_bytes, target_file_bytes, ..WriteOptions::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (written, lines) = runtime.block_on(async {
            let written = table.write(&batches, options).await.unwrap();
            let lines = table.lines(&written).await;
            (written, lines)
        });
        let expected: Vec<_> =
            sorted_lines(&batches).into_iter().map(|line| line.replace("||", "|NULL|")).collect();
        let mut sorted = expected;
        sorted.sort();
        prop_assert_eq!(lines, sorted);
        let has_empty = regions.iter().flatten().any(|region| region.as_deref() == Some(""));
        prop_assert_eq!(written.empty_string_as_null, has_empty);
        let names: BTreeSet<_> = written.files.iter().map(|file| &file.path).collect();
        prop_assert_eq!(names.len(), written.files.len());
    }
}
