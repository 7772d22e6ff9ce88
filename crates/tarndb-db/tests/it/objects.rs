//! Views, tags and tables that come back: records, checkpoints, cleanup, vacuum, conflicts.

use tarndb_db::{Database, DbError, DbOptions, ErrorKind, ObjectError, ViewColumn, ViewDefinition};
use tarndb_types::{DbVersion, TableId};

use crate::cleanup::clean;
use crate::support::*;
use crate::vacuum::{DAY, Scene, vacuum};

fn view(schema: &str, name: &str, query: &str) -> ViewDefinition {
    let column = |name: &str, from: Option<&str>| ViewColumn {
        name: name.to_owned(),
        from: from.map(str::to_owned),
    };
    ViewDefinition {
        schema: schema.to_owned(),
        name: name.to_owned(),
        query: query.to_owned(),
        search_schema: "main".to_owned(),
        columns: vec![column("A", None), column("b", Some("x\u{1}1"))],
        comment: Some("it's \"one\"\n".to_owned()),
    }
}

async fn create_view(db: &Database, view: ViewDefinition, replace: bool) {
    let mut txn = begin(db).await;
    txn.create_view(view, replace).unwrap();
    txn.commit().await.unwrap();
}

async fn record(world: &World, version: u64) -> String {
    let bytes = world.get(&record_key(version)).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn views_outlive_records_and_checkpoints_and_their_names_are_taken() {
    let world = World::new();
    let db = world.create().await;
    create_view(&db, view("MAIN", "V", "SELECT 1"), false).await;
    create_view(&db, view("main", "v", "SELECT 2"), true).await;
    let text = record(&world, 1).await;
    assert!(text.contains("\"writerFeatures\":[\"view\"]"), "{text}");
    let line = text.lines().nth(2).unwrap();
    assert!(
        line.starts_with("{\"createView\":{\"schema\":\"main\",\"name\":\"V\""),
        "{line}"
    );
    let text = record(&world, 2).await;
    assert!(
        text.contains("\"dropView\"") && text.contains("\"CREATE VIEW\""),
        "{text}"
    );

    for checkpointed in [false, true] {
        if checkpointed {
            db.checkpoint().await.unwrap();
        }
        let other = world.open().await;
        let snapshot = other.snapshot().await.unwrap();
        let found = snapshot.catalog().view("Main", "v").unwrap();
        assert_eq!(found.definition, view("main", "v", "SELECT 2"));
        assert_eq!(found.created, DbVersion(2));
        let mut txn = begin(&other).await;
        let error = txn.create_table("main", new_table("V")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_clean(&other).await;
    }
    let mut txn = begin(&db).await;
    txn.create_schema("s").unwrap();
    txn.rename_view(("main", "v"), ("S", "w")).unwrap();
    assert!(matches!(
        txn.drop_schema("s", false),
        Err(DbError::SchemaNotEmpty { tables: 1, .. })
    ));
    txn.commit().await.unwrap();
    let mut txn = begin(&db).await;
    txn.drop_schema("s", true).unwrap();
    txn.commit().await.unwrap();
    let error = begin(&db).await.drop_view("s", "w").unwrap_err();
    assert!(matches!(
        error,
        DbError::Object(ObjectError::ViewNotFound { .. })
    ));
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn two_handles_that_take_one_name_conflict_whatever_it_is_for() {
    let world = World::new();
    let (one, two) = (world.create().await, world.open().await);
    let mut first = begin(&one).await;
    first
        .create_view(view("main", "x", "SELECT 1"), false)
        .unwrap();
    let mut second = begin(&two).await;
    second.create_table("main", new_table("X")).await.unwrap();
    let mut third = begin(&two).await;
    third
        .create_view(view("main", "X", "SELECT 2"), true)
        .unwrap();
    first.commit().await.unwrap();
    let told = assert_conflict(second.commit().await, false);
    assert!(told.contains("the name main.X is taken"), "{told}");
    assert_conflict(third.commit().await, false);
    // Both replace what is there.
    let (mut first, mut second) = (begin(&one).await, begin(&two).await);
    second
        .create_view(view("main", "x", "SELECT 3"), true)
        .unwrap();
    first.drop_view("main", "x").unwrap();
    first.commit().await.unwrap();
    let told = assert_conflict(second.commit().await, false);
    assert!(
        told.contains("the view main.x was dropped or replaced"),
        "{told}"
    );
    // Different names do not meet.
    let (mut first, mut second) = (begin(&one).await, begin(&two).await);
    first
        .create_view(view("main", "p", "SELECT 1"), false)
        .unwrap();
    second
        .create_view(view("main", "q", "SELECT 1"), false)
        .unwrap();
    first.commit().await.unwrap();
    second.commit().await.unwrap();
}

fn options() -> DbOptions {
    DbOptions {
        log_records_min: 3,
        ..crate::vacuum::options()
    }
}

async fn replace(db: &Database, id: TableId, row: Row) {
    let mut txn = begin(db).await;
    txn.truncate(id).await.unwrap();
    append(&mut txn, id, &[row]).await;
    txn.commit().await.unwrap();
}

async fn tag(db: &Database, name: &str, version: u64) -> Result<DbVersion, DbError> {
    let mut txn = begin(db).await;
    txn.create_tag(name, Some(DbVersion(version))).await?;
    Ok(txn.commit().await?.version.unwrap())
}

/// A tag `kept` at version 3, when `t` held (1, 1) and `gone` (7, 7), which was dropped since.
/// A month later nothing else of that time is needed.
async fn tagged(scene: &Scene) -> (Database, TableId, TableId) {
    let db = scene.create_with(options()).await;
    let (id, gone) = (
        create_table(&db, "t").await,
        create_table(&db, "gone").await,
    );
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(1, 1)]).await;
    append(&mut txn, gone, &[(7, 7)]).await;
    txn.commit().await.unwrap();
    tag(&db, "kept", 3).await.unwrap();
    let mut txn = begin(&db).await;
    txn.drop_table(gone).unwrap();
    txn.commit().await.unwrap();
    for n in 2..9 {
        replace(&db, id, (n, n)).await;
        scene.pass(2 * DAY);
    }
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    scene.pass(30 * DAY);
    for n in 9..13 {
        replace(&db, id, (n, n)).await;
    }
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    (db, id, gone)
}

#[tokio::test]
async fn what_a_tag_names_outlives_cleanup_and_vacuum() {
    for checkpointed_first in [false, true] {
        let scene = Scene::new();
        let (db, id, gone) = tagged(&scene).await;
        if checkpointed_first {
            clean(&db).await;
            vacuum(&db).await;
        } else {
            vacuum(&db).await;
            clean(&db).await;
        }
        assert!(scene.world.get(&record_key(3)).await.is_none());
        for reader in [&db, &scene.open_with(options()).await] {
            let then = reader.snapshot_at(DbVersion(3)).await.unwrap();
            assert_eq!(rows_at(&then, id).await, [(1, 1)]);
            assert_eq!(rows_at(&then, gone).await, [(7, 7)]);
            for other in [4, 6] {
                assert!(match reader.snapshot_at(DbVersion(other)).await {
                    Ok(snapshot) => snapshot.table(id).await.is_err(),
                    Err(_) => true,
                });
            }
            assert_clean(reader).await;
        }
        // The table that the tag keeps can come back, and all can go back to it.
        let mut txn = begin(&db).await;
        let report = txn.restore_database(DbVersion(3)).await.unwrap();
        assert_eq!((report.tables_restored, report.tables_undropped), (1, 1));
        txn.commit().await.unwrap();
        assert_eq!(rows(&db, id).await, [(1, 1)]);
        assert_eq!(rows(&db, gone).await, [(7, 7)]);
        assert_clean(&scene.open_with(options()).await).await;
    }
}

#[tokio::test]
async fn without_its_tag_it_goes() {
    let scene = Scene::new();
    let (db, id, gone) = tagged(&scene).await;
    vacuum(&db).await;
    let mut txn = begin(&db).await;
    txn.drop_tag("KEPT").unwrap();
    txn.commit().await.unwrap();
    scene.pass(30 * DAY);
    replace(&db, id, (13, 13)).await;
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    let report = vacuum(&db).await;
    assert!(
        report
            .tables
            .iter()
            .any(|table| table.id == gone && table.dropped)
    );
    clean(&db).await;
    let error = db.snapshot_at(DbVersion(3)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = begin(&db).await.undrop_table("main", "gone").unwrap_err();
    assert!(
        matches!(error, DbError::Object(ObjectError::Purged { .. })),
        "{error}"
    );
    let error = tag(&db, "again", 3).await.unwrap_err();
    assert!(
        matches!(error, DbError::Object(ObjectError::BelowHorizon { .. })),
        "{error}"
    );
    assert_eq!(
        rows(&scene.open_with(options()).await, id).await,
        [(13, 13)]
    );
}

#[tokio::test]
async fn a_vacuum_beside_wins_over_a_tag_and_an_undrop_of_what_it_takes() {
    let scene = Scene::new();
    let db = scene.create_with(options()).await;
    let (id, gone) = (
        create_table(&db, "t").await,
        create_table(&db, "gone").await,
    );
    insert(&db, gone, &[(7, 7)]).await;
    let mut txn = begin(&db).await;
    txn.drop_table(gone).unwrap();
    txn.commit().await.unwrap();
    db.publish().await.unwrap();
    scene.pass(30 * DAY);
    replace(&db, id, (1, 1)).await;
    db.publish().await.unwrap();
    let other = scene.open_with(options()).await;
    let (mut tags, mut undrops) = (begin(&other).await, begin(&other).await);
    tags.create_tag("late", Some(DbVersion(3))).await.unwrap();
    undrops.undrop_table("main", "gone").unwrap();
    vacuum(&db).await;
    let error = tags.commit().await.unwrap_err();
    assert!(
        matches!(error, DbError::Object(ObjectError::BelowHorizon { .. })),
        "{error}"
    );
    let error = undrops.commit().await.unwrap_err();
    assert!(
        matches!(error, DbError::Object(ObjectError::Purged { .. })),
        "{error}"
    );
}

#[tokio::test]
async fn an_undropped_table_is_published_and_read_by_handles_that_saw_it_dropped() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1), (2, 2)]).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row == (1, 1)).await;
    txn.commit().await.unwrap();
    let mut txn = begin(&other).await;
    txn.drop_table(id).unwrap();
    txn.commit().await.unwrap();
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    for txn in [&mut first, &mut second] {
        assert_eq!(txn.undrop_table("MAIN", "T").unwrap(), id);
    }
    delete(&mut first, id, |row| row == (2, 2)).await;
    append(&mut first, id, &[(3, 3)]).await;
    assert_eq!(rows_in(&first, id).await, [(3, 3)]);
    first.commit().await.unwrap();
    let told = assert_conflict(second.commit().await, false);
    assert!(told.contains("main.t"), "{told}");
    let text = record(&world, 5).await;
    assert!(
        text.contains("\"readerFeatures\":[\"inlineFiles\",\"undropTable\"]"),
        "{text}"
    );
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    for reader in [&db, &other, &world.open().await] {
        assert_eq!(rows(reader, id).await, [(3, 3)]);
        assert_clean(reader).await;
    }
}

#[tokio::test]
async fn a_tag_whose_record_was_never_written_leaves_only_a_checkpoint() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let mut txn = begin(&db).await;
    txn.create_tag("x", Some(DbVersion(1))).await.unwrap();
    drop(txn);
    let other = world.open().await;
    assert!(other.snapshot().await.unwrap().catalog().tag("x").is_none());
    assert_eq!(rows(&other, id).await, [(1, 1)]);
    assert_clean(&other).await;
    assert_eq!(tag(&other, "x", 1).await.unwrap(), DbVersion(3));
    // The checkpoint that a tag needs is looked for.
    world
        .delete("_tarndb/checkpoints/00000000000000000001.json.zst")
        .await;
    let report = world.open().await.check(false, |_| {}).await.unwrap();
    assert_eq!(kinds(&report), ["tag.checkpoint"]);
    let told = other
        .version_at(other.snapshot().await.unwrap().timestamp())
        .await;
    assert_eq!(told.unwrap(), DbVersion(3));
}
