//! Compaction: rows stay what they are, whoever deletes or updates them meanwhile.

use tarndb_db::record::RowMapNote;
use tarndb_db::{CompactOptions, CompactReport, Database, DbError, Rewritten, record};
use tarndb_types::{DbVersion, TableId};

use crate::support::*;

fn all() -> CompactOptions {
    CompactOptions {
        all: true,
        ..CompactOptions::default()
    }
}

async fn compact(db: &Database, id: TableId) -> CompactReport {
    db.compact(id, &CompactOptions::default()).await.unwrap()
}

/// A table with `files` files of four rows each: 0, 1, 2, 3 in the first.
async fn table_of(files: i64) -> (World, Database, Database, TableId) {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    for file in 0..files {
        let rows: Vec<Row> = (file * 4..file * 4 + 4).map(|id| (id, id)).collect();
        insert(&db, id, &rows).await;
    }
    let other = world.open().await;
    (world, db, other, id)
}

fn ids(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.0).collect()
}

/// Rows by the log equal rows by a scan, on a handle that knows nothing yet; the whole database
/// is sound.
async fn assert_rows(world: &World, id: TableId, expected: &[i64]) {
    let db = world.open().await;
    let snapshot = db.snapshot().await.unwrap();
    let state = snapshot.table(id).await.unwrap();
    assert_eq!(ids(&rows_at(&snapshot, id).await), expected);
    assert_eq!(state.live_rows(), Some(expected.len() as u64));
    assert_clean(&db).await;
}

async fn files(db: &Database, id: TableId) -> usize {
    let snapshot = db.snapshot().await.unwrap();
    snapshot.table(id).await.unwrap().files.len()
}

/// The notes of the entry that the record at `version` holds.
async fn noted(world: &World, version: DbVersion) -> RowMapNote {
    let bytes = world.get(&record_key(version.0)).await.unwrap();
    let record = record::parse(&bytes).unwrap();
    let (_, entry) = record.entries().next().unwrap();
    entry.notes.as_ref().unwrap().row_map.clone().unwrap()
}

async fn prepared(db: &Database, id: TableId) -> Rewritten {
    db.rewrite(id, &all()).await.unwrap().unwrap()
}

#[tokio::test]
async fn bc_03_a_rows_deleted_before_a_compaction_stay_deleted() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(10, 1)]).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 10).await;
    txn.commit().await.unwrap();
    insert(&db, id, &[(20, 1)]).await;
    insert(&db, id, &[(30, 1)]).await;
    let report = compact(&db, id).await;
    assert_eq!((report.files_before, report.files_after), (2, 1));
    assert_rows(&world, id, &[20, 30]).await;
}

