//! Earlier versions of a table: its states, its history, its changes, and what is not there.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use futures::TryStreamExt as _;
use tarndb_db::{Database, DbError, NewTable, Snapshot, TableTarget, TravelError};
use tarndb_table::TableState;
use tarndb_types::{DbVersion, TableId, TableVersion, TimestampMs};

use crate::support::*;
use crate::vacuum::{Scene, four_ages, vacuum};

pub(crate) fn version(number: u64) -> TableTarget {
    TableTarget::Version(TableVersion(number))
}

async fn rows_of(snapshot: &Snapshot, id: TableId, state: &TableState) -> Vec<i64> {
    let files = state.files.values().collect();
    let rows = snapshot.scan(id, state, &state.schema, files).unwrap();
    let batches: Vec<_> = rows.try_collect().await.unwrap();
    let mut ids: Vec<i64> = batches
        .iter()
        .flat_map(|(_, live)| live.batch.column(0).as_primitive::<Int64Type>().values())
        .copied()
        .collect();
    ids.sort_unstable();
    ids
}

pub(crate) async fn ids_at(db: &Database, id: TableId, target: TableTarget) -> Vec<i64> {
    let snapshot = db.snapshot().await.unwrap();
    let state = snapshot.table_at(id, target).await.unwrap();
    rows_of(&snapshot, id, &state).await
}

/// Versions 0: nothing, 1: row 1, 2: rows 1 and 2, 3: row 2, 4: rows 2 and 3.
pub(crate) async fn five_versions(db: &Database) -> TableId {
    let id = create_table(db, "t").await;
    insert(db, id, &[(1, 1)]).await;
    insert(db, id, &[(2, 2)]).await;
    let mut txn = begin(db).await;
    delete(&mut txn, id, |row| row.0 == 1).await;
    txn.commit().await.unwrap();
    insert(db, id, &[(3, 3)]).await;
    id
}

const EXPECTED: [&[i64]; 5] = [&[], &[1], &[1, 2], &[2], &[2, 3]];

