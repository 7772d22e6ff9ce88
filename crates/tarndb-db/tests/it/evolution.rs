//! Columns renamed, dropped, added again and widened, alone and beside writers.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StructArray, new_null_array};
use futures::TryStreamExt as _;
use tarndb_db::{CompactOptions, Database, DbError, NewTable, Transaction};
use tarndb_table::parquet::read::{ReadOptions, read_file_rows};
use tarndb_table::{ColumnPath, DataType, Field, NewColumn, Position, RowSet, Schema};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use crate::support::*;

fn path(text: &str) -> ColumnPath {
    ColumnPath::new(text.split('/').map(str::to_owned).collect()).unwrap()
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::String, true)
}

/// Two handles of one world with a table of six rows.
async fn six_rows() -> (World, Database, Database, TableId) {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1), (2, 2), (3, 3)]).await;
    insert(&db, id, &[(4, 4), (5, 5), (6, 6)]).await;
    let other = world.open().await;
    (world, db, other, id)
}

async fn files(db: &Database, id: TableId) -> Vec<String> {
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    state.files.values().map(|file| file.path.clone()).collect()
}

async fn names(db: &Database, id: TableId) -> Vec<String> {
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    let fields = state.schema.fields.iter();
    fields.map(|field| field.name.clone()).collect()
}

#[tokio::test]
async fn renamed_dropped_and_added_again_columns_rewrite_nothing() {
    let (world, db, _, id) = six_rows().await;
    let before: Vec<_> = files(&db, id).await;
    let mut txn = begin(&db).await;
    txn.rename_column(id, path("n"), "m").await.unwrap();
    txn.drop_column(id, path("id")).await.unwrap();
    txn.add_column(id, Field::new("id", DataType::Long, true))
        .await
        .unwrap();
    let notices = txn.commit().await.unwrap().notices;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("columnMapping"), "{notices:?}");
    for db in [&db, &world.open().await] {
        assert_eq!(names(db, id).await, ["m", "id"]);
        let rows = told(db, id).await;
        assert_eq!(rows[0], "m = 1, id = NULL");
        assert_eq!(rows.len(), 6);
    }
    assert_eq!(files(&db, id).await, before);
    // By position: m, id.
    insert(&db, id, &[(7, 70)]).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 2).await;
    txn.commit().await.unwrap();
    db.compact(id, &CompactOptions::default()).await.unwrap();
    let rows = told(&world.open().await, id).await;
    assert_eq!(
        rows,
        [
            "m = 1, id = NULL",
            "m = 3, id = NULL",
            "m = 4, id = NULL",
            "m = 5, id = NULL",
            "m = 6, id = NULL",
            "m = 7, id = 70"
        ]
    );
    assert_clean(&db).await;
}

/// What somebody does to the rows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Write {
    Append,
    Delete,
    Update,
    Upsert,
    Overwrite,
    Compact,
}

/// What somebody does to the columns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Rename,
    Drop,
    RenameAndAdd,
    Require,
    Relax,
    Add,
    Widen,
}

const WRITES: [Write; 6] = [
    Write::Append,
    Write::Delete,
    Write::Update,
    Write::Upsert,
    Write::Overwrite,
    Write::Compact,
];
const CHANGES: [Change; 7] = [
    Change::Rename,
    Change::Drop,
    Change::RenameAndAdd,
    Change::Require,
    Change::Relax,
    Change::Add,
    Change::Widen,
];

/// Rows in the columns that the table has now: `n` is what it was, whatever it is called.
async fn batch_of(txn: &Transaction, id: TableId, rows: &[Row]) -> RecordBatch {
    let schema = Arc::clone(&txn.table(id).await.unwrap().schema);
    let renamed = schema.field("m").is_some();
    let columns = schema.fields.iter().map(|field| -> ArrayRef {
        match field.name.as_str() {
            "id" => longs(rows.iter().map(|row| row.0)),
            "m" | "n" if field.name == "m" || !renamed => {
                let values = longs(rows.iter().map(|row| row.1));
                arrow::compute::cast(&values, &field.data_type.to_arrow()).unwrap()
            }
            _ => new_null_array(&field.data_type.to_arrow(), rows.len()),
        }
    });
    RecordBatch::try_new(schema.to_arrow(), columns.collect()).unwrap()
}

