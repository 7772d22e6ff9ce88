//! Damage of every kind: named, located, and nothing lost.

use tarndb_db::record::RecordError;
use tarndb_db::{Database, DbError, DbOptions, ErrorKind, PublishMode};
use tarndb_types::DbVersion;

use crate::support::*;

const HINT: &str = "_tarndb/_last_checkpoint";

fn checkpoint_key(version: u64) -> String {
    format!("_tarndb/checkpoints/{version:020}.json.zst")
}

async fn five_commits() -> (World, tarndb_types::TableId) {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    for n in 0..4 {
        insert(&db, id, &[(n, n)]).await;
    }
    (world, id)
}

/// The record with one text replaced by another.
async fn edit_record(world: &World, version: u64, from: &str, to: &str) {
    let bytes = world.get(&record_key(version)).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.contains(from), "{text}");
    world
        .put(&record_key(version), text.replacen(from, to, 1))
        .await;
}

async fn checked(world: &World) -> Vec<&'static str> {
    let db = world.open().await;
    kinds(&db.check(true, |_| {}).await.unwrap())
}

#[tokio::test]
async fn an_empty_prefix_is_no_database_and_names_init() {
    let error = World::new().try_open().await.unwrap_err();
    assert!(matches!(error, DbError::NotADatabase { .. }));
    assert!(error.to_string().contains("tarndb init"), "{error}");
    let world = World::new();
    world.create().await;
    let twice = Database::create(world.store(), manual()).await.unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn a_hole_in_the_log_names_the_missing_record() {
    let (world, _) = five_commits().await;
    world.delete(&record_key(3)).await;
    let error = world.try_open().await.unwrap_err();
    assert!(
        matches!(
            error,
            DbError::RecordMissing {
                missing: DbVersion(3),
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_hole_below_a_checkpoint_is_no_obstacle_but_check_finds_it() {
    let (world, id) = five_commits().await;
    world.open().await.checkpoint().await.unwrap();
    insert(&world.open().await, id, &[(7, 7)]).await;
    world.open().await.publish().await.unwrap();
    world.open().await.checkpoint().await.unwrap();
    world.delete(&record_key(3)).await;
    assert_eq!(rows(&world.open().await, id).await.len(), 5);
    assert_eq!(checked(&world).await, ["log.gap"]);
}

#[tokio::test]
async fn torn_empty_and_foreign_records_are_refused_with_their_name() {
    let (world, id) = five_commits().await;
    let whole = world.get(&record_key(5)).await.unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        world.put(&record_key(5), whole.slice(..cut)).await;
        let error = world.try_open().await.unwrap_err();
        let DbError::RecordDamaged { key, source } = error else {
            panic!("{error}")
        };
        assert!(key.contains("00005"), "{key}");
        if cut > 0 {
            assert!(matches!(source, RecordError::Torn { .. }), "{source}");
        }
    }
    world.put(&record_key(5), "hello\n").await;
    let error = world.try_open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    world.put(&record_key(5), whole).await;
    assert_eq!(rows(&world.open().await, id).await.len(), 4);
}

#[tokio::test]
async fn records_that_break_an_invariant_are_refused() {
    for (from, to) in [
        ("\"record\":{\"version\":4", "\"record\":{\"version\":5"),
        (
            "\",\"version\":3,\"actions\"",
            "\",\"version\":4,\"actions\"",
        ),
    ] {
        let (world, _) = five_commits().await;
        edit_record(&world, 4, from, to).await;
        let error = world.try_open().await.unwrap_err();
        assert!(
            matches!(
                error,
                DbError::Invariant {
                    version: DbVersion(4),
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_path_that_leaves_the_root_is_refused() {
    for location in [
        "../t",
        "/etc",
        "main/../../t",
        "_tarndb/log",
        "s3://b/t",
        "a\\\\b",
        "main//t",
    ] {
        let world = World::new();
        let db = world.create().await;
        create_table(&db, "t").await;
        let to = format!("\"location\":\"{location}\"");
        edit_record(&world, 1, "\"location\":\"main/t\"", &to).await;
        let error = world.try_open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{location}: {error}");
    }
}

#[tokio::test]
async fn unknown_features_and_actions_are_refused_by_name() {
    let (world, id) = five_commits().await;
    edit_record(
        &world,
        5,
        "\"readerFeatures\":[\"inlineFiles\"]",
        "\"readerFeatures\":[\"inlineFiles\",\"new\"]",
    )
    .await;
    let error = world.try_open().await.unwrap_err();
    assert!(matches!(&error, DbError::UnknownReaderFeature { feature, .. } if feature == "new"));
    edit_record(
        &world,
        5,
        "\"readerFeatures\":[\"inlineFiles\",\"new\"]",
        "\"readerFeatures\":[\"inlineFiles\"]",
    )
    .await;

    edit_record(
        &world,
        5,
        "\"writerFeatures\":[]",
        "\"writerFeatures\":[\"new\"]",
    )
    .await;
    let db = world.open().await;
    assert_eq!(rows(&db, id).await.len(), 4);
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(9, 9)]).await;
    let error = txn.commit().await.unwrap_err();
    assert!(matches!(&error, DbError::UnknownWriterFeature { feature, .. } if feature == "new"));
    assert_eq!(
        db.publish().await.unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    assert_eq!(
        db.checkpoint().await.unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    edit_record(
        &world,
        5,
        "\"writerFeatures\":[\"new\"]",
        "\"writerFeatures\":[]",
    )
    .await;

    let record = world.get(&record_key(5)).await.unwrap();
    let mut text = String::from_utf8(record.to_vec()).unwrap();
    text.push_str("{\"setProperty\":{\"name\":\"x\"}}\n");
    world.put(&record_key(5), text).await;
    let db = world.open().await;
    assert_eq!(rows(&db, id).await.len(), 4);
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(9, 9)]).await;
    let error = txn.commit().await.unwrap_err();
    assert!(matches!(&error, DbError::UnknownAction { action, .. } if action == "setProperty"));
}

#[tokio::test]
async fn hints_may_lie_in_every_way() {
    let (world, id) = five_commits().await;
    world.open().await.checkpoint().await.unwrap();
    insert(&world.open().await, id, &[(7, 7)]).await;
    for hint in [
        "{\"version\":3}",
        "{\"version\":999}",
        "{\"ver",
        "",
        "{\"version\":-1}",
        "[]",
    ] {
        world.put(HINT, hint).await;
        assert_eq!(rows(&world.open().await, id).await.len(), 5, "{hint}");
        assert_eq!(checked(&world).await, ["hint.wrong"], "{hint}");
    }
    world.delete(HINT).await;
    assert_eq!(rows(&world.open().await, id).await.len(), 5);
    assert_eq!(checked(&world).await, Vec::<&str>::new());
}

#[tokio::test]
async fn a_damaged_checkpoint_is_left_aside() {
    let (world, id) = five_commits().await;
    world.open().await.checkpoint().await.unwrap();
    let whole = world.get(&checkpoint_key(5)).await.unwrap();
    let mut flipped = zstd::decode_all(whole.as_ref()).unwrap();
    let at = flipped.len() / 2;
    flipped[at] ^= 1;
    let flipped = zstd::encode_all(flipped.as_slice(), 3).unwrap();
    for bytes in [
        whole.slice(..whole.len() - 5),
        whole.slice(..0),
        flipped.into(),
    ] {
        world.put(&checkpoint_key(5), bytes).await;
        assert_eq!(rows(&world.open().await, id).await.len(), 4);
        assert_eq!(checked(&world).await, ["checkpoint.unusable", "hint.wrong"]);
    }
}

#[tokio::test]
async fn a_checkpoint_that_lies_is_found_by_check() {
    let (world, id) = five_commits().await;
    let db = world.open().await;
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    // A well-formed one of another history: the same database, its table renamed.
    let other = World::new();
    for key in world.keys("").await {
        other.put(&key, world.get(&key).await.unwrap()).await;
    }
    other.delete(&record_key(5)).await;
    other.delete(&checkpoint_key(5)).await;
    other.delete(HINT).await;
    let liar = other.open().await;
    let mut txn = begin(&liar).await;
    txn.rename_table(id, "main", "lie").unwrap();
    txn.commit().await.unwrap();
    liar.checkpoint().await.unwrap();
    world
        .put(
            &checkpoint_key(5),
            other.get(&checkpoint_key(5)).await.unwrap(),
        )
        .await;
    assert!(checked(&world).await.contains(&"checkpoint.differs"));
}

#[tokio::test]
async fn a_table_checkpoint_that_lies_is_found_by_check() {
    let world = World::new();
    let options = DbOptions {
        publish: PublishMode::Sync,
        table_checkpoint_interval: 3,
        ..DbOptions::default()
    };
    let db = Database::create(world.store(), options).await.unwrap();
    let id = create_table(&db, "t").await;
    for n in 0..7 {
        insert(&db, id, &[(n, n)]).await;
    }
    db.close().await.unwrap();
    assert_eq!(checked(&world).await, Vec::<&str>::new());
    // One that lacks the last three files, and one that has a file too many.
    let key = |version| format!("main/t/_delta_log/{version:020}.checkpoint.parquet");
    let (third, sixth) = (key(3), key(6));
    let (old, new) = (
        world.get(&third).await.unwrap(),
        world.get(&sixth).await.unwrap(),
    );
    world.put(&sixth, old).await;
    assert!(checked(&world).await.contains(&"table.checkpoint"));
    world.put(&sixth, new.clone()).await;
    world.put(&third, new).await;
    assert_eq!(checked(&world).await, ["table.checkpoint"]);
}

#[tokio::test]
async fn damage_of_files_is_found() {
    let (world, id) = five_commits().await;
    let db = world.open().await;
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(10, 10), (11, 11)]).await;
    txn.commit().await.unwrap();
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 10).await;
    txn.commit().await.unwrap();
    db.publish().await.unwrap();
    assert_eq!(checked(&world).await, Vec::<&str>::new());

    let files: Vec<String> = world
        .keys("main/t")
        .await
        .into_iter()
        .filter(|key| key.ends_with(".parquet") && !key.contains("_delta_log"))
        .collect();
    let whole = world.get(&files[0]).await.unwrap();
    world.delete(&files[0]).await;
    assert_eq!(checked(&world).await, ["file.missing"]);
    world.put(&files[0], whole.slice(..whole.len() - 1)).await;
    assert_eq!(checked(&world).await, ["file.size"]);
    let mut broken = whole.to_vec();
    let end = broken.len() - 12;
    broken[end..].fill(0);
    world.put(&files[0], broken).await;
    assert_eq!(checked(&world).await, ["file.unreadable"]);
    world.put(&files[0], whole).await;

    let key = "main/t/_delta_log/00000000000000000003.json";
    let whole = world.get(key).await.unwrap();
    world.put(key, whole.slice(..whole.len() - 1)).await;
    assert!(checked(&world).await.contains(&"published.differs"));
    world.delete(key).await;
    assert!(checked(&world).await.contains(&"published.missing"));
    world.put(key, whole).await;
    world
        .put("main/t/_delta_log/00000000000000000099.json", "{}\n")
        .await;
    assert_eq!(checked(&world).await, ["published.foreign"]);
}

#[tokio::test]
async fn wrong_statistics_are_found_by_a_deep_check() {
    let (world, _) = five_commits().await;
    let db = world.open().await;
    for (from, to, kind) in [
        ("\\\"numRecords\\\":1", "\\\"numRecords\\\":2", "stats.rows"),
        (
            "\\\"nullCount\\\":{\\\"id\\\":0",
            "\\\"nullCount\\\":{\\\"id\\\":1",
            "stats.nulls",
        ),
        (
            "\\\"maxValues\\\":{\\\"id\\\":3",
            "\\\"maxValues\\\":{\\\"id\\\":2",
            "stats.bounds",
        ),
    ] {
        let whole = world.get(&record_key(5)).await.unwrap();
        edit_record(&world, 5, from, to).await;
        let found = checked(&world).await;
        assert_eq!(found, [kind]);
        assert!(
            world
                .open()
                .await
                .check(false, |_| {})
                .await
                .unwrap()
                .is_clean()
        );
        world.put(&record_key(5), whole).await;
    }
    assert_clean(&db).await;
}
