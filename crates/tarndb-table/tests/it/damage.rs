//! Damaged and missing data files.

use std::sync::Arc;

use arrow_array::*;
use tarndb_table::{DataFile, DataType, ErrorClass, RowSet, TableError, WriteOptions};

use crate::fixture::*;

async fn written_file(table: &Table) -> DataFile {
    let rows = batch(vec![(
        "n",
        Arc::new(Int64Array::from_iter_values(0..1000)) as ArrayRef,
    )]);
    let written = table.write(&[rows], WriteOptions::default()).await.unwrap();
    written.files.into_iter().next().unwrap()
}

fn table() -> Table {
    Table::new(vec![field("n", DataType::Long)], &[])
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let table = table();
    let file = written_file(&table).await;
    let key = file.key(&table.location).unwrap();
    table.store.delete(&key).await.unwrap();
    let error = table.read(&file, None).await.unwrap_err();
    assert!(
        matches!(&error, TableError::FileMissing { path } if *path == key.to_string()),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::NotFound);
}

#[tokio::test]
async fn a_cut_file_is_an_error_at_every_length() {
    let table = table();
    let file = written_file(&table).await;
    let key = file.key(&table.location).unwrap();
    let bytes = table.store.get_required(&key).await.unwrap();
    for length in (0..bytes.len()).step_by(97) {
        table.store.put(&key, bytes.slice(..length)).await.unwrap();
        assert!(table.read(&file, None).await.is_err(), "{length}");
        let shorter = DataFile {
            size_bytes: length as u64,
            ..file.clone()
        };
        assert!(table.read(&shorter, None).await.is_err(), "{length}");
    }
}

#[tokio::test]
async fn flipped_bytes_never_panic() {
    let table = table();
    let file = written_file(&table).await;
    let key = file.key(&table.location).unwrap();
    let bytes = table.store.get_required(&key).await.unwrap();
    for position in (0..bytes.len()).step_by(5) {
        let mut damaged = bytes.to_vec();
        damaged[position] ^= 0x55;
        table.store.put(&key, damaged.into()).await.unwrap();
        // A handle of its own each time: a footer that was read is kept.
        let reader = Table {
            store: table.store.direct(),
            ..table.clone()
        };
        let _ = reader.read(&file, None).await;
    }
}

#[tokio::test]
async fn deletions_beyond_the_end_are_refused() {
    let table = table();
    let file = written_file(&table).await;
    let error = table
        .read(&file, Some(&RowSet::from_iter([1000])))
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        TableError::DeletedRowBeyondFile {
            row: 1000,
            rows: 1000,
            ..
        }
    ));
}

#[tokio::test]
async fn a_path_outside_the_table_is_refused() {
    let table = table();
    let file = DataFile {
        path: "../other/f".into(),
        ..written_file(&table).await
    };
    let error = table.read(&file, None).await.unwrap_err();
    assert!(
        matches!(error, TableError::PathOutsideTable { .. }),
        "{error}"
    );
}