async fn travel_error(db: &Database, id: TableId, target: TableTarget) -> TravelError {
    let snapshot = db.snapshot().await.unwrap();
    match snapshot.table_at(id, target).await {
        Err(DbError::Travel(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_version_is_read_published_or_not_here_and_elsewhere() {
    let world = World::new();
    let db = world.create().await;
    let id = five_versions(&db).await;
    for publish in [false, true] {
        if publish {
            db.publish().await.unwrap();
        }
        for db in [&db, &world.open().await] {
            for (number, expected) in EXPECTED.iter().enumerate() {
                let found = ids_at(db, id, version(number as u64)).await;
                assert_eq!(found, *expected, "version {number}, published {publish}");
            }
        }
    }
    // An earlier snapshot does not see later versions of the table.
    let early = db.snapshot_at(DbVersion(2)).await.unwrap();
    assert!(early.table_at(id, version(1)).await.is_ok());
    let error = early.table_at(id, version(2)).await.unwrap_err();
    assert!(
        matches!(
            error,
            DbError::Travel(TravelError::NotYet {
                newest: TableVersion(1),
                ..
            })
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_time_means_the_newest_version_not_after_it() {
    let world = World::new();
    let db = world.create().await;
    let id = five_versions(&db).await;
    for publish in [false, true] {
        if publish {
            db.publish().await.unwrap();
        }
        let snapshot = db.snapshot().await.unwrap();
        let history = snapshot.table_history(id, 100).await.unwrap();
        let times: Vec<i64> = history
            .iter()
            .rev()
            .map(|entry| entry.timestamp.0)
            .collect();
        assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
        for (number, time) in times.iter().enumerate() {
            let at = TableTarget::Timestamp(TimestampMs(*time));
            let found = snapshot.table_version(id, at).await.unwrap();
            assert_eq!(found, TableVersion(number as u64));
            if let Some(before) = number.checked_sub(1) {
                let at = TableTarget::Timestamp(TimestampMs(time - 1));
                let found = snapshot.table_version(id, at).await.unwrap();
                assert_eq!(found, TableVersion(before as u64));
            }
        }
        for wrong in [times[0] - 1, times[4] + 1_000_000_000_000] {
            let target = TableTarget::Timestamp(TimestampMs(wrong));
            match travel_error(&db, id, target).await {
                TravelError::NoVersionAt { first, last, .. } => {
                    assert_eq!((first.0, last.0), (times[0], times[4]));
                }
                other => panic!("{other}"),
            }
        }
    }
}

#[tokio::test]
async fn the_history_tells_what_was_done_by_which_version_of_the_database() {
    let world = World::new();
    let db = world.create().await;
    let id = five_versions(&db).await;
    for publish in [false, true] {
        if publish {
            db.publish().await.unwrap();
        }
        let snapshot = world.open().await.snapshot().await.unwrap();
        let history = snapshot.table_history(id, 100).await.unwrap();
        let told: Vec<_> = history
            .iter()
            .map(|entry| {
                let operation = entry.operation.clone().unwrap();
                (entry.version.0, entry.db_version.unwrap().0, operation)
            })
            .collect();
        let expected = ["WRITE", "DELETE", "WRITE", "WRITE", "CREATE TABLE"];
        let expected: Vec<_> = expected
            .iter()
            .zip((0..5).rev())
            .map(|(operation, version)| (version, version + 1, (*operation).to_owned()))
            .collect();
        assert_eq!(told, expected);
        assert_eq!(history[0].metrics["numOutputRows"], "1");
        let newest = snapshot.table_history(id, 2).await.unwrap();
        assert_eq!(newest[..], history[..2]);
    }
}

#[tokio::test]
async fn versions_that_a_vacuum_took_or_a_cleanup_are_refused_by_name() {
    let scene = Scene::new();
    let (db, id) = four_ages(&scene, new_table("t")).await;
    db.checkpoint().await.unwrap();
    vacuum(&db).await;
    for db in [&db, &scene.open().await] {
        assert_eq!(ids_at(db, id, version(4)).await, [4]);
        assert_eq!(ids_at(db, id, version(3)).await, [3]);
        match travel_error(db, id, version(1)).await {
            TravelError::Vacuumed { oldest, .. } => assert_eq!(oldest, Some(TableVersion(3))),
            other => panic!("{other}"),
        }
    }
    // What another tool cleaned up of the table's own log.
    for gone in 0..=1 {
        let key = format!("main/t/_delta_log/{gone:020}.json");
        scene.world.delete(&key).await;
    }
    let db = scene.open().await;
    let snapshot = db.snapshot().await.unwrap();
    let history = snapshot.table_history(id, 100).await.unwrap();
    let versions: Vec<u64> = history.iter().map(|entry| entry.version.0).collect();
    assert_eq!(versions, [4, 3, 2]);
}

fn with_feed(name: &str) -> NewTable {
    NewTable {
        properties: BTreeMap::from([("delta.enableChangeDataFeed".to_owned(), "true".to_owned())]),
        ..new_table(name)
    }
}

/// Id, what happened, version.
pub(crate) async fn changes(db: &Database, id: TableId, from: u64, to: Option<u64>) -> Vec<String> {
    let snapshot = db.snapshot().await.unwrap();
    let to = to.map(TableVersion);
    let changes = snapshot.table_changes(id, TableVersion(from), to).await;
    let batches: Vec<_> = changes.unwrap().batches().try_collect().await.unwrap();
    let mut told = Vec::new();
    for batch in batches {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let kinds = batch.column_by_name("_change_type").unwrap();
        let versions = batch.column_by_name("_commit_version").unwrap();
        for row in 0..batch.num_rows() {
            told.push(format!(
                "{} {} {}",
                versions.as_primitive::<Int64Type>().value(row),
                kinds.as_string::<i32>().value(row),
                ids.value(row)
            ));
        }
    }
    told.sort();
    told
}

#[tokio::test]
async fn changes_are_those_of_the_range_published_or_not() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, with_feed("t")).await;
    insert(&db, id, &[(1, 1), (2, 2)]).await;
    insert(&db, id, &[(3, 3)]).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 1).await;
    txn.commit().await.unwrap();
    for publish in [false, true] {
        if publish {
            db.publish().await.unwrap();
        }
        for db in [&db, &world.open().await] {
            let all = ["1 insert 1", "1 insert 2", "2 insert 3", "3 delete 1"];
            assert_eq!(changes(db, id, 0, None).await, all);
            assert_eq!(changes(db, id, 2, Some(2)).await, all[2..3]);
            assert_eq!(changes(db, id, 3, None).await, all[3..]);
        }
    }
    let snapshot = db.snapshot().await.unwrap();
    for (from, to) in [(3, Some(2)), (0, Some(9)), (9, None)] {
        let to = to.map(TableVersion);
        let refused = snapshot.table_changes(id, TableVersion(from), to).await;
        assert!(matches!(refused, Err(DbError::Travel(_))), "{refused:?}");
    }
    let plain = create_table(&db, "plain").await;
    let snapshot = db.snapshot().await.unwrap();
    let off = snapshot.table_changes(plain, TableVersion(0), None).await;
    assert!(off.unwrap_err().to_string().contains("plain"));
}
