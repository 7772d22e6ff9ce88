//! Public bug reports as tests, named after their ids.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use tarndb_db::{Committed, Database, DbError, ErrorKind, Transaction, TxnOptions};
use tarndb_table::{Comparison, DataType, Field, Predicate, Scalar};
use tarndb_types::{DbVersion, TableId};

use crate::support::*;
use crate::upserts::upsert_retrying;

fn partition(value: &str) -> Predicate {
    Predicate::Compare {
        column: "p".to_owned(),
        op: Comparison::Equal,
        value: Scalar::String(value.to_owned()),
    }
}

fn pkv(rows: &[(&str, i64)]) -> RecordBatch {
    columns(vec![
        ("p", texts(rows.iter().map(|row| row.0))),
        ("k", longs(rows.iter().map(|row| row.1))),
        ("v", texts(rows.iter().map(|_| "v"))),
    ])
}

async fn overwrite_a(txn: &mut Transaction, id: TableId, keys: &[i64]) -> u64 {
    let rows: Vec<_> = keys.iter().map(|key| ("a", *key)).collect();
    let report = txn
        .overwrite_where(id, &partition("a"), once(pkv(&rows)), false)
        .await
        .unwrap();
    assert_eq!(report.added, keys.len() as u64);
    report.removed
}

/// Two overwrites with the same predicate from one snapshot.
#[tokio::test]
async fn bc_01_two_overwrites_with_the_same_predicate() {
    const INPUTS: [&[i64]; 2] = [&[70, 71], &[80, 81, 82]];
    for (first, second) in [(0, 1), (1, 0)] {
        for partitions in [&["p"][..], &[]] {
            let world = World::new();
            let handles = [world.create().await, world.open().await];
            let db = &handles[0];
            let fields = [
                ("p", DataType::String),
                ("k", DataType::Long),
                ("v", DataType::String),
            ];
            let id = create(db, table_of("t", &fields, partitions)).await;
            let mut txn = begin(db).await;
            let rows = [("a", 1), ("a", 2), ("a", 3), ("b", 4)];
            txn.append(id, once(pkv(&rows))).await.unwrap();
            txn.commit().await.unwrap();
            let mut txns = [begin(&handles[0]).await, begin(&handles[1]).await];
            for (txn, input) in txns.iter_mut().zip(INPUTS) {
                assert_eq!(overwrite_a(txn, id, input).await, 3);
            }
            let [t1, t2] = txns;
            let mut txns = [Some(t1), Some(t2)];
            let won = txns[first].take().unwrap().commit().await.unwrap();
            let lost = txns[second].take().unwrap().commit().await;
            // Table, predicate and the version that was first are named.
            let text = assert_conflict(lost, true);
            let version = format!("version {}", won.version.unwrap());
            assert!(
                text.contains("table main.t") || text.contains("main.t"),
                "{text}"
            );
            assert!(text.contains(&version), "{text}");
            if partitions.is_empty() {
                assert!(text.contains("p = 'a'") || text.contains("rows"), "{text}");
            }
            let expected = |input: &[i64]| {
                let row = |key: &i64| format!("p = \"a\", k = {key}, v = \"v\"");
                let mut rows: Vec<_> = input.iter().map(row).collect();
                rows.push("p = \"b\", k = 4, v = \"v\"".to_owned());
                rows
            };
            assert_eq!(told(db, id).await, expected(INPUTS[first]));
            // Run again it replaces what the first one wrote, and reports just that.
            let mut again = begin(&handles[second]).await;
            let removed = overwrite_a(&mut again, id, INPUTS[second]).await;
            assert_eq!(removed, INPUTS[first].len() as u64);
            let before = told(db, id).await;
            let version = again.commit().await.unwrap().version.unwrap();
            assert_eq!(told(db, id).await, expected(INPUTS[second]));
            // The history shows what it removed.
            let earlier = db.snapshot_at(DbVersion(version.0 - 1)).await.unwrap();
            assert_eq!(told_at(&earlier, id).await, before);
            db.publish().await.unwrap();
            let entry = world
                .get(&format!("main/t/_delta_log/{:020}.json", 3))
                .await
                .unwrap();
            let entry = String::from_utf8(entry.to_vec()).unwrap();
            assert!(entry.contains("\"predicate\":\"p = 'a'\""), "{entry}");
            assert!(
                entry.contains(&format!("\"numDeletedRows\":\"{removed}\"")),
                "{entry}"
            );
            assert_clean(&world.open().await).await;
        }
    }
}

