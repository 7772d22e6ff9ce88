//! Logs and files of native tables: what goes, and what can still be read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tarndb_delta::{
    ConflictKind, NativeCleanup, NativeTable, NativeTarget, NativeVacuum, Reads, open_native,
};
use tarndb_storage::Store;
use tarndb_storage::context::Context;
use tarndb_storage::hand_store::Death;
use tarndb_table::{DataType, Field, MetadataChange, Schema, TableError};
use tarndb_types::TableVersion;

use crate::aged::Aged;
use crate::native::{append, definition, delete, kind, values, written};

const DAY_MS: i64 = 24 * 3_600_000;

struct Scene {
    aged: Aged,
    store: Store,
    table: NativeTable,
}

/// Version n adds the value n, a day each.
async fn scene(properties: &[(&str, &str)], versions: i64) -> Scene {
    let aged = Aged::new();
    let store = Store::new(
        Arc::new(aged.objects.clone()),
        "memory://t",
        Context::seeded(5),
    );
    let definition = definition(properties, false);
    let mut table = NativeTable::create(&store, definition).await.unwrap();
    for n in 1..=versions {
        aged.pass(DAY_MS);
        append(&mut table, &[(n, n)]).await.unwrap();
    }
    Scene { aged, store, table }
}

impl Scene {
    async fn log(&self) -> Vec<String> {
        let listed = self.store.list_after(&"_delta_log".into(), None).await;
        let names = listed.unwrap().into_iter();
        let names = names.map(|object| object.key.filename().unwrap().to_owned());
        names.filter(|name| !name.ends_with(".crc")).collect()
    }

    /// Values at a version; `None` when it cannot be read any more.
    async fn at(&self, version: u64) -> Option<usize> {
        let state = open_native(&self.store, NativeTarget::Version(version)).await;
        state.ok().map(|state| state.files.len())
    }

    async fn assert_readable(&self, from: u64, to: u64) {
        for version in from..=to {
            assert_eq!(
                self.at(version).await,
                Some(version as usize),
                "version {version}"
            );
        }
    }

    async fn data(&self) -> Vec<String> {
        let listed = self.store.list_after(&"".into(), None).await.unwrap();
        let keys = listed.into_iter().map(|object| object.key.to_string());
        keys.filter(|key| !key.starts_with("_delta_log")).collect()
    }
}

fn days(days: u64) -> Option<Duration> {
    Some(Duration::from_secs(days * 24 * 3600))
}

#[tokio::test]
async fn bc_26_without_a_checkpoint_one_is_written_before_anything_goes() {
    let mut scene = scene(&[("delta.checkpointInterval", "1000")], 100).await;
    let options = NativeCleanup {
        retention: days(0),
        ..NativeCleanup::default()
    };
    let dry = NativeCleanup {
        dry_run: true,
        ..options
    };
    let shown = scene.table.clean_log(&dry).await.unwrap();
    assert_eq!(shown.checkpoint, Some(TableVersion(100)));
    assert_eq!(scene.log().await.len(), 101);
    let cleaned = scene.table.clean_log(&options).await.unwrap();
    assert_eq!(cleaned.checkpoint, Some(TableVersion(100)));
    assert_eq!(cleaned.cut, Some(TableVersion(100)));
    assert_eq!(
        scene.log().await,
        [
            "00000000000000000100.checkpoint.parquet",
            "00000000000000000100.json",
            "_last_checkpoint"
        ]
    );
    assert_eq!(values(&scene.store).await.len(), 100);
    append(&mut scene.table, &[(101, 101)]).await.unwrap();
    assert_eq!(values(&scene.store).await.len(), 101);
}

#[tokio::test]
async fn bc_26_versions_that_are_to_stay_stay_readable() {
    // A checkpoint every 10 versions.
    let mut scene = scene(&[], 35).await;
    // The only checkpoints below 15 is that at 10.
    let keep = NativeCleanup {
        retention: days(0),
        keep_from: Some(TableVersion(15)),
        ..NativeCleanup::default()
    };
    let cleaned = scene.table.clean_log(&keep).await.unwrap();
    assert_eq!(cleaned.cut, Some(TableVersion(10)));
    scene.assert_readable(10, 35).await;
    assert_eq!(scene.at(9).await, None);
    // Nothing at or below 5 is left to cut at.
    let none = NativeCleanup {
        keep_from: Some(TableVersion(5)),
        ..keep
    };
    let cleaned = scene.table.clean_log(&none).await.unwrap();
    assert_eq!((cleaned.cut, cleaned.files.len()), (None, 0));
    // 12 days back, version 23 was current.
    let retained = NativeCleanup {
        retention: days(12),
        ..NativeCleanup::default()
    };
    let cleaned = scene.table.clean_log(&retained).await.unwrap();
    assert_eq!(cleaned.cut, Some(TableVersion(20)));
    scene.assert_readable(20, 35).await;
    // The table's own 30 days keep all that is left.
    let cleaned = scene.table.clean_log(&NativeCleanup::default()).await;
    assert_eq!(cleaned.unwrap().files, []);
}

