//! Tables taken back to an earlier version: rows, definition, what stays, and who is beside.

use std::collections::BTreeMap;

use tarndb_db::{
    CompactOptions, Database, DbError, NewTable, TableTarget, Transaction, TravelError,
};
use tarndb_table::rules::Identity;
use tarndb_table::{ColumnPath, DataType, Field, RestoreReport, Schema};
use tarndb_types::{TableId, TableVersion};

use crate::support::*;
use crate::travel::{changes, five_versions, ids_at, version};
use crate::vacuum::{DAY, Scene, four_ages, vacuum};

async fn restore(db: &Database, id: TableId, number: u64) -> RestoreReport {
    let mut txn = begin(db).await;
    let report = txn.restore_table(id, version(number)).await.unwrap();
    txn.commit().await.unwrap();
    report
}

fn path(name: &str) -> ColumnPath {
    ColumnPath::new(vec![name.to_owned()]).unwrap()
}

async fn newest(db: &Database, id: TableId) -> u64 {
    let snapshot = db.snapshot().await.unwrap();
    snapshot.entry(id).unwrap().version.0
}

#[tokio::test]
async fn every_version_comes_back_published_or_not_here_and_elsewhere() {
    for publish in [false, true] {
        let world = World::new();
        let db = world.create().await;
        let id = five_versions(&db).await;
        for (step, number) in [3, 0, 4, 1, 2, 3, 3].into_iter().enumerate() {
            if publish {
                db.publish().await.unwrap();
            }
            let expected = ids_at(&db, id, version(number)).await;
            restore(&db, id, number).await;
            // The last one finds the table as it was.
            assert_eq!(newest(&db, id).await, 5 + step.min(5) as u64);
            for db in [&db, &world.open().await] {
                let found = rows(db, id).await;
                let found: Vec<i64> = found.iter().map(|row| row.0).collect();
                assert_eq!(found, expected, "version {number}, published {publish}");
            }
        }
        db.publish().await.unwrap();
        assert_clean(&world.open().await).await;
        // And on from there.
        insert(&db, id, &[(9, 9)]).await;
        assert_eq!(rows(&world.open().await, id).await, [(2, 2), (9, 9)]);
    }
}

#[tokio::test]
async fn files_that_are_live_as_they_were_are_left_alone_and_the_history_tells_the_rest() {
    let world = World::new();
    let db = world.create().await;
    let id = five_versions(&db).await;
    // Version 2 has the files of rows 1 and 2, version 4 those of 2 and 3.
    let report = restore(&db, id, 2).await;
    let told = (
        report.num_restored_files,
        report.num_removed_files,
        report.num_of_files_after_restore,
    );
    assert_eq!(told, (1, 1, 2));
    assert!(report.restored_files_size > 0 && report.removed_files_size > 0);
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    assert_eq!(report.table_size_after_restore, state.size_bytes());
    let snapshot = db.snapshot().await.unwrap();
    let history = snapshot.table_history(id, 1).await.unwrap();
    assert_eq!(history[0].operation.as_deref(), Some("RESTORE"));
    assert_eq!(
        history[0].parameters,
        BTreeMap::from([("version".to_owned(), "2".to_owned())])
    );
    let expected = report.metrics().into_iter();
    let expected: BTreeMap<String, String> = expected
        .map(|(key, value)| (key.to_owned(), value.to_string()))
        .collect();
    assert_eq!(history[0].metrics, expected);
    let log = db.log(1).await.unwrap();
    assert_eq!(log[0].operation, "RESTORE");
    // By its time.
    let time = snapshot.table_history(id, 9).await.unwrap()[5].timestamp;
    let mut txn = begin(&db).await;
    let to = TableTarget::Timestamp(time);
    assert_eq!(txn.restore_table(id, to).await.unwrap().version.0, 0);
    txn.commit().await.unwrap();
    assert_eq!(rows(&db, id).await, []);
}

