//! Tables whose own log decides: what is written, and what becomes of it when others write too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use futures::TryStreamExt;
use object_store::memory::InMemory;
use tarndb_delta::{
    ConflictKind, DeltaState, NativeError, NativeTable, NativeTarget, Reads, ReplacedPartitions,
    open_native,
};
use tarndb_storage::context::Context;
use tarndb_storage::fault::{Fault, FaultPlan, FaultStore};
use tarndb_storage::{Path, Store};
use tarndb_table::*;
use tarndb_types::{TableId, Uuid};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("a", DataType::Long, true),
        Field::new("p", DataType::Long, true),
    ])
}

pub(crate) fn definition(properties: &[(&str, &str)], partitioned: bool) -> TableDefinition {
    TableDefinition {
        id: TableId(Uuid::from_u128(7)),
        name: "t".to_owned(),
        schema: schema(),
        partition_columns: partitioned.then(|| "p".to_owned()).into_iter().collect(),
        properties: properties
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        description: None,
    }
}

pub(crate) fn batch(rows: &[(i64, i64)]) -> RecordBatch {
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as arrow_array::ArrayRef;
    let columns = vec![
        column(rows.iter().map(|row| row.0).collect()),
        column(rows.iter().map(|row| row.1).collect()),
    ];
    RecordBatch::try_new(schema().to_arrow(), columns).unwrap()
}

pub(crate) async fn written(table: &NativeTable, rows: &[(i64, i64)]) -> Written {
    let batches = futures::stream::iter([Ok::<_, TableError>(batch(rows))]);
    table.write(batches).await.unwrap()
}

pub(crate) async fn append(
    table: &mut NativeTable,
    rows: &[(i64, i64)],
) -> Result<u64, NativeError> {
    let written = written(table, rows).await;
    let commit = table
        .append(written, BTreeMap::new(), Reads::Nothing)
        .await?;
    Ok(commit.unwrap().version.0)
}

/// Live rows of a state: value of `a`, file, position.
pub(crate) async fn scan(store: &Store, state: &TableState) -> Vec<(i64, String, u64)> {
    let codec = tarndb_delta::DeltaCodec::default();
    let root = Path::default();
    let mut found = Vec::new();
    for file in state.files.values() {
        let deleted = codec
            .load_deletion(store, &Path::default(), &file.deletion)
            .await
            .unwrap();
        let rows = read_file_rows(
            store,
            &root,
            &file,
            &state.schema,
            &state.partition_columns,
            Some(&deleted),
            ReadOptions::default(),
        );
        let mut rows = rows.await.unwrap();
        while let Some(rows) = rows.try_next().await.unwrap() {
            let values = rows.batch.column(0).as_primitive::<Int64Type>().values();
            let places = values.iter().zip(&rows.positions);
            found.extend(places.map(|(value, at)| (*value, file.path.clone(), *at)));
        }
    }
    found.sort();
    found
}

/// The values of `a` that any reader sees.
pub(crate) async fn values(store: &Store) -> Vec<i64> {
    let state = open_native(store, NativeTarget::Latest).await.unwrap();
    let rows = scan(store, &state).await;
    rows.into_iter().map(|(value, ..)| value).collect()
}

/// Rows with these values, by file, and what looking for them read.
pub(crate) async fn find(
    store: &Store,
    table: &NativeTable,
    wanted: &[i64],
) -> (BTreeMap<String, RowSet>, Reads) {
    let mut rows: BTreeMap<String, RowSet> = BTreeMap::new();
    for (value, file, at) in scan(store, table.state().unwrap()).await {
        if wanted.contains(&value) {
            rows.entry(file).or_default().insert(at);
        }
    }
    let files = table.state().unwrap().files.paths().collect();
    let reads = Reads::Rows {
        partitions: None,
        files,
    };
    (rows, reads)
}