/// The predicate itself is what T2 relied on: no row of it was there before.
#[tokio::test]
async fn bc_01_an_overwrite_of_nothing_meets_rows_added_to_it() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let fields = [
        ("p", DataType::String),
        ("k", DataType::Long),
        ("v", DataType::String),
    ];
    let id = create(&db, table_of("t", &fields, &["p"])).await;
    let (mut t1, mut t2) = (begin(&db).await, begin(&other).await);
    assert_eq!(overwrite_a(&mut t1, id, &[70, 71]).await, 0);
    assert_eq!(overwrite_a(&mut t2, id, &[80]).await, 0);
    let version = t1.commit().await.unwrap().version.unwrap();
    let text = assert_conflict(t2.commit().await, true);
    for part in ["p = 'a'", &format!("version {version}"), "p = \"a\""] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(told(&db, id).await.len(), 2);
}

/// Tasks with handles of their own upsert the key 9 at once; how many rows have it afterwards.
async fn upserts_of_nine(
    writers: i64,
    key: &[(&str, DataType)],
    value: fn() -> Vec<ArrayRef>,
) -> usize {
    let world = World::new();
    let db = world.create().await;
    let mut fields = key.to_vec();
    fields.push(("v", DataType::Long));
    fields.push(("other", DataType::String));
    let id = create(&db, table_of("t", &fields, &[])).await;
    let mut begun = Vec::new();
    for writer in 0..writers {
        let db = world.open().await;
        let names = key.iter().map(|(name, _)| *name);
        let mut source: Vec<_> = names.clone().zip(value()).collect();
        source.push(("v", longs([writer])));
        // Every other source has only some of the columns.
        if writer % 2 == 0 {
            source.push(("other", texts(["x"])));
        }
        let on: Vec<&str> = names.collect();
        let source = columns(source);
        let mut txn = begin(&db).await;
        let report = txn.upsert(id, &on, once(source.clone())).await.unwrap();
        assert_eq!((report.inserted, report.updated), (1, 0));
        begun.push((db, txn, source, on));
    }
    let mut first = true;
    for (db, txn, source, on) in begun {
        match txn.commit().await {
            Ok(_) => assert!(std::mem::take(&mut first), "two inserted"),
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                let mut again = begin(&db).await;
                let report = again.upsert(id, &on, once(source.clone())).await.unwrap();
                assert_eq!((report.inserted, report.updated), (0, 1));
                again.commit().await.unwrap();
            }
        }
    }
    db.publish().await.unwrap();
    assert_clean(&world.open().await).await;
    told(&db, id).await.len()
}

/// Concurrent upsert of the same new key.
#[tokio::test]
async fn bc_02_upserts_of_the_same_new_key() {
    let float: fn() -> Vec<ArrayRef> = || vec![Arc::new(Float64Array::from(vec![9.5]))];
    for writers in [2, 16] {
        let integer = upserts_of_nine(writers, &[("id", DataType::Long)], || vec![longs([9])]);
        assert_eq!(integer.await, 1);
        let string = upserts_of_nine(writers, &[("s", DataType::String)], || {
            vec![texts(["nine"])]
        });
        assert_eq!(string.await, 1);
        assert_eq!(
            upserts_of_nine(writers, &[("f", DataType::Double)], float).await,
            1
        );
        let composite = [("id", DataType::Long), ("s", DataType::String)];
        let both = upserts_of_nine(writers, &composite, || vec![longs([9]), texts(["nine"])]);
        assert_eq!(both.await, 1);
    }
}

async fn begin_at(db: &Database, version: DbVersion) -> Transaction {
    let options = TxnOptions {
        read_version: Some(version),
        ..TxnOptions::default()
    };
    db.begin(options).await.unwrap()
}

