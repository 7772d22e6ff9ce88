//! What a serializable transaction read, against what others commit meanwhile.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use tarndb_db::{CompactOptions, Database, DbError, DbOptions, Transaction, TxnOptions};
use tarndb_table::{Comparison, DataType, Predicate, RowPredicate, Scalar};
use tarndb_txn::{Isolation, Operation};
use tarndb_types::TableId;

use crate::support::*;

pub(crate) fn compare(column: &str, op: Comparison, value: i64) -> Predicate {
    Predicate::Compare {
        column: column.to_owned(),
        op,
        value: Scalar::Long(value),
    }
}

fn equals(column: &str, value: i64) -> Predicate {
    compare(column, Comparison::Equal, value)
}

fn below(column: &str, value: i64) -> Predicate {
    compare(column, Comparison::Less, value)
}

fn reads(txn: &mut Transaction, id: TableId, predicate: Predicate) {
    let predicate: Arc<dyn RowPredicate> = Arc::new(predicate);
    txn.note_read_where(id, predicate);
}

pub(crate) async fn begin_at(db: &Database, isolation: Isolation) -> Transaction {
    let options = TxnOptions {
        isolation,
        ..TxnOptions::default()
    };
    db.begin(options).await.unwrap()
}

async fn begin_serializable(db: &Database) -> Transaction {
    begin_at(db, Isolation::Serializable).await
}

/// A transaction that read the rows of `predicate` in a table of ten rows `(n, n)` in two files
/// and wrote elsewhere, while others did `meanwhile`: the conflict, if there was one.
async fn beside(
    predicate: Predicate,
    meanwhile: impl AsyncFnOnce(&Database, TableId),
) -> Option<String> {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let (read, written) = (create_table(&db, "r").await, create_table(&db, "w").await);
    let rows: Vec<Row> = (0..10).map(|n| (n, n)).collect();
    insert(&db, read, &rows[..5]).await;
    insert(&db, read, &rows[5..]).await;
    let mut txn = begin_serializable(&db).await;
    reads(&mut txn, read, predicate);
    append(&mut txn, written, &[(1, 1)]).await;
    meanwhile(&other, read).await;
    match txn.commit().await {
        Ok(_) => {
            assert_clean(&db).await;
            None
        }
        result => Some(assert_conflict(result, true)),
    }
}

/// Two doctors on call, one row in each of two tables: each goes off call when the other is on.
async fn doctors(isolation: Isolation) -> (usize, Vec<Row>) {
    let world = World::new();
    let handles = [world.create().await, world.open().await];
    let db = &handles[0];
    let ids = [create_table(db, "a").await, create_table(db, "b").await];
    for id in ids {
        insert(db, id, &[(7, 1)]).await;
    }
    let mut txns = Vec::new();
    for (who, handle) in handles.iter().enumerate() {
        let mut txn = begin_at(handle, isolation).await;
        let (own, partner) = (ids[who], ids[1 - who]);
        assert_eq!(rows_in(&txn, partner).await, [(7, 1)]);
        reads(&mut txn, partner, equals("id", 7));
        update(&mut txn, own, |row| row.0 == 7, |row| (row.0, 0)).await;
        txns.push(txn);
    }
    let mut committed = 0;
    for txn in txns {
        match txn.commit().await {
            Ok(_) => committed += 1,
            result => {
                let text = assert_conflict(result, true);
                assert!(text.contains("id = 7 in file "), "{text}");
            }
        }
    }
    let mut all = rows(db, ids[0]).await;
    all.extend(rows(db, ids[1]).await);
    (committed, all)
}

#[tokio::test]
async fn write_skew_across_two_tables_is_possible_under_snapshot() {
    assert_eq!(
        doctors(Isolation::Snapshot).await,
        (2, vec![(7, 0), (7, 0)])
    );
}

#[tokio::test]
async fn write_skew_across_two_tables_is_impossible_under_serializable() {
    assert_eq!(
        doctors(Isolation::Serializable).await,
        (1, vec![(7, 0), (7, 1)])
    );
}

