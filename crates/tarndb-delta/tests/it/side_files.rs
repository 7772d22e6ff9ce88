//! What stands beside commits: compactions of the log and checksums, right and wrong.

use tarndb_delta::{DeltaState, NativeTable, NativeTarget, open_native};
use tarndb_storage::context::Context;
use tarndb_storage::{Path, Store};
use tarndb_table::TableState;

use crate::native::{append, definition, delete};

const LAST: u64 = 21;

fn key(name: &str) -> Path {
    Path::from(format!("_delta_log/{name}"))
}

fn compaction(first: u64, last: u64) -> Path {
    key(&format!("{first:020}.{last:020}.compacted.json"))
}

/// A table of 22 versions, with a compaction of every 4 and no checkpoint.
async fn compacted() -> Store {
    let store = Store::memory(Context::seeded(3));
    let properties = [
        ("delta.checkpointInterval", "1000"),
        ("delta.enableDeletionVectors", "true"),
        ("tarndb.logCompactionInterval", "4"),
    ];
    let mut table = NativeTable::create(&store, definition(&properties, false))
        .await
        .unwrap();
    for version in 1..=LAST {
        match version % 5 {
            0 => {
                let first = version as i64 - 1;
                delete(&store, &mut table, &[first, first + 100])
                    .await
                    .unwrap();
            }
            4 => {
                let rows = [(version as i64, 1), (version as i64 + 100, 1), (-1, 1)];
                append(&mut table, &rows).await.unwrap();
            }
            _ => {
                append(&mut table, &[(version as i64, 1)]).await.unwrap();
            }
        }
    }
    store
}

async fn names(store: &Store, end: &str) -> Vec<String> {
    let listed = store.list_after(&Path::from("_delta_log"), None).await;
    let names = listed.unwrap().into_iter();
    let names = names.map(|object| object.key.filename().unwrap().to_owned());
    names.filter(|name| name.ends_with(end)).collect()
}

/// All of a state.
fn all_of(state: &TableState) -> impl PartialEq + std::fmt::Debug {
    let delta = DeltaState::of(state).unwrap();
    let mut files: Vec<_> = state.files.values().collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let tombstones: Vec<_> = delta.tombstones.keys().cloned().collect();
    let head = (delta.metadata.clone(), delta.protocol.clone());
    (
        files,
        tombstones,
        head,
        state.in_commit_timestamp,
        state.version,
    )
}

async fn state_at(store: &Store, version: u64) -> TableState {
    open_native(store, NativeTarget::Version(version))
        .await
        .unwrap()
}

/// Every version by commits alone.
async fn by_commits(store: &Store) -> Vec<TableState> {
    let plain = Store::memory(Context::seeded(3));
    for object in store.list_after(&Path::default(), None).await.unwrap() {
        let name = object.key.as_ref();
        if !name.ends_with(".compacted.json") && !name.ends_with(".crc") {
            let bytes = store.get_required(&object.key).await.unwrap();
            plain.put(&object.key, bytes).await.unwrap();
        }
    }
    let mut states = Vec::new();
    for version in 0..=LAST {
        states.push(state_at(&plain, version).await);
    }
    states
}

#[tokio::test]
async fn compactions_give_every_version_as_its_commits_do_and_save_reads() {
    let store = compacted().await;
    let ranges = [(0, 3), (4, 7), (8, 11), (12, 15), (16, 19)];
    let expected: Vec<String> = ranges
        .iter()
        .map(|(first, last)| compaction(*first, *last).filename().unwrap().to_owned())
        .collect();
    assert_eq!(names(&store, ".compacted.json").await, expected);
    let states = by_commits(&store).await;
    for (version, expected) in (0..).zip(&states) {
        let found = state_at(&store, version).await;
        assert_eq!(all_of(&found), all_of(expected), "{version}");
    }
    let before = store.meter().counts();
    state_at(&store, LAST).await;
    let after = store.meter().counts();
    // Hint, five compactions, two commits, the checksum; and one listing.
    assert_eq!(after.requests() - before.requests(), 10);
}