#[track_caller]
fn assert_changed(
    result: Result<Committed, DbError>,
    read: DbVersion,
    by: DbVersion,
    kind: ErrorKind,
) {
    let Err(error) = result else {
        panic!("a pinned transaction committed: {result:?}");
    };
    assert_eq!(error.kind(), kind);
    let text = error.to_string();
    let DbError::ReadVersionChanged {
        read_version,
        conflict,
        table,
        ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!((read_version, conflict.version), (read, by));
    assert!(table.is_some());
    assert!(text.contains(&format!("at version {read} ")), "{text}");
    assert!(text.contains(&format!("version {by} ")), "{text}");
}

/// A precondition observed before the transaction is enforced.
#[tokio::test]
async fn bc_06_what_was_read_before_is_pinned() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    let second = create_table(&db, "second").await;
    let read = db.snapshot().await.unwrap();
    assert!(rows_at(&read, id).await.is_empty());
    let theirs = insert(&other, id, &[(1, 2)]).await.version.unwrap();
    // Pinned: the insert in between is a conflict that nobody may retry by themselves.
    let mut pinned = begin_at(&db, read.version()).await;
    append(&mut pinned, id, &[(1, 1)]).await;
    assert_changed(
        pinned.commit().await,
        read.version(),
        theirs,
        ErrorKind::ConflictIncompatible,
    );
    assert_eq!(rows(&db, id).await, [(1, 2)]);
    // Over two tables: one is read, the other is written.
    let mut pinned = begin_at(&db, read.version()).await;
    pinned.note_read(id);
    append(&mut pinned, second, &[(1, 1)]).await;
    assert_changed(
        pinned.commit().await,
        read.version(),
        theirs,
        ErrorKind::ConflictIncompatible,
    );
    let mut pinned = begin_at(&db, read.version()).await;
    append(&mut pinned, second, &[(1, 1)]).await;
    append(&mut pinned, id, &[(1, 1)]).await;
    assert_changed(
        pinned.commit().await,
        read.version(),
        theirs,
        ErrorKind::ConflictIncompatible,
    );
    assert!(rows(&db, second).await.is_empty());
    // What was neither read nor written does not matter.
    let mut pinned = begin_at(&db, read.version()).await;
    append(&mut pinned, second, &[(1, 1)]).await;
    pinned.commit().await.unwrap();
    // A blind append without a read version is rebased.
    let mut blind = begin(&db).await;
    append(&mut blind, id, &[(3, 3)]).await;
    insert(&other, id, &[(2, 2)]).await;
    blind.commit().await.unwrap();
    assert_eq!(rows(&db, id).await, [(1, 2), (2, 2), (3, 3)]);
    // Pinned within a transaction: running it again is right.
    let mut pinned = begin(&db).await;
    let version = pinned.snapshot().version();
    pinned.pin_reads();
    append(&mut pinned, id, &[(4, 4)]).await;
    let by = insert(&other, id, &[(5, 5)]).await.version.unwrap();
    assert_changed(
        pinned.commit().await,
        version,
        by,
        ErrorKind::ConflictRetryable,
    );
    // A change of the definition counts as well.
    let mut pinned = begin(&db).await;
    let version = pinned.snapshot().version();
    pinned.pin_reads();
    append(&mut pinned, id, &[(4, 4)]).await;
    let mut ddl = begin(&other).await;
    ddl.add_column(id, Field::new("x", DataType::Long, true))
        .await
        .unwrap();
    let by = ddl.commit().await.unwrap().version.unwrap();
    assert_changed(
        pinned.commit().await,
        version,
        by,
        ErrorKind::ConflictRetryable,
    );
    // A version that is not there cannot be pinned.
    let options = TxnOptions {
        read_version: Some(DbVersion(999)),
        ..TxnOptions::default()
    };
    let error = db.begin(options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

async fn comments(db: &Database, id: TableId) -> (Option<String>, Vec<Option<String>>) {
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    let fields = state.schema.fields.iter();
    let comments = fields.map(|field| field.comment().map(str::to_owned));
    (state.description.clone(), comments.collect())
}

fn named(columns_of: &[(&str, i64)]) -> RecordBatch {
    columns(
        columns_of
            .iter()
            .map(|(name, value)| (*name, longs([*value])))
            .collect(),
    )
}

/// Concurrent append and schema change, both orders.
#[tokio::test]
async fn bc_07_append_beside_a_new_column() {
    for append_first in [true, false] {
        let world = World::new();
        let (db, other) = (world.create().await, world.open().await);
        let id = create_table(&db, "t").await;
        let mut t1 = begin(&db).await;
        t1.add_column(id, Field::new("x", DataType::Long, true))
            .await
            .unwrap();
        let mut t2 = begin(&other).await;
        append(&mut t2, id, &[(1, 1)]).await;
        let (first, second) = if append_first { (t2, t1) } else { (t1, t2) };
        first.commit().await.unwrap();
        second.commit().await.unwrap();
        assert_eq!(told(&db, id).await, ["id = 1, n = 1, x = NULL"]);
        db.publish().await.unwrap();
        assert_clean(&world.open().await).await;
    }
}

#[tokio::test]
async fn bc_07_both_append_with_a_new_column() {
    for (theirs, same) in [(DataType::Long, true), (DataType::String, false)] {
        let world = World::new();
        let (db, other) = (world.create().await, world.open().await);
        let id = create_table(&db, "t").await;
        let evolve = async |db: &Database, data_type: DataType, value: ArrayRef| {
            let mut txn = begin(db).await;
            txn.add_column(id, Field::new("x", data_type, true))
                .await
                .unwrap();
            let row = columns(vec![("id", longs([1])), ("n", longs([1])), ("x", value)]);
            txn.append(id, once(row)).await.unwrap();
            txn
        };
        let t1 = evolve(&db, DataType::Long, longs([7])).await;
        let value = if same { longs([8]) } else { texts(["8"]) };
        let t2 = evolve(&other, theirs, value).await;
        t1.commit().await.unwrap();
        let result = t2.commit().await;
        if same {
            result.unwrap();
            assert_eq!(
                told(&db, id).await,
                ["id = 1, n = 1, x = 7", "id = 1, n = 1, x = 8"]
            );
        } else {
            let text = assert_conflict(result, false);
            assert!(
                text.contains("column x is now x long, not x string"),
                "{text}"
            );
            assert_eq!(told(&db, id).await, ["id = 1, n = 1, x = 7"]);
        }
        db.publish().await.unwrap();
        assert_clean(&world.open().await).await;
    }
}

#[tokio::test]
async fn bc_07_comments_and_columns_survive_each_other() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    let mut t1 = begin(&db).await;
    t1.set_comment(id, Some("id"), Some("the key"))
        .await
        .unwrap();
    let mut t2 = begin(&other).await;
    t2.set_comment(id, Some("n"), Some("a number"))
        .await
        .unwrap();
    t2.add_column(id, Field::new("y", DataType::Long, true))
        .await
        .unwrap();
    t2.set_property(id, "owner", Some("anna")).await.unwrap();
    t2.append(id, once(named(&[("id", 1), ("n", 2), ("y", 3)])))
        .await
        .unwrap();
    t1.commit().await.unwrap();
    t2.commit().await.unwrap();
    let both = vec![
        Some("the key".to_owned()),
        Some("a number".to_owned()),
        None,
    ];
    assert_eq!(comments(&db, id).await, (None, both));
    assert_eq!(told(&db, id).await, ["id = 1, n = 2, y = 3"]);
    // Five times the same comment, all from one snapshot.
    let mut txns = Vec::new();
    for _ in 0..5 {
        let mut txn = begin(&world.open().await).await;
        txn.set_comment(id, None, Some("same text")).await.unwrap();
        txns.push(txn);
    }
    for txn in txns {
        txn.commit().await.unwrap();
    }
    assert_eq!(comments(&db, id).await.0.as_deref(), Some("same text"));
    db.publish().await.unwrap();
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn bc_07_a_failed_write_leaves_no_new_column() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let mut txn = begin(&db).await;
    txn.add_column(id, Field::new("x", DataType::Long, true))
        .await
        .unwrap();
    txn.append(id, once(named(&[("id", 2), ("n", 2), ("x", 2)])))
        .await
        .unwrap();
    delete(&mut txn, id, |row| row.0 == 1).await;
    update_retrying(&other, id, |row| row.0 == 1, |row| (1, row.1 + 1)).await;
    assert_conflict(txn.commit().await, true);
    assert_eq!(told(&db, id).await, ["id = 1, n = 2"]);
    // Nor does a call that is refused, within a transaction that goes on.
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(3, 3)]).await;
    let error = txn
        .add_column(id, Field::new("x", DataType::Long, false))
        .await;
    error.unwrap_err();
    txn.commit().await.unwrap();
    assert_eq!(told(&db, id).await, ["id = 1, n = 2", "id = 3, n = 3"]);
}