#[tokio::test]
async fn disjoint_predicates_across_two_tables_do_not_conflict() {
    let world = World::new();
    let handles = [world.create().await, world.open().await];
    let db = &handles[0];
    let ids = [create_table(db, "a").await, create_table(db, "b").await];
    for id in ids {
        insert(db, id, &[(1, 1), (2, 2)]).await;
    }
    let mut txns = [
        begin_serializable(&handles[0]).await,
        begin_serializable(&handles[1]).await,
    ];
    // Each reads of the other's table the row that the other leaves alone, in the same file.
    for (who, txn) in txns.iter_mut().enumerate() {
        let (row, own, partner) = (who as i64 + 1, ids[who], ids[1 - who]);
        reads(txn, partner, equals("id", row));
        reads(txn, own, equals("id", row));
        update(txn, own, |at| at.0 == row, |at| (at.0, 9)).await;
    }
    for txn in txns {
        txn.commit().await.unwrap();
    }
    assert_eq!(rows(db, ids[0]).await, [(1, 9), (2, 2)]);
    assert_eq!(rows(db, ids[1]).await, [(1, 1), (2, 9)]);
}

#[tokio::test]
async fn a_phantom_insert_conflicts_and_one_outside_of_the_predicate_does_not() {
    let text = beside(below("n", 5), async |db, id| {
        insert(db, id, &[(77, 4), (78, 90)]).await;
    })
    .await;
    let text = text.expect("a phantom");
    assert!(text.contains("n = 4 in file "), "{text}");
    assert!(text.contains("was added and matches n < 5"), "{text}");
    // The file's bounds hold the predicate, its rows do not.
    let text = beside(equals("n", 50), async |db, id| {
        insert(db, id, &[(1, 40), (2, 60)]).await;
    });
    assert_eq!(text.await, None);
}

#[tokio::test]
async fn a_row_deleted_conflicts_with_who_read_it_and_not_with_who_read_its_neighbour() {
    let delete_3 = async |db: &Database, id| {
        let mut txn = begin(db).await;
        delete(&mut txn, id, |row| row.0 == 3).await;
        txn.commit().await.unwrap();
    };
    let text = beside(equals("n", 3), delete_3).await;
    let text = text.expect("a row that was read");
    assert!(text.contains("n = 3 in file "), "{text}");
    assert!(text.contains("was deleted and matches n = 3"), "{text}");
    assert_eq!(beside(equals("n", 2), delete_3).await, None);
    // A second deletion in the same file is told from the first.
    let text = beside(equals("n", 3), async |db, id| {
        for n in [2, 4] {
            let mut txn = begin(db).await;
            delete(&mut txn, id, |row| row.0 == n).await;
            txn.commit().await.unwrap();
        }
    });
    assert_eq!(text.await, None);
}

#[tokio::test]
async fn a_file_dropped_whole_counts_as_its_live_rows() {
    let drop_first = async |db: &Database, id| {
        let mut txn = begin(db).await;
        delete(&mut txn, id, |row| row.0 == 1).await;
        txn.commit().await.unwrap();
        let mut txn = begin(db).await;
        delete(&mut txn, id, |row| row.0 < 5).await;
        txn.commit().await.unwrap();
    };
    assert!(beside(equals("n", 3), drop_first).await.is_some());
    assert_eq!(beside(equals("n", 7), drop_first).await, None);
    let truncate = async |db: &Database, id| {
        let mut txn = begin(db).await;
        txn.truncate(id).await.unwrap();
        txn.commit().await.unwrap();
    };
    assert!(beside(equals("n", 7), truncate).await.is_some());
    assert_eq!(beside(equals("n", 77), truncate).await, None);
}

#[tokio::test]
async fn an_update_conflicts_by_the_row_before_and_by_the_row_after() {
    let into = async |db: &Database, id| {
        update_retrying(db, id, |row| row.0 == 3, |row| (row.0, 33)).await;
    };
    let text = beside(equals("n", 33), into).await.expect("moved into");
    assert!(text.contains("was added"), "{text}");
    let text = beside(equals("n", 3), into).await.expect("moved out");
    assert!(text.contains("was deleted"), "{text}");
    assert_eq!(beside(equals("n", 4), into).await, None);
    // The predicate does not name the column that changed, so the row is still one that was read.
    assert!(beside(equals("id", 3), into).await.is_some());
}

