//! The conflict matrix end to end: two transactions on one snapshot, the second to commit is
//! judged.

use tarndb_db::{Database, TxnOptions};
use tarndb_table::codec::MetadataChange;
use tarndb_table::{DataType, Field};
use tarndb_txn::Isolation;
use tarndb_types::TableId;

use crate::support::*;

async fn six_rows() -> (World, Database, Database, TableId) {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]).await;
    let other = world.open().await;
    (world, db, other, id)
}

#[tokio::test]
async fn deletions_of_disjoint_rows_of_one_file_are_united() {
    let (world, db, other, id) = six_rows().await;
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    delete(&mut first, id, |row| row.0 <= 2).await;
    delete(&mut second, id, |row| row.0 == 5).await;
    first.commit().await.unwrap();
    let committed = second.commit().await.unwrap();
    assert_eq!(committed.attempts, 2);
    for db in [&db, &other, &world.open().await] {
        assert_eq!(rows(db, id).await, [(3, 3), (4, 4), (6, 6)]);
    }
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    assert_eq!(state.files.len(), 1);
    assert_clean(&db).await;
}

#[tokio::test]
async fn a_union_that_empties_the_file_removes_it() {
    let (world, db, other, id) = six_rows().await;
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    delete(&mut first, id, |row| row.0 <= 3).await;
    delete(&mut second, id, |row| row.0 > 3).await;
    first.commit().await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(rows(&world.open().await, id).await, []);
    let state = other.snapshot().await.unwrap().table(id).await.unwrap();
    assert!(state.files.is_empty());
    assert_clean(&db).await;
}

#[tokio::test]
async fn deletions_of_the_same_row_are_retryable_and_name_it() {
    let (_, db, other, id) = six_rows().await;
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    update(&mut first, id, |row| row.0 == 2, |row| (row.0, 20)).await;
    update(&mut second, id, |row| row.0 == 2, |row| (row.0, 22)).await;
    first.commit().await.unwrap();
    let told = assert_conflict(second.commit().await, true);
    assert!(
        told.contains("main.t") && told.contains("row 1 of file"),
        "{told}"
    );
    assert_eq!(rows(&other, id).await[1], (2, 20));
}

#[tokio::test]
async fn deletion_against_removal_of_the_file_is_retryable() {
    let (_, db, other, id) = six_rows().await;
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    delete(&mut first, id, |_| true).await;
    delete(&mut second, id, |row| row.0 == 1).await;
    first.commit().await.unwrap();
    assert_conflict(second.commit().await, true);
}

#[tokio::test]
async fn appends_go_beside_everything_but_an_overwrite() {
    let (_, db, other, id) = six_rows().await;
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    delete(&mut first, id, |row| row.0 > 1).await;
    append(&mut first, id, &[(7, 7)]).await;
    append(&mut second, id, &[(8, 8)]).await;
    first.commit().await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(rows(&db, id).await, [(1, 1), (7, 7), (8, 8)]);

    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    first.truncate(id).await.unwrap();
    append(&mut second, id, &[(9, 9)]).await;
    first.commit().await.unwrap();
    assert_conflict(second.commit().await, true);
}

#[tokio::test]
async fn an_overwrite_that_read_its_target_is_retryable() {
    let (_, db, other, id) = six_rows().await;
    for source_read_target in [false, true] {
        let (mut first, mut second) = (begin(&db).await, begin(&other).await);
        append(&mut first, id, &[(7, 7)]).await;
        let mut writer = second.writer(id).await.unwrap();
        writer.write(&batch(&[(0, 0)])).await.unwrap();
        let written = writer.finish().await.unwrap();
        second
            .overwrite(id, written, source_read_target)
            .await
            .unwrap();
        first.commit().await.unwrap();
        if source_read_target {
            assert_conflict(second.commit().await, true);
        } else {
            second.commit().await.unwrap();
            assert_eq!(rows(&db, id).await, [(0, 0)]);
        }
    }
}

