//! Clones, shallow and deep: what they are made of, and that nobody's change is the other's.

use std::collections::BTreeMap;

use tarndb_db::{
    CloneReport, CloneTable, CompactOptions, Database, DbError, DbOptions, TableTarget,
    Transaction, TxnOptions,
};
use tarndb_delta::DeltaState;
use tarndb_table::{ColumnPath, DataType, MetadataChange, RuleChange};
use tarndb_txn::{Isolation, Operation};
use tarndb_types::{TableId, TableVersion};

use crate::row_history::tracked;
use crate::support::*;
use crate::travel::{five_versions, ids_at};

pub(crate) const KINDS: [bool; 2] = [true, false];

pub(crate) fn version(number: u64) -> TableTarget {
    TableTarget::Version(TableVersion(number))
}

/// Clones a table under a name, in a transaction.
pub(crate) async fn clone_in(
    txn: &mut Transaction,
    source: TableId,
    name: &str,
    shallow: bool,
    target: Option<TableTarget>,
) -> Result<(TableId, CloneReport), DbError> {
    let clone = CloneTable {
        name: name.to_owned(),
        source,
        target,
        shallow,
    };
    txn.clone_table("main", &clone, |_| {}).await
}

pub(crate) async fn clone(db: &Database, source: TableId, name: &str, shallow: bool) -> TableId {
    let mut txn = begin(db).await;
    let (id, _) = clone_in(&mut txn, source, name, shallow, None)
        .await
        .unwrap();
    txn.commit().await.unwrap();
    id
}

/// Files that do not ride in records.
pub(crate) fn stored() -> DbOptions {
    DbOptions {
        inline_file_bytes_max: 0,
        ..manual()
    }
}

async fn data_keys(world: &World, folder: &str) -> Vec<String> {
    let keys = world.keys(folder).await;
    keys.into_iter()
        .filter(|key| key.ends_with(".parquet") || key.ends_with(".bin"))
        .filter(|key| !key.contains("_delta_log"))
        .collect()
}

/// A partitioned table with values that paths escape (BC-17), some rows of which are deleted.
async fn special(db: &Database) -> TableId {
    let columns_of = [("id", DataType::Long), ("p", DataType::String)];
    let id = create(db, table_of("s p%", &columns_of, &["p"])).await;
    let values = [
        "a b",
        "a%2Fb",
        "/a/",
        "..",
        "x=y",
        "\u{fc}\u{1f600}",
        "q?#&+",
    ];
    for round in 0..2 {
        let ids = (0..7).map(|n| n + round * 10);
        let rows = columns(vec![("id", longs(ids)), ("p", texts(values))]);
        let mut txn = begin(db).await;
        txn.append(id, once(rows)).await.unwrap();
        txn.commit().await.unwrap();
    }
    id
}

#[tokio::test]
async fn a_clone_has_the_rows_of_its_source_published_or_not_stored_or_not() {
    for shallow in KINDS {
        for (publish, options) in [
            (false, manual()),
            (true, manual()),
            (false, stored()),
            (true, stored()),
        ] {
            let case = format!("shallow={shallow} publish={publish} {options:?}");
            let world = World::new();
            let db = Database::create(world.store(), options).await.unwrap();
            let source = special(&db).await;
            if publish {
                db.publish().await.unwrap();
            }
            let before = told(&db, source).await;
            assert_eq!(before.len(), 14, "{case}");
            let copy = clone(&db, source, "c", shallow).await;
            assert_eq!(told(&db, copy).await, before, "{case}");
            // Others see the same, from the records and from the published table.
            assert_eq!(told(&world.open().await, copy).await, before, "{case}");
            assert_clean(&db).await;
            db.publish().await.unwrap();
            db.checkpoint().await.unwrap();
            assert_eq!(told(&world.open().await, copy).await, before, "{case}");
            assert_clean(&world.open().await).await;
            let copied = data_keys(&world, "main/c").await;
            let all_stored = publish || db.options().inline_file_bytes_max == 0;
            let shared = shallow && all_stored;
            assert_eq!(copied.is_empty(), shared, "{case}: {copied:?}");
        }
    }
}

