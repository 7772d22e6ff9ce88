//! Table features: raising, keeping and dropping them, domains, clustering.

use tarndb_db::{CompactOptions, Database, DbOptions, PublishMode};
use tarndb_delta::DeltaState;
use tarndb_table::{DataType, TableState};
use tarndb_types::TableId;

use crate::support::*;

async fn state(db: &Database, id: TableId) -> std::sync::Arc<TableState> {
    db.snapshot().await.unwrap().table(id).await.unwrap()
}

async fn set(db: &Database, id: TableId, key: &str, value: &str) {
    let mut txn = begin(db).await;
    txn.set_property(id, key, Some(value)).await.unwrap();
    txn.commit().await.unwrap();
}

/// Why a feature cannot be dropped.
async fn in_the_way(db: &Database, id: TableId, name: &str) -> String {
    let mut txn = begin(db).await;
    let error = txn.drop_feature(id, name).await.unwrap_err();
    with_causes(&error)
}

/// The error with its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(": {next}"));
        cause = next.source();
    }
    text
}

#[tokio::test]
async fn deletion_vectors_are_dropped_once_no_file_has_one() {
    let db = World::new().create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1), (2, 2)]).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 1).await;
    txn.commit().await.unwrap();
    let name = "deletionVectors";
    assert!(in_the_way(&db, id, name).await.contains("is not false"));
    set(&db, id, "delta.enableDeletionVectors", "false").await;
    let why = in_the_way(&db, id, name).await;
    assert!(why.contains("files with deleted rows: 1"), "{why}");
    let options = CompactOptions {
        all: true,
        ..CompactOptions::default()
    };
    db.compact(id, &options).await.unwrap();
    let mut txn = begin(&db).await;
    txn.drop_feature(id, name).await.unwrap();
    txn.commit().await.unwrap();
    let after = state(&db, id).await;
    let delta = DeltaState::of(&after).unwrap();
    assert_eq!(delta.protocol.min_reader_version, 1);
    assert_eq!(delta.protocol.reader_features, None);
    assert!(!delta.protocol.lists_writer_feature(name));
    assert!(delta.protocol.lists_writer_feature("checkpointProtection"));
    let before = &after.properties["delta.requireCheckpointProtectionBeforeVersion"];
    assert_eq!(*before, after.version.to_string());
    // From now on rows are deleted by writing files anew.
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 2).await;
    txn.commit().await.unwrap();
    assert!(rows(&db, id).await.is_empty());
    assert_clean(&db).await;
}

#[tokio::test]
async fn a_feature_in_use_is_not_dropped_and_the_error_says_by_what() {
    let db = World::new().create().await;
    let columns = [("id", DataType::Long), ("at", DataType::TimestampNtz)];
    let mut table = table_of("t", &columns, &[]);
    for key in [
        "delta.appendOnly",
        "delta.enableRowTracking",
        "delta.enableChangeDataFeed",
    ] {
        table.properties.insert(key.to_owned(), "true".to_owned());
    }
    let id = create(&db, table).await;
    let mut txn = begin(&db).await;
    txn.cluster_by(id, vec![vec!["id".to_owned()]])
        .await
        .unwrap();
    txn.commit().await.unwrap();
    for (name, why) in [
        ("appendOnly", "delta.appendOnly is true"),
        ("rowTracking", "delta.enableRowTracking is true"),
        ("changeDataFeed", "delta.enableChangeDataFeed is true"),
        ("timestampNtz", "column at is of that type"),
        ("clustering", "clustered by id"),
        ("tarndbManaged", "every table of a database"),
        ("domainMetadata", "every table of a database"),
        ("deletionVectors", "does not have the feature"),
        ("nonsense", "does not have the feature"),
    ] {
        let told = in_the_way(&db, id, name).await;
        assert!(told.contains(why), "{name}: {told}");
    }
    set(&db, id, "delta.appendOnly", "false").await;
    let mut txn = begin(&db).await;
    txn.drop_feature(id, "appendOnly").await.unwrap();
    txn.cluster_by(id, Vec::new()).await.unwrap();
    txn.commit().await.unwrap();
    let mut txn = begin(&db).await;
    txn.drop_feature(id, "clustering").await.unwrap();
    txn.commit().await.unwrap();
    let after = state(&db, id).await;
    let protocol = &DeltaState::of(&after).unwrap().protocol;
    assert!(!protocol.lists_writer_feature("appendOnly"));
    assert!(!protocol.lists_writer_feature("clustering"));
    assert!(protocol.lists_writer_feature("rowTracking"));
}