#[tokio::test]
async fn a_compaction_that_cannot_be_used_is_replaced_by_its_commits() {
    let store = compacted().await;
    let states = by_commits(&store).await;
    let place = compaction(8, 11);
    let whole = store.get_required(&place).await.unwrap();
    let mut damaged: Vec<Vec<u8>> = Vec::new();
    for part in 1..16 {
        damaged.push(whole[..whole.len() * part / 16].to_vec());
        let mut flipped = whole.to_vec();
        let at = whole.len() * part / 16;
        flipped[at] ^= 0x80;
        damaged.push(flipped);
    }
    damaged.push(b"\n\n".to_vec());
    damaged.push(Vec::new());
    damaged.push(b"{}".to_vec());
    for bytes in damaged {
        store.put(&place, bytes.clone().into()).await.unwrap();
        for version in [10, 11, 13, LAST] {
            let found = state_at(&store, version).await;
            let expected = &states[version as usize];
            let shown = String::from_utf8_lossy(&bytes)
                .chars()
                .take(60)
                .collect::<String>();
            assert_eq!(all_of(&found), all_of(expected), "{version} {shown}");
        }
    }
    // Gone between listing and reading, or never there.
    store.delete(&place).await.unwrap();
    assert_eq!(
        all_of(&state_at(&store, LAST).await),
        all_of(&states[LAST as usize])
    );
}

#[tokio::test]
async fn compactions_that_overlap_or_reach_too_far_change_nothing() {
    let store = compacted().await;
    let states = by_commits(&store).await;
    // What only says that it is of these versions: it would empty the table if it were read.
    let nonsense = br#"{"txn":{"appId":"nonsense","version":1}}"#;
    for (first, last) in [(2, 9), (5, 6), (18, 30), (21, 22), (22, 40)] {
        let place = compaction(first, last);
        store.put(&place, nonsense.to_vec().into()).await.unwrap();
    }
    for version in [3, 7, 11, LAST] {
        let found = state_at(&store, version).await;
        assert_eq!(
            all_of(&found),
            all_of(&states[version as usize]),
            "{version}"
        );
    }
    // A commit that is missing stays missing.
    store
        .delete(&key("00000000000000000005.json"))
        .await
        .unwrap();
    let error = open_native(&store, NativeTarget::Latest).await.unwrap_err();
    assert!(error.to_string().contains("missing version=5"), "{error}");
}

#[tokio::test]
async fn a_compaction_that_lies_is_found_out_by_the_checksum() {
    let store = compacted().await;
    let states = by_commits(&store).await;
    let place = compaction(12, 15);
    let whole = store.get_required(&place).await.unwrap();
    let text = String::from_utf8(whole.to_vec()).unwrap();
    let adds = |line: &&str| line.starts_with("{\"add\"");
    let mut lines: Vec<&str> = text.lines().collect();
    let found = lines.iter().position(adds).unwrap();
    lines.remove(found);
    let bytes = lines.join("\n").into_bytes();
    store.put(&place, bytes.into()).await.unwrap();
    for version in [15, 16, LAST] {
        let found = state_at(&store, version).await;
        assert_eq!(
            all_of(&found),
            all_of(&states[version as usize]),
            "{version}"
        );
    }
}

#[tokio::test]
async fn a_checksum_of_any_content_keeps_no_version_from_being_read() {
    let store = compacted().await;
    let states = by_commits(&store).await;
    let name = format!("{LAST:020}.crc");
    let whole = store.get_required(&key(&name)).await.unwrap();
    let text = String::from_utf8(whole.to_vec()).unwrap();
    let files = states[LAST as usize].files.len();
    for content in [
        String::new(),
        "{}".to_owned(),
        "[1]".to_owned(),
        text[..text.len() / 2].to_owned(),
        text.replace(&format!("\"numFiles\":{files}"), "\"numFiles\":3"),
        text.replace("\"tableSizeBytes\":", "\"tableSizeBytes\":1"),
        text.replace("\"minReaderVersion\":3", "\"minReaderVersion\":1"),
        text.replace("\"numFiles\":", "\"numFiles\":-"),
    ] {
        store
            .put(&key(&name), content.clone().into_bytes().into())
            .await
            .unwrap();
        let found = state_at(&store, LAST).await;
        assert_eq!(all_of(&found), all_of(&states[LAST as usize]), "{content}");
    }
}