#[tokio::test]
async fn deleted_rows_stay_deleted_and_later_deletions_are_each_tables_own() {
    for shallow in KINDS {
        for inline in [true, false] {
            let world = World::new();
            let db = Database::create(world.store(), stored()).await.unwrap();
            let id = create_table(&db, "t").await;
            // Vectors of many rows do not fit into the log.
            let many = if inline { 10 } else { 5000 };
            let all: Vec<Row> = (0..many).map(|n| (n, 0)).collect();
            insert(&db, id, &all).await;
            let mut txn = begin(&db).await;
            delete(&mut txn, id, |row| (row.0 * row.0) % 7 == 2).await;
            txn.commit().await.unwrap();
            let before = rows(&db, id).await;
            let copy = clone(&db, id, "c", shallow).await;
            assert_eq!(rows(&world.open().await, copy).await, before);
            let vectors = data_keys(&world, "main/c").await;
            let vectors = vectors.iter().filter(|key| key.ends_with(".bin")).count();
            assert_eq!(vectors, usize::from(!inline));
            let mut txn = begin(&db).await;
            delete(&mut txn, copy, |row| row.0 < 3).await;
            txn.commit().await.unwrap();
            let mut txn = begin(&db).await;
            delete(&mut txn, id, |row| row.0 == 4 || row.0 == 3).await;
            txn.commit().await.unwrap();
            let kept = |keep: fn(i64) -> bool| -> Vec<Row> {
                let left = before.iter().filter(|row| keep(row.0));
                left.copied().collect()
            };
            let db = world.open().await;
            assert_eq!(rows(&db, copy).await, kept(|id| id >= 3));
            assert_eq!(rows(&db, id).await, kept(|id| id != 4 && id != 3));
            assert_clean(&db).await;
        }
    }
}

#[tokio::test]
async fn the_definition_is_the_sources_but_identity_and_history() {
    for shallow in KINDS {
        let world = World::new();
        let db = world.create().await;
        let mut table = table_with("t", "delta.enableRowTracking", "true");
        table.comment = Some("what it holds".to_owned());
        table.properties.insert("my.own".into(), "kept".into());
        let id = create(&db, table).await;
        insert(&db, id, &[(1, 1), (2, 2)]).await;
        let mut txn = begin(&db).await;
        let add = MetadataChange::Rule(RuleChange::AddConstraint {
            name: "positive".to_owned(),
            expression: "id > 0".to_owned(),
        });
        txn.change_metadata(id, add).await.unwrap();
        let rename = MetadataChange::RenameColumn {
            column: ColumnPath::top("n"),
            to: "m".to_owned(),
        };
        txn.change_metadata(id, rename).await.unwrap();
        txn.commit().await.unwrap();
        insert_renamed(&db, id).await;
        db.publish().await.unwrap();

        let copy = clone(&db, id, "c", shallow).await;
        let snapshot = db.snapshot().await.unwrap();
        let (of, to) = (
            snapshot.table(id).await.unwrap(),
            snapshot.table(copy).await.unwrap(),
        );
        assert_eq!(to.version, TableVersion::ZERO);
        assert_eq!(of.schema, to.schema);
        assert_eq!(of.properties, to.properties);
        assert_eq!(of.description, to.description);
        let (of, to) = (DeltaState::of(&of).unwrap(), DeltaState::of(&to).unwrap());
        assert_eq!(of.protocol, to.protocol);
        assert_ne!(of.metadata.id, to.metadata.id);
        assert_eq!(to.metadata.name.as_deref(), Some("c"));
        let domain = "delta.rowTracking";
        assert_eq!(of.domains.get(domain), to.domains.get(domain));
        // Rows keep their ids, and new ones get others.
        assert_eq!(tracked(&snapshot, id).await, tracked(&snapshot, copy).await);
        insert_renamed(&db, copy).await;
        let snapshot = db.snapshot().await.unwrap();
        let mut ids: Vec<i64> = tracked(&snapshot, copy)
            .await
            .iter()
            .map(|row| row.1)
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids, [0, 1, 2, 3]);
        // The rule holds.
        let mut txn = begin(&db).await;
        let wrong = columns(vec![("id", longs([-1])), ("m", longs([0]))]);
        txn.append(copy, once(wrong)).await.unwrap_err();
        let history = snapshot.table_history(copy, 10).await.unwrap();
        let created = history.last().unwrap();
        assert_eq!(created.operation.as_deref(), Some("CLONE"));
        assert_clean(&world.open().await).await;
    }
}

async fn insert_renamed(db: &Database, id: TableId) {
    let mut txn = begin(db).await;
    let rows = columns(vec![("id", longs([7])), ("m", longs([7]))]);
    txn.append(id, once(rows)).await.unwrap();
    txn.commit().await.unwrap();
}

