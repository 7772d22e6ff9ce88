//! Tables by path taken back to an earlier version, alone and beside other writers.

use tarndb_delta::{
    ConflictKind, DeltaState, NativeError, NativeTable, NativeTarget, native_history, open_native,
};
use tarndb_storage::context::Context;
use tarndb_storage::{Path, Store};
use tarndb_table::{DataType, Field, MetadataChange};

use crate::native::{append, definition, delete, values};

/// Versions 0: nothing, 1: 1 and 2, 2: 2, 3: 2 and 3.
async fn four_versions(store: &Store, properties: &[(&str, &str)]) -> NativeTable {
    let created = NativeTable::create(store, definition(properties, false)).await;
    let mut table = created.unwrap();
    append(&mut table, &[(1, 1), (2, 1)]).await.unwrap();
    delete(store, &mut table, &[1]).await.unwrap();
    append(&mut table, &[(3, 1)]).await.unwrap();
    table
}

const VECTORS: &[(&str, &str)] = &[("delta.enableDeletionVectors", "true")];

#[tokio::test]
async fn every_version_comes_back_with_vectors_and_without() {
    for properties in [&[][..], VECTORS] {
        let store = Store::memory(Context::seeded(8));
        let mut table = four_versions(&store, properties).await;
        let expected: [&[i64]; 4] = [&[], &[1, 2], &[2], &[2, 3]];
        for (step, number) in [1, 3, 0, 2, 1, 1].into_iter().enumerate() {
            let target = NativeTarget::Version(number);
            let (report, committed) = table.restore(target).await.unwrap();
            assert_eq!(report.version.0, number);
            // The last one finds the table as it was.
            assert_eq!(committed.is_some(), step < 5);
            assert_eq!(values(&store).await, expected[number as usize], "{number}");
            let state = table.state().unwrap();
            assert_eq!(report.num_of_files_after_restore, state.files.len() as u64);
            assert_eq!(report.table_size_after_restore, state.size_bytes());
        }
        let history = native_history(&store, 1).await.unwrap();
        let info = &history[0].info;
        assert_eq!(info.operation.as_deref(), Some("RESTORE"));
        assert_eq!(info.operation_parameters["version"], "1");
        assert!(info.operation_metrics.contains_key("numRestoredFiles"));
        // On from there.
        delete(&store, &mut table, &[2]).await.unwrap();
        append(&mut table, &[(4, 1)]).await.unwrap();
        assert_eq!(values(&store).await, [1, 4]);
    }
}

#[tokio::test]
async fn the_definition_goes_back_and_features_stay() {
    let store = Store::memory(Context::seeded(9));
    let mut table = four_versions(&store, &[("owner", "me")]).await;
    let field = Field::new("x", DataType::TimestampNtz, true);
    table
        .change_metadata(vec![
            MetadataChange::AddColumn(field.into()),
            MetadataChange::SetProperty {
                key: "owner".to_owned(),
                value: "you".to_owned(),
            },
        ])
        .await
        .unwrap();
    table.restore(NativeTarget::Version(1)).await.unwrap();
    assert_eq!(values(&store).await, [1, 2]);
    let state = open_native(&store, NativeTarget::Latest).await.unwrap();
    assert_eq!(state.schema.fields.len(), 2);
    assert_eq!(state.properties["owner"], "me");
    let delta = DeltaState::of(&state).unwrap();
    assert_eq!(delta.protocol.min_reader_version, 3);
    table.restore(NativeTarget::Version(4)).await.unwrap();
    let state = open_native(&store, NativeTarget::Latest).await.unwrap();
    assert_eq!(state.schema.fields.len(), 3);
    assert_eq!(values(&store).await, [2, 3]);
}

#[tokio::test]
async fn files_that_are_gone_and_versions_that_are_not_there_are_named() {
    let store = Store::memory(Context::seeded(10));
    let mut table = four_versions(&store, &[]).await;
    let old = open_native(&store, NativeTarget::Version(1)).await.unwrap();
    let gone = old.files.paths().next().unwrap();
    store.delete(&Path::from(gone.as_str())).await.unwrap();
    match table.restore(NativeTarget::Version(1)).await {
        Err(NativeError::FilesGone {
            version,
            file,
            count,
        }) => assert_eq!((version, file, count), (1, gone, 1)),
        other => panic!("{other:?}"),
    }
    table.restore(NativeTarget::Version(9)).await.unwrap_err();
    let error = table.restore(NativeTarget::Timestamp(1)).await.unwrap_err();
    assert!(!error.to_string().contains("_ms"), "{error}");
    assert_eq!(table.version().unwrap().0, 3);
    assert_eq!(values(&store).await, [2, 3]);
}

#[tokio::test]
async fn what_others_commit_first_is_a_conflict_in_either_order() {
    let store = Store::memory(Context::seeded(11));
    let mut ours = four_versions(&store, &[]).await;
    let mut theirs = NativeTable::open(&store).await.unwrap();
    append(&mut theirs, &[(9, 1)]).await.unwrap();
    match ours.restore(NativeTarget::Version(1)).await {
        Err(NativeError::Conflict(conflict)) => assert_eq!(conflict.kind, ConflictKind::Append),
        other => panic!("{other:?}"),
    }
    ours.refresh().await.unwrap();
    delete(&store, &mut theirs, &[2]).await.unwrap();
    let refused = ours.restore(NativeTarget::Version(1)).await.unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
    ours.refresh().await.unwrap();
    ours.restore(NativeTarget::Version(1)).await.unwrap();
    assert_eq!(values(&store).await, [1, 2]);
    // Theirs deletes what is not there any more.
    let refused = delete(&store, &mut theirs, &[3]).await.unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
}