#[tokio::test]
async fn an_unknown_comparison_is_no_match_and_is_null_is_one() {
    let with_null = async |db: &Database, id| {
        let n: ArrayRef = Arc::new(Int64Array::from(vec![None::<i64>]));
        let mut txn = begin(db).await;
        txn.append(id, once(columns(vec![("id", longs([50])), ("n", n)])))
            .await
            .unwrap();
        txn.commit().await.unwrap();
    };
    let not_three = compare("n", Comparison::NotEqual, 3);
    assert_eq!(beside(not_three, with_null).await, None);
    let is_null = Predicate::IsNull("n".to_owned());
    let text = beside(is_null.clone(), with_null).await.expect("a NULL");
    assert!(text.contains("n = NULL in file "), "{text}");
    // NULL OR true is true.
    let either = Predicate::Or(vec![equals("n", 3), equals("id", 50)]);
    assert!(beside(either, with_null).await.is_some());
    let both = Predicate::And(vec![equals("n", 3), equals("id", 50)]);
    assert_eq!(beside(both, with_null).await, None);
    let text = beside(is_null, async |db, id| {
        insert(db, id, &[(50, 50)]).await;
    });
    assert_eq!(text.await, None);
}

#[tokio::test]
async fn compaction_is_no_change_of_what_was_read() {
    let text = beside(below("n", 100), async |db, id| {
        let options = CompactOptions {
            all: true,
            ..CompactOptions::default()
        };
        let report = db.compact(id, &options).await.unwrap();
        assert_eq!(report.files_before, 2, "{report:?}");
    });
    assert_eq!(text.await, None);
}

#[tokio::test]
async fn a_table_noted_as_read_whole_conflicts_with_any_change_of_its_data() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let (read, written) = (create_table(&db, "r").await, create_table(&db, "w").await);
    let mut txn = begin_serializable(&db).await;
    reads(&mut txn, read, equals("n", 1));
    txn.note_read(read);
    reads(&mut txn, read, equals("n", 2));
    append(&mut txn, written, &[(1, 1)]).await;
    insert(&other, read, &[(9, 9)]).await;
    let text = assert_conflict(txn.commit().await, true);
    assert!(text.contains("read the table"), "{text}");
}

#[tokio::test]
async fn very_many_predicates_count_as_the_whole_table() {
    for (count, conflicts) in [(100, false), (1000, true)] {
        let world = World::new();
        let (db, other) = (world.create().await, world.open().await);
        let (read, written) = (create_table(&db, "r").await, create_table(&db, "w").await);
        let mut txn = begin_serializable(&db).await;
        for n in 0..count {
            reads(&mut txn, read, equals("n", n));
            // Noted twice, kept once.
            reads(&mut txn, read, equals("n", 0));
        }
        append(&mut txn, written, &[(1, 1)]).await;
        insert(&other, read, &[(9, 5000)]).await;
        assert_eq!(txn.commit().await.is_err(), conflicts, "{count}");
    }
}

#[tokio::test]
async fn reading_only_never_fails() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    let mut txn = begin_serializable(&db).await;
    reads(&mut txn, id, below("n", 100));
    txn.note_read(id);
    insert(&other, id, &[(1, 1)]).await;
    assert_eq!(txn.commit().await.unwrap().version, None);
}

#[tokio::test]
async fn going_back_to_a_mark_does_not_forget_what_was_read() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let (read, written) = (create_table(&db, "r").await, create_table(&db, "w").await);
    let mut txn = begin_serializable(&db).await;
    let mark = txn.mark();
    reads(&mut txn, read, equals("n", 1));
    txn.rewind(mark);
    append(&mut txn, written, &[(1, 1)]).await;
    insert(&other, read, &[(1, 1)]).await;
    assert_conflict(txn.commit().await, true);
}