#[tokio::test]
async fn writes_to_a_clone_go_to_its_own_folder() {
    for shallow in KINDS {
        let world = World::new();
        let db = Database::create(world.store(), stored()).await.unwrap();
        let id = create_table(&db, "t").await;
        for n in 0..4 {
            insert(&db, id, &[(n, n), (n + 10, n)]).await;
        }
        db.publish().await.unwrap();
        let copy = clone(&db, id, "c", shallow).await;
        let (sources, before) = (world.keys("main/t").await, rows(&db, id).await);

        insert(&db, copy, &[(20, 20)]).await;
        let mut txn = begin(&db).await;
        update(&mut txn, copy, |row| row.0 == 1, |row| (row.0, 100)).await;
        txn.commit().await.unwrap();
        let options = CompactOptions {
            all: true,
            ..CompactOptions::default()
        };
        db.compact(copy, &options).await.unwrap();
        let expected: Vec<Row> = [
            (0, 0),
            (1, 100),
            (2, 2),
            (3, 3),
            (10, 0),
            (11, 1),
            (12, 2),
            (13, 3),
            (20, 20),
        ]
        .into();
        assert_eq!(rows(&world.open().await, copy).await, expected);
        assert_eq!(ids_at(&db, copy, version(0)).await.len(), 8);
        let mut txn = begin(&db).await;
        txn.truncate(copy).await.unwrap();
        txn.commit().await.unwrap();
        db.publish().await.unwrap();
        assert_eq!(world.keys("main/t").await, sources);
        assert_eq!(rows(&world.open().await, id).await, before);
        assert_clean(&world.open().await).await;
        assert_eq!(ids_at(&db, copy, version(1)).await.len(), 9);
    }
}

#[tokio::test]
async fn clones_of_clones_and_of_versions() {
    for first in KINDS {
        for second in KINDS {
            let world = World::new();
            let db = Database::create(world.store(), stored()).await.unwrap();
            let id = five_versions(&db).await;
            db.publish().await.unwrap();
            let mut txn = begin(&db).await;
            let target = Some(version(2));
            let (copy, report) = clone_in(&mut txn, id, "c", first, target).await.unwrap();
            txn.commit().await.unwrap();
            assert_eq!((report.version, report.files), (TableVersion(2), 2));
            insert(&db, copy, &[(9, 9)]).await;
            let third = clone(&db, copy, "d", second).await;
            assert_eq!(rows(&db, copy).await, [(1, 1), (2, 2), (9, 9)]);
            assert_eq!(
                rows(&world.open().await, third).await,
                [(1, 1), (2, 2), (9, 9)]
            );
            let bases = |id| {
                let catalog = db.snapshot();
                async move {
                    let snapshot = catalog.await.unwrap();
                    snapshot.entry(id).unwrap().bases.len()
                }
            };
            assert_eq!(bases(copy).await, usize::from(first));
            let of_both = if second { 1 + usize::from(first) } else { 0 };
            assert_eq!(bases(third).await, of_both);
            db.publish().await.unwrap();
            db.checkpoint().await.unwrap();
            let reopened = world.open().await;
            assert_eq!(rows(&reopened, third).await, [(1, 1), (2, 2), (9, 9)]);
            assert_clean(&reopened).await;
        }
    }
}

#[tokio::test]
async fn a_clone_within_a_transaction_sees_its_changes_and_goes_with_it() {
    for shallow in KINDS {
        let world = World::new();
        let db = world.create().await;
        let id = create_table(&db, "t").await;
        let other = create_table(&db, "other").await;
        insert(&db, id, &[(1, 1), (2, 2)]).await;
        let mut txn = begin(&db).await;
        append(&mut txn, id, &[(3, 3)]).await;
        append(&mut txn, other, &[(0, 0)]).await;
        delete(&mut txn, id, |row| row.0 == 1).await;
        let mark = txn.mark();
        clone_in(&mut txn, id, "gone", shallow, None).await.unwrap();
        txn.rewind(mark);
        let (copy, _) = clone_in(&mut txn, id, "c", shallow, None).await.unwrap();
        assert_eq!(rows_in(&txn, copy).await, [(2, 2), (3, 3)]);
        append(&mut txn, copy, &[(4, 4)]).await;
        delete(&mut txn, copy, |row| row.0 == 2).await;
        let (twice, _) = clone_in(&mut txn, copy, "d", shallow, None).await.unwrap();
        txn.commit().await.unwrap();
        let db = world.open().await;
        assert_eq!(rows(&db, id).await, [(2, 2), (3, 3)]);
        assert_eq!(rows(&db, copy).await, [(3, 3), (4, 4)]);
        assert_eq!(rows(&db, twice).await, [(3, 3), (4, 4)]);
        assert_eq!(rows(&db, other).await, [(0, 0)]);
        let snapshot = db.snapshot().await.unwrap();
        assert!(snapshot.catalog().find("main", "gone").is_none());
        assert_clean(&db).await;
    }
}

