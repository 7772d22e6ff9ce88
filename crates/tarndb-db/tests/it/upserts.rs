//! Upserts and overwrites with a predicate: what they do to a table, and to each other.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use tarndb_db::{Committed, Database, DbError, DbOptions, UpsertReport};
use tarndb_table::{Comparison, DataType, Field, Predicate, Scalar, Schema};
use tarndb_types::TableId;

use crate::support::*;

fn report(inserted: u64, updated: u64) -> UpsertReport {
    UpsertReport {
        inserted,
        updated,
        files_read: 0,
    }
}

/// The report of an upsert in a transaction of its own, without the files read.
async fn upsert(db: &Database, id: TableId, on: &[&str], batch: RecordBatch) -> UpsertReport {
    let mut txn = begin(db).await;
    let report = txn.upsert(id, on, once(batch)).await.unwrap();
    txn.commit().await.unwrap();
    UpsertReport {
        files_read: 0,
        ..report
    }
}

/// Runs an upsert until no retryable conflict is in its way; in how many attempts.
pub(crate) async fn upsert_retrying(
    db: &Database,
    id: TableId,
    on: &[&str],
    batch: &RecordBatch,
) -> u32 {
    for attempt in 1..=1000 {
        let mut txn = begin(db).await;
        txn.upsert(id, on, once(batch.clone())).await.unwrap();
        match txn.commit().await {
            Ok(_) => return attempt,
            Err(error) if error.is_retryable() => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no success in 1000 attempts");
}

fn rows_of(rows: &[Row]) -> RecordBatch {
    batch(rows)
}

fn opposed(text: Result<Committed, DbError>) -> String {
    assert_conflict(text, true)
}

#[tokio::test]
async fn an_upsert_replaces_what_is_there_and_inserts_the_rest() {
    let world = World::new();
    let db = world.create().await;
    for vectors in ["on", "off"] {
        let mut table = new_table(vectors);
        let property = ("tarndb.deletionVectors".to_owned(), vectors.to_owned());
        table.properties.extend([property]);
        let id = create(&db, table).await;
        insert(&db, id, &[(1, 10), (2, 20)]).await;
        insert(&db, id, &[(2, 21), (5, 50)]).await;
        // Two rows have the key 2: both are replaced.
        let source = rows_of(&[(2, 99), (3, 30)]);
        assert_eq!(upsert(&db, id, &["id"], source).await, report(1, 2));
        let expected = [(1, 10), (2, 99), (2, 99), (3, 30), (5, 50)];
        assert_eq!(rows(&db, id).await, expected, "vectors {vectors}");
        // Of own changes too, and twice in one transaction.
        let mut txn = begin(&db).await;
        append(&mut txn, id, &[(7, 70)]).await;
        delete(&mut txn, id, |row| row.0 == 2).await;
        for n in [1, 2] {
            let source = rows_of(&[(7, 70 + n), (2, 20 + n)]);
            txn.upsert(id, &["ID"], once(source)).await.unwrap();
        }
        txn.commit().await.unwrap();
        let expected = [(1, 10), (2, 22), (3, 30), (5, 50), (7, 72)];
        assert_eq!(rows(&db, id).await, expected, "vectors {vectors}");
    }
    db.publish().await.unwrap();
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn columns_that_the_source_lacks_are_kept_or_null() {
    let world = World::new();
    let db = world.create().await;
    let table = table_of(
        "t",
        &[
            ("p", DataType::String),
            ("id", DataType::Long),
            ("a", DataType::Long),
            ("b", DataType::String),
        ],
        &["p"],
    );
    let id = create(&db, table).await;
    let all = columns(vec![
        ("b", texts(["one", "two"])),
        ("ID", longs([1, 2])),
        ("p", texts(["x", "y"])),
        ("a", longs([10, 20])),
    ]);
    assert_eq!(upsert(&db, id, &["id"], all).await, report(2, 0));
    // Only `a`, and a row that moves to another partition by itself stays where it is.
    let some = columns(vec![("a", longs([99, 98])), ("id", longs([2, 3]))]);
    assert_eq!(upsert(&db, id, &["id"], some).await, report(1, 1));
    let moved = columns(vec![("p", texts(["z"])), ("id", longs([1]))]);
    assert_eq!(upsert(&db, id, &["id"], moved).await, report(0, 1));
    let expected = [
        "p = \"y\", id = 2, a = 99, b = \"two\"",
        "p = \"z\", id = 1, a = 10, b = \"one\"",
        "p = NULL, id = 3, a = 98, b = NULL",
    ];
    assert_eq!(told(&db, id).await, expected);
    db.publish().await.unwrap();
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn a_wrong_source_is_refused_and_changes_nothing() {
    let world = World::new();
    let db = world.create().await;
    let mut table = table_of("t", &[("id", DataType::Long), ("n", DataType::Long)], &[]);
    table
        .schema
        .fields
        .push(Field::new("must", DataType::Long, false));
    let id = create(&db, table).await;
    let row = columns(vec![
        ("id", longs([1])),
        ("n", longs([1])),
        ("must", longs([1])),
    ]);
    upsert(&db, id, &["id"], row.clone()).await;
    let cases = [
        (
            columns(vec![("id", longs([2, 2])), ("must", longs([1, 1]))]),
            "have a key twice; keep one of them: id = 2",
        ),
        (
            columns(vec![("id", longs([1, 2])), ("n", longs([5, 6]))]),
            "column=must",
        ),
        (
            columns(vec![("n", longs([5])), ("must", longs([5]))]),
            "column=\"id\"",
        ),
        (
            columns(vec![("id", longs([5])), ("other", longs([5]))]),
            "column=\"other\"",
        ),
        (
            columns(vec![("id", texts(["x"])), ("must", longs([5]))]),
            "column=id",
        ),
    ];
    for (source, wrong) in cases {
        let mut txn = begin(&db).await;
        let error = txn.upsert(id, &["id"], once(source)).await.unwrap_err();
        let text = match std::error::Error::source(&error) {
            Some(source) => source.to_string(),
            None => error.to_string(),
        };
        assert!(text.contains(wrong), "{text}");
        assert!(txn.is_read_only());
    }
    // Rows that are there may keep their value of a NOT NULL column.
    let source = columns(vec![("id", longs([1])), ("n", longs([5]))]);
    assert_eq!(upsert(&db, id, &["id"], source).await, report(0, 1));
    let mut txn = begin(&db).await;
    txn.upsert(id, &["id"], once(row.clone())).await.unwrap();
    let error = txn.upsert(id, &["n"], once(row)).await.unwrap_err();
    assert!(matches!(error, DbError::SecondKey { .. }), "{error}");
    drop(txn);
    let options = DbOptions {
        upsert_bytes_max: 10_000,
        ..manual()
    };
    let small = Database::open(world.store(), options).await.unwrap();
    let mut txn = begin(&small).await;
    let many = columns(vec![("id", longs(0..200)), ("must", longs(0..200))]);
    let error = txn.upsert(id, &["id"], once(many)).await.unwrap_err();
    assert!(
        matches!(
            error,
            DbError::SourceTooLarge {
                bytes_max: 10_000,
                ..
            }
        ),
        "{error}"
    );
    assert!(txn.is_read_only());
}

#[tokio::test]
async fn null_in_a_key_matches_nothing() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let source = || {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![None, None, Some(1)]));
        columns(vec![("id", ids), ("n", longs([1, 2, 3]))])
    };
    assert_eq!(upsert(&db, id, &["id"], source()).await, report(3, 0));
    assert_eq!(upsert(&db, id, &["id"], source()).await, report(2, 1));
    let only_null: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    let only_null = columns(vec![("id", only_null), ("n", longs([4]))]);
    // Neither do two such upserts meet.
    let mut txn = begin(&db).await;
    txn.upsert(id, &["id"], once(only_null.clone()))
        .await
        .unwrap();
    assert_eq!(upsert(&db, id, &["id"], only_null).await, report(1, 0));
    txn.commit().await.unwrap();
    assert_eq!(told(&db, id).await.len(), 7);
}

#[tokio::test]
async fn only_files_that_can_hold_a_key_are_read() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    for n in 0..5 {
        insert(&db, id, &[(n * 10, n), (n * 10 + 5, n)]).await;
    }
    let mut txn = begin(&db).await;
    let source = rows_of(&[(20, 99), (23, 99)]);
    let report = txn.upsert(id, &["id"], once(source)).await.unwrap();
    assert_eq!(
        (report.inserted, report.updated, report.files_read),
        (1, 1, 1)
    );
}