#[tokio::test]
async fn a_writer_beside_a_dropped_feature_looks_again() {
    let world = World::new();
    let (db, other) = (world.create().await, world.open().await);
    let id = create(
        &db,
        table_with("t", "delta.feature.appendOnly", "supported"),
    )
    .await;
    let mut append_first = begin(&other).await;
    append(&mut append_first, id, &[(1, 1)]).await;
    let mut txn = begin(&db).await;
    txn.drop_feature(id, "appendOnly").await.unwrap();
    txn.commit().await.unwrap();
    assert_conflict(append_first.commit().await, true);
}

#[tokio::test]
async fn domains_of_users_are_kept_and_those_of_the_format_refused() {
    let world = World::new();
    let db = world.create().await;
    let mut txn = begin(&db).await;
    let id = txn.create_table("main", new_table("t")).await.unwrap();
    txn.set_domain(id, "app.state", Some("{\"a\":1}"))
        .await
        .unwrap();
    txn.commit().await.unwrap();
    insert(&db, id, &[(1, 1)]).await;
    let mut txn = begin(&db).await;
    for domain in ["delta.rowTracking", "Delta.x", "tarndb", ""] {
        assert!(
            txn.set_domain(id, domain, Some("x")).await.is_err(),
            "{domain}"
        );
    }
    txn.set_domain(id, "app.other", Some("b")).await.unwrap();
    txn.commit().await.unwrap();
    let domain = |state: &TableState, name: &str| {
        let delta = DeltaState::of(state).unwrap();
        delta.domains.get(name).cloned()
    };
    let both = state(&db, id).await;
    assert_eq!(domain(&both, "app.state").as_deref(), Some("{\"a\":1}"));
    assert_eq!(domain(&both, "app.other").as_deref(), Some("b"));
    let mut txn = begin(&db).await;
    txn.set_domain(id, "app.state", None).await.unwrap();
    txn.set_domain(id, "app.never", None).await.unwrap();
    txn.commit().await.unwrap();
    let left = state(&world.open().await, id).await;
    assert_eq!(domain(&left, "app.state"), None);
    assert_eq!(domain(&left, "app.other").as_deref(), Some("b"));
}

#[tokio::test]
async fn clustering_columns_have_statistics_whatever_else_is_said() {
    let db = World::new().create().await;
    let mut table = table_with("t", "delta.dataSkippingNumIndexedCols", "0");
    let codec = ("delta.parquet.compression.codec", "snappy");
    table
        .properties
        .insert(codec.0.to_owned(), codec.1.to_owned());
    let id = create(&db, table).await;
    let mut txn = begin(&db).await;
    txn.cluster_by(id, vec![vec!["N".to_owned()]])
        .await
        .unwrap();
    append(&mut txn, id, &[(1, 7)]).await;
    txn.commit().await.unwrap();
    let after = state(&db, id).await;
    assert_eq!(after.clustering_columns, [["n"]]);
    let file = after.files.values().next().unwrap();
    let indexed = &file.stats.as_ref().unwrap().columns;
    assert_eq!(indexed.keys().collect::<Vec<_>>(), [&vec!["n".to_owned()]]);
    let mut txn = begin(&db).await;
    for bad in [vec!["z"], vec!["id", "ID"]] {
        let columns = bad.into_iter().map(|name| vec![name.to_owned()]).collect();
        assert!(txn.cluster_by(id, columns).await.is_err());
    }
}

#[tokio::test]
async fn a_table_is_checkpointed_as_often_as_its_property_says() {
    let world = World::new();
    let options = DbOptions {
        publish: PublishMode::Sync,
        ..DbOptions::default()
    };
    let db = Database::create(world.store(), options).await.unwrap();
    let id = create(&db, table_with("t", "delta.checkpointInterval", "2")).await;
    for n in 1..=5 {
        insert(&db, id, &[(n, n)]).await;
    }
    db.close().await.unwrap();
    let keys = world.keys("main/t/_delta_log").await;
    let checkpoints: Vec<_> = keys
        .iter()
        .filter(|key| key.contains(".checkpoint."))
        .collect();
    assert_eq!(checkpoints.len(), 2, "{keys:?}");
}
