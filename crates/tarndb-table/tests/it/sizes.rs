//! Sizes of files and row groups.

use std::sync::Arc;

use arrow_array::*;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tarndb_table::{DataType, WriteOptions};

use crate::fixture::*;

/// Rows that do not compress: 8 random bytes each.
fn noise(rows: u64, seed: u64) -> RecordBatch {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as i64
    };
    batch(vec![(
        "n",
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| next()))),
    )])
}

#[tokio::test]
async fn files_roll_at_the_target_size() {
    let table = Table::new(vec![field("n", DataType::Long)], &[]);
    let options = WriteOptions {
        target_file_bytes: 256 << 10,
        ..WriteOptions::default()
    };
    let written = table.write(&[noise(400_000, 1)], options).await.unwrap();
    assert!(
        (8..=16).contains(&written.files.len()),
        "{}",
        written.files.len()
    );
    for file in written.files.iter().rev().skip(1) {
        assert!(
            (200 << 10..400 << 10).contains(&file.size_bytes),
            "{}",
            file.size_bytes
        );
    }
    let rows: u64 = written
        .files
        .iter()
        .map(|file| file.num_records().unwrap())
        .sum();
    assert_eq!(rows, 400_000);
}

#[tokio::test]
async fn row_groups_end_at_rows_and_at_bytes() {
    let table = Table::new(vec![field("n", DataType::Long)], &[]);
    let by_rows = WriteOptions {
        row_group_rows: 1000,
        ..WriteOptions::default()
    };
    let by_bytes = WriteOptions {
        row_group_bytes: 100 << 10,
        ..WriteOptions::default()
    };
    for (options, expected) in [(by_rows, 50..=50), (by_bytes, 3..=10)] {
        let written = table.write(&[noise(50_000, 2)], options).await.unwrap();
        let key = written.files[0].key(&table.location).unwrap();
        let bytes: Bytes = table.store.get_required(&key).await.unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
        let groups = builder.metadata().num_row_groups();
        assert!(expected.contains(&groups), "{groups}");
    }
}

#[tokio::test]
async fn a_large_file_is_uploaded_in_parts_and_memory_ends_row_groups() {
    let table = Table::new(vec![field("n", DataType::Long)], &[]);
    let batches: Vec<_> = (0..30).map(|seed| noise(100_000, seed)).collect();
    let options = WriteOptions {
        memory_bytes: 10 << 20,
        ..WriteOptions::default()
    };
    let before = table.store.meter().counts();
    let written = table.write(&batches, options).await.unwrap();
    let counts = table.store.meter().counts() - before;
    let [file] = written.files.as_slice() else {
        panic!("one file: {}", written.files.len())
    };
    assert!(file.size_bytes > 20 << 20, "{}", file.size_bytes);
    assert_eq!(counts.put, 0, "{counts}");
    assert!(counts.multipart >= 3, "{counts}");
    let read = table.read(file, None).await.unwrap();
    assert_eq!(checksum(&read), checksum(&batches));
}

/// Number of rows, and a sum that depends on their order.
fn checksum(batches: &[RecordBatch]) -> (usize, i64) {
    let mut sum = 0_i64;
    let mut rows = 0;
    for batch in batches {
        let values: &Int64Array = batch.column(0).as_any().downcast_ref().unwrap();
        for value in values.values() {
            sum = sum.wrapping_mul(31).wrapping_add(*value);
            rows += 1;
        }
    }
    (rows, sum)
}
