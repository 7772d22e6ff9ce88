//! Clustering: rows stay what they are, in an order that makes files narrow, whoever deletes or
//! updates them meanwhile.

use arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, take_record_batch};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_db::{
    Clustering, CompactOptions, CompactReport, Database, DbError, RowSorter, SortedRows,
};
use tarndb_table::{DataFile, DataType};
use tarndb_types::TableId;

use crate::support::*;

/// Sorts in memory; what happens meanwhile is for the test to say.
struct InMemory<F>(F);

impl<F> std::fmt::Debug for InMemory<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InMemory")
    }
}

#[async_trait]
impl<F, R> RowSorter for InMemory<F>
where
    F: Fn(RecordBatch) -> R + Send + Sync,
    R: Future<Output = RecordBatch> + Send,
{
    async fn sort(&self, schema: SchemaRef, rows: SortedRows) -> Result<SortedRows, DbError> {
        let batches: Vec<RecordBatch> = rows.try_collect().await?;
        let all = concat_batches(&schema, &batches).unwrap();
        let all = (self.0)(all).await;
        let keys = all.columns().iter().rev().take(3).rev();
        let keys = keys.map(|values| SortColumn {
            values: values.clone(),
            options: None,
        });
        let order = lexsort_to_indices(&keys.collect::<Vec<_>>(), None).unwrap();
        let sorted = take_record_batch(&all, &order).unwrap();
        // In small pieces, as a merge gives them.
        let pieces = (0..sorted.num_rows()).step_by(100);
        let pieces: Vec<_> = pieces
            .map(|at| Ok(sorted.slice(at, 100.min(sorted.num_rows() - at))))
            .collect();
        Ok(futures::stream::iter(pieces).boxed())
    }
}

fn quietly() -> impl RowSorter {
    InMemory(|rows| async { rows })
}

fn by(columns: &[&str], marks: bool) -> Clustering {
    Clustering {
        columns: columns
            .iter()
            .map(|name| vec![(*name).to_owned()])
            .collect(),
        marks,
    }
}

/// Many files come of few rows.
fn small_files() -> CompactOptions {
    CompactOptions {
        target_file_bytes: Some(1 << 10),
        ..CompactOptions::default()
    }
}

async fn cluster(
    db: &Database,
    id: TableId,
    options: &CompactOptions,
    clustering: &Clustering,
    sorter: &dyn RowSorter,
) -> Result<CompactReport, DbError> {
    db.cluster(id, options, clustering, sorter, &mut |_| {})
        .await
}

const SIDE: i64 = 64;

/// All pairs of 0 to 63, in four files of no order.
async fn square() -> (World, Database, TableId) {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let all: Vec<Row> = (0..SIDE * SIDE)
        .map(|i| i * 1_237 % (SIDE * SIDE))
        .map(|i| (i / SIDE, i % SIDE))
        .collect();
    for part in all.chunks(1024) {
        insert(&db, id, part).await;
    }
    (world, db, id)
}

async fn files(db: &Database, id: TableId) -> Vec<std::sync::Arc<DataFile>> {
    let snapshot = db.snapshot().await.unwrap();
    snapshot.table(id).await.unwrap().files.values().collect()
}

fn all_pairs() -> Vec<Row> {
    (0..SIDE * SIDE).map(|i| (i / SIDE, i % SIDE)).collect()
}

/// How much of the side a file spans in a column, on average.
fn width(files: &[std::sync::Arc<DataFile>], column: &str) -> f64 {
    let spans = files.iter().map(|file| {
        let stats = file.stats.as_ref().unwrap();
        let bounds = &stats.columns[std::slice::from_ref(&column.to_owned())];
        let number = |scalar: &Option<tarndb_table::Scalar>| match scalar {
            Some(tarndb_table::Scalar::Long(value)) => *value,
            other => panic!("{other:?}"),
        };
        (number(&bounds.max) - number(&bounds.min) + 1) as f64 / SIDE as f64
    });
    spans.sum::<f64>() / files.len() as f64
}