#[tokio::test]
async fn copy_on_write_conflicts_by_file() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, table_with("t", "tarndb.deletionVectors", "off")).await;
    insert(&db, id, &[(1, 1), (2, 2)]).await;
    insert(&db, id, &[(3, 3), (4, 4)]).await;
    let other = world.open().await;

    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    update(&mut first, id, |row| row.0 == 1, |row| (row.0, 10)).await;
    update(&mut second, id, |row| row.0 == 2, |row| (row.0, 20)).await;
    first.commit().await.unwrap();
    assert_conflict(second.commit().await, true);

    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    update(&mut first, id, |row| row.0 == 1, |row| (row.0, 11)).await;
    update(&mut second, id, |row| row.0 == 3, |row| (row.0, 30)).await;
    first.commit().await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(rows(&db, id).await, [(1, 11), (2, 2), (3, 30), (4, 4)]);
}

/// Runs a metadata change beside the table's first deletion vector; both must survive.
async fn metadata_beside_first_vector(change: MetadataChange, vector_first: bool) {
    let (world, db, other, id) = six_rows().await;
    let (mut vector, mut meta) = (begin(&db).await, begin(&other).await);
    delete(&mut vector, id, |row| row.0 == 1).await;
    meta.change_metadata(id, change.clone()).await.unwrap();
    if vector_first {
        vector.commit().await.unwrap();
        meta.commit().await.unwrap();
    } else {
        meta.commit().await.unwrap();
        vector.commit().await.unwrap();
    }
    let db = world.open().await;
    assert_eq!(rows(&db, id).await.len(), 5);
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    assert_eq!(state.properties["delta.enableDeletionVectors"], "true");
    match change {
        MetadataChange::AddColumn(_) => assert_eq!(state.schema.fields[2].name, "c"),
        _ => assert_eq!(state.properties["k"], "v"),
    }
    assert_clean(&db).await;
}

#[tokio::test]
async fn a_metadata_change_and_the_first_vector_survive_in_both_orders() {
    for vector_first in [true, false] {
        let column = Field::new("c", DataType::String, true);
        metadata_beside_first_vector(MetadataChange::AddColumn(column.into()), vector_first).await;
        let set = MetadataChange::SetProperty {
            key: "k".into(),
            value: "v".into(),
        };
        metadata_beside_first_vector(set, vector_first).await;
    }
}

#[tokio::test]
async fn two_first_vectors_raise_the_table_once() {
    let (_, db, other, id) = six_rows().await;
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    delete(&mut first, id, |row| row.0 == 1).await;
    delete(&mut second, id, |row| row.0 == 2).await;
    assert_eq!(first.commit().await.unwrap().notices.len(), 1);
    assert!(second.commit().await.unwrap().notices.is_empty());
    assert_eq!(rows(&db, id).await.len(), 4);
}

#[tokio::test]
async fn different_values_of_one_property_are_incompatible() {
    let (_, db, other, id) = six_rows().await;
    let set = |value: &str| MetadataChange::SetProperty {
        key: "k".into(),
        value: value.into(),
    };
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    first.change_metadata(id, set("a")).await.unwrap();
    second.change_metadata(id, set("b")).await.unwrap();
    first.commit().await.unwrap();
    assert_conflict(second.commit().await, false);
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    first.change_metadata(id, set("c")).await.unwrap();
    second.change_metadata(id, set("c")).await.unwrap();
    first.commit().await.unwrap();
    second.commit().await.unwrap();
}

