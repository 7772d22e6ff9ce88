//! Folders of Parquet files that become tables, and those that do not.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, UInt32Array,
};
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use tarndb_delta::{NativeTarget, convert_to_delta, open_native};
use tarndb_storage::context::Context;
use tarndb_storage::{Path, Store};
use tarndb_table::{DataType, Field, Scalar, read_file};

fn memory() -> Store {
    Store::memory(Context::seeded(6))
}

async fn put(store: &Store, key: &str, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    store
        .put(&Path::parse(key).unwrap(), bytes.into())
        .await
        .unwrap();
}

fn ids(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

/// Rows as text, sorted.
async fn rows(store: &Store) -> Vec<String> {
    let state = open_native(store, NativeTarget::Latest).await.unwrap();
    let root = Path::default();
    let mut found = Vec::new();
    for file in state.files.values() {
        let read = read_file(
            store,
            &root,
            &file,
            &state.schema,
            &state.partition_columns,
            None,
        );
        let batches: Vec<RecordBatch> = read.await.unwrap().try_collect().await.unwrap();
        for batch in batches {
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter().map(|column| {
                    arrow::util::display::array_value_to_string(column, row).unwrap()
                });
                found.push(cells.collect::<Vec<_>>().join("|"));
            }
        }
    }
    found.sort();
    found
}

async fn has_log(store: &Store) -> bool {
    let log = Path::from("_delta_log");
    !store.list_after(&log, None).await.unwrap().is_empty()
}

#[tokio::test]
async fn folder_becomes_a_table_with_all_columns_and_the_bounds_of_the_footers() {
    let store = memory();
    let day = Arc::new(Date32Array::from(vec![Some(10), None]));
    put(
        &store,
        "a.parquet",
        vec![("id", ids(vec![Some(3), Some(-1)])), ("day", day)],
    )
    .await;
    let text = Arc::new(StringArray::from(vec!["x".repeat(40)]));
    let number = Arc::new(Float64Array::from(vec![f64::NAN]));
    put(
        &store,
        "sub/b c.parquet",
        vec![("text", text), ("id", ids(vec![None])), ("number", number)],
    )
    .await;
    store
        .put(&Path::from("_tmp/x.parquet"), "no".into())
        .await
        .unwrap();
    store
        .put(&Path::from(".x.parquet"), "no".into())
        .await
        .unwrap();
    store
        .put(&Path::from("readme.md"), "no".into())
        .await
        .unwrap();
    let converted = convert_to_delta(&store, Vec::new()).await.unwrap();
    assert_eq!(converted.made, Some((2, 3)));
    let last = format!("||{}|NaN", "x".repeat(40));
    let expected = ["-1|||".to_owned(), "3|1970-01-11||".to_owned(), last];
    assert_eq!(rows(&store).await, expected);
    let state = open_native(&store, NativeTarget::Latest).await.unwrap();
    let stats = |path: &str, column: &str| {
        let file = state.files.get(path).unwrap();
        let stats = file.stats.clone().unwrap();
        let (_, field) = state.schema.field(column).unwrap();
        stats.top(field).cloned().unwrap_or_default()
    };
    let id = stats("a.parquet", "id");
    assert_eq!(
        (id.min, id.max),
        (Some(Scalar::Long(-1)), Some(Scalar::Long(3)))
    );
    let day = stats("a.parquet", "day");
    assert_eq!((day.max, day.null_count), (Some(Scalar::Date(10)), Some(1)));
    let nulls = stats("sub/b c.parquet", "id");
    assert_eq!((nulls.min, nulls.null_count), (None, Some(1)));
    assert_eq!(
        stats("sub/b c.parquet", "number").max,
        None,
        "a NaN may be in it"
    );
    assert_eq!(state.live_rows(), Some(3));
}