#[tokio::test]
async fn files_are_narrow_in_both_columns_and_hold_the_same_rows() {
    let (_, db, id) = square().await;
    assert!(width(&files(&db, id).await, "n") > 0.9);
    let order = by(&["id", "n"], false);
    let report = cluster(&db, id, &small_files(), &order, &quietly())
        .await
        .unwrap();
    assert_eq!((report.files_rewritten, report.rows_moved), (4, 4096));
    assert_eq!(rows(&db, id).await, all_pairs());
    let files = files(&db, id).await;
    assert!(files.len() >= 4, "{}", files.len());
    for column in ["id", "n"] {
        assert!(
            width(&files, column) < 0.7,
            "{column}: {}",
            width(&files, column)
        );
    }
    assert!(files.iter().all(|file| file.clustering_provider.is_none()));
    assert_clean(&db).await;
    let history = db
        .snapshot()
        .await
        .unwrap()
        .table_history(id, 1)
        .await
        .unwrap();
    assert_eq!(history[0].parameters["zOrderBy"], r#"["id","n"]"#);
    assert_eq!(history[0].metrics["numRemovedFiles"], "4");
}

#[tokio::test]
async fn marked_files_are_left_alone_and_only_new_ones_are_put_in_order() {
    let (_, db, id) = square().await;
    let mut txn = begin(&db).await;
    txn.cluster_by(id, vec![vec!["n".to_owned()]])
        .await
        .unwrap();
    txn.commit().await.unwrap();
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    let order = Clustering::of_table(&state).unwrap();
    assert_eq!(order, by(&["n"], true));
    let options = CompactOptions {
        target_file_bytes: Some(2 << 10),
        ..CompactOptions::default()
    };
    cluster(&db, id, &options, &order, &quietly())
        .await
        .unwrap();
    let first = files(&db, id).await;
    assert!(
        first
            .iter()
            .all(|file| file.clustering_provider.as_deref() == Some("liquid"))
    );
    let again = cluster(&db, id, &options, &order, &quietly())
        .await
        .unwrap();
    assert!(again.files_rewritten <= 1, "{again:?}");
    insert(&db, id, &[(100, 7), (100, 3)]).await;
    let before = files(&db, id).await.len();
    let third = cluster(&db, id, &options, &order, &quietly())
        .await
        .unwrap();
    assert!(
        (1..=3).contains(&third.files_rewritten),
        "{third:?} of {before}"
    );
    let expected: Vec<Row> = all_pairs()
        .into_iter()
        .chain([(100, 3), (100, 7)])
        .collect();
    assert_eq!(rows(&db, id).await, expected);
    assert_clean(&db).await;
}

/// What others do while the rows are sorted is carried through the row map of every row.
#[tokio::test]
async fn rows_deleted_while_they_are_sorted_stay_deleted() {
    let (world, db, id) = square().await;
    let other = world.open().await;
    let first = std::sync::atomic::AtomicBool::new(true);
    let meanwhile = InMemory(|rows: RecordBatch| {
        let (other, first) = (
            other.clone(),
            first.swap(false, std::sync::atomic::Ordering::SeqCst),
        );
        async move {
            if first {
                let mut txn = begin(&other).await;
                delete(&mut txn, id, |row| row.0 % 3 == 0).await;
                txn.commit().await.unwrap();
            }
            rows
        }
    });
    let order = by(&["id", "n"], false);
    let report = cluster(&db, id, &small_files(), &order, &meanwhile)
        .await
        .unwrap();
    assert_eq!((report.retries, report.row_maps_left_out), (0, 0));
    let expected: Vec<Row> = all_pairs()
        .into_iter()
        .filter(|row| row.0 % 3 != 0)
        .collect();
    assert_eq!(rows(&db, id).await, expected);
    assert_clean(&db).await;
}

#[tokio::test]
async fn a_delete_that_began_before_a_clustering_finds_its_rows_by_the_map() {
    let (world, db, id) = square().await;
    let other = world.open().await;
    let mut txn = begin(&other).await;
    delete(&mut txn, id, |row| row.1 % 5 == 0).await;
    cluster(
        &db,
        id,
        &small_files(),
        &by(&["n", "id"], false),
        &quietly(),
    )
    .await
    .unwrap();
    txn.commit().await.unwrap();
    let expected: Vec<Row> = all_pairs()
        .into_iter()
        .filter(|row| row.1 % 5 != 0)
        .collect();
    assert_eq!(rows(&world.open().await, id).await, expected);
    assert_clean(&db).await;
}

#[tokio::test]
async fn without_a_map_the_later_one_runs_again() {
    let (world, db, id) = square().await;
    let other = world.open().await;
    let options = CompactOptions {
        row_map_runs_max: 100,
        ..small_files()
    };
    let order = by(&["id", "n"], false);
    // Theirs second.
    let mut txn = begin(&other).await;
    delete(&mut txn, id, |row| row.0 == 1).await;
    let report = cluster(&db, id, &options, &order, &quietly())
        .await
        .unwrap();
    assert_eq!(report.row_maps_left_out, 1);
    assert_conflict(txn.commit().await, true);
    assert_eq!(rows(&db, id).await, all_pairs());
    // Ours second; another order, for in theirs the rows lie already.
    let order = by(&["n"], false);
    let first = std::sync::atomic::AtomicBool::new(true);
    let meanwhile = InMemory(|rows: RecordBatch| {
        let (other, first) = (
            other.clone(),
            first.swap(false, std::sync::atomic::Ordering::SeqCst),
        );
        async move {
            if first {
                let mut txn = begin(&other).await;
                delete(&mut txn, id, |row| row.0 == 2).await;
                txn.commit().await.unwrap();
            }
            rows
        }
    });
    let report = cluster(&db, id, &options, &order, &meanwhile)
        .await
        .unwrap();
    let expected: Vec<Row> = all_pairs().into_iter().filter(|row| row.0 != 2).collect();
    assert_eq!(rows(&db, id).await, expected);
    assert!(report.retries + report.files_given_up > 0, "{report:?}");
    assert_clean(&db).await;
}

#[tokio::test]
async fn a_sorter_that_loses_or_doubles_rows_changes_nothing() {
    let (_, db, id) = square().await;
    let before = db.snapshot().await.unwrap().version();
    for rows_kept in [0, 4095] {
        let lossy = InMemory(move |rows: RecordBatch| async move { rows.slice(0, rows_kept) });
        let failed = cluster(&db, id, &small_files(), &by(&["n"], false), &lossy).await;
        assert!(
            matches!(failed, Err(DbError::Internal { .. })),
            "{failed:?}"
        );
    }
    let doubling = InMemory(|rows: RecordBatch| async move {
        concat_batches(&rows.schema(), [&rows, &rows.slice(0, 1)]).unwrap()
    });
    let failed = cluster(&db, id, &small_files(), &by(&["n"], false), &doubling).await;
    assert!(
        matches!(failed, Err(DbError::Internal { .. })),
        "{failed:?}"
    );
    assert_eq!(db.snapshot().await.unwrap().version(), before);
}

#[tokio::test]
async fn partitions_are_put_in_order_one_by_one() {
    let world = World::new();
    let db = world.create().await;
    let fields = [("n", DataType::Long), ("p", DataType::String)];
    let id = create(&db, table_of("t", &fields, &["p"])).await;
    for file in 0..4_i64 {
        let mut txn = begin(&db).await;
        let numbers = (0..8).map(|i| (i * 5 + file) % 32);
        let parts = ["a", "b", "a", "b", "a", "b", "a", "b"];
        let rows = columns(vec![("n", longs(numbers)), ("p", texts(parts))]);
        txn.append(id, once(rows)).await.unwrap();
        txn.commit().await.unwrap();
    }
    let before = told(&db, id).await;
    let report = cluster(
        &db,
        id,
        &CompactOptions::default(),
        &by(&["n"], false),
        &quietly(),
    )
    .await
    .unwrap();
    assert_eq!((report.files_rewritten, report.files_written), (8, 2));
    assert_eq!(told(&db, id).await, before);
    let refused = cluster(
        &db,
        id,
        &CompactOptions::default(),
        &by(&["p"], false),
        &quietly(),
    )
    .await;
    assert!(refused.unwrap_err().to_string().contains("table"));
    assert_clean(&db).await;
}

#[tokio::test]
async fn columns_that_nothing_can_be_ordered_by_are_refused_by_name() {
    let (_, db, id) = square().await;
    for (columns, reason) in [
        (vec!["x"], "no such column"),
        (vec!["n", "N"], "named twice"),
        (vec!["id"; 9], "more than eight"),
    ] {
        let refused = cluster(&db, id, &small_files(), &by(&columns, false), &quietly()).await;
        let error = refused.unwrap_err();
        let text = format!("{error}: {:?}", std::error::Error::source(&error));
        assert!(text.contains(reason), "{text}");
    }
}

#[tokio::test]
async fn only_the_files_that_are_meant_are_written_anew() {
    let (_, db, id) = square().await;
    let path = files(&db, id).await[0].path.clone();
    let options = CompactOptions {
        only: Some([path.clone(), "not there".to_owned()].into()),
        ..small_files()
    };
    let report = cluster(&db, id, &options, &by(&["n"], false), &quietly())
        .await
        .unwrap();
    assert_eq!(report.files_rewritten, 1);
    assert!(files(&db, id).await.iter().all(|file| file.path != path));
    assert_eq!(rows(&db, id).await, all_pairs());
}