#[tokio::test]
async fn what_others_do_to_the_source_meanwhile_does_not_matter_unless_it_was_read() {
    for shallow in KINDS {
        for isolation in [Isolation::Snapshot, Isolation::Serializable] {
            let world = World::new();
            let db = world.create().await;
            let id = create_table(&db, "t").await;
            insert(&db, id, &[(1, 1)]).await;
            let options = TxnOptions {
                isolation,
                ..TxnOptions::default()
            };
            let mut txn = db.begin(options).await.unwrap();
            let (copy, _) = clone_in(&mut txn, id, "c", shallow, None).await.unwrap();
            insert(&world.open().await, id, &[(2, 2)]).await;
            match isolation {
                Isolation::Snapshot => {
                    txn.commit().await.unwrap();
                    assert_eq!(rows(&db, copy).await, [(1, 1)]);
                }
                Isolation::Serializable => {
                    assert_conflict(txn.commit().await, true);
                }
            }
            assert_clean(&world.open().await).await;
        }
    }
}

#[tokio::test]
async fn a_name_is_given_once_and_a_dropped_source_leaves_its_rows() {
    for shallow in KINDS {
        let world = World::new();
        let db = world.create().await;
        let id = create_table(&db, "t").await;
        insert(&db, id, &[(1, 1)]).await;
        let other = world.open().await;
        let (mut ours, mut theirs) = (begin(&db).await, begin(&other).await);
        let (copy, _) = clone_in(&mut ours, id, "c", shallow, None).await.unwrap();
        clone_in(&mut theirs, id, "C", shallow, None).await.unwrap();
        let mut late = begin(&db).await;
        clone_in(&mut late, id, "late", shallow, None)
            .await
            .unwrap();
        ours.commit().await.unwrap();
        assert_conflict(theirs.commit().await, false);
        let taken = clone_in(&mut begin(&db).await, id, "c", shallow, None).await;
        assert!(
            matches!(taken, Err(DbError::TableExists { .. })),
            "{taken:?}"
        );

        let mut txn = begin(&db).await;
        txn.drop_table(id).unwrap();
        txn.commit().await.unwrap();
        late.commit().await.unwrap();
        db.publish().await.unwrap();
        let db = world.open().await;
        assert_eq!(rows(&db, copy).await, [(1, 1)]);
        let late = db.snapshot().await.unwrap();
        let late = late.catalog().find("main", "late").unwrap().id;
        assert_eq!(rows(&db, late).await, [(1, 1)]);
        let gone = clone_in(&mut begin(&db).await, id, "x", shallow, None).await;
        assert!(
            matches!(gone, Err(DbError::TableNotFound { .. })),
            "{gone:?}"
        );
        assert_clean(&db).await;
    }
}

