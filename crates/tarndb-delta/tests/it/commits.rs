//! Loading, checkpoints and effects over tables that the codec itself committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use tarndb_delta::{DeltaState, NativeTarget, open_native};
use tarndb_table::*;
use tarndb_txn::{
    ConfigEffect, Operation, OverwriteKind, Removal, RowSet, SchemaEffect, TableEffects, Touched,
};

use crate::support::{Table, Work, file};

/// Same table, whatever way it was loaded. Raw statistics may be absent on one side only for
/// files not yet in a log.
#[track_caller]
fn assert_same(found: &TableState, expected: &TableState) {
    assert_eq!(found.version, expected.version);
    assert_eq!(found.files, expected.files);
    assert_eq!(found.schema, expected.schema);
    assert_eq!(found.properties, expected.properties);
    assert_eq!(found.in_commit_timestamp, expected.in_commit_timestamp);
    assert_eq!(found.app_txns, expected.app_txns);
    let (found, expected) = (
        DeltaState::of(found).unwrap(),
        DeltaState::of(expected).unwrap(),
    );
    assert_eq!(found.protocol, expected.protocol);
    assert_eq!(found.metadata, expected.metadata);
    assert_eq!(found.domains, expected.domains);
    let keys = |state: &DeltaState| state.tombstones.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(found), keys(expected));
}

async fn delete(table: &mut Table, path: &str, rows: impl IntoIterator<Item = u64>) {
    let old = table.file(path);
    let before = table
        .codec
        .load_deletion(&table.store, &table.location, &old.deletion)
        .await;
    let mut all = before.unwrap().as_ref().clone();
    all.extend(rows);
    let stored = table
        .codec
        .store_deletions(&table.store, &table.location, &[Arc::new(all)])
        .await
        .unwrap()
        .remove(0);
    let updates = vec![FileUpdate {
        old,
        new: Some(stored),
    }];
    table.commit(Work {
        operation: "DELETE",
        updates,
        ..Work::default()
    });
}

async fn sample() -> Table {
    let mut table = Table::create();
    let adds = vec![file("a b", 10), file("b", 100_000), file("c", 5)];
    table.commit(Work {
        operation: "WRITE",
        adds,
        ..Work::default()
    });
    delete(&mut table, "a b", [3, 7]).await;
    delete(&mut table, "b", (0..50_000).step_by(7)).await;
    let removes = vec![table.file("c")];
    table.commit(Work {
        operation: "DELETE",
        removes,
        ..Work::default()
    });
    let metadata = vec![MetadataChange::AddColumn(
        Field::new("x", DataType::String, true).into(),
    )];
    table.commit(Work {
        operation: "ADD COLUMNS",
        metadata,
        ..Work::default()
    });
    table
}

async fn effects(table: &Table, version: usize, rows_for: &[&str]) -> TableEffects {
    let rows_for: BTreeSet<String> = rows_for.iter().map(|path| (*path).to_owned()).collect();
    table
        .codec
        .effects(
            &table.store,
            &table.location,
            &table.entries[version],
            &rows_for,
        )
        .await
        .unwrap()
}

#[tokio::test]
async fn every_split_between_own_log_and_database_log_loads_the_same_state() {
    let table = sample().await;
    let last = table.entries.len() as u64 - 1;
    table.publish(last).await;
    let expected = table.load(last, None, &table.entries).await.unwrap();
    assert_same(&expected, table.state());
    for published in 0..=last {
        let tail = &table.entries[published as usize + 1..];
        assert_same(
            &table.load(last, Some(published), tail).await.unwrap(),
            &expected,
        );
    }
    let early = table.load(2, Some(last), &[]).await.unwrap();
    assert_eq!(early.live_rows(), Some(100_013));
    let error = table
        .load(last, Some(2), &table.entries[4..])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("do not meet"), "{error}");
    assert!(table.load(last, None, &table.entries[1..]).await.is_err());
}

#[tokio::test]
async fn copy_of_the_database_wins_over_a_published_file_and_nothing_above_is_read() {
    let table = sample().await;
    let last = table.entries.len() as u64 - 1;
    table.publish(last).await;
    table
        .put("00000000000000000003.json", b"{\"intruder\":")
        .await;
    table.put("00000000000000000006.json", b"garbage").await;
    table
        .put("00000000000000000007.checkpoint.parquet", b"garbage")
        .await;
    table
        .put("_last_checkpoint", b"{\"version\":7,\"size\":1}")
        .await;
    let found = table
        .load(last, Some(last), &table.entries[3..4])
        .await
        .unwrap();
    assert_same(&found, table.state());
    let error = table.load(last, Some(last), &[]).await.unwrap_err();
    let text = format!("{error}");
    assert!(
        text.contains("db/t/_delta_log/00000000000000000003.json"),
        "{text}"
    );
    assert!(text.contains("line=1"), "{text}");
}

