//! Schemas, tables, names and locations.

use tarndb_db::{DbError, ErrorKind};
use tarndb_table::codec::MetadataChange;
use tarndb_table::{DataType, Field};

use crate::support::*;

#[tokio::test]
async fn create_drop_and_rename_follow_names_without_case() {
    let world = World::new();
    let db = world.create().await;
    let mut txn = begin(&db).await;
    txn.create_schema("Sales").unwrap();
    assert!(matches!(
        txn.create_schema("sales"),
        Err(DbError::SchemaExists { .. })
    ));
    let id = txn
        .create_table("SALES", new_table("Orders"))
        .await
        .unwrap();
    append(&mut txn, id, &[(1, 1)]).await;
    let twice = txn
        .create_table("Sales", new_table("ORDERS"))
        .await
        .unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::AlreadyExists);
    txn.commit().await.unwrap();

    let db = world.open().await;
    let snapshot = db.snapshot().await.unwrap();
    let entry = snapshot.find("sALES", "oRDERS").unwrap();
    assert_eq!(
        (entry.schema.as_str(), entry.name.as_str()),
        ("Sales", "Orders")
    );
    assert_eq!(entry.location.as_ref(), "Sales/Orders");

    let mut txn = begin(&db).await;
    txn.rename_table(id, "main", "x").unwrap();
    txn.drop_schema("sales", false).unwrap();
    txn.commit().await.unwrap();
    assert_eq!(rows(&world.open().await, id).await, [(1, 1)]);

    let mut txn = begin(&db).await;
    txn.drop_table(id).unwrap();
    assert!(txn.catalog().find("main", "x").is_none());
    txn.commit().await.unwrap();
    let error = db.snapshot().await.unwrap().find("main", "x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn a_schema_with_tables_goes_only_by_cascade() {
    let world = World::new();
    let db = world.create().await;
    let mut txn = begin(&db).await;
    txn.create_schema("s").unwrap();
    txn.create_table("s", new_table("a")).await.unwrap();
    txn.commit().await.unwrap();
    let mut txn = begin(&db).await;
    let refused = txn.drop_schema("s", false).unwrap_err();
    assert!(matches!(refused, DbError::SchemaNotEmpty { tables: 1, .. }));
    txn.drop_schema("s", true).unwrap();
    txn.commit().await.unwrap();
    let snapshot = world.open().await.snapshot().await.unwrap();
    assert!(snapshot.catalog().schema("s").is_none());
}

#[tokio::test]
async fn a_location_is_never_used_again() {
    let world = World::new();
    let db = world.create().await;
    let first = create_table(&db, "t").await;
    let mut txn = begin(&db).await;
    txn.drop_table(first).unwrap();
    // Replaced in the same transaction: OR REPLACE.
    let second = txn.create_table("main", new_table("T")).await.unwrap();
    append(&mut txn, second, &[(1, 1)]).await;
    txn.commit().await.unwrap();
    let snapshot = db.snapshot().await.unwrap();
    let location = snapshot.entry(second).unwrap().location.to_string();
    let suffix = location.strip_prefix("main/T-").unwrap();
    assert!(
        suffix.len() == 8 && suffix.bytes().all(|b| b.is_ascii_hexdigit()),
        "{location}"
    );
    assert_eq!(rows(&db, second).await, [(1, 1)]);

    // A folder with anything in it is not taken either.
    world.put("main/u/stray", "x").await;
    let third = create_table(&db, "u").await;
    let snapshot = db.snapshot().await.unwrap();
    assert!(
        snapshot
            .entry(third)
            .unwrap()
            .location
            .as_ref()
            .starts_with("main/u-")
    );
}

#[tokio::test]
async fn odd_names_make_safe_locations() {
    let world = World::new();
    let db = world.create().await;
    for (name, location) in [
        ("../x", "main/%2E.%2Fx"),
        ("_t", "main/%5Ft"),
        ("a b", "main/a%20b"),
        ("Gr\u{f6}\u{df}e", "main/Gr%C3%B6%C3%9Fe"),
        ("a_b.c-d", "main/a_b.c-d"),
    ] {
        let id = create_table(&db, name).await;
        insert(&db, id, &[(1, 1)]).await;
        let snapshot = db.snapshot().await.unwrap();
        assert_eq!(snapshot.entry(id).unwrap().location.as_ref(), location);
        assert_eq!(rows(&world.open().await, id).await, [(1, 1)], "{name}");
    }
    for bad in ["", " x", "a\nb", &"x".repeat(300)] {
        let error = begin(&db)
            .await
            .create_table("main", new_table(bad))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{bad:?}");
    }
    db.publish().await.unwrap();
    assert_clean(&world.open().await).await;
}

#[tokio::test]
async fn what_is_created_and_dropped_in_one_transaction_leaves_no_trace() {
    let world = World::new();
    let db = world.create().await;
    let mut txn = begin(&db).await;
    let id = txn.create_table("main", new_table("t")).await.unwrap();
    append(&mut txn, id, &[(1, 1)]).await;
    txn.rename_table(id, "main", "u").unwrap();
    txn.drop_table(id).unwrap();
    assert!(txn.is_read_only());
    assert_eq!(txn.commit().await.unwrap().version, None);
}

#[tokio::test]
async fn metadata_changes_show_at_once_and_stay() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let mut txn = begin(&db).await;
    let field = Field::new("extra", DataType::String, true);
    txn.change_metadata(id, MetadataChange::AddColumn(field.into()))
        .await
        .unwrap();
    let set = MetadataChange::SetProperty {
        key: "k".into(),
        value: "v".into(),
    };
    txn.change_metadata(id, set).await.unwrap();
    let text = Some("words".to_owned());
    txn.change_metadata(id, MetadataChange::SetComment { column: None, text })
        .await
        .unwrap();
    assert_eq!(txn.table(id).await.unwrap().schema.fields.len(), 3);
    txn.commit().await.unwrap();
    let state = world
        .open()
        .await
        .snapshot()
        .await
        .unwrap()
        .table(id)
        .await
        .unwrap();
    assert_eq!(state.schema.fields[2].name, "extra");
    assert_eq!(state.properties["k"], "v");
    assert_eq!(state.description.as_deref(), Some("words"));
    assert_eq!(rows(&db, id).await, [(1, 1)]);

    // Of a table that is being created it becomes part of the definition.
    let mut txn = begin(&db).await;
    let made = txn.create_table("main", new_table("u")).await.unwrap();
    let field = Field::new("extra", DataType::String, true);
    txn.change_metadata(made, MetadataChange::AddColumn(field.into()))
        .await
        .unwrap();
    txn.commit().await.unwrap();
    let state = db.snapshot().await.unwrap().table(made).await.unwrap();
    assert_eq!((state.version.0, state.schema.fields.len()), (0, 3));
}