/// A table partitioned by `p` with one file in each of two partitions, another to write to, and
/// handles of which only the first judges.
async fn partitioned(options: DbOptions) -> (Database, Database, TableId, TableId) {
    let world = World::new();
    drop(world.create().await);
    // Files in the record would cost no requests.
    let stored = |options| DbOptions {
        inline_file_bytes_max: 0,
        ..options
    };
    let db = Database::open(world.store(), stored(options))
        .await
        .unwrap();
    let other = Database::open(world.store(), stored(manual()))
        .await
        .unwrap();
    let fields = [("p", DataType::Long), ("n", DataType::Long)];
    let read = create(&other, table_of("r", &fields, &["p"])).await;
    let written = create_table(&other, "w").await;
    add_to(&other, read, 1, 0..4).await;
    add_to(&other, read, 2, 0..4).await;
    (db, other, read, written)
}

async fn add_to(db: &Database, id: TableId, p: i64, rows: std::ops::Range<i64>) {
    let mut txn = begin(db).await;
    let ps = longs(rows.clone().map(|_| p));
    let batch = columns(vec![("p", ps), ("n", longs(rows))]);
    txn.append(id, once(batch)).await.unwrap();
    txn.commit().await.unwrap();
}

#[tokio::test]
async fn files_excluded_by_partition_or_statistics_are_not_asked_for() {
    let excluded = [
        (equals("p", 1), false),
        (equals("n", 1000), false),
        (Predicate::And(vec![equals("p", 2), equals("n", 12)]), true),
    ];
    for (predicate, asks) in excluded {
        let (db, other, read, written) = partitioned(manual()).await;
        let mut txn = begin_serializable(&db).await;
        reads(&mut txn, read, predicate.clone());
        append(&mut txn, written, &[(1, 1)]).await;
        // Known already are the state at the snapshot and the records of its tables.
        txn.table(read).await.unwrap();
        // Rows 10 and 13 around the one that is looked for.
        let mut theirs = begin(&other).await;
        let batch = columns(vec![("p", longs([2, 2])), ("n", longs([10, 13]))]);
        theirs.append(read, once(batch)).await.unwrap();
        let state = theirs.table(read).await.unwrap();
        let of_2 = |path: &String| path.contains("p=2");
        let file = state.files.paths().find(of_2).unwrap();
        let row = [(file, tarndb_table::RowSet::from_iter([0_u64]))];
        theirs
            .delete_rows(read, row.into(), Operation::Delete)
            .await
            .unwrap();
        theirs.commit().await.unwrap();
        db.snapshot().await.unwrap();
        let before = db.store().meter().counts();
        txn.commit().await.unwrap();
        let cost = db.store().meter().counts() - before;
        assert_eq!(cost.get_range + cost.head + cost.list > 0, asks, "{cost}");
    }
}

async fn conflict_under_budget(bytes: u64) -> Result<(), String> {
    let options = DbOptions {
        serializable_read_budget_bytes: bytes,
        ..manual()
    };
    let (db, other, read, written) = partitioned(options).await;
    let mut txn = begin_serializable(&db).await;
    reads(&mut txn, read, equals("n", 50));
    append(&mut txn, written, &[(1, 1)]).await;
    for _ in 0..2 {
        let mut theirs = begin(&other).await;
        let batch = columns(vec![("p", longs([3, 3])), ("n", longs([40, 60]))]);
        theirs.append(read, once(batch)).await.unwrap();
        theirs.commit().await.unwrap();
    }
    match txn.commit().await {
        Ok(_) => Ok(()),
        Err(DbError::Conflict {
            retryable: true,
            conflict,
            ..
        }) => Err(conflict.to_string()),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn rows_above_the_budget_count_as_read_and_the_error_says_how_many_bytes() {
    assert_eq!(conflict_under_budget(1 << 20).await, Ok(()));
    let text = conflict_under_budget(10).await.unwrap_err();
    assert!(
        text.contains("of the budget of 10 bytes 10 are left"),
        "{text}"
    );
    // The budget is that of the whole commit: two looks of this size are too much.
    let takes = text.split("takes ").nth(1).unwrap();
    let takes: u64 = takes.split(' ').next().unwrap().parse().unwrap();
    assert!((11..1000).contains(&takes), "{text}");
    assert_eq!(conflict_under_budget(2 * takes).await, Ok(()));
    let text = conflict_under_budget(2 * takes - 1).await.unwrap_err();
    assert!(text.contains(&format!("{} are left", takes - 1)), "{text}");
}