#[tokio::test]
async fn rows_deleted_by_vectors_come_back_and_go_again() {
    for vectors in ["on", "off"] {
        let world = World::new();
        let db = world.create().await;
        let id = create(&db, table_with("t", "tarndb.deletionVectors", vectors)).await;
        insert(&db, id, &[(1, 1), (2, 2), (3, 3)]).await;
        for gone in 1..=2 {
            let mut txn = begin(&db).await;
            delete(&mut txn, id, |row| row.0 == gone).await;
            txn.commit().await.unwrap();
        }
        for (number, expected) in [(1, 3), (2, 2), (3, 1), (1, 3), (3, 1)] {
            restore(&db, id, number).await;
            let other = world.open().await;
            assert_eq!(rows(&other, id).await.len(), expected, "{number} {vectors}");
            assert_eq!(rows(&db, id).await.len(), expected, "{number} {vectors}");
        }
        // A vector grows from the one that came back.
        restore(&db, id, 2).await;
        let mut txn = begin(&db).await;
        delete(&mut txn, id, |row| row.0 == 3).await;
        txn.commit().await.unwrap();
        assert_eq!(rows(&world.open().await, id).await, [(2, 2)]);
        db.publish().await.unwrap();
        assert_clean(&world.open().await).await;
    }
}

#[tokio::test]
async fn what_the_transaction_does_before_is_forgotten_and_after_goes_on_from_the_version() {
    for vectors in ["on", "off"] {
        let world = World::new();
        let db = world.create().await;
        let id = create(&db, table_with("t", "tarndb.deletionVectors", vectors)).await;
        insert(&db, id, &[(1, 1), (2, 2)]).await;
        insert(&db, id, &[(3, 3), (4, 4)]).await;
        let mut txn = begin(&db).await;
        delete(&mut txn, id, |row| row.0 == 3).await;
        txn.commit().await.unwrap();
        let mut txn = begin(&db).await;
        append(&mut txn, id, &[(7, 7)]).await;
        delete(&mut txn, id, |row| row.0 == 1).await;
        txn.restore_table(id, version(2)).await.unwrap();
        let all = [(1, 1), (2, 2), (3, 3), (4, 4)];
        assert_eq!(rows_in(&txn, id).await, all);
        append(&mut txn, id, &[(8, 8)]).await;
        // One file is live as it was, one came back with another vector.
        delete(&mut txn, id, |row| row.0 == 2 || row.0 == 4).await;
        update(&mut txn, id, |row| row.0 == 1, |row| (row.0, 10)).await;
        let mark = txn.mark();
        delete(&mut txn, id, |row| row.0 == 3).await;
        assert_eq!(rows_in(&txn, id).await, [(1, 10), (8, 8)]);
        txn.rewind(mark);
        txn.commit().await.unwrap();
        let expected = [(1, 10), (3, 3), (8, 8)];
        assert_eq!(rows(&db, id).await, expected, "{vectors}");
        db.publish().await.unwrap();
        assert_eq!(rows(&world.open().await, id).await, expected, "{vectors}");
        assert_clean(&world.open().await).await;
        // Replaced again, it is no restore any more; taken back to the head, it is nothing.
        let mut txn = begin(&db).await;
        txn.restore_table(id, version(1)).await.unwrap();
        txn.truncate(id).await.unwrap();
        append(&mut txn, id, &[(5, 5)]).await;
        txn.commit().await.unwrap();
        assert_eq!(rows(&db, id).await, [(5, 5)]);
        let head = newest(&db, id).await;
        let mut txn = begin(&db).await;
        txn.truncate(id).await.unwrap();
        txn.restore_table(id, version(head)).await.unwrap();
        assert!(txn.is_read_only());
        assert_eq!(txn.commit().await.unwrap().version, None);
    }
}