async fn write(txn: &mut Transaction, id: TableId, write: Write) {
    match write {
        Write::Append => {
            let batch = batch_of(txn, id, &[(7, 70)]).await;
            txn.append(id, once(batch)).await.unwrap();
        }
        Write::Delete => delete_ids(txn, id, |id| id == 2).await,
        Write::Update => {
            delete_ids(txn, id, |id| id == 3).await;
            let batch = batch_of(txn, id, &[(3, 33)]).await;
            txn.append(id, once(batch)).await.unwrap();
        }
        Write::Upsert => {
            let batch = batch_of(txn, id, &[(4, 44), (8, 80)]).await;
            txn.upsert(id, &["id"], once(batch)).await.unwrap();
        }
        Write::Overwrite => {
            let batch = batch_of(txn, id, &[(9, 90)]).await;
            let mut writer = txn.writer(id).await.unwrap();
            writer.write(&batch).await.unwrap();
            let written = writer.finish().await.unwrap();
            txn.overwrite(id, written, false).await.unwrap();
        }
        Write::Compact => unreachable!("a compaction is no transaction of the caller"),
    }
}

async fn delete_ids(txn: &mut Transaction, id: TableId, matches: impl Fn(i64) -> bool) {
    let state = txn.table(id).await.unwrap();
    let location = txn.location(id).unwrap();
    let ids = Schema::new(vec![state.schema.field("id").unwrap().1.clone()]);
    let mut positions: BTreeMap<String, RowSet> = BTreeMap::new();
    for file in state.files.values() {
        let deleted = txn.deleted_rows(id, &file.deletion).await.unwrap();
        let mut rows = read_file_rows(
            txn.snapshot().database().store(),
            &location,
            &file,
            &ids,
            &state.partition_columns,
            Some(&deleted),
            ReadOptions::default(),
        )
        .await
        .unwrap();
        while let Some(live) = rows.try_next().await.unwrap() {
            let found = live.batch.column(0).as_primitive::<Int64Type>();
            for (at, position) in live.positions.iter().enumerate() {
                if matches(found.value(at)) {
                    let rows = positions.entry(file.path.clone()).or_default();
                    rows.insert(*position);
                }
            }
        }
    }
    txn.delete_rows(id, positions, Operation::Delete)
        .await
        .unwrap();
}

fn wide() -> DataType {
    DataType::Decimal {
        precision: 20,
        scale: 0,
    }
}

async fn change(txn: &mut Transaction, id: TableId, change: Change) {
    match change {
        Change::Rename => txn.rename_column(id, path("n"), "m").await.unwrap(),
        Change::Drop => txn.drop_column(id, path("n")).await.unwrap(),
        Change::RenameAndAdd => {
            txn.rename_column(id, path("n"), "m").await.unwrap();
            txn.add_column(id, text("n")).await.unwrap();
        }
        Change::Require => txn.set_nullable(id, path("n"), false).await.unwrap(),
        Change::Relax => txn.set_nullable(id, path("id"), true).await.unwrap(),
        Change::Add => txn.add_column(id, text("c")).await.unwrap(),
        Change::Widen => txn.widen_column(id, path("n"), wide()).await.unwrap(),
    }
}

/// A world with six rows; `mapped`: columns are mapped already.
async fn world(mapped: bool) -> (World, Database, Database, TableId) {
    let (world, db, _, id) = six_rows().await;
    if mapped {
        let mut txn = begin(&db).await;
        txn.set_property(id, "delta.columnMapping.mode", Some("name"))
            .await
            .unwrap();
        txn.commit().await.unwrap();
        insert(&db, id, &[(10, 100)]).await;
    }
    let other = world.open().await;
    (world, db, other, id)
}

/// What both come to, one after the other.
async fn one_after_the_other(mapped: bool, w: Write, c: Change, write_first: bool) -> Vec<String> {
    let (_, db, _, id) = world(mapped).await;
    for is_write in [write_first, !write_first] {
        let mut txn = begin(&db).await;
        match (is_write, w) {
            (true, Write::Compact) => {
                db.compact(id, &CompactOptions::default()).await.unwrap();
                continue;
            }
            (true, w) => write(&mut txn, id, w).await,
            (false, _) => change(&mut txn, id, c).await,
        }
        txn.commit().await.unwrap();
    }
    told(&db, id).await
}