#[tokio::test]
async fn one_name_taken_twice_is_incompatible() {
    let (world, db, other, id) = six_rows().await;
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    first.create_table("main", new_table("new")).await.unwrap();
    second.create_table("main", new_table("NEW")).await.unwrap();
    first.commit().await.unwrap();
    let told = assert_conflict(second.commit().await, false);
    assert!(told.contains("CREATE TABLE of main.NEW"), "{told}");

    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    first.create_schema("s").unwrap();
    second.create_schema("S").unwrap();
    first.commit().await.unwrap();
    assert_conflict(second.commit().await, false);

    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    first.rename_table(id, "main", "x").unwrap();
    second.create_table("main", new_table("x")).await.unwrap();
    first.commit().await.unwrap();
    assert_conflict(second.commit().await, false);
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn a_drop_beside_a_write_fails_the_later_and_a_rename_does_not() {
    let (_, db, other, id) = six_rows().await;
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    first.rename_table(id, "main", "renamed").unwrap();
    append(&mut second, id, &[(7, 7)]).await;
    first.commit().await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(rows(&db, id).await.len(), 7);

    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    append(&mut first, id, &[(8, 8)]).await;
    second.drop_table(id).unwrap();
    first.commit().await.unwrap();
    let told = assert_conflict(second.commit().await, false);
    assert!(told.contains("renamed"), "{told}");

    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    first.drop_table(id).unwrap();
    append(&mut second, id, &[(9, 9)]).await;
    first.commit().await.unwrap();
    assert_conflict(second.commit().await, false);
}

#[tokio::test]
async fn write_skew_passes_under_snapshot_and_not_under_serializable() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let world = World::new();
        let db = world.create().await;
        let (a, b) = (create_table(&db, "a").await, create_table(&db, "b").await);
        let options = || TxnOptions {
            isolation,
            ..TxnOptions::default()
        };
        let mut first = db.begin(options()).await.unwrap();
        let mut second = db.begin(options()).await.unwrap();
        first.note_read(b);
        append(&mut first, a, &[(1, 1)]).await;
        second.note_read(a);
        append(&mut second, b, &[(1, 1)]).await;
        first.commit().await.unwrap();
        match isolation {
            Isolation::Snapshot => assert!(second.commit().await.is_ok()),
            Isolation::Serializable => {
                assert_conflict(second.commit().await, true);
            }
        }
    }
}

#[tokio::test]
async fn an_equal_column_added_twice_is_one_column_and_another_type_is_incompatible() {
    let (world, db, other, id) = six_rows().await;
    let column = |data_type| MetadataChange::AddColumn(Field::new("c", data_type, true).into());
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    let mut third = begin(&other).await;
    append(&mut second, id, &[(7, 7)]).await;
    first
        .change_metadata(id, column(DataType::Long))
        .await
        .unwrap();
    second
        .change_metadata(id, column(DataType::Long))
        .await
        .unwrap();
    third
        .change_metadata(id, column(DataType::String))
        .await
        .unwrap();
    first.commit().await.unwrap();
    second.commit().await.unwrap();
    assert_conflict(third.commit().await, false);
    let db = world.open().await;
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    assert_eq!(state.schema.fields.len(), 3);
    assert_eq!(rows(&db, id).await.len(), 7);
}

#[tokio::test]
async fn replacing_a_schema_twice_by_the_same_is_retryable_and_by_another_incompatible() {
    let (world, db, other, id) = six_rows().await;
    let replace = |fields: usize| {
        let mut schema = new_table("t").schema;
        schema.fields.truncate(fields);
        MetadataChange::ReplaceSchema {
            schema,
            partition_columns: Vec::new(),
            seed: tarndb_types::Uuid::nil(),
        }
    };
    for (fields, retryable) in [(2, true), (1, false)] {
        let (mut first, mut second) = (begin(&db).await, begin(&other).await);
        for (txn, fields) in [(&mut first, 2), (&mut second, fields)] {
            txn.truncate(id).await.unwrap();
            txn.change_metadata(id, replace(fields)).await.unwrap();
        }
        append(&mut first, id, &[(7, 7)]).await;
        first.commit().await.unwrap();
        assert_conflict(second.commit().await, retryable);
    }
    assert_eq!(rows(&world.open().await, id).await, [(7, 7)]);
}