#[tokio::test]
async fn a_table_that_the_transaction_made_and_versions_to_come_are_refused_by_name() {
    let world = World::new();
    let db = world.create().await;
    let id = five_versions(&db).await;
    let mut txn = begin(&db).await;
    let made = txn.create_table("main", new_table("made")).await.unwrap();
    let error = txn.restore_table(made, version(0)).await.unwrap_err();
    assert!(
        matches!(&error, DbError::Travel(TravelError::CreatedHere { table }) if table == "main.made"),
        "{error}"
    );
    append(&mut txn, id, &[(6, 6)]).await;
    let error = txn.restore_table(id, version(5)).await.unwrap_err();
    assert!(
        matches!(error, DbError::Travel(TravelError::NotYet { .. })),
        "{error}"
    );
    // A failing call leaves the transaction as it was.
    txn.commit().await.unwrap();
    assert_eq!(rows(&db, id).await, [(2, 2), (3, 3), (6, 6)]);
}

/// Version 1 has two rows; each change makes version 2 or more.
async fn redefined(
    table: NewTable,
    change: impl AsyncFn(&mut Transaction, TableId),
) -> (World, Database, TableId, Vec<String>) {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, table).await;
    insert(&db, id, &[(1, 1), (2, 2)]).await;
    let before = told(&db, id).await;
    let mut txn = begin(&db).await;
    change(&mut txn, id).await;
    txn.commit().await.unwrap();
    (world, db, id, before)
}

async fn goes_back_and_forth(table: NewTable, change: impl AsyncFn(&mut Transaction, TableId)) {
    let (world, db, id, before) = redefined(table, change).await;
    let after = told(&db, id).await;
    let state = |db: &Database| {
        let db = db.clone();
        async move { db.snapshot().await.unwrap().table(id).await.unwrap() }
    };
    let changed = state(&db).await;
    let head = newest(&db, id).await;
    restore(&db, id, 1).await;
    for db in [&db, &world.open().await] {
        assert_eq!(told(db, id).await, before);
    }
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(3, 3)]).await;
    txn.commit().await.unwrap();
    assert_eq!(told(&world.open().await, id).await.len(), 3);
    restore(&db, id, head).await;
    for db in [&db, &world.open().await] {
        assert_eq!(told(db, id).await, after);
        let again = state(db).await;
        assert_eq!(again.schema, changed.schema);
        assert_eq!(again.properties, changed.properties);
        assert_eq!(again.partition_columns, changed.partition_columns);
        assert_eq!(again.clustering_columns, changed.clustering_columns);
        assert_eq!(again.description, changed.description);
    }
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    let other = world.open().await;
    assert_eq!(told(&other, id).await, after);
    assert_clean(&other).await;
}