/// Both on one snapshot; the second is run again when it is told to. Whether it was.
async fn beside_each_other(mapped: bool, w: Write, c: Change, write_first: bool) -> bool {
    let case = format!("mapped={mapped} {w:?} {c:?} write_first={write_first}");
    let expected = one_after_the_other(mapped, w, c, write_first).await;
    let (world, db, other, id) = world(mapped).await;
    let mut changing = begin(&other).await;
    change(&mut changing, id, c).await;
    let options = CompactOptions::default();
    let (result, is_write) = if w == Write::Compact {
        let rewritten = db.rewrite(id, &options).await.unwrap().unwrap();
        if write_first {
            db.commit_rewrite(rewritten).await.unwrap();
            (changing.commit().await, false)
        } else {
            changing.commit().await.unwrap();
            (db.commit_rewrite(rewritten).await, true)
        }
    } else {
        let mut writing = begin(&db).await;
        write(&mut writing, id, w).await;
        if write_first {
            writing.commit().await.unwrap();
            (changing.commit().await, false)
        } else {
            changing.commit().await.unwrap();
            (writing.commit().await, true)
        }
    };
    let again = match result {
        Ok(_) => false,
        Err(error) => {
            assert!(error.is_retryable(), "{case}: {error}");
            let mut txn = begin(&db).await;
            if !is_write {
                change(&mut txn, id, c).await;
            } else if w != Write::Compact {
                write(&mut txn, id, w).await;
            }
            txn.commit().await.unwrap();
            true
        }
    };
    assert_eq!(told(&world.open().await, id).await, expected, "{case}");
    assert_clean(&db).await;
    again
}