pub(crate) async fn delete(
    store: &Store,
    table: &mut NativeTable,
    wanted: &[i64],
) -> Result<(), NativeError> {
    let (rows, reads) = find(store, table, wanted).await;
    table
        .change_rows(rows, Written::default(), reads)
        .await
        .map(|_| ())
}

pub(crate) fn kind(error: NativeError) -> ConflictKind {
    match error {
        NativeError::Conflict(conflict) => conflict.kind,
        other => panic!("{other}"),
    }
}

pub(crate) async fn lines(store: &Store, version: u64) -> Vec<String> {
    let key = Path::from(format!("_delta_log/{version:020}.json"));
    let bytes = store.get_required(&key).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn memory() -> Store {
    Store::memory(Context::seeded(5))
}

#[tokio::test]
async fn new_table_has_the_lowest_protocol_and_nothing_of_a_database() {
    let store = memory();
    let mut table = NativeTable::create(&store, definition(&[("owner", "me")], false))
        .await
        .unwrap();
    append(&mut table, &[(1, 1), (2, 1)]).await.unwrap();
    let created = lines(&store, 0).await;
    assert!(created[0].starts_with("{\"commitInfo\""), "{created:?}");
    assert!(!created[0].contains("inCommitTimestamp"), "{created:?}");
    assert_eq!(
        created[1],
        r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":1}}"#
    );
    assert!(
        created[2].contains(r#""configuration":{"owner":"me"}"#),
        "{created:?}"
    );
    assert_eq!(created.len(), 3);
    let appended = lines(&store, 1).await;
    assert_eq!(appended.len(), 2);
    assert!(
        appended[0].contains(r#""isBlindAppend":true"#),
        "{appended:?}"
    );
    assert!(appended[0].contains(r#""readVersion":0"#), "{appended:?}");
    assert_eq!(values(&store).await, [1, 2]);
}

#[tokio::test]
async fn of_two_that_create_the_table_at_once_one_wins_and_the_other_hears_that_it_exists() {
    for seed in 0..8 {
        let store = Store::memory(Context::seeded(seed));
        let create = || NativeTable::create(&store, definition(&[], false));
        let (one, other) = tokio::join!(create(), create());
        let outcomes = [one, other].map(|outcome| match outcome {
            Ok(table) => table.version().unwrap().0,
            Err(NativeError::Exists { .. }) => 99,
            Err(error) => panic!("{error}"),
        });
        assert_eq!(outcomes.iter().min(), Some(&0));
        assert_eq!(outcomes.iter().max(), Some(&99));
        assert!(matches!(create().await, Err(NativeError::Exists { .. })));
        assert_eq!(lines(&store, 0).await.len(), 3);
    }
}

#[tokio::test]
async fn appends_of_handles_that_do_not_know_of_each_other_all_stand() {
    let store = memory();
    let mut one = NativeTable::create(&store, definition(&[], false))
        .await
        .unwrap();
    let mut other = NativeTable::open(&store).await.unwrap();
    for round in 0..7 {
        append(&mut one, &[(round * 2, 1)]).await.unwrap();
        append(&mut other, &[(round * 2 + 1, 1)]).await.unwrap();
    }
    assert_eq!(values(&store).await, (0..14).collect::<Vec<_>>());
    assert_eq!(other.version().unwrap().0, 14);
}

#[tokio::test]
async fn rows_are_deleted_by_vectors_or_by_copies_as_the_table_says() {
    for (properties, vectors) in [
        (&[][..], false),
        (&[("delta.enableDeletionVectors", "true")][..], true),
    ] {
        let store = memory();
        let mut table = NativeTable::create(&store, definition(properties, false))
            .await
            .unwrap();
        append(&mut table, &[(1, 1), (2, 1), (3, 1)]).await.unwrap();
        append(&mut table, &[(4, 1)]).await.unwrap();
        delete(&store, &mut table, &[2, 4]).await.unwrap();
        assert_eq!(values(&store).await, [1, 3]);
        let state = open_native(&store, NativeTarget::Latest).await.unwrap();
        assert_eq!(state.files.len(), 1, "an emptied file is removed");
        assert_eq!(
            !state.files.values().next().unwrap().deletion.is_none(),
            vectors
        );
        let (rows, reads) = find(&store, &table, &[3]).await;
        let new = written(&table, &[(30, 2)]).await;
        table.change_rows(rows, new, reads).await.unwrap();
        assert_eq!(values(&store).await, [1, 30]);
        let history = lines(&store, 4).await;
        assert!(
            history[0].contains(r#""operation":"UPDATE""#),
            "{history:?}"
        );
        assert!(
            history[0].contains(r#""isBlindAppend":false"#),
            "{history:?}"
        );
    }
}

#[tokio::test]
async fn stale_deletion_is_a_conflict_and_right_on_the_newer_version() {
    let store = memory();
    let on = [("delta.enableDeletionVectors", "true")];
    let mut one = NativeTable::create(&store, definition(&on, false))
        .await
        .unwrap();
    append(&mut one, &[(1, 1), (2, 1), (3, 1)]).await.unwrap();
    let mut other = NativeTable::open(&store).await.unwrap();
    let mut third = NativeTable::open(&store).await.unwrap();
    delete(&store, &mut one, &[1]).await.unwrap();
    let error = delete(&store, &mut other, &[2]).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(kind(error), ConflictKind::Append);
    let error = third.compact(1 << 20).await;
    assert!(
        error.unwrap().is_none(),
        "one file without deleted rows, as it knew it"
    );
    other.refresh().await.unwrap();
    delete(&store, &mut other, &[2]).await.unwrap();
    assert_eq!(values(&store).await, [3]);
}

#[tokio::test]
async fn compaction_gives_way_to_deletions_and_not_to_appends() {
    let store = memory();
    let mut one = NativeTable::create(&store, definition(&[], true))
        .await
        .unwrap();
    for value in 0..6 {
        append(&mut one, &[(value, value % 2)]).await.unwrap();
    }
    let mut other = NativeTable::open(&store).await.unwrap();
    append(&mut one, &[(6, 0)]).await.unwrap();
    let done = other.compact(1 << 20).await.unwrap().unwrap();
    assert_eq!((done.files_before, done.files_after), (6, 2));
    assert_eq!(values(&store).await, (0..7).collect::<Vec<_>>());
    let mut other = NativeTable::open(&store).await.unwrap();
    one.refresh().await.unwrap();
    delete(&store, &mut one, &[6]).await.unwrap();
    let error = other.compact(1 << 20).await.unwrap_err();
    assert_eq!(kind(error), ConflictKind::DeleteRead);
    assert_eq!(values(&store).await, (0..6).collect::<Vec<_>>());
}

#[tokio::test]
async fn overwrite_replaces_all_or_the_partitions_that_are_named() {
    let store = memory();
    let mut table = NativeTable::create(&store, definition(&[], true))
        .await
        .unwrap();
    append(&mut table, &[(1, 1), (2, 2), (3, 3)]).await.unwrap();
    let p_is_2 = || ReplacedPartitions {
        predicate: Predicate::Compare {
            column: "p".to_owned(),
            op: Comparison::Equal,
            value: Scalar::Long(2),
        },
        text: "p = 2".to_owned(),
    };
    let new = written(&table, &[(20, 2)]).await;
    table.overwrite(new, Some(p_is_2())).await.unwrap();
    assert_eq!(values(&store).await, [1, 3, 20]);
    let outside = written(&table, &[(30, 3)]).await;
    let error = table.overwrite(outside, Some(p_is_2())).await.unwrap_err();
    assert!(
        matches!(error, NativeError::OutsideOfPredicate { .. }),
        "{error}"
    );
    let by_a = ReplacedPartitions {
        predicate: Predicate::IsNull("a".to_owned()),
        text: "a IS NULL".to_owned(),
    };
    let error = table
        .overwrite(Written::default(), Some(by_a))
        .await
        .unwrap_err();
    assert!(
        matches!(error, NativeError::NotAPartitionColumn { .. }),
        "{error}"
    );
    // Another's append to another partition is none of its business, one to its own is.
    let mut other = NativeTable::open(&store).await.unwrap();
    append(&mut other, &[(10, 1)]).await.unwrap();
    let new = written(&table, &[(21, 2)]).await;
    table.overwrite(new, Some(p_is_2())).await.unwrap();
    append(&mut other, &[(22, 2)]).await.unwrap();
    let new = written(&table, &[(23, 2)]).await;
    let error = table.overwrite(new, Some(p_is_2())).await.unwrap_err();
    assert_eq!(kind(error), ConflictKind::Append);
    table.refresh().await.unwrap();
    let new = written(&table, &[(0, 0)]).await;
    table.overwrite(new, None).await.unwrap();
    assert_eq!(values(&store).await, [0]);
}

#[tokio::test]
async fn application_transaction_takes_effect_once_also_when_two_write_it_at_once() {
    let store = memory();
    let mut one = NativeTable::create(&store, definition(&[], false))
        .await
        .unwrap();
    let mut other = NativeTable::open(&store).await.unwrap();
    let app = |version| BTreeMap::from([("stream".to_owned(), version)]);
    let mut done = 0;
    for version in 1..4 {
        let (a, b) = (
            written(&one, &[(version, 1)]).await,
            written(&other, &[(version, 1)]).await,
        );
        let (a, b) = tokio::join!(
            one.append(a, app(version), Reads::Nothing),
            other.append(b, app(version), Reads::Nothing)
        );
        done += usize::from(a.unwrap().is_some()) + usize::from(b.unwrap().is_some());
    }
    assert_eq!(done, 3);
    assert_eq!(values(&store).await, [1, 2, 3]);
    assert!(
        one.set_app_transaction("stream", 3)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        one.set_app_transaction("stream", 4)
            .await
            .unwrap()
            .is_some()
    );
    // A later number of the other is no reason to fail.
    let late = written(&other, &[(5, 1)]).await;
    assert!(
        other
            .append(late, app(5), Reads::Nothing)
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(values(&store).await, [1, 2, 3, 5]);
}

#[tokio::test]
async fn change_of_definition_leaves_appends_valid_only_where_the_format_says_so() {
    let store = memory();
    let mut one = NativeTable::create(&store, definition(&[], false))
        .await
        .unwrap();
    let mut other = NativeTable::open(&store).await.unwrap();
    let set = |key: &str, value: &str| MetadataChange::SetProperty {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let vectors = set("delta.enableDeletionVectors", "true");
    one.change_metadata(vec![vectors]).await.unwrap();
    append(&mut other, &[(1, 1)]).await.unwrap();
    let protocol = &lines(&store, 1).await[1];
    assert!(
        protocol.contains(r#""writerFeatures":["deletionVectors"]"#),
        "{protocol}"
    );
    one.refresh().await.unwrap();
    let column = MetadataChange::AddColumn(Field::new("b", DataType::Long, true).into());
    one.change_metadata(vec![column]).await.unwrap();
    let error = append(&mut other, &[(2, 1)]).await.unwrap_err();
    assert_eq!(kind(error), ConflictKind::Metadata);
    assert_eq!(values(&store).await, [1]);
}

#[tokio::test]
async fn in_commit_timestamps_grow_and_tell_since_when() {
    let store = memory();
    let mut table = NativeTable::create(&store, definition(&[], false))
        .await
        .unwrap();
    append(&mut table, &[(1, 1)]).await.unwrap();
    let on = MetadataChange::SetProperty {
        key: "delta.enableInCommitTimestamps".to_owned(),
        value: "true".to_owned(),
    };
    let mut other = NativeTable::open(&store).await.unwrap();
    table.change_metadata(vec![on]).await.unwrap();
    for value in 2..5 {
        append(&mut other, &[(value, 1)]).await.unwrap();
    }
    let state = open_native(&store, NativeTarget::Latest).await.unwrap();
    let enabled = &state.properties["delta.inCommitTimestampEnablementVersion"];
    assert_eq!(enabled, "2");
    let mut last = 0;
    for version in 2..6 {
        let at = open_native(&store, NativeTarget::Version(version))
            .await
            .unwrap();
        let time = at.in_commit_timestamp.unwrap();
        assert!(time > last);
        last = time;
    }
    let since = &state.properties["delta.inCommitTimestampEnablementTimestamp"];
    let at = NativeTarget::Timestamp(since.parse().unwrap());
    assert_eq!(open_native(&store, at).await.unwrap().version.0, 2);
}

#[tokio::test]
async fn table_that_asks_for_more_than_this_build_does_is_refused_before_anything_is_written() {
    let store = memory();
    NativeTable::create(&store, definition(&[], false))
        .await
        .unwrap();
    let mut known = NativeTable::open(&store).await.unwrap();
    let protocol = r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["com.example.x"]}}"#;
    let key = Path::from(format!("_delta_log/{:020}.json", 1));
    store
        .put(&key, protocol.as_bytes().to_vec().into())
        .await
        .unwrap();
    let error = NativeTable::open(&store).await.unwrap_err().to_string();
    assert!(error.contains("com.example.x"), "{error}");
    // A handle that did not know of it learns it by losing the version.
    let error = append(&mut known, &[(1, 1)]).await.unwrap_err();
    assert!(error.to_string().contains("com.example.x"), "{error}");
    assert!(
        store
            .get(&Path::from(format!("_delta_log/{:020}.json", 2)))
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn checkpoints_come_at_the_interval_and_checksums_with_each_commit() {
    let store = memory();
    let every = [
        ("delta.checkpointInterval", "4"),
        ("delta.enableDeletionVectors", "true"),
    ];
    let mut table = NativeTable::create(&store, definition(&every, false))
        .await
        .unwrap();
    for value in 0..6 {
        append(&mut table, &[(value, 1), (value + 100, 1)])
            .await
            .unwrap();
    }
    delete(&store, &mut table, &[0, 1, 101]).await.unwrap();
    table.compact(1 << 20).await.unwrap().unwrap();
    let log = store
        .list_after(&Path::from("_delta_log"), None)
        .await
        .unwrap();
    let named = |end: &str| {
        log.iter()
            .filter(|object| object.key.as_ref().ends_with(end))
            .count()
    };
    assert_eq!(named(".checkpoint.parquet"), 2);
    assert_eq!(named(".crc"), 9);
    for version in 0..9 {
        let state = open_native(&store, NativeTarget::Version(version))
            .await
            .unwrap();
        let key = Path::from(format!("_delta_log/{version:020}.crc"));
        let bytes = store.get_required(&key).await.unwrap();
        let stated: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(stated["tableSizeBytes"], state.size_bytes(), "{version}");
        assert_eq!(stated["numFiles"], state.files.len(), "{version}");
        let delta = DeltaState::of(&state).unwrap();
        assert_eq!(stated["metadata"]["id"], delta.metadata.id.as_str());
    }
    // With the old commits gone, the checkpoint is what the table begins from.
    for version in 0..4 {
        let key = Path::from(format!("_delta_log/{version:020}.json"));
        store.delete(&key).await.unwrap();
    }
    assert_eq!(values(&store).await, [2, 3, 4, 5, 100, 102, 103, 104, 105]);
    assert!(matches!(
        NativeTable::create(&store, definition(&[], false)).await,
        Err(NativeError::Exists { .. })
    ));
}

#[tokio::test]
async fn commit_whose_answer_is_lost_is_found_by_its_id_and_made_once() {
    for fault in [
        Fault::ErrorBefore,
        Fault::ErrorAfter,
        Fault::LostAnswer,
        Fault::SelfConflict,
        Fault::PhantomConflict,
        Fault::LateEffect,
    ] {
        let objects = Arc::new(InMemory::new());
        let context = Context::seeded(9);
        let faulty = FaultStore::new(objects, FaultPlan::default(), context.clone());
        let store = Store::new(Arc::new(faulty.clone()), "memory://", context);
        let mut table = NativeTable::create(&store, definition(&[], false))
            .await
            .unwrap();
        let new = written(&table, &[(1, 1)]).await;
        faulty.script([fault, fault]);
        let commit = table
            .append(new, BTreeMap::new(), Reads::Nothing)
            .await
            .unwrap()
            .unwrap();
        faulty.settle().await;
        assert_eq!(commit.version.0, 1, "{fault:?}");
        append(&mut table, &[(2, 1)]).await.unwrap();
        assert_eq!(values(&store).await, [1, 2], "{fault:?}");
        let text = lines(&store, 1).await.join("");
        assert!(text.contains(&commit.txn.to_string()), "{fault:?}");
    }
}

#[tokio::test]
async fn store_that_does_not_answer_leaves_the_outcome_open_and_says_so() {
    let context = Context::seeded(9);
    let faulty = FaultStore::new(
        Arc::new(InMemory::new()),
        FaultPlan::default(),
        context.clone(),
    );
    let store = Store::new(Arc::new(faulty.clone()), "memory://", context);
    let table = NativeTable::create(&store, definition(&[], false))
        .await
        .unwrap();
    let mut table = table.with_commit_time(Duration::from_millis(50));
    let new = written(&table, &[(1, 1)]).await;
    faulty.script([Fault::LostAnswer]);
    faulty.script_for(
        tarndb_storage::fault::Operation::Get,
        std::iter::repeat_n(Fault::ErrorBefore, 100),
    );
    let error = table
        .append(new, BTreeMap::new(), Reads::Nothing)
        .await
        .unwrap_err();
    assert!(
        matches!(error, NativeError::Pending { version: 1, .. }),
        "{error}"
    );
    assert!(!error.is_retryable());
}

/// Appends, deletions and compactions by several handles on a store that lies about its answers.
#[tokio::test]
async fn nothing_is_lost_when_many_write_to_a_store_that_lies() {
    const WRITERS: i64 = 4;
    const ROUNDS: i64 = 6;
    for seed in 0..3 {
        let context = Context::seeded(seed);
        let plan = FaultPlan {
            seed,
            error_after: 0.03,
            lost_answer: 0.03,
            self_conflict: 0.05,
            phantom_conflict: 0.05,
            ..FaultPlan::default()
        };
        let faulty = FaultStore::new(Arc::new(InMemory::new()), plan, context.clone());
        faulty.set_active(false);
        let store = Store::new(Arc::new(faulty.clone()), "memory://", context);
        let on = [("delta.enableDeletionVectors", "true")];
        NativeTable::create(&store, definition(&on, true))
            .await
            .unwrap();
        faulty.set_active(true);
        let store = store.retrying(tarndb_storage::RetryPolicy::default());
        let work = |writer: i64| {
            let store = store.clone();
            async move {
                let mut table = NativeTable::open(&store).await.unwrap();
                for round in 0..ROUNDS {
                    let value = writer * 1000 + round;
                    append(&mut table, &[(value, round % 2), (value + 500, round % 2)])
                        .await
                        .unwrap();
                    while let Err(error) = delete(&store, &mut table, &[value + 500]).await {
                        assert!(error.is_retryable(), "{error}");
                        table.refresh().await.unwrap();
                    }
                    if round % 3 == writer % 3 {
                        match table.compact(1 << 20).await {
                            Ok(_) => {}
                            Err(error) => assert!(error.is_retryable(), "{error}"),
                        }
                        table.refresh().await.unwrap();
                    }
                }
            }
        };
        futures::future::join_all((0..WRITERS).map(work)).await;
        faulty.set_active(false);
        let expected: Vec<i64> = (0..WRITERS)
            .flat_map(|writer| (0..ROUNDS).map(move |round| writer * 1000 + round))
            .collect();
        assert_eq!(values(&store).await, expected, "seed {seed}");
    }
}