#[tokio::test]
async fn checkpoint_equals_replay_and_outlives_the_commits_before_it() {
    let mut table = sample().await;
    let at = table.entries.len() as u64 - 1;
    table.publish(at).await;
    let info = table
        .codec
        .checkpoint(&table.store, &table.location, table.state())
        .await
        .unwrap();
    assert_eq!(info.version.0, at);
    for version in 0..at {
        table.delete(&format!("{version:020}.json")).await;
    }
    let loaded = table.load(at, Some(at), &[]).await.unwrap();
    assert_same(&loaded, table.state());
    let bytes = table.store.get_required(&info.files[0]).await.unwrap();
    assert_eq!(bytes.len() as u64, info.size_bytes);
    table.commit(Work {
        operation: "WRITE",
        adds: vec![file("z", 1)],
        ..Work::default()
    });
    let tail = &table.entries[at as usize + 1..];
    assert_same(
        &table.load(at + 1, Some(at), tail).await.unwrap(),
        table.state(),
    );
    let root = table.root();
    let native = open_native(&root, NativeTarget::Latest).await.unwrap();
    assert_eq!(native.files, loaded.files);
    assert!(open_native(&root, NativeTarget::Version(0)).await.is_err());
}

#[tokio::test]
async fn time_travel_follows_in_commit_timestamps() {
    let mut table = Table::create();
    for index in 0..7 {
        let adds = vec![file(&format!("f{index}"), 1)];
        table.commit(Work {
            operation: "WRITE",
            adds,
            ..Work::default()
        });
    }
    table.publish(7).await;
    let root = table.root();
    let first = table
        .load(0, Some(0), &[])
        .await
        .unwrap()
        .in_commit_timestamp
        .unwrap();
    for version in 0..=7_u64 {
        let at = table
            .load(version, Some(7), &[])
            .await
            .unwrap()
            .in_commit_timestamp
            .unwrap();
        let found = open_native(&root, NativeTarget::Timestamp(at))
            .await
            .unwrap();
        assert_eq!(found.version.0, version);
        if version > 0 {
            let before = open_native(&root, NativeTarget::Timestamp(at - 1))
                .await
                .unwrap();
            assert_eq!(before.version.0, version - 1);
        }
    }
    let error = open_native(&root, NativeTarget::Timestamp(first - 1))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("no version at that time"),
        "{error}"
    );
    let future = table.store.context().now().0 + 86_400_000;
    assert!(
        open_native(&root, NativeTarget::Timestamp(future))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn hint_of_another_client_never_decides() {
    let table = sample().await;
    let last = table.entries.len() as u64 - 1;
    table.publish(last).await;
    let expected = table.load(last, Some(last), &[]).await.unwrap();
    for hint in [
        "",
        "{",
        "{\"version\":\"x\"}",
        "{\"version\":4}",
        "{\"version\":99}",
        "null",
    ] {
        table.put("_last_checkpoint", hint.as_bytes()).await;
        assert_same(&table.load(last, Some(last), &[]).await.unwrap(), &expected);
    }
}

#[tokio::test]
async fn unusable_checkpoint_is_replaced_by_older_ones_or_commits_or_is_named() {
    let table = sample().await;
    let last = table.entries.len() as u64 - 1;
    table.publish(last).await;
    let state = table.load(3, Some(3), &[]).await.unwrap();
    table
        .codec
        .checkpoint(&table.store, &table.location, &state)
        .await
        .unwrap();
    let expected = table.load(last, Some(last), &[]).await.unwrap();
    let name = "00000000000000000005.checkpoint.parquet";
    table.put(name, b"PAR1 this is not a checkpoint PAR1").await;
    table
        .put("_last_checkpoint", b"{\"version\":5,\"size\":1}")
        .await;
    assert_same(&table.load(last, Some(last), &[]).await.unwrap(), &expected);
    // Without the older checkpoint the commits do.
    table
        .delete("00000000000000000003.checkpoint.parquet")
        .await;
    assert_same(&table.load(last, Some(last), &[]).await.unwrap(), &expected);
    // Without them nothing does, and the error names the culprit.
    table.delete("00000000000000000001.json").await;
    let error = table.load(last, Some(last), &[]).await.unwrap_err();
    assert!(error.to_string().contains(name), "{error}");
}

#[tokio::test]
async fn gap_after_the_checkpoint_is_an_error_that_names_the_version() {
    let table = sample().await;
    let last = table.entries.len() as u64 - 1;
    table.publish(last).await;
    table.delete("00000000000000000002.json").await;
    let error = table.load(last, Some(last), &[]).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    let text = format!("{error}: {source}: {:?}", source.source());
    assert!(
        text.contains("db/t/_delta_log") && text.contains('2'),
        "{text}"
    );
}

#[tokio::test]
async fn effects_tell_exactly_what_a_commit_did() {
    let mut table = sample().await;
    let created = effects(&table, 0, &[]).await;
    assert!(created.created && created.schema.is_empty());
    let append = effects(&table, 1, &[]).await;
    assert_eq!(
        append,
        TableEffects {
            operation: Some(Operation::Append),
            adds: true,
            added_files: ["a b", "b", "c"].map(str::to_owned).into(),
            ..TableEffects::default()
        }
    );
    let first = effects(&table, 2, &[]).await;
    assert_eq!(first.deletions["a b"], Touched::WholeFile);
    assert!(first.config.contains(&ConfigEffect::AddFeature {
        name: "deletionVectors".to_owned()
    }));
    assert!(first.schema.is_empty() && !first.adds && first.removes.is_empty());
    let first = effects(&table, 2, &["a b"]).await;
    assert_eq!(
        first.deletions["a b"],
        Touched::Rows([3, 7].into_iter().collect())
    );
    let dropped = effects(&table, 4, &[]).await;
    assert_eq!(
        dropped.removes,
        BTreeMap::from([("c".to_owned(), Removal::Deleted)])
    );
    let column = effects(&table, 5, &[]).await;
    assert_eq!(
        column.schema,
        [SchemaEffect::AddColumn {
            name: "x".to_owned(),
            type_text: "string".to_owned(),
            nullable: true
        }]
    );
    delete(&mut table, "a b", [0]).await;
    let second = effects(&table, 6, &["a b"]).await;
    assert_eq!(
        second.deletions["a b"],
        Touched::Rows([0].into_iter().collect())
    );
    assert!(second.config.is_empty());
    let removes = vec![table.file("a b")];
    let adds = vec![file("moved", 7)];
    table.commit(Work {
        operation: "OPTIMIZE",
        adds,
        removes,
        ..Work::default()
    });
    let moved = effects(&table, 7, &[]).await;
    assert_eq!(moved.removes["a b"], Removal::Moved);
    assert!(!moved.adds);
    let parameters: &[_] = &[("mode", "Overwrite"), ("sourceReadTarget", "true")];
    let removes = vec![table.file("b"), table.file("moved")];
    table.commit(Work {
        operation: "WRITE",
        parameters,
        adds: vec![file("n", 1)],
        removes,
        ..Work::default()
    });
    let replaced = effects(&table, 8, &[]).await;
    assert_eq!(
        replaced.overwrite,
        Some(OverwriteKind::All {
            source_read_target: true
        })
    );
    assert_eq!(replaced.added_files, BTreeSet::from(["n".to_owned()]));
}

#[tokio::test]
async fn overwrite_by_predicate_counts_as_the_rows_it_adds_and_deletes() {
    let mut table = sample().await;
    let cases = [
        ("WRITE", "day = 1", true),
        ("OVERWRITE", "day = 1", true),
        ("WRITE", "[\"(day = 1)\"]", true),
        ("WRITE", "[]", false),
        ("WRITE", "true", false),
        ("RESTORE", "day = 1", false),
        ("TRUNCATE", "day = 1", false),
    ];
    for (number, (operation, predicate, by_predicate)) in (0..).zip(cases) {
        let version = table.entries.len();
        let new = format!("new{number}");
        let removes = table.state().files.values().take(1).collect();
        table.commit(Work {
            operation,
            parameters: &[("mode", "Overwrite"), ("predicate", predicate)],
            adds: vec![file(&new, 1)],
            removes,
            ..Work::default()
        });
        let found = effects(&table, version, &[]).await;
        let expected = if by_predicate {
            OverwriteKind::Where {
                predicate: predicate.to_owned(),
                source_read_target: false,
            }
        } else {
            OverwriteKind::All {
                source_read_target: false,
            }
        };
        assert_eq!(found.overwrite, Some(expected), "{operation} {predicate}");
        assert!(found.adds && found.added_files.contains(&new));
        assert_eq!(found.removes.len(), 1);
    }
}

#[tokio::test]
async fn metadata_of_another_engine_counts_as_a_replaced_schema() {
    let table = sample().await;
    let line = table.entries[0].lines[2].clone();
    assert!(line.starts_with("{\"metaData\""));
    let lines = vec![
        "{\"commitInfo\":{\"operation\":\"SET TBLPROPERTIES\"}}".to_owned(),
        line,
    ];
    let entry = Entry {
        version: tarndb_types::TableVersion(9),
        lines,
    };
    let found = table
        .codec
        .effects(&table.store, &table.location, &entry, &BTreeSet::new())
        .await
        .unwrap();
    assert!(
        matches!(&found.schema[..], [SchemaEffect::Replace { fingerprint }] if fingerprint.contains("long"))
    );
}

#[tokio::test]
async fn requests_of_a_load_do_not_grow_with_the_commits_before_the_checkpoint() {
    let mut table = sample().await;
    for index in 0..20 {
        let adds = vec![file(&format!("f{index}"), 1)];
        table.commit(Work {
            operation: "WRITE",
            adds,
            ..Work::default()
        });
    }
    let last = table.entries.len() as u64 - 1;
    table.publish(last).await;
    table
        .codec
        .checkpoint(&table.store, &table.location, table.state())
        .await
        .unwrap();
    let before = table.store.meter().counts();
    table.load(last, Some(last), &[]).await.unwrap();
    let spent = table.store.meter().counts() - before;
    // Hint, checkpoint, and the commit at its version for the in-commit timestamp.
    assert_eq!(
        (spent.get, spent.list, spent.head, spent.get_range),
        (3, 1, 0, 0),
        "{spent}"
    );
}

fn step() -> impl Strategy<Value = (u8, u8, Vec<u64>)> {
    (0_u8..4, 0_u8..5, proptest::collection::vec(0_u64..64, 1..9))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn random_histories_load_alike_from_log_tail_and_checkpoint(
        steps in proptest::collection::vec(step(), 1..12),
        cut in 0_usize..12,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut table = Table::create();
            let mut model: BTreeMap<String, RowSet> = BTreeMap::new();
            for (number, (kind, which, rows)) in steps.into_iter().enumerate() {
                let live: Vec<String> = model.keys().cloned().collect();
                let chosen = live.get(usize::from(which) % live.len().max(1)).cloned();
                match (kind, chosen) {
                    (0, Some(path)) => {
                        let removes = vec![table.file(&path)];
                        table.commit(Work { operation: "DELETE", removes, ..Work::default() });
                        model.remove(&path);
                    }
                    (1 | 2, Some(path)) => {
                        let set = model.get_mut(&path).unwrap();
                        let new: Vec<u64> =
                            rows.into_iter().filter(|row| !set.contains(*row)).collect();
                        if new.is_empty() { continue; }
                        set.extend(new.iter().copied());
                        delete(&mut table, &path, new).await;
                    }
                    _ => {
                        let path = format!("f {number}");
                        let adds = vec![file(&path, 65)];
                        table.commit(Work { operation: "WRITE", adds, ..Work::default() });
                        model.insert(path, RowSet::new());
                    }
                }
            }
            let last = table.entries.len() as u64 - 1;
            table.publish(last).await;
            let from_tail = table.load(last, None, &table.entries).await.unwrap();
            assert_same(&from_tail, table.state());
            let at = (cut as u64).min(last);
            let middle = table.load(at, Some(at), &[]).await.unwrap();
            table.codec.checkpoint(&table.store, &table.location, &middle).await.unwrap();
            assert_same(&table.load(last, Some(last), &[]).await.unwrap(), table.state());
            assert_same(&table.load(at, Some(at), &[]).await.unwrap(), &middle);
            for (path, rows) in &model {
                let deletion = &table.file(path).deletion;
                let found = table.codec.load_deletion(&table.store, &table.location, deletion).await;
                assert_eq!(found.unwrap().as_ref(), rows);
            }
            assert_eq!(from_tail.files.len(), model.len());
        });
    }
}