#[tokio::test]
async fn columns_added_renamed_dropped_and_added_again_go_back_and_forth() {
    goes_back_and_forth(new_table("t"), async |txn, id| {
        let extra = Field::new("extra", DataType::String, true);
        txn.add_column(id, extra).await.unwrap();
    })
    .await;
    goes_back_and_forth(new_table("t"), async |txn, id| {
        txn.rename_column(id, path("n"), "m").await.unwrap();
        txn.drop_column(id, path("id")).await.unwrap();
        let again = Field::new("id", DataType::String, true);
        txn.add_column(id, again).await.unwrap();
    })
    .await;
    goes_back_and_forth(new_table("t"), async |txn, id| {
        txn.set_nullable(id, path("n"), false).await.unwrap();
        txn.set_comment(id, None, Some("about")).await.unwrap();
        txn.set_comment(id, Some("n"), Some("a number"))
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn rules_properties_domains_and_clustering_go_back_and_forth() {
    goes_back_and_forth(new_table("t"), async |txn, id| {
        txn.add_constraint(id, "small", "n < 3").await.unwrap();
        txn.set_default(id, "n", Some("2")).await.unwrap();
    })
    .await;
    goes_back_and_forth(new_table("t"), async |txn, id| {
        txn.set_property(id, "owner", Some("me")).await.unwrap();
        txn.set_domain(id, "user.notes", Some("{}")).await.unwrap();
    })
    .await;
    goes_back_and_forth(new_table("t"), async |txn, id| {
        txn.cluster_by(id, vec![vec!["n".to_owned()]])
            .await
            .unwrap();
    })
    .await;
    let mut noted = table_with("t", "owner", "me");
    noted
        .properties
        .insert("color".to_owned(), "red".to_owned());
    goes_back_and_forth(noted, async |txn, id| {
        txn.set_property(id, "owner", None).await.unwrap();
        txn.set_property(id, "color", Some("blue")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_constraint_that_came_later_binds_no_more_and_one_that_was_there_again() {
    let (_, db, id, _) = redefined(new_table("t"), async |txn, id| {
        txn.add_constraint(id, "small", "n < 3").await.unwrap();
    })
    .await;
    let refused = async |db: &Database| {
        let mut txn = begin(db).await;
        let rows = batch(&[(9, 9)]);
        txn.append(id, once(rows)).await.is_err()
    };
    assert!(refused(&db).await);
    restore(&db, id, 1).await;
    assert!(!refused(&db).await);
    restore(&db, id, 2).await;
    assert!(refused(&db).await);
}

#[tokio::test]
async fn widened_columns_go_back_to_the_files_that_were_never_widened() {
    let world = World::new();
    let db = world.create().await;
    let wide = ("delta.enableTypeWidening".to_owned(), "true".to_owned());
    let columns_of = [("a", DataType::Integer)];
    let table = NewTable {
        properties: BTreeMap::from([wide]),
        ..table_of("t", &columns_of, &[])
    };
    let id = create(&db, table).await;
    let ints: arrow_array::ArrayRef = std::sync::Arc::new(arrow_array::Int32Array::from(vec![1]));
    let mut txn = begin(&db).await;
    txn.append(id, once(columns(vec![("a", ints)])))
        .await
        .unwrap();
    txn.commit().await.unwrap();
    let mut txn = begin(&db).await;
    txn.widen_column(id, path("a"), DataType::Long)
        .await
        .unwrap();
    let long = columns(vec![("a", longs([1_i64 << 40]))]);
    txn.append(id, once(long)).await.unwrap();
    txn.commit().await.unwrap();
    restore(&db, id, 1).await;
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    assert_eq!(state.schema.fields[0].data_type, DataType::Integer);
    assert_eq!(told(&world.open().await, id).await, ["a = 1"]);
    restore(&db, id, 2).await;
    assert_eq!(told(&world.open().await, id).await.len(), 2);
    db.publish().await.unwrap();
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn numbers_given_out_are_never_given_again() {
    let world = World::new();
    let db = world.create().await;
    let identity = Identity {
        start: 1,
        step: 1,
        mark: None,
        explicit: false,
    };
    let mut number = Field::new("id", DataType::Long, false);
    number.metadata = identity.metadata();
    let mut table = table_with("t", "delta.enableRowTracking", "true");
    table.schema = Schema::new(vec![number, Field::new("n", DataType::Long, true)]);
    let id = create(&db, table).await;
    let add = async |n: i64| {
        let mut txn = begin(&db).await;
        let rows = columns(vec![("n", longs([n]))]);
        txn.append_columns(id, &["n"], once(rows)).await.unwrap();
        txn.commit().await.unwrap();
    };
    let ids = async |db: &Database| {
        let state = db.snapshot().await.unwrap().table(id).await.unwrap();
        let ids = state.files.values().map(|file| file.base_row_id.unwrap());
        let mut ids: Vec<i64> = ids.collect();
        ids.sort_unstable();
        ids
    };
    for n in 1..=3 {
        add(n).await;
    }
    // Mapping numbers columns; so does the column that comes and goes.
    let mut txn = begin(&db).await;
    txn.rename_column(id, path("n"), "m").await.unwrap();
    txn.add_column(id, Field::new("x", DataType::Long, true))
        .await
        .unwrap();
    txn.commit().await.unwrap();
    let mapped = newest(&db, id).await;
    let highest = async |db: &Database| {
        let state = db.snapshot().await.unwrap().table(id).await.unwrap();
        state.properties["delta.columnMapping.maxColumnId"].clone()
    };
    let before = highest(&db).await;
    restore(&db, id, 1).await;
    assert_eq!(highest(&db).await, before);
    assert_eq!(ids(&db).await, [0]);
    add(4).await;
    assert_eq!(ids(&db).await, [0, 3]);
    assert_eq!(told(&db, id).await, ["id = 1, n = 1", "id = 4, n = 4"]);
    restore(&db, id, mapped).await;
    assert_eq!(ids(&world.open().await).await, [0, 1, 2]);
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    let mark = state.schema.fields[0].metadata["delta.identity.highWaterMark"].clone();
    assert_eq!(mark, 4);
    db.publish().await.unwrap();
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn an_append_only_table_is_not_restored_and_its_features_stay() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let mut txn = begin(&db).await;
    txn.set_property(id, "delta.appendOnly", Some("true"))
        .await
        .unwrap();
    append(&mut txn, id, &[(2, 2)]).await;
    txn.commit().await.unwrap();
    let mut txn = begin(&db).await;
    txn.restore_table(id, version(1)).await.unwrap();
    let error = txn.commit().await.unwrap_err();
    assert!(chain(&error).contains("append"), "{}", chain(&error));
    assert_eq!(rows(&db, id).await, [(1, 1), (2, 2)]);
}

fn chain(error: &dyn std::error::Error) -> String {
    let source = error.source().map(chain);
    format!("{error} {}", source.unwrap_or_default())
}

#[tokio::test]
async fn the_change_feed_tells_the_rows_that_came_and_went() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, table_with("t", "delta.enableChangeDataFeed", "true")).await;
    insert(&db, id, &[(1, 1), (2, 2), (3, 3)]).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 2).await;
    txn.commit().await.unwrap();
    insert(&db, id, &[(4, 4)]).await;
    restore(&db, id, 1).await;
    restore(&db, id, 3).await;
    for publish in [false, true] {
        if publish {
            db.publish().await.unwrap();
        }
        let told = changes(&world.open().await, id, 4, None).await;
        assert_eq!(
            told,
            ["4 delete 4", "4 insert 2", "5 delete 2", "5 insert 4"]
        );
    }
}

/// What is done beside a restore.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Append,
    Delete,
    Truncate,
    Restore,
    Compact,
    AddColumn,
    Comment,
    Feed,
}

impl Beside {
    async fn run(self, txn: &mut Transaction, id: TableId) {
        match self {
            Self::Append => append(txn, id, &[(7, 7)]).await,
            Self::Delete => delete(txn, id, |row| row.0 == 2).await,
            Self::Truncate => drop(txn.truncate(id).await.unwrap()),
            Self::Restore => drop(txn.restore_table(id, version(1)).await.unwrap()),
            Self::AddColumn => {
                let field = Field::new("x", DataType::Long, true);
                txn.add_column(id, field).await.unwrap();
            }
            Self::Comment => txn.set_comment(id, None, Some("text")).await.unwrap(),
            Self::Feed => {
                let key = "delta.enableChangeDataFeed";
                txn.set_property(id, key, Some("true")).await.unwrap();
            }
            Self::Compact => panic!("a transaction of its own"),
        }
    }
}

#[tokio::test]
async fn beside_others_a_restore_takes_its_difference_anew_or_one_runs_again() {
    use Beside::*;
    // What is beside, whether the restore may come second and first, and the ids then.
    let outcomes: [(Beside, bool, bool, &[i64]); 8] = [
        (Append, true, false, &[1, 2]),
        (Delete, true, false, &[1, 2]),
        (Truncate, false, false, &[]),
        (Restore, false, false, &[1]),
        (Compact, true, false, &[1, 2]),
        (AddColumn, true, true, &[1, 2]),
        (Comment, true, true, &[1, 2]),
        (Feed, false, true, &[2, 3]),
    ];
    for (beside, second, first, expected) in outcomes {
        for restore_first in [false, true] {
            let world = World::new();
            let db = world.create().await;
            let other = world.open().await;
            let id = five_versions(&db).await;
            let mut ours = begin(&db).await;
            ours.restore_table(id, version(2)).await.unwrap();
            let case = format!("{beside:?}, restore first: {restore_first}");
            if let Compact = beside {
                let options = CompactOptions {
                    all: true,
                    ..CompactOptions::default()
                };
                if !restore_first {
                    other.compact(id, &options).await.unwrap();
                    ours.commit().await.unwrap();
                    assert_eq!(rows(&world.open().await, id).await, [(1, 1), (2, 2)]);
                }
                continue;
            }
            let mut theirs = begin(&other).await;
            beside.run(&mut theirs, id).await;
            let (one, two, passes) = match restore_first {
                true => (ours, theirs, first),
                false => (theirs, ours, second),
            };
            one.commit().await.unwrap();
            let outcome = two.commit().await;
            match passes {
                true => drop(outcome.unwrap_or_else(|error| panic!("{case}: {error}"))),
                false => drop(assert_conflict(outcome, true)),
            }
            let found = rows(&world.open().await, id).await;
            let found: Vec<i64> = found.iter().map(|row| row.0).collect();
            let expected = if restore_first { &[1, 2] } else { expected };
            assert_eq!(found, expected, "{case}");
            db.publish().await.unwrap();
            assert_clean(&world.open().await).await;
        }
    }
}

#[tokio::test]
async fn a_restored_definition_beside_others_runs_again() {
    use Beside::*;
    for beside in [Append, Delete, AddColumn, Comment] {
        let (world, db, id, _) = redefined(new_table("t"), async |txn, id| {
            let field = Field::new("extra", DataType::Long, true);
            txn.add_column(id, field).await.unwrap();
        })
        .await;
        let other = world.open().await;
        let mut ours = begin(&db).await;
        ours.restore_table(id, version(1)).await.unwrap();
        let mut theirs = begin(&other).await;
        match beside {
            Append => {
                let rows = columns(vec![("id", longs([7])), ("n", longs([7]))]);
                let names = ["id", "n"];
                theirs.append_columns(id, &names, once(rows)).await.unwrap();
            }
            _ => beside.run(&mut theirs, id).await,
        }
        theirs.commit().await.unwrap();
        let outcome = ours.commit().await;
        if let Err(error) = outcome {
            assert!(error.is_retryable(), "{beside:?}: {error}");
            restore(&db, id, 1).await;
        }
        assert_eq!(rows(&world.open().await, id).await, [(1, 1), (2, 2)]);
        assert_clean(&world.open().await).await;
    }
}

#[tokio::test]
async fn a_version_below_a_vacuum_is_refused_and_one_above_comes_back_to_stay() {
    let scene = Scene::new();
    let (db, id) = four_ages(&scene, new_table("t")).await;
    vacuum(&db).await;
    for db in [&db, &scene.open().await] {
        let mut txn = begin(db).await;
        let error = txn.restore_table(id, version(2)).await.unwrap_err();
        assert!(
            matches!(
                error,
                DbError::Travel(TravelError::Vacuumed {
                    oldest: Some(TableVersion(3)),
                    ..
                })
            ),
            "{error}"
        );
    }
    // Its file is older than what the vacuum allows of new ones.
    restore(&db, id, 3).await;
    for _ in 0..3 {
        assert_eq!(rows(&scene.open().await, id).await, [(3, 3)]);
        scene.pass(20 * DAY);
        db.publish().await.unwrap();
        vacuum(&db).await;
    }
    assert_clean(&scene.open().await).await;
}

#[tokio::test]
async fn a_vacuum_between_restore_and_commit_decides_whether_the_version_is_whole() {
    for (number, kept) in [(2, false), (3, true)] {
        let scene = Scene::new();
        let (db, id) = four_ages(&scene, new_table("t")).await;
        let mut txn = begin(&db).await;
        txn.restore_table(id, version(number)).await.unwrap();
        vacuum(&scene.open().await).await;
        let committed = txn.commit().await;
        if kept {
            committed.unwrap();
            assert_eq!(rows(&scene.open().await, id).await, [(3, 3)]);
        } else {
            let error = committed.unwrap_err();
            assert!(
                matches!(error, DbError::Travel(TravelError::Vacuumed { .. })),
                "{error}"
            );
            assert!(!error.is_retryable());
            assert_eq!(rows(&scene.open().await, id).await, [(4, 4)]);
        }
        assert_clean(&scene.open().await).await;
    }
}