#[tokio::test]
async fn bc_26_killed_at_any_deletion_the_table_opens_and_the_next_cleanup_ends_it() {
    for killed_at in [0, 1, 9, 19, 20, 21] {
        let mut scene = scene(&[], 25).await;
        let options = NativeCleanup {
            retention: days(0),
            ..NativeCleanup::default()
        };
        scene.aged.objects.die(Some(Death::Deletions(killed_at)));
        scene.table.clean_log(&options).await.unwrap_err();
        scene.assert_readable(20, 25).await;
        assert_eq!(values(&scene.store).await.len(), 25);
        scene.aged.objects.die(None);
        let cleaned = scene.table.clean_log(&options).await.unwrap();
        assert_eq!(cleaned.cut, Some(TableVersion(20)));
        scene.assert_readable(20, 25).await;
        assert_eq!(scene.log().await.len(), 8);
    }
}

#[tokio::test]
async fn vacuum_keeps_what_versions_of_the_retention_need_and_foreign_files() {
    let mut scene = scene(&[], 10).await;
    let foreign = "part-00000-0190163c-cf3e-7a0b-8a4c-5d3f4b1d2e6f-c000.snappy.parquet";
    let orphan = "part-0190163c-cf3e-7a0b-8a4c-5d3f4b1d2e6f.parquet";
    for key in [foreign, orphan] {
        scene.store.put(&key.into(), "x".into()).await.unwrap();
        scene.aged.set_age(key, 90 * DAY_MS);
    }
    // Written ten days ago or before, removed now.
    scene.aged.pass(10 * DAY_MS);
    let all: Vec<i64> = (1..=10).collect();
    delete(&scene.store, &mut scene.table, &all).await.unwrap();
    append(&mut scene.table, &[(11, 11)]).await.unwrap();
    scene.aged.pass(DAY_MS);
    let dry = NativeVacuum {
        dry_run: true,
        ..NativeVacuum::default()
    };
    let shown = scene.table.vacuum(&dry).await.unwrap();
    let gone = scene.table.vacuum(&NativeVacuum::default()).await.unwrap();
    assert_eq!(shown, gone);
    let gone: Vec<String> = gone.iter().map(|file| file.key.to_string()).collect();
    assert_eq!(gone, [orphan]);
    let at_10 = open_native(&scene.store, NativeTarget::Version(10)).await;
    assert_eq!(at_10.unwrap().files.len(), 10);
    scene.aged.pass(8 * DAY_MS);
    let gone = scene.table.vacuum(&NativeVacuum::default()).await.unwrap();
    assert_eq!(gone.len(), 10);
    assert_eq!(scene.data().await.len(), 2);
    assert_eq!(values(&scene.store).await, [11]);
}

#[tokio::test]
async fn writer_that_slept_through_a_vacuum_does_not_commit_files_that_are_gone() {
    for looks_before in [false, true] {
        let mut scene = scene(&[], 3).await;
        let mut sleeper = NativeTable::open(&scene.store).await.unwrap();
        let slept = written(&sleeper, &[(9, 9)]).await;
        scene.aged.pass(10 * DAY_MS);
        let options = NativeVacuum {
            retention: Some(Duration::ZERO),
            force: true,
            dry_run: false,
        };
        let gone = scene.table.vacuum(&options).await.unwrap();
        assert_eq!(gone.len(), 1, "its file was nobody's");
        if looks_before {
            sleeper.refresh().await.unwrap();
        }
        let added = sleeper.append(slept, BTreeMap::new(), Reads::Nothing).await;
        let error = added.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert_eq!(kind(error), ConflictKind::Vacuum);
        assert_eq!(values(&scene.store).await, [1, 2, 3]);
        // A vacuum that only takes what the log knows as removed announces nothing.
        let mut reader = NativeTable::open(&scene.store).await.unwrap();
        delete(&scene.store, &mut reader, &[1]).await.unwrap();
        let version = reader.version().unwrap().0;
        scene.aged.pass(10 * DAY_MS);
        assert_eq!(scene.table.vacuum(&options).await.unwrap().len(), 1);
        assert_eq!(scene.table.version().unwrap().0, version);
        assert_eq!(values(&scene.store).await, [2, 3]);
    }
}