#[tokio::test]
async fn bc_03_b_a_rewrite_is_judged_from_the_version_it_was_planned_on() {
    let (world, db, other, id) = table_of(3).await;
    let planned_at = db.snapshot().await.unwrap();
    let rewritten = prepared(&db, id).await;
    assert_eq!(rewritten.base(), planned_at.version());
    let mut txn = begin(&other).await;
    delete(&mut txn, id, |row| row.0 == 7).await;
    txn.commit().await.unwrap();
    // A handle that never saw the planned version as its newest.
    let fresh = world.open().await;
    fresh.commit_rewrite(rewritten).await.unwrap();
    let expected: Vec<i64> = (0..12).filter(|id| *id != 7).collect();
    assert_rows(&world, id, &expected).await;
    let db = world.open().await;
    let before = db.snapshot_at(planned_at.version()).await.unwrap();
    assert_eq!(
        ids(&rows_at(&before, id).await),
        (0..12).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn small_files_become_one_and_nothing_to_do_commits_nothing() {
    let (world, db, _, id) = table_of(5).await;
    let before = db.snapshot().await.unwrap();
    let report = compact(&db, id).await;
    assert_eq!((report.files_rewritten, report.files_written), (5, 1));
    assert_eq!((report.rows_moved, report.rows_dropped), (20, 0));
    assert_eq!(report.versions, [before.version().next()]);
    assert_eq!((report.row_maps_in_record, report.row_maps_in_file), (1, 0));
    assert_rows(&world, id, &(0..20).collect::<Vec<_>>()).await;
    assert_eq!(
        ids(&rows_at(&before, id).await),
        (0..20).collect::<Vec<_>>()
    );
    let again = compact(&db, id).await;
    assert_eq!(again.versions, []);
    assert_eq!(again.files_after, 1);
    let head = db.snapshot().await.unwrap();
    assert_eq!(head.version(), before.version().next());
}

#[tokio::test]
async fn rows_keep_their_order_and_deleted_rows_are_dropped() {
    let (world, db, _, id) = table_of(3).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 % 4 == 1).await;
    txn.commit().await.unwrap();
    let rewritten = prepared(&db, id).await;
    let map = rewritten.row_map().unwrap();
    assert_eq!(map.sources.len(), 3);
    assert!(map.sources.iter().all(|source| source.vector.is_some()));
    let runs: Vec<_> = map.targets[0]
        .runs
        .iter()
        .map(|run| (run.first, run.len))
        .collect();
    assert_eq!(runs, [(0, 1), (2, 2), (0, 1), (2, 2), (0, 1), (2, 2)]);
    db.commit_rewrite(rewritten).await.unwrap();
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    let file = state.files.values().next().unwrap();
    assert!(file.deletion.is_none());
    assert_eq!(file.num_records(), Some(9));
    assert_rows(&world, id, &[0, 2, 3, 4, 6, 7, 8, 10, 11]).await;
}

#[tokio::test]
async fn a_deletion_on_files_compacted_meanwhile_commits_at_once() {
    let (world, db, other, id) = table_of(3).await;
    let mut txn = begin(&other).await;
    delete(&mut txn, id, |row| row.0 == 2 || row.0 == 9).await;
    compact(&db, id).await;
    let committed = txn.commit().await.unwrap();
    assert_eq!(committed.attempts, 2);
    let expected: Vec<i64> = (0..12).filter(|id| *id != 2 && *id != 9).collect();
    assert_rows(&world, id, &expected).await;
    assert_eq!(files(&db, id).await, 1);
}

#[tokio::test]
async fn an_update_on_files_compacted_meanwhile_commits_at_once() {
    let (world, db, other, id) = table_of(2).await;
    let mut txn = begin(&other).await;
    update(&mut txn, id, |row| row.0 == 5, |row| (row.0, 50)).await;
    compact(&db, id).await;
    txn.commit().await.unwrap();
    assert_rows(&world, id, &(0..8).collect::<Vec<_>>()).await;
    assert_eq!(rows(&db, id).await[5], (5, 50));
}

#[tokio::test]
async fn deletions_go_through_two_compactions_in_a_row_with_deletions_in_between() {
    let (world, db, other, id) = table_of(3).await;
    let mut before = begin(&db).await;
    delete(&mut before, id, |row| row.0 == 1).await;
    before.commit().await.unwrap();

    let mut late = begin(&other).await;
    update(
        &mut late,
        id,
        |row| row.0 == 6 || row.0 == 11,
        |row| (row.0, -1),
    )
    .await;
    for victim in [0, 10] {
        db.compact(id, &all()).await.unwrap();
        let mut txn = begin(&db).await;
        delete(&mut txn, id, |row| row.0 == victim).await;
        txn.commit().await.unwrap();
    }
    late.commit().await.unwrap();
    let expected: Vec<i64> = (0..12).filter(|id| ![0, 1, 10].contains(id)).collect();
    assert_rows(&world, id, &expected).await;
    let found = rows(&db, id).await;
    assert!(
        found.contains(&(6, -1)) && found.contains(&(11, -1)),
        "{found:?}"
    );
}

#[tokio::test]
async fn rows_deleted_under_a_compaction_are_deleted_in_its_output() {
    let (world, db, other, id) = table_of(3).await;
    let rewritten = prepared(&db, id).await;
    let mut txn = begin(&other).await;
    delete(&mut txn, id, |row| row.0 == 3).await;
    txn.commit().await.unwrap();
    let mut txn = begin(&other).await;
    update(&mut txn, id, |row| row.0 == 4, |row| (row.0, 40)).await;
    txn.commit().await.unwrap();
    db.commit_rewrite(rewritten).await.unwrap();
    let expected: Vec<i64> = (0..12).filter(|id| *id != 3).collect();
    assert_rows(&world, id, &expected).await;
    assert_eq!(rows(&db, id).await[3], (4, 40));
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    let carried = state.files.values().find(|file| !file.deletion.is_none());
    let stats = carried.unwrap().stats.clone().unwrap();
    assert_eq!((stats.num_records, stats.tight_bounds), (Some(12), false));
}

#[tokio::test]
async fn a_file_emptied_under_a_compaction_is_gone_from_its_output() {
    let (world, db, other, id) = table_of(2).await;
    let rewritten = prepared(&db, id).await;
    let mut txn = begin(&other).await;
    delete(&mut txn, id, |row| row.0 < 4).await;
    txn.commit().await.unwrap();
    db.commit_rewrite(rewritten).await.unwrap();
    assert_rows(&world, id, &[4, 5, 6, 7]).await;

    let rewritten = prepared(&db, id).await;
    let mut txn = begin(&other).await;
    delete(&mut txn, id, |_| true).await;
    txn.commit().await.unwrap();
    db.commit_rewrite(rewritten).await.unwrap();
    assert_rows(&world, id, &[]).await;
    assert_eq!(files(&db, id).await, 0);
}

#[tokio::test]
async fn the_same_row_deleted_before_and_after_a_compaction_is_a_conflict() {
    let (world, db, other, id) = table_of(2).await;
    let mut late = begin(&other).await;
    update(&mut late, id, |row| row.0 == 5, |row| (row.0, 50)).await;
    compact(&db, id).await;
    let mut first = begin(&db).await;
    update(&mut first, id, |row| row.0 == 5, |row| (row.0, 55)).await;
    first.commit().await.unwrap();
    assert_conflict(late.commit().await, true);
    assert_rows(&world, id, &(0..8).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn the_later_of_two_compactions_is_dropped_and_what_is_left_is_planned_again() {
    let (world, db, other, id) = table_of(2).await;
    let late = prepared(&other, id).await;
    compact(&db, id).await;
    let told = assert_conflict(other.commit_rewrite(late).await, true);
    assert!(told.contains("main.t"), "{told}");
    assert_rows(&world, id, &(0..8).collect::<Vec<_>>()).await;
    assert_eq!(files(&db, id).await, 1);
}

#[tokio::test]
async fn compactions_of_many_handles_at_once_all_succeed() {
    let (world, db, _, id) = table_of(12).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let db = world.open().await;
        tasks.spawn(async move { compact(&db, id).await });
    }
    let reports = tasks.join_all().await;
    let rewritten: u64 = reports.iter().map(|report| report.files_rewritten).sum();
    assert!(rewritten >= 12, "{reports:?}");
    assert_eq!(files(&db, id).await, 1);
    assert_rows(&world, id, &(0..48).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn a_table_without_vectors_is_compacted_again_after_a_change() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, table_with("t", "tarndb.deletionVectors", "off")).await;
    insert(&db, id, &[(1, 1), (2, 2)]).await;
    insert(&db, id, &[(3, 3), (4, 4)]).await;
    let other = world.open().await;
    let rewritten = prepared(&db, id).await;
    let mut txn = begin(&other).await;
    update(&mut txn, id, |row| row.0 == 1, |row| (row.0, 10)).await;
    txn.commit().await.unwrap();
    assert_conflict(db.commit_rewrite(rewritten).await, true);
    compact(&db, id).await;
    assert_eq!(rows(&other, id).await, [(1, 10), (2, 2), (3, 3), (4, 4)]);
    assert_eq!(files(&other, id).await, 1);
    assert_clean(&db).await;
}

#[tokio::test]
async fn groups_commit_one_by_one_and_partitions_are_not_mixed() {
    let world = World::new();
    let db = world.create().await;
    let mut table = new_table("t");
    table.partition_columns = vec!["n".into()];
    let id = create(&db, table).await;
    for at in 0..6 {
        insert(&db, id, &[(at, at % 2), (at + 10, at % 2)]).await;
    }
    let options = CompactOptions {
        group_files: 3,
        ..CompactOptions::default()
    };
    let report = db.compact(id, &options).await.unwrap();
    assert_eq!(report.versions.len(), 2, "{report:?}");
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    assert_eq!(state.files.len(), 2);
    let partitions: Vec<_> = state
        .files
        .values()
        .map(|file| file.partition_values["n"].clone().unwrap())
        .collect();
    assert!(partitions.contains(&"0".to_owned()) && partitions.contains(&"1".to_owned()));
    let expected: Vec<i64> = (0..6).chain(10..16).collect();
    assert_rows(&world, id, &expected).await;
}

/// A rewrite whose map does not fit into the record, and where the map then is.
async fn rewrite_with_a_map_in_a_file() -> (World, Database, Database, TableId, String) {
    let (world, db, other, id) = table_of(1).await;
    let many: Vec<Row> = (100..20_100).map(|id| (id, 0)).collect();
    insert(&db, id, &many).await;
    // Every second row gone: as many runs as rows.
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 >= 100 && row.0 % 2 == 0).await;
    txn.commit().await.unwrap();
    let rewritten = prepared(&db, id).await;
    assert!(rewritten.row_map_in_file());
    // Begun before the rewrite: it has to be carried.
    other.snapshot().await.unwrap();
    let version = db.commit_rewrite(rewritten).await.unwrap().version.unwrap();
    let RowMapNote::File(path) = noted(&world, version).await else {
        panic!("the map is in the record");
    };
    let key = format!("main/t/{path}");
    assert!(world.get(&key).await.is_some());
    (world, db, other, id, key)
}

#[tokio::test]
async fn a_large_row_map_lies_in_a_file_and_carries_deletions() {
    let (world, db, other, id, _) = rewrite_with_a_map_in_a_file().await;
    let mut late = other
        .begin(tarndb_db::TxnOptions {
            cached_snapshot: true,
            ..Default::default()
        })
        .await
        .unwrap();
    assert!(late.snapshot().version() < db.snapshot().await.unwrap().version());
    delete(&mut late, id, |row| row.0 == 1 || row.0 == 10_101).await;
    late.commit().await.unwrap();
    let expected: Vec<i64> = [0, 2, 3]
        .into_iter()
        .chain((101..20_100).step_by(2).filter(|id| *id != 10_101))
        .collect();
    assert_rows(&world, id, &expected).await;
}

#[tokio::test]
async fn a_missing_or_damaged_row_map_file_makes_the_deletion_retryable() {
    for damage in [None, Some("not a map")] {
        let (world, _, other, id, key) = rewrite_with_a_map_in_a_file().await;
        match damage {
            None => world.delete(&key).await,
            Some(bytes) => world.put(&key, bytes).await,
        }
        let mut late = other
            .begin(tarndb_db::TxnOptions {
                cached_snapshot: true,
                ..Default::default()
            })
            .await
            .unwrap();
        delete(&mut late, id, |row| row.0 == 1).await;
        assert_conflict(late.commit().await, true);
        update_retrying(&other, id, |row| row.0 == 1, |row| (row.0, 9)).await;
        assert_eq!(rows(&other, id).await[1], (1, 9));
    }
}

#[tokio::test]
async fn a_dropped_table_and_an_overwrite_end_a_compaction_without_harm() {
    let (world, db, other, id) = table_of(2).await;
    let rewritten = prepared(&db, id).await;
    let mut txn = begin(&other).await;
    txn.truncate(id).await.unwrap();
    txn.commit().await.unwrap();
    assert_conflict(db.commit_rewrite(rewritten).await, false);
    assert_rows(&world, id, &[]).await;
    assert_eq!(compact(&db, id).await.versions, []);

    let mut txn = begin(&other).await;
    txn.drop_table(id).unwrap();
    txn.commit().await.unwrap();
    let found = db.compact(id, &CompactOptions::default()).await;
    assert!(
        matches!(found, Err(DbError::TableDropped { .. })),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_compaction_goes_beside_a_new_column_and_an_append() {
    let (world, db, other, id) = table_of(2).await;
    let rewritten = prepared(&db, id).await;
    let mut txn = begin(&other).await;
    let column = tarndb_table::Field::new("c", tarndb_table::DataType::String, true);
    let change = tarndb_table::codec::MetadataChange::AddColumn(column.into());
    txn.change_metadata(id, change).await.unwrap();
    txn.commit().await.unwrap();
    db.commit_rewrite(rewritten).await.unwrap();
    assert_rows(&world, id, &(0..8).collect::<Vec<_>>()).await;
    // Again, now with files that lack the column.
    db.compact(id, &all()).await.unwrap();
    assert_rows(&world, id, &(0..8).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn an_append_only_table_is_compacted() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, table_with("t", "delta.appendOnly", "true")).await;
    insert(&db, id, &[(1, 1)]).await;
    insert(&db, id, &[(2, 2)]).await;
    compact(&db, id).await;
    assert_eq!(files(&db, id).await, 1);
    assert_rows(&world, id, &[1, 2]).await;
}