#[tokio::test]
async fn writers_and_changes_of_columns_meet_as_if_one_came_after_the_other() {
    let mut again = Vec::new();
    for mapped in [false, true] {
        for write in WRITES {
            for change in CHANGES {
                for write_first in [true, false] {
                    if beside_each_other(mapped, write, change, write_first).await {
                        again.push(format!(
                            "{}{change:?} {} {write:?}",
                            if mapped { "mapped: " } else { "" },
                            if write_first { "after" } else { "before" }
                        ));
                    }
                }
            }
        }
    }
    expect_test::expect![[r#"
        Require after Append
        Require before Append
        Widen after Append
        Widen before Append
        Require before Delete
        Widen after Delete
        Widen before Delete
        Require after Update
        Require before Update
        Widen after Update
        Widen before Update
        Rename before Upsert
        Drop before Upsert
        RenameAndAdd before Upsert
        Require after Upsert
        Require before Upsert
        Widen after Upsert
        Widen before Upsert
        Require after Overwrite
        Require before Overwrite
        Widen after Overwrite
        Widen before Overwrite
        Require before Compact
        Widen before Compact
        mapped: Require after Append
        mapped: Require before Append
        mapped: Widen after Append
        mapped: Widen before Append
        mapped: Require before Delete
        mapped: Widen after Delete
        mapped: Widen before Delete
        mapped: Require after Update
        mapped: Require before Update
        mapped: Widen after Update
        mapped: Widen before Update
        mapped: Rename before Upsert
        mapped: Drop before Upsert
        mapped: RenameAndAdd before Upsert
        mapped: Require after Upsert
        mapped: Require before Upsert
        mapped: Widen after Upsert
        mapped: Widen before Upsert
        mapped: Require after Overwrite
        mapped: Require before Overwrite
        mapped: Widen after Overwrite
        mapped: Widen before Overwrite
        mapped: Require before Compact
        mapped: Widen before Compact
    "#]]
    .assert_eq(&(again.join("\n") + "\n"));
}

/// Ours adds a column and fills it; theirs maps the columns meanwhile, or adds another one.
#[tokio::test]
async fn files_written_for_a_column_that_is_mapped_otherwise_are_written_again() {
    for theirs_adds in [false, true] {
        for (mode, first_adds) in [("none", false), ("name", true), ("id", true)] {
            let world = World::new();
            let db = world.create().await;
            let table = table_with("t", "delta.columnMapping.mode", mode);
            let id = create(&db, table).await;
            insert(&db, id, &[(1, 1)]).await;
            let (mut ours, mut theirs) = (begin(&db).await, begin(&db).await);
            if first_adds {
                // The files are there before the column.
                append(&mut ours, id, &[(2, 2)]).await;
            }
            ours.add_column(id, text("c")).await.unwrap();
            let row = columns(vec![
                ("id", longs([3])),
                ("n", longs([3])),
                ("c", texts(["x"])),
            ]);
            ours.append(id, once(row)).await.unwrap();
            if theirs_adds {
                theirs.add_column(id, text("d")).await.unwrap();
            } else {
                theirs.rename_column(id, path("n"), "m").await.unwrap();
            }
            theirs.commit().await.unwrap();
            let result = ours.commit().await;
            // Unmapped, two columns go beside each other; by name, only numbers would differ.
            let outdated = (mode == "none") != theirs_adds || mode != "none" && theirs_adds;
            match result {
                Err(DbError::FilesOutdated { column, .. }) => {
                    assert!(outdated, "{mode} {theirs_adds}");
                    assert_eq!(column, "c");
                }
                Ok(_) => {
                    assert!(!outdated, "{mode} {theirs_adds}");
                    let rows = told(&db, id).await;
                    assert!(rows.iter().any(|row| row.contains("c = \"x\"")), "{rows:?}");
                }
                Err(error) => panic!("{mode} {theirs_adds}: {error}"),
            }
            assert_clean(&db).await;
        }
    }
}

#[tokio::test]
async fn equal_changes_of_two_transactions_are_one() {
    let (_, db, other, id) = six_rows().await;
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    for txn in [&mut first, &mut second] {
        txn.rename_column(id, path("n"), "m").await.unwrap();
        txn.drop_column(id, path("id")).await.unwrap();
    }
    second.add_column(id, text("c")).await.unwrap();
    first.commit().await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(names(&db, id).await, ["m", "c"]);
    assert_clean(&db).await;
    // Different ones are for somebody to decide.
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    first.rename_column(id, path("m"), "x").await.unwrap();
    second.drop_column(id, path("m")).await.unwrap();
    first.commit().await.unwrap();
    assert_conflict(second.commit().await, false);
}

#[tokio::test]
async fn a_table_changes_in_the_transaction_that_creates_and_fills_it() {
    for mode in ["none", "name", "id"] {
        let world = World::new();
        let db = world.create().await;
        let mut txn = begin(&db).await;
        let table = table_with("t", "delta.columnMapping.mode", mode);
        let id = txn.create_table("main", table).await.unwrap();
        append(&mut txn, id, &[(1, 10)]).await;
        txn.rename_column(id, path("n"), "m").await.unwrap();
        let first = NewColumn {
            position: Position::First,
            ..text("n").into()
        };
        txn.add_column_at(id, first).await.unwrap();
        let row = columns(vec![
            ("n", texts(["x"])),
            ("id", longs([2])),
            ("m", longs([20])),
        ]);
        txn.append(id, once(row)).await.unwrap();
        txn.commit().await.unwrap();
        let expected = ["n = NULL, id = 1, m = 10", "n = \"x\", id = 2, m = 20"];
        let mut rows = told(&world.open().await, id).await;
        rows.reverse();
        assert_eq!(rows, expected, "{mode}");
        assert_clean(&db).await;
    }
}

#[tokio::test]
async fn widened_columns_are_read_from_files_of_any_type_they_had() {
    let world = World::new();
    let db = world.create().await;
    let types = [
        ("i", DataType::Integer),
        ("f", DataType::Float),
        ("p", DataType::Short),
    ];
    let id = create(&db, table_of("t", &types, &["p"])).await;
    let row = columns(vec![
        ("i", longs([i64::from(i32::MAX), -1])),
        ("f", longs([1, 2])),
        ("p", longs([7, 8])),
    ]);
    let mut txn = begin(&db).await;
    txn.append(id, once(row)).await.unwrap();
    txn.commit().await.unwrap();
    let mut txn = begin(&db).await;
    for (column, to) in [
        ("i", DataType::Long),
        ("f", DataType::Double),
        ("p", DataType::Long),
        ("i", wide()),
    ] {
        txn.widen_column(id, path(column), to).await.unwrap();
    }
    // Both in one transaction, and the new rows in the new types.
    let row = columns(vec![
        ("i", longs([i64::MAX])),
        ("f", longs([3])),
        ("p", longs([i64::MIN])),
    ]);
    txn.append(id, once(row)).await.unwrap();
    let notices = txn.commit().await.unwrap().notices;
    assert!(
        notices.iter().any(|notice| notice.contains("typeWidening")),
        "{notices:?}"
    );
    let expected = [
        "i = -1, f = 2.0, p = 8",
        "i = 2147483647, f = 1.0, p = 7",
        "i = 9223372036854775807, f = 3.0, p = -9223372036854775808",
    ];
    assert_eq!(told(&world.open().await, id).await, expected);
    let all = CompactOptions {
        all: true,
        ..CompactOptions::default()
    };
    db.compact(id, &all).await.unwrap();
    db.publish().await.unwrap();
    assert_eq!(told(&world.open().await, id).await, expected);
    let mut txn = begin(&db).await;
    txn.widen_column(id, path("i"), DataType::Long)
        .await
        .unwrap_err();
    assert_clean(&db).await;
}

#[tokio::test]
async fn not_null_is_set_only_where_no_row_has_null() {
    let world = World::new();
    let db = world.create().await;
    let inner = DataType::Struct(vec![Field::new("x", DataType::Long, true)]);
    let columns = [("p", DataType::String), ("a", DataType::Long), ("s", inner)];
    let table: NewTable = table_of("t", &columns, &["p"]);
    let id = create(&db, table).await;
    let schema = db.snapshot().await.unwrap().table(id).await.unwrap();
    let xs = Int64Array::from(vec![Some(1), None, None]);
    let fields = vec![Arc::new(arrow_schema::Field::new(
        "x",
        arrow_schema::DataType::Int64,
        true,
    ))];
    let valid = arrow::buffer::NullBuffer::from(vec![true, true, false]);
    let structs = StructArray::new(fields.into(), vec![Arc::new(xs)], Some(valid));
    let batch = RecordBatch::try_new(
        schema.schema.to_arrow(),
        vec![
            texts(["u", "v", "v"]),
            Arc::new(Int64Array::from(vec![Some(1), Some(2), None])),
            Arc::new(structs),
        ],
    )
    .unwrap();
    let mut txn = begin(&db).await;
    txn.append(id, once(batch)).await.unwrap();
    txn.commit().await.unwrap();
    let mut txn = begin(&db).await;
    for column in ["a", "s/x", "s"] {
        let error = txn.set_nullable(id, path(column), false).await.unwrap_err();
        let told = format!("{error:?}");
        assert!(told.contains(&column.replace('/', ".")), "{column}: {told}");
    }
    txn.set_nullable(id, path("p"), false).await.unwrap();
    // Without the row that has NULL in all of them but x.
    let state = txn.table(id).await.unwrap();
    let file = state
        .files
        .values()
        .find(|file| file.num_records() == Some(2))
        .unwrap();
    let rows = BTreeMap::from([(file.path.clone(), RowSet::from_iter([1]))]);
    txn.delete_rows(id, rows, Operation::Delete).await.unwrap();
    // Readers meet what is deleted.
    let error = txn.set_nullable(id, path("a"), false).await.unwrap_err();
    assert!(matches!(error, DbError::NullInDeletedRow { .. }), "{error}");
    txn.commit().await.unwrap();
    let all = CompactOptions {
        all: true,
        ..CompactOptions::default()
    };
    db.compact(id, &all).await.unwrap();
    let mut txn = begin(&db).await;
    txn.set_nullable(id, path("a"), false).await.unwrap();
    txn.set_nullable(id, path("s"), false).await.unwrap();
    let error = txn.set_nullable(id, path("s/x"), false).await.unwrap_err();
    assert!(format!("{error:?}").contains("s.x"), "{error}");
    txn.commit().await.unwrap();
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    let nullable = |name| state.schema.field(name).unwrap().1.nullable;
    assert_eq!(
        (nullable("p"), nullable("a"), nullable("s")),
        (false, false, false)
    );
    assert_clean(&db).await;
}