/// Beside an upsert of the new key 1, `other` commits first.
async fn beside_upsert(
    other: impl AsyncFn(&Database, TableId),
) -> (Result<Committed, DbError>, Vec<Row>) {
    let world = World::new();
    let (db, second) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(100, 1), (200, 2)]).await;
    let mut txn = begin(&db).await;
    txn.upsert(id, &["id"], once(rows_of(&[(1, 11)])))
        .await
        .unwrap();
    other(&second, id).await;
    let result = txn.commit().await;
    if result.is_err() {
        upsert_retrying(&db, id, &["id"], &rows_of(&[(1, 11)])).await;
    }
    let rows = rows(&db, id).await;
    db.publish().await.unwrap();
    assert_clean(&second).await;
    (result, rows)
}

#[tokio::test]
async fn a_key_that_others_add_meanwhile_is_never_there_twice() {
    let (result, rows) = beside_upsert(async |db, id| {
        upsert(db, id, &["id"], rows_of(&[(1, 7)])).await;
    })
    .await;
    let text = opposed(result);
    assert!(text.contains("keys (id)"), "{text}");
    assert_eq!(rows, [(1, 11), (100, 1), (200, 2)]);

    let (result, rows) = beside_upsert(async |db, id| {
        insert(db, id, &[(0, 0), (1, 7), (2, 0)]).await;
    })
    .await;
    let text = opposed(result);
    assert!(text.contains("id = 1 in file "), "{text}");
    assert_eq!(rows, [(0, 0), (1, 11), (2, 0), (100, 1), (200, 2)]);

    // A plain insert in the same transaction as an upsert of another key, before and after it.
    for upsert_first in [true, false] {
        let (result, rows) = beside_upsert(async |db, id| {
            let mut txn = begin(db).await;
            let five = || once(rows_of(&[(5, 7)]));
            if upsert_first {
                txn.upsert(id, &["id"], five()).await.unwrap();
            }
            append(&mut txn, id, &[(1, 7)]).await;
            if !upsert_first {
                txn.upsert(id, &["id"], five()).await.unwrap();
            }
            txn.commit().await.unwrap();
        })
        .await;
        let text = opposed(result);
        assert!(text.contains("id = 1 in file "), "{text}");
        assert_eq!(rows, [(1, 11), (5, 7), (100, 1), (200, 2)]);
    }

    // An UPDATE that changes the key.
    let (result, rows) = beside_upsert(async |db, id| {
        update_retrying(db, id, |row| row.0 == 100, |row| (1, row.1)).await;
    })
    .await;
    let text = opposed(result);
    assert!(text.contains("id = 1 in file "), "{text}");
    assert_eq!(rows, [(1, 11), (200, 2)]);
}

