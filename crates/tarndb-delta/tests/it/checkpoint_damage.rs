//! BC-30: a writer that dies at any request of a checkpoint, and checkpoints that are damaged.
//!
//! Each case is read as a table by path and as one of a database; what is read is the model, or
//! a refusal once nothing else is left.

use std::sync::Arc;

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tarndb_delta::{DeltaCodec, NativeTarget, open_native};
use tarndb_storage::context::Context;
use tarndb_storage::hand_store::{Death, HandStore};
use tarndb_storage::{Path, Store};
use tarndb_table::{LoadRequest, TableCodec as _, TableState};
use tarndb_types::TableVersion;

const COMMITS: u64 = 8;
const FIRST: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Classic,
    MultiPart,
    V2,
}

const KINDS: [Kind; 3] = [Kind::Classic, Kind::MultiPart, Kind::V2];

fn commit(version: u64, kind: Kind) -> String {
    let mut lines = vec![format!(
        r#"{{"commitInfo":{{"timestamp":{version},"operation":"WRITE"}}}}"#
    )];
    if version == 0 {
        let (protocol, policy) = match kind {
            Kind::V2 => (
                r#""minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint"],"writerFeatures":["v2Checkpoint"]"#,
                "v2",
            ),
            _ => (r#""minReaderVersion":1,"minWriterVersion":2"#, "classic"),
        };
        lines.push(format!(r#"{{"protocol":{{{protocol}}}}}"#));
        lines.push(format!(
            r#"{{"metaData":{{"id":"i","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{{\"type\":\"struct\",\"fields\":[{{\"name\":\"a\",\"type\":\"long\",\"nullable\":true,\"metadata\":{{}}}}]}}","partitionColumns":[],"configuration":{{"delta.checkpointPolicy":"{policy}"}}}}}}"#
        ));
    }
    for number in 0..3 {
        lines.push(format!(
            r#"{{"add":{{"path":"f{version}-{number}","partitionValues":{{}},"size":{},"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":{number}}}"}}}}"#,
            version * 10 + number
        ));
    }
    if version > 1 {
        lines.push(format!(
            r#"{{"remove":{{"path":"f{}-1","deletionTimestamp":4102444800000,"dataChange":true}}}}"#,
            version - 2
        ));
    }
    lines.join("\n")
}

fn log_key(name: &str) -> Path {
    Path::from(format!("_delta_log/{name}"))
}

fn store_of(objects: &HandStore) -> Store {
    Store::new(Arc::new(objects.clone()), "memory://t", Context::seeded(5))
}

/// The commits, and the model: the state at each version.
async fn scene(kind: Kind) -> (HandStore, Vec<TableState>) {
    let objects = HandStore::new(|| 1_800_000_000_000);
    let store = store_of(&objects);
    for version in 0..COMMITS {
        let key = log_key(&format!("{version:020}.json"));
        store
            .put(&key, commit(version, kind).into_bytes().into())
            .await
            .unwrap();
    }
    let mut states = Vec::new();
    for version in 0..COMMITS {
        let target = NativeTarget::Version(version);
        states.push(open_native(&store, target).await.unwrap());
    }
    (objects, states)
}

/// Reads the newest version both ways.
async fn read(store: &Store) -> Vec<Result<TableState, String>> {
    let mut found = Vec::new();
    let native = open_native(store, NativeTarget::Latest).await;
    found.push(native.map_err(|error| error.to_string()));
    let (codec, root) = (DeltaCodec::default(), Path::default());
    let managed = codec.load(LoadRequest {
        store,
        location: &root,
        target: TableVersion(COMMITS - 1),
        published: Some(TableVersion(COMMITS - 1)),
        tail: &[],
    });
    found.push(managed.await.map_err(|error| error.to_string()));
    found
}

async fn assert_model(store: &Store, states: &[TableState], case: &str) {
    let model = &states[states.len() - 1];
    for found in read(store).await {
        let found = found.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(found.files, model.files, "{case}");
        assert_eq!(found.version, model.version, "{case}");
    }
}

async fn checkpoint(store: &Store, state: &TableState) -> bool {
    let codec = DeltaCodec::default();
    codec
        .checkpoint(store, &Path::default(), state)
        .await
        .is_ok()
}

/// The checkpoint at a version, in the form of `kind`.
async fn write(store: &Store, states: &[TableState], version: u64, kind: Kind) {
    assert!(checkpoint(store, &states[version as usize]).await);
    if kind == Kind::MultiPart {
        split(store, version).await;
    }
}

/// Makes one of three parts out of a classic checkpoint.
async fn split(store: &Store, version: u64) {
    let classic = log_key(&format!("{version:020}.checkpoint.parquet"));
    let bytes = store.get_required(&classic).await.unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    let whole = &batches[0];
    let third = whole.num_rows().div_ceil(3);
    for part in 0..3 {
        let start = part * third;
        let rows = whole.slice(start, third.min(whole.num_rows() - start));
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        let name = format!(
            "{version:020}.checkpoint.{:010}.{:010}.parquet",
            part + 1,
            3
        );
        store.put(&log_key(&name), file.into()).await.unwrap();
    }
    store.delete(&classic).await.unwrap();
    let hint = format!(r#"{{"version":{version},"size":20,"parts":3}}"#);
    store
        .put(&log_key("_last_checkpoint"), hint.into_bytes().into())
        .await
        .unwrap();
}

async fn checkpoint_files(store: &Store, version: u64) -> Vec<Path> {
    let prefix = format!("_delta_log/{version:020}.checkpoint");
    let listed = store
        .list_after(&Path::from("_delta_log"), None)
        .await
        .unwrap();
    let keys = listed.into_iter().map(|object| object.key);
    keys.filter(|key| key.as_ref().starts_with(&prefix) || key.as_ref().contains("/_sidecars/"))
        .collect()
}

async fn clean_commits(store: &Store, below: u64) {
    for version in 0..below {
        store
            .delete(&log_key(&format!("{version:020}.json")))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn killed_at_any_request_of_a_checkpoint_the_table_is_what_its_commits_say() {
    for kind in [Kind::Classic, Kind::V2] {
        let (base, states) = scene(kind).await;
        write(&store_of(&base), &states, FIRST, kind).await;
        for death in [Death::Before, Death::After] {
            let mut requests = 0;
            loop {
                let objects = base.copy();
                let store = store_of(&objects);
                objects.die(Some(death(requests)));
                let done = checkpoint(&store, &states[COMMITS as usize - 1]).await;
                objects.die(None);
                let case = format!("{kind:?} {:?}", death(requests));
                assert_model(&store, &states, &case).await;
                // The next writer ends it, and then nothing else is needed.
                assert!(checkpoint(&store, &states[COMMITS as usize - 1]).await);
                clean_commits(&store, COMMITS).await;
                assert_model(&store, &states, &case).await;
                if done {
                    break;
                }
                requests += 1;
            }
            // The checkpoint and its hint at least.
            assert!(requests >= 2, "{kind:?} {requests}");
        }
    }
}

/// Every damage of an object: gone, empty, cut at each sixteenth, a byte changed in each.
fn damages(whole: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut all = vec![("gone".to_owned(), None)];
    for part in 0..16 {
        let at = whole.len() * part / 16;
        all.push((format!("cut at {part}/16"), Some(whole[..at].to_vec())));
        let mut flipped = whole.to_vec();
        flipped[at] ^= 0x55;
        all.push((format!("flipped at {part}/16"), Some(flipped)));
    }
    let mut end = whole.to_vec();
    end[whole.len() - 6] ^= 0xff;
    all.push(("footer's length changed".to_owned(), Some(end)));
    all
}

#[tokio::test]
async fn a_damaged_checkpoint_is_left_aside_for_an_older_one_or_the_commits() {
    for kind in KINDS {
        for older in [false, true] {
            let (base, states) = scene(kind).await;
            let store = store_of(&base);
            if older {
                write(&store, &states, FIRST, kind).await;
            }
            write(&store, &states, COMMITS - 2, kind).await;
            if older {
                clean_commits(&store, FIRST).await;
            }
            let sums = (
                states[COMMITS as usize - 1].files.len(),
                states[COMMITS as usize - 1].size_bytes(),
            );
            seal(&store, &states).await;
            for key in checkpoint_files(&store, COMMITS - 2).await {
                let whole = store.get_required(&key).await.unwrap();
                // With an older one a few do: what is damaged is told alike.
                let step = if older { 5 } else { 1 };
                for (damage, bytes) in damages(&whole).into_iter().step_by(step) {
                    match &bytes {
                        Some(bytes) => store.put(&key, bytes.clone().into()).await.unwrap(),
                        None => store.delete(&key).await.unwrap(),
                    }
                    let case = format!("{kind:?} older={older} {key} {damage}");
                    for found in read(&store).await {
                        let found = found.unwrap_or_else(|error| panic!("{case}: {error}"));
                        // The format has no checksum of a checkpoint: a byte that changes what
                        // a page says, and no count, is not noticed by anybody.
                        assert_eq!((found.files.len(), found.size_bytes()), sums, "{case}");
                    }
                    if !damage.starts_with("flipped") {
                        assert_model(&store, &states, &case).await;
                    }
                }
                store.put(&key, whole).await.unwrap();
            }
        }
    }
}

/// The checksum of the newest version.
async fn seal(store: &Store, states: &[TableState]) {
    let model = &states[states.len() - 1];
    let codec = DeltaCodec::default();
    codec
        .write_side_files(store, &Path::default(), model, model.version, None)
        .await
        .unwrap();
}

#[tokio::test]
async fn with_the_commits_cleaned_up_a_damaged_checkpoint_is_an_error_that_names_it() {
    for kind in KINDS {
        let (base, states) = scene(kind).await;
        let store = store_of(&base);
        write(&store, &states, COMMITS - 2, kind).await;
        clean_commits(&store, COMMITS - 2).await;
        assert_model(&store, &states, "whole").await;
        for key in checkpoint_files(&store, COMMITS - 2).await {
            let whole = store.get_required(&key).await.unwrap();
            for (damage, bytes) in damages(&whole) {
                if damage.starts_with("flipped") {
                    continue;
                }
                match &bytes {
                    Some(bytes) => store.put(&key, bytes.clone().into()).await.unwrap(),
                    None => store.delete(&key).await.unwrap(),
                }
                for found in read(&store).await {
                    let error = found
                        .err()
                        .unwrap_or_else(|| panic!("{kind:?} {key} {damage}"));
                    let told = error.contains(".parquet")
                        || error.contains("begins at version")
                        || error.contains("missing version")
                        || error.contains("no longer readable");
                    assert!(told, "{kind:?} {key} {damage}: {error}");
                }
            }
            store.put(&key, whole).await.unwrap();
        }
    }
}

#[tokio::test]
async fn two_writers_of_one_checkpoint_at_once_leave_one_that_is_right() {
    for kind in [Kind::Classic, Kind::V2] {
        let (base, states) = scene(kind).await;
        let newest = &states[COMMITS as usize - 1];
        let store = store_of(&base);
        let (one, other) = futures::join!(checkpoint(&store, newest), checkpoint(&store, newest));
        assert!(one && other);
        clean_commits(&store, COMMITS).await;
        assert_model(&store, &states, &format!("{kind:?}")).await;
        // One of them dies at each of its requests, the other has ended.
        for requests in 0..4 {
            let objects = base.copy();
            let store = store_of(&objects);
            assert!(checkpoint(&store, newest).await);
            objects.die(Some(Death::After(requests)));
            checkpoint(&store, newest).await;
            objects.die(None);
            assert_model(&store, &states, &format!("{kind:?} {requests}")).await;
        }
    }
}