async fn write_once(db: &Database, id: TableId, version: i64) -> Result<Committed, DbError> {
    let mut txn = begin(db).await;
    txn.set_app_transaction(id, "loader", version).await?;
    append(&mut txn, id, &[(version, version)]).await;
    txn.commit().await
}

#[track_caller]
fn committed_before(result: Result<Committed, DbError>) -> (i64, i64, Option<DbVersion>) {
    match result {
        Err(error @ DbError::AppTransactionCommitted { .. }) => {
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            assert!(
                error
                    .to_string()
                    .contains("application loader is in table main.t already")
            );
            let DbError::AppTransactionCommitted {
                version,
                committed,
                at,
                ..
            } = error
            else {
                unreachable!()
            };
            (version, committed, at)
        }
        other => panic!("{other:?}"),
    }
}

/// Writing twice with the same application id and version takes effect once.
#[tokio::test]
async fn ex_02_the_same_application_transaction_takes_effect_once() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    write_once(&db, id, 1).await.unwrap();
    // One after the other, below the snapshot.
    assert_eq!(
        committed_before(write_once(&other, id, 1).await),
        (1, 1, None)
    );
    // At once.
    let start = async |db: &Database, version| {
        let mut txn = begin(db).await;
        txn.set_app_transaction(id, "loader", version)
            .await
            .unwrap();
        append(&mut txn, id, &[(version, version)]).await;
        txn
    };
    let (t1, t2) = (start(&db, 2).await, start(&other, 2).await);
    let first = t1.commit().await.unwrap().version;
    assert_eq!(committed_before(t2.commit().await), (2, 2, first));
    // An older one comes too late; another application is its own.
    assert_eq!(
        committed_before(write_once(&other, id, 0).await),
        (0, 2, None)
    );
    let mut txn = begin(&db).await;
    txn.set_app_transaction(id, "another", 1).await.unwrap();
    assert_eq!(txn.app_transaction(id, "another").await.unwrap(), Some(1));
    txn.commit().await.unwrap();
    assert_eq!(rows(&db, id).await, [(1, 1), (2, 2)]);
    // Still known after publishing, checkpoints and a new handle.
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    let late = world.open().await;
    assert_eq!(
        committed_before(write_once(&late, id, 2).await),
        (2, 2, None)
    );
    let txn = begin(&late).await;
    assert_eq!(txn.app_transaction(id, "loader").await.unwrap(), Some(2));
    assert_clean(&late).await;
}

/// The same from many tasks: each version is there once, whoever wrote it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ex_02_many_attempts_at_once_take_effect_once() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    for version in 0..3 {
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let db = world.open().await;
            tasks.push(tokio::spawn(async move {
                write_once(&db, id, version).await.is_ok()
            }));
        }
        let mut done = 0;
        for task in tasks {
            done += u32::from(task.await.unwrap());
        }
        assert_eq!(done, 1);
    }
    assert_eq!(rows(&db, id).await, [(0, 0), (1, 1), (2, 2)]);
    let source = batch(&[(1, 5)]);
    assert_eq!(upsert_retrying(&db, id, &["id"], &source).await, 1);
}
