//! Rules of rows in tables by path: our own, and those that other engines wrote.

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Arc;

use arrow_array::{ArrayRef, Date32Array, Int32Array, Int64Array, RecordBatch, StringArray};
use object_store::ObjectStoreExt as _;
use tarndb_delta::{DeltaState, NativeError, NativeTable, Reads};
use tarndb_storage::context::Context;
use tarndb_storage::{Path, Store};
use tarndb_table::*;
use tarndb_types::{TableId, Uuid};

/// A copy of a fixture in memory; `None` where the fixtures are not there.
async fn copy_of(name: &str) -> Option<Store> {
    let root = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/delta");
    let root = root.join(name).join("table");
    if !root.is_dir() {
        return None;
    }
    let store = Store::memory(Context::seeded(5));
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let key = path
                .strip_prefix(&root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let bytes = std::fs::read(&path).unwrap();
            let put = store.objects().put(&Path::from(key), bytes.into()).await;
            put.unwrap();
        }
    }
    Some(store)
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn once(batch: RecordBatch) -> impl futures::Stream<Item = Result<RecordBatch, TableError>> {
    futures::stream::iter([Ok(batch)])
}

fn refused<T>(result: Result<T, NativeError>, expected: &str) {
    let Err(error) = result else {
        panic!("{expected}");
    };
    assert!(error.to_string().contains(expected), "{error}");
}

fn letters(int: i64) -> RecordBatch {
    rows(vec![
        ("letter", Arc::new(StringArray::from(vec!["z"]))),
        ("int", Arc::new(Int64Array::from(vec![int]))),
        ("date", Arc::new(Date32Array::from(vec![0]))),
    ])
}

#[tokio::test]
async fn a_constraint_that_spark_made_is_obeyed() {
    let Some(store) = copy_of("dat__check_constraints").await else {
        return;
    };
    let mut table = NativeTable::open(&store).await.unwrap();
    let before = table.state().unwrap().live_rows();
    refused(
        table.write(once(letters(0))).await,
        "CHECK constraint const1",
    );
    let written = table.write(once(letters(1))).await.unwrap();
    table
        .append(written, BTreeMap::new(), Reads::Nothing)
        .await
        .unwrap();
    let after = table.state().unwrap().live_rows();
    assert_eq!(after, before.map(|rows| rows + 1));
}

#[tokio::test]
async fn columns_that_spark_generates_are_computed_and_checked() {
    let Some(store) = copy_of("spark__dbr_8_1_generated_columns").await else {
        return;
    };
    let mut table = NativeTable::open(&store).await.unwrap();
    let c1 = || -> ArrayRef { Arc::new(Int32Array::from(vec![4])) };
    let c2 = |value: i32| -> ArrayRef { Arc::new(Int32Array::from(vec![value])) };
    let wrong = rows(vec![("c1", c1()), ("c2", c2(6))]);
    refused(table.write(once(wrong)).await, "column c2 is generated");
    let short = rows(vec![("c1", c1())]);
    let written = table.write_columns(&["c1"], once(short)).await.unwrap();
    let stats = written.files[0].stats.clone().unwrap();
    let bounds = &stats.columns[&vec!["c2".to_owned()]];
    assert_eq!(bounds.min, Some(Scalar::Long(5)));
    table
        .append(written, BTreeMap::new(), Reads::Nothing)
        .await
        .unwrap();

    let Some(store) = copy_of("dat__generated_columns").await else {
        return;
    };
    let mut table = NativeTable::open(&store).await.unwrap();
    let names = ["letter", "int", "date"];
    let written = table.write_columns(&names, once(letters(1))).await.unwrap();
    table
        .append(written, BTreeMap::new(), Reads::Nothing)
        .await
        .unwrap();
}

fn definition(rule: (&str, &str)) -> TableDefinition {
    TableDefinition {
        id: TableId(Uuid::from_u128(7)),
        name: "t".to_owned(),
        schema: Schema::new(vec![Field::new("a", DataType::Integer, true)]),
        partition_columns: Vec::new(),
        properties: [(rule.0.to_owned(), rule.1.to_owned())].into(),
        description: None,
    }
}

#[tokio::test]
async fn rows_that_were_not_checked_are_not_added() {
    let store = Store::memory(Context::seeded(5));
    let rule = ("delta.constraints.c", "a > 0");
    let mut table = NativeTable::create(&store, definition(rule)).await.unwrap();
    let state = Arc::clone(table.state().unwrap());
    let protocol = &DeltaState::of(&state).unwrap().protocol;
    assert_eq!(
        (protocol.min_reader_version, protocol.min_writer_version),
        (1, 3)
    );
    let batch = |a: i32| rows(vec![("a", Arc::new(Int32Array::from(vec![a])) as ArrayRef)]);
    refused(table.write(once(batch(0))).await, "CHECK constraint c");
    let mut writer = TableWriter::new(
        store.clone(),
        Path::default(),
        Arc::clone(&state.schema),
        Vec::new(),
        WriteOptions::default(),
    );
    writer.write(&batch(0)).await.unwrap();
    let unchecked = writer.finish().await.unwrap();
    refused(
        table
            .append(unchecked.clone(), BTreeMap::new(), Reads::Nothing)
            .await,
        "were not checked",
    );
    refused(table.overwrite(unchecked, None).await, "were not checked");
    let written = table.write(once(batch(1))).await.unwrap();
    table
        .append(written, BTreeMap::new(), Reads::Nothing)
        .await
        .unwrap();
    let change = RuleChange::AddConstraint {
        name: "d".to_owned(),
        expression: "a > 1".to_owned(),
    };
    refused(
        table
            .change_metadata(vec![MetadataChange::Rule(change)])
            .await,
        "CHECK constraint d",
    );
    assert_eq!(table.version().unwrap().0, 1);
}