#[tokio::test]
async fn converting_twice_or_at_once_makes_one_table() {
    let store = memory();
    put(&store, "a.parquet", vec![("id", ids(vec![Some(1)]))]).await;
    let (one, other) = tokio::join!(
        convert_to_delta(&store, Vec::new()),
        convert_to_delta(&store, Vec::new())
    );
    let made = [one.unwrap().made, other.unwrap().made];
    assert_eq!(made.iter().flatten().count(), 1, "{made:?}");
    assert_eq!(
        convert_to_delta(&store, Vec::new()).await.unwrap().made,
        None
    );
    assert_eq!(rows(&store).await, ["1"]);
}

#[tokio::test]
async fn folders_become_partition_columns_of_the_types_given() {
    let store = memory();
    let region = Field::new("Region", DataType::String, true);
    let year = Field::new("year", DataType::Integer, true);
    for (key, id) in [
        ("region=US%2FEast/year=2024/a.parquet", 1),
        ("region=__HIVE_DEFAULT_PARTITION__/year=02025/b.parquet", 2),
    ] {
        let inside = Arc::new(Int32Array::from(vec![7]));
        put(
            &store,
            key,
            vec![("id", ids(vec![Some(id)])), ("YEAR", inside)],
        )
        .await;
    }
    let converted = convert_to_delta(&store, vec![region, year]).await.unwrap();
    assert_eq!(converted.made, Some((2, 2)));
    assert_eq!(rows(&store).await, ["1|US/East|2024", "2||2025"]);
    let state = open_native(&store, NativeTarget::Latest).await.unwrap();
    assert_eq!(state.partition_columns, ["Region", "year"]);
    let raw: Vec<String> = state
        .files
        .values()
        .map(|file| file.raw_path.clone())
        .collect();
    assert!(raw[0].starts_with("region=US%252FEast/") || raw[1].starts_with("region=US%252FEast/"));
}

#[tokio::test]
async fn what_does_not_fit_is_named_and_nothing_is_written() {
    let one = || vec![("id", ids(vec![Some(1)]))];
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1]));
    let unsigned: ArrayRef = Arc::new(UInt32Array::from(vec![1]));
    let other: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    type Files<'a> = Vec<(&'a str, Vec<(&'a str, ArrayRef)>)>;
    let cases: Vec<(Files<'_>, &str)> = vec![
        (vec![], "no file ends in .parquet"),
        (vec![("p=1/a.parquet", one())], "p=1/a.parquet"),
        (
            vec![("a.parquet", one()), ("b.parquet", vec![("ID", other)])],
            "b.parquet",
        ),
        (vec![("a.parquet", vec![("t", nanos)])], "column=t"),
        (vec![("a.parquet", vec![("u", unsigned)])], "column=u"),
    ];
    for (files, expected) in cases {
        let store = memory();
        for (key, columns) in files {
            put(&store, key, columns).await;
        }
        let error = convert_to_delta(&store, Vec::new())
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!has_log(&store).await, "{error}");
    }
    for bytes in ["", "PAR1 not really PAR1"] {
        let store = memory();
        put(&store, "a.parquet", one()).await;
        store
            .put(&Path::from("torn.parquet"), bytes.into())
            .await
            .unwrap();
        let error = convert_to_delta(&store, Vec::new())
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("torn.parquet"), "{error}");
        assert!(!has_log(&store).await);
    }
}

#[tokio::test]
async fn instants_and_local_times_keep_their_kind() {
    let store = memory();
    let local = Arc::new(TimestampMicrosecondArray::from(vec![1_500]));
    let instant = TimestampMicrosecondArray::from(vec![1_500]).with_timezone("UTC");
    put(
        &store,
        "a.parquet",
        vec![("l", local), ("i", Arc::new(instant))],
    )
    .await;
    convert_to_delta(&store, Vec::new()).await.unwrap();
    let state = open_native(&store, NativeTarget::Latest).await.unwrap();
    let types: Vec<DataType> = state
        .schema
        .fields
        .iter()
        .map(|f| f.data_type.clone())
        .collect();
    assert_eq!(types, [DataType::TimestampNtz, DataType::Timestamp]);
    assert_eq!(state.live_rows(), Some(1));
}