/// EX-01: that a table is a clone opens the folders of its bases, and no other.
#[tokio::test]
async fn ex_01_a_clone_is_led_into_its_bases_only_and_others_nowhere() {
    let world = World::new();
    let db = Database::create(world.store(), stored()).await.unwrap();
    let (id, other) = (create_table(&db, "t").await, create_table(&db, "u").await);
    insert(&db, id, &[(1, 1)]).await;
    insert(&db, other, &[(2, 2)]).await;
    let copy = clone(&db, id, "c", true).await;
    let key = record_key(5);
    let record = String::from_utf8(world.get(&key).await.unwrap().to_vec()).unwrap();
    assert!(record.contains(r#""bases":["main/t"]"#), "{record}");
    assert!(record.contains(r#""writerFeatures":["clone"]"#), "{record}");
    let path = data_keys(&world, "main/t").await[0].replace("main/t/", "");
    let named = format!("../../main/t/{path}");
    assert!(record.contains(&named), "{record}");
    assert_eq!(rows(&world.open().await, copy).await, [(1, 1)]);

    // A path that leads elsewhere; a clone without bases; bases that are no table's folder.
    let beside = data_keys(&world, "main/u").await[0].replace("main/u/", "");
    let elsewhere = record.replace(&named, &format!("../../main/u/{beside}"));
    let without = record.replace(r#""bases":["main/t"],"#, "");
    for (forged, opens) in [
        (elsewhere, true),
        (without, true),
        (record.replace(r#"["main/t"]"#, r#"["main"]"#), false),
        (record.replace(r#"["main/t"]"#, r#"["_tarndb/log"]"#), false),
        (record.replace(r#"["main/t"]"#, r#"["../x"]"#), false),
        (record.replace(r#"["main/t"]"#, r#"["main/x"]"#), false),
    ] {
        assert_ne!(forged, record);
        world.put(&key, forged.clone().into_bytes()).await;
        let Ok(db) = world.try_open().await else {
            assert!(!opens, "{forged}");
            continue;
        };
        assert!(opens, "{forged}");
        let state = db.snapshot().await.unwrap().table(copy).await.unwrap();
        let location = db
            .snapshot()
            .await
            .unwrap()
            .entry(copy)
            .unwrap()
            .location
            .clone();
        let file = state.files.values().next().unwrap();
        let refused = file.key(&location).unwrap_err().to_string();
        assert!(refused.contains("../../main/"), "{refused}");
        let report = db.check(false, |_| {}).await.unwrap();
        assert!(!report.is_clean());
    }
}

#[tokio::test]
async fn the_feed_of_a_clone_begins_with_its_rows() {
    for shallow in KINDS {
        let world = World::new();
        let db = Database::create(world.store(), stored()).await.unwrap();
        let id = create(&db, table_with("t", "delta.enableChangeDataFeed", "true")).await;
        insert(&db, id, &[(1, 1), (2, 2)]).await;
        let copy = clone(&db, id, "c", shallow).await;
        let mut txn = begin(&db).await;
        delete(&mut txn, copy, |row| row.0 == 1).await;
        txn.commit().await.unwrap();
        for published in [false, true] {
            if published {
                db.publish().await.unwrap();
            }
            let db = world.open().await;
            let snapshot = db.snapshot().await.unwrap();
            let changes = snapshot
                .table_changes(copy, TableVersion(0), None)
                .await
                .unwrap();
            let batches: Vec<_> = futures::TryStreamExt::try_collect::<Vec<_>>(changes.batches())
                .await
                .unwrap();
            let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
            assert_eq!(rows, 3);
        }
    }
}

#[tokio::test]
async fn metrics_and_parameters_of_a_clone_are_told() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let mut stages = BTreeMap::new();
    let mut txn = begin(&db).await;
    let asked = CloneTable {
        name: "c".to_owned(),
        source: id,
        target: None,
        shallow: false,
    };
    let progress = |told: tarndb_db::Progress| {
        stages.insert(told.done, (told.stage, told.total));
    };
    let (copy, report) = txn.clone_table("main", &asked, progress).await.unwrap();
    txn.commit().await.unwrap();
    assert_eq!((report.files, report.copied_files), (1, 1));
    assert_eq!(
        stages,
        BTreeMap::from([(1, ("main.t".to_owned(), Some(1)))])
    );
    let snapshot = db.snapshot().await.unwrap();
    let history = snapshot.table_history(copy, 1).await.unwrap();
    let told = format!("{:?}", history[0]);
    for part in [
        "CLONE",
        "\"source\": \"main.t\"",
        "\"sourceVersion\": \"1\"",
        "\"isShallow\": \"false\"",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(Operation::Clone.name(), "CLONE");
}

/// The other order, a detach that meets a clone, is in the matrix of `tarndb-txn`.
#[tokio::test]
async fn a_clone_whose_source_is_detached_meanwhile_is_a_conflict_that_says_so() {
    let world = World::new();
    let db = Database::create(world.store(), stored()).await.unwrap();
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let mut cloning = begin(&db).await;
    clone_in(&mut cloning, id, "c", true, None).await.unwrap();
    world.open().await.detach_table(id).await.unwrap();
    let error = cloning.commit().await.unwrap_err();
    let is_retryable = matches!(
        error,
        DbError::Conflict {
            retryable: true,
            ..
        }
    );
    assert!(is_retryable, "{error}");
    assert!(error.to_string().contains("was detached"), "{error}");
    let mut again = begin(&db).await;
    clone_in(&mut again, id, "c", true, None).await.unwrap_err();
}
