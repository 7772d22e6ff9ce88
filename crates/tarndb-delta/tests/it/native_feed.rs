//! The change data feed of tables by path.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use futures::TryStreamExt;
use tarndb_delta::{NativeTable, native_changes};
use tarndb_storage::{Path, Store};
use tarndb_table::MetadataChange;

use crate::native::{append, definition, delete, lines, memory};
use crate::native_row_ids::update;

const FEED: (&str, &str) = ("delta.enableChangeDataFeed", "true");

/// What a version changed: value of `a` and kind, sorted.
async fn changes(store: &Store, version: u64) -> Vec<(i64, String)> {
    let feed = native_changes(store, version, Some(version)).await.unwrap();
    let mut batches = feed.batches(store.clone(), Path::default());
    let mut found = Vec::new();
    while let Some(batch) = batches.try_next().await.unwrap() {
        let values = batch.column(0).as_primitive::<Int64Type>().values().clone();
        let kinds = batch.column_by_name("_change_type").unwrap().clone();
        let kinds = arrow::compute::cast(&kinds, &arrow_schema::DataType::Utf8).unwrap();
        let kinds = kinds.as_string::<i32>().clone();
        let rows = values.iter().zip(kinds.iter());
        found.extend(rows.map(|(value, kind)| (*value, kind.unwrap().to_owned())));
    }
    found.sort();
    found
}

fn told(rows: &[(i64, &str)]) -> Vec<(i64, String)> {
    rows.iter()
        .map(|(value, kind)| (*value, (*kind).to_owned()))
        .collect()
}

async fn change_files(store: &Store, version: u64) -> usize {
    let lines = lines(store, version).await;
    lines
        .iter()
        .filter(|line| line.starts_with("{\"cdc\""))
        .count()
}

#[tokio::test]
async fn every_commit_tells_its_changes_with_and_without_vectors() {
    for (vectors, partitioned) in [("true", false), ("false", false), ("true", true)] {
        let store = memory();
        let properties = [FEED, ("delta.enableDeletionVectors", vectors)];
        let mut table = NativeTable::create(&store, definition(&properties, partitioned))
            .await
            .unwrap();
        append(&mut table, &[(1, 1), (2, 1), (3, 1)]).await.unwrap();
        append(&mut table, &[(4, 1)]).await.unwrap();
        update(&store, &mut table, &[(2, 20), (4, 40)])
            .await
            .unwrap();
        delete(&store, &mut table, &[1]).await.unwrap();
        let compacted = table.compact(1 << 30).await.unwrap();
        assert!(compacted.is_some());
        let whole = [20, 40, 3];
        delete(&store, &mut table, &whole).await.unwrap();

        assert_eq!(changes(&store, 2).await, told(&[(4, "insert")]));
        let updated = [
            (2, "update_preimage"),
            (4, "update_preimage"),
            (20, "update_postimage"),
            (40, "update_postimage"),
        ];
        assert_eq!(changes(&store, 3).await, told(&updated), "{vectors}");
        assert_eq!(change_files(&store, 3).await, 1, "{vectors}");
        assert_eq!(
            changes(&store, 4).await,
            told(&[(1, "delete")]),
            "{vectors}"
        );
        // A vector tells by itself.
        let copied = usize::from(vectors == "false");
        assert_eq!(change_files(&store, 4).await, copied);
        assert_eq!(changes(&store, 5).await, told(&[]));
        let gone = [(3, "delete"), (20, "delete"), (40, "delete")];
        assert_eq!(changes(&store, 6).await, told(&gone), "{vectors}");
        assert_eq!(change_files(&store, 6).await, 0);
    }
}

#[tokio::test]
async fn feed_begun_meanwhile_stops_a_change_that_wrote_no_files_for_it() {
    let store = memory();
    let mut table = NativeTable::create(&store, definition(&[], false))
        .await
        .unwrap();
    append(&mut table, &[(1, 1), (2, 1)]).await.unwrap();
    let mut other = NativeTable::open(&store).await.unwrap();
    let begin = MetadataChange::SetProperty {
        key: FEED.0.to_owned(),
        value: FEED.1.to_owned(),
    };
    table.change_metadata(vec![begin]).await.unwrap();
    let lost = update(&store, &mut other, &[(1, 10)]).await.unwrap_err();
    assert!(lost.is_retryable(), "{lost}");
    other.refresh().await.unwrap();
    update(&store, &mut other, &[(1, 10)]).await.unwrap();
    let expected = told(&[(1, "update_preimage"), (10, "update_postimage")]);
    assert_eq!(changes(&store, 3).await, expected);
}