#[tokio::test]
async fn other_keys_are_not_in_the_way() {
    let (result, rows) = beside_upsert(async |db, id| {
        upsert(db, id, &["id"], rows_of(&[(2, 7), (100, 9)])).await;
        insert(db, id, &[(0, 0), (2, 0)]).await;
        update_retrying(db, id, |row| row.0 == 200, |row| (3, row.1)).await;
        // Of another key, so that the sets cannot be compared: decided by reading.
        upsert(db, id, &["n"], rows_of(&[(5, 1)])).await;
        let mut txn = begin(db).await;
        append(&mut txn, id, &[(1, 1)]).await;
        delete(&mut txn, id, |row| row == (1, 1)).await;
        txn.commit().await.unwrap();
    })
    .await;
    assert!(result.unwrap().version.is_some());
    assert_eq!(
        rows,
        [(0, 0), (1, 11), (2, 0), (2, 7), (3, 2), (5, 1), (100, 9)]
    );
}

#[tokio::test]
async fn rows_above_the_budget_count_as_matching() {
    let world = World::new();
    let options = DbOptions {
        evidence_bytes_max: 10,
        ..manual()
    };
    let db = world.create().await;
    let second = Database::open(world.store(), options).await.unwrap();
    let id = create_table(&db, "t").await;
    for (rows, fits) in [(&[(2, 2)][..], true), (&[(0, 0), (2, 2)], false)] {
        let mut txn = begin(&second).await;
        txn.upsert(id, &["id"], once(rows_of(&[(1, 1)])))
            .await
            .unwrap();
        insert(&db, id, rows).await;
        let result = txn.commit().await;
        if fits {
            // The only file cannot hold the key by its statistics.
            result.unwrap();
        } else {
            let text = opposed(result);
            assert!(
                text.contains("more than the 10 that are looked at"),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn more_keys_than_a_record_holds_are_decided_by_reading() {
    let world = World::new();
    let (db, second) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    let many = || columns(vec![("id", longs(0..70_000)), ("n", longs(0..70_000))]);
    for (key, meets) in [(69_999, true), (70_001, false)] {
        // The large one is first, then the small one.
        let mut txn = begin(&db).await;
        txn.upsert(id, &["id"], once(rows_of(&[(key, 0)])))
            .await
            .unwrap();
        upsert(&second, id, &["id"], many()).await;
        assert_eq!(txn.commit().await.is_err(), meets);
        // And the other way round.
        let mut txn = begin(&db).await;
        txn.upsert(id, &["id"], once(many())).await.unwrap();
        upsert(&second, id, &["id"], rows_of(&[(key, 0)])).await;
        assert_eq!(txn.commit().await.is_err(), meets);
    }
}

/// `WRITERS` handles upsert overlapping new keys at once; each key is then there once.
async fn race(columns_of: &[(&str, DataType)], on: &[&str], key: impl Fn(i64) -> Vec<ArrayRef>) {
    const WRITERS: i64 = 16;
    const KEYS: i64 = 4;
    let world = World::new();
    let db = world.create().await;
    let mut all = columns_of.to_vec();
    all.push(("writer", DataType::Long));
    let id = create(&db, table_of("t", &all, &[])).await;
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let db = world.open().await;
        let batches: Vec<RecordBatch> = (0..KEYS)
            .map(|n| {
                let names = columns_of.iter().map(|(name, _)| *name);
                let mut row: Vec<_> = names.zip(key(writer / 4 + n)).collect();
                row.push(("writer", longs([writer])));
                columns(row)
            })
            .collect();
        let on: Vec<String> = on.iter().map(|name| (*name).to_owned()).collect();
        tasks.push(tokio::spawn(async move {
            let on: Vec<&str> = on.iter().map(String::as_str).collect();
            let mut attempts = 0;
            for batch in &batches {
                attempts += upsert_retrying(&db, id, &on, batch).await;
            }
            attempts
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let rows = told(&db, id).await;
    let distinct: std::collections::BTreeSet<_> = rows
        .iter()
        .map(|row| row.split(", writer").next().unwrap().to_owned())
        .collect();
    let keys = WRITERS / 4 - 1 + KEYS;
    assert_eq!(rows.len() as i64, keys, "{rows:#?}");
    assert_eq!(distinct.len() as i64, keys, "{rows:#?}");
    db.publish().await.unwrap();
    assert_clean(&world.open().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_writers_of_the_same_new_integers_insert_each_once() {
    race(&[("id", DataType::Long)], &["id"], |n| vec![longs([n])]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_writers_of_the_same_new_strings_insert_each_once() {
    race(&[("s", DataType::String)], &["s"], |n| {
        vec![texts([format!("k{n}").as_str()])]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_writers_of_the_same_new_floats_insert_each_once() {
    let float = |n: i64| -> ArrayRef {
        let special = [0.0, f64::NAN, f64::INFINITY, -1.5];
        let value = special.get(n as usize).copied().unwrap_or(n as f64 / 3.0);
        // Each writer's zero has its own sign.
        Arc::new(Float64Array::from(vec![if n == 0 {
            -value
        } else {
            value
        }]))
    };
    race(&[("f", DataType::Double)], &["f"], |n| vec![float(n)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_writers_of_the_same_new_composite_keys_insert_each_once() {
    let table = [("a", DataType::Long), ("b", DataType::String)];
    race(&table, &["b", "a"], |n| {
        vec![longs([n % 3]), texts([format!("k{}", n / 3).as_str()])]
    })
    .await;
}

/// Upserts beside plain inserts of the same keys: an insert before the upsert's commit is
/// replaced by it, so each key is there once or was inserted after its upsert.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn upserts_beside_plain_inserts_leave_no_duplicate() {
    const KEYS: i64 = 12;
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let (inserting, upserting) = (world.open().await, world.open().await);
    let inserts = tokio::spawn(async move {
        for key in 0..KEYS {
            insert(&inserting, id, &[(key, 0)]).await;
        }
    });
    let upserts = tokio::spawn(async move {
        // The last round begins when every insert is there.
        let mut last = false;
        loop {
            let keys: Vec<Row> = (0..KEYS).map(|key| (key, 1)).collect();
            upsert_retrying(&upserting, id, &["id"], &rows_of(&keys)).await;
            let rows = rows(&upserting, id).await;
            if last {
                return rows;
            }
            last = inserts.is_finished();
        }
    });
    let rows = upserts.await.unwrap();
    // An insert that came after an upsert of its key is a second row, as it would be if they
    // had run one after the other; an upsert never makes one, and replaces them all.
    assert!(rows.iter().all(|row| row.1 == 1), "{rows:?}");
    let snapshot = db.snapshot().await.unwrap();
    let inserted_late = rows.len() as i64 - KEYS;
    let mut late = 0;
    for version in 1..=snapshot.version().0 {
        let before = db
            .snapshot_at(tarndb_types::DbVersion(version - 1))
            .await
            .unwrap();
        let after = db
            .snapshot_at(tarndb_types::DbVersion(version))
            .await
            .unwrap();
        if before.catalog().table(id).is_none() {
            continue;
        }
        let (before, after) = (rows_at(&before, id).await, rows_at(&after, id).await);
        for (key, _) in after.iter().filter(|row| row.1 == 0) {
            let count = |rows: &[Row]| rows.iter().filter(|row| row.0 == *key).count();
            if !before.contains(&(*key, 0)) && count(&before) > 0 {
                late += 1;
            }
        }
    }
    assert_eq!(inserted_late, late);
}

fn is(column: &str, value: &str) -> Predicate {
    Predicate::Compare {
        column: column.to_owned(),
        op: Comparison::Equal,
        value: Scalar::String(value.to_owned()),
    }
}

#[tokio::test]
async fn an_overwrite_replaces_just_the_rows_that_match() {
    let world = World::new();
    let db = world.create().await;
    let fields = [("p", DataType::String), ("k", DataType::Long)];
    for partitions in [&["p"][..], &[]] {
        let name = format!("t{}", partitions.len());
        let id = create(&db, table_of(&name, &fields, partitions)).await;
        let rows = |rows: &[(&str, i64)]| {
            columns(vec![
                ("p", texts(rows.iter().map(|row| row.0))),
                ("k", longs(rows.iter().map(|row| row.1))),
            ])
        };
        let mut txn = begin(&db).await;
        txn.append(id, once(rows(&[("a", 1), ("b", 2), ("a", 3)])))
            .await
            .unwrap();
        txn.commit().await.unwrap();
        let mut txn = begin(&db).await;
        let given = once(rows(&[("a", 7), ("b", 8)]));
        let error = txn
            .overwrite_where(id, &is("p", "a"), given, false)
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.ends_with("what is overwritten, p = 'a': p = \"b\", k = 8"),
            "{text}"
        );
        assert!(txn.is_read_only());
        let given = once(rows(&[("a", 7)]));
        let report = txn
            .overwrite_where(id, &is("P", "a"), given, false)
            .await
            .unwrap();
        assert_eq!((report.removed, report.added), (2, 1));
        txn.commit().await.unwrap();
        assert_eq!(
            told(&db, id).await,
            ["p = \"a\", k = 7", "p = \"b\", k = 2"]
        );
    }
    db.publish().await.unwrap();
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn an_overwrite_meets_rows_added_and_changed_meanwhile() {
    let world = World::new();
    let (db, second) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1), (2, 2), (3, 3)]).await;
    let small = Predicate::Compare {
        column: "id".to_owned(),
        op: Comparison::LessOrEqual,
        value: Scalar::Long(2),
    };
    // What is outside does not disturb it.
    let mut txn = begin(&db).await;
    txn.overwrite_where(id, &small, once(rows_of(&[(2, 20)])), false)
        .await
        .unwrap();
    insert(&second, id, &[(4, 4)]).await;
    insert(&second, id, &[(-9, 9)]).await;
    let text = opposed(txn.commit().await);
    assert!(
        text.contains("id <= 2") && text.contains("id = -9"),
        "{text}"
    );
    let mut txn = begin(&db).await;
    let report = txn
        .overwrite_where(id, &small, once(rows_of(&[(2, 20)])), false)
        .await
        .unwrap();
    assert_eq!(report.removed, 3);
    insert(&second, id, &[(5, 5)]).await;
    txn.commit().await.unwrap();
    assert_eq!(rows(&db, id).await, [(2, 20), (3, 3), (4, 4), (5, 5)]);
    // A row of it deleted or updated meanwhile.
    let mut txn = begin(&db).await;
    txn.overwrite_where(id, &small, once(rows_of(&[(1, 0)])), false)
        .await
        .unwrap();
    update_retrying(&second, id, |row| row.0 == 2, |row| (2, row.1 + 1)).await;
    opposed(txn.commit().await);
    // A row that comes to match.
    let mut txn = begin(&db).await;
    txn.overwrite_where(id, &small, once(rows_of(&[(1, 0)])), false)
        .await
        .unwrap();
    update_retrying(&second, id, |row| row.0 == 5, |row| (0, row.1)).await;
    opposed(txn.commit().await);
    // Computed from the table: any change of its data counts.
    let mut txn = begin(&db).await;
    txn.overwrite_where(id, &small, once(rows_of(&[(1, 0)])), true)
        .await
        .unwrap();
    insert(&second, id, &[(9, 9)]).await;
    opposed(txn.commit().await);
    let schema = Schema::new(vec![]);
    assert!(small.columns(&schema).is_err());
}