#[tokio::test]
async fn a_short_retention_needs_force_and_a_strange_protocol_refuses() {
    let mut scene = scene(&[], 3).await;
    let short = NativeVacuum {
        retention: days(6),
        ..NativeVacuum::default()
    };
    let error = scene.table.vacuum(&short).await.unwrap_err().to_string();
    assert!(error.contains("force"), "{error}");
    let forced = NativeVacuum {
        force: true,
        ..short
    };
    scene.table.vacuum(&forced).await.unwrap();
    let commit = "{\"commitInfo\":{\"operation\":\"UPGRADE\"}}\n{\"protocol\":{\"minReaderVersion\":1,\"minWriterVersion\":7,\"writerFeatures\":[\"com.example.unknown\"]}}\n";
    let key = format!("_delta_log/{:020}.json", 4);
    scene.store.put(&key.into(), commit.into()).await.unwrap();
    for error in [
        scene.table.vacuum(&forced).await.unwrap_err().to_string(),
        scene
            .table
            .clean_log(&NativeCleanup::default())
            .await
            .unwrap_err()
            .to_string(),
    ] {
        assert!(error.contains("com.example.unknown"), "{error}");
    }
}

fn set(key: &str, value: &str) -> MetadataChange {
    MetadataChange::SetProperty {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

#[tokio::test]
async fn history_that_needs_a_dropped_feature_goes_in_one_go_or_not_at_all() {
    let vectors = "delta.enableDeletionVectors";
    let properties = [(vectors, "true"), ("delta.checkpointInterval", "5")];
    let mut scene = scene(&properties, 12).await;
    scene.aged.pass(DAY_MS);
    let off = scene.table.change_metadata(vec![set(vectors, "false")]);
    off.await.unwrap();
    scene.aged.pass(DAY_MS);
    let drop = MetadataChange::DropFeature("deletionVectors".to_owned());
    let dropped = scene.table.change_metadata(vec![drop]).await.unwrap();
    assert_eq!(dropped.version.0, 14);
    for n in 15..=22 {
        scene.aged.pass(DAY_MS);
        append(&mut scene.table, &[(n, n)]).await.unwrap();
    }
    let before = scene.log().await;
    let keep = |version: u64| NativeCleanup {
        retention: days(0),
        keep_from: Some(TableVersion(version)),
        ..NativeCleanup::default()
    };
    // The checkpoints at 5 and 10 are of versions that need the feature.
    let cleaned = scene.table.clean_log(&keep(12)).await.unwrap();
    assert_eq!(cleaned.files, []);
    // So is what a retention would leave of them.
    let young = NativeCleanup {
        retention: days(10),
        ..NativeCleanup::default()
    };
    assert_eq!(scene.table.clean_log(&young).await.unwrap().files, []);
    assert_eq!(scene.log().await, before);
    let cleaned = scene.table.clean_log(&keep(16)).await.unwrap();
    assert_eq!(cleaned.cut, Some(TableVersion(15)));
    assert_eq!(scene.at(14).await, None);
    assert!(scene.at(15).await.is_some());
    assert_eq!(values(&scene.store).await.len(), 20);
}

#[tokio::test]
async fn vacuum_finds_files_of_partitions_with_any_characters() {
    let aged = Aged::new();
    let store = Store::new(
        Arc::new(aged.objects.clone()),
        "memory://t",
        Context::seeded(5),
    );
    let mut definition = definition(&[], true);
    definition.schema = Schema::new(vec![
        Field::new("a", DataType::Long, true),
        Field::new("p", DataType::String, true),
    ]);
    let mut table = NativeTable::create(&store, definition).await.unwrap();
    let names = [
        "a/b", "c d", "%41", "\u{fc}?#", "x=y", "..", "a:b", "{z}", "+", "%2525",
    ];
    for (n, name) in names.iter().enumerate() {
        let a: ArrayRef = Arc::new(Int64Array::from(vec![n as i64]));
        let p: ArrayRef = Arc::new(StringArray::from(vec![*name]));
        let rows = RecordBatch::try_from_iter_with_nullable([("a", a, true), ("p", p, true)]);
        let rows = futures::stream::iter([Ok::<_, TableError>(rows.unwrap())]);
        let written = table.write(rows).await.unwrap();
        let added = table.append(written, BTreeMap::new(), Reads::Nothing).await;
        added.unwrap();
    }
    let gone: Vec<i64> = (0..names.len() as i64).filter(|n| n % 2 == 0).collect();
    delete(&store, &mut table, &gone).await.unwrap();
    aged.pass(30 * DAY_MS);
    append_nothing(&mut table).await;
    aged.pass(30 * DAY_MS);
    let vacuumed = table.vacuum(&NativeVacuum::default()).await.unwrap();
    assert_eq!(vacuumed.len(), gone.len());
    let kept: Vec<i64> = (0..names.len() as i64).filter(|n| n % 2 == 1).collect();
    assert_eq!(values(&store).await, kept);
    assert_eq!(table.vacuum(&NativeVacuum::default()).await.unwrap(), []);
}

/// A commit, so that another version is current.
async fn append_nothing(table: &mut NativeTable) {
    table
        .change_metadata(vec![set("owner", "x")])
        .await
        .unwrap();
}
