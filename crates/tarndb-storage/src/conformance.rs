//! What every store must do, as functions that any store can be run through.
//!
//! Invariant: each function uses a folder of its own, so that they can share a store; each
//! panics, saying what was expected, when the store does not conform.

#![expect(clippy::unwrap_used, reason = "a conformance check fails by panicking")]
#![expect(
    clippy::indexing_slicing,
    reason = "a conformance check fails by panicking"
)]

use bytes::Bytes;
use futures::StreamExt as _;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::error::StoreError;
use crate::store::{PutOutcome, Store};

/// The smallest part that S3 accepts for all but the last part.
const PART_BYTES: usize = 5 << 20;
/// Creators that race for one name.
const CREATORS: usize = 32;
/// More names than the 1,000 that S3 lists at once.
const LONG_LISTING: usize = 1_100;

/// Runs every check.
pub async fn all(store: &Store) {
    create_has_one_winner(store).await;
    create_keeps_the_first_content(store).await;
    write_is_read_at_once_and_overwritten(store).await;
    absence_is_not_an_error(store).await;
    listing_is_ordered_and_bounded(store).await;
    ranges_are_exact(store).await;
    multipart_shows_all_or_nothing(store).await;
    odd_keys_are_literal(store).await;
    deleted_names_are_free(store).await;
    store.probe(&fresh(store, "probe")).await.unwrap();
}

fn fresh(store: &Store, name: &str) -> Path {
    Path::from(format!("conformance/{name}-{}", store.context().uuid()))
}

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.to_owned())
}

/// Of many concurrent creators of a name exactly one is told that it created it, and the name
/// holds what that one wrote.
pub async fn create_has_one_winner(store: &Store) {
    let key = fresh(store, "race").join("00000000000000000001.json");
    let create = |number: usize| {
        let (store, key) = (store.clone(), key.clone());
        async move {
            store
                .put_if_absent(&key, bytes(&format!("creator {number}")))
                .await
        }
    };
    let tasks: Vec<_> = (0..CREATORS)
        .map(|number| tokio::spawn(create(number)))
        .collect();
    let (mut winners, mut losers_unclear) = (Vec::new(), Vec::new());
    for (number, task) in tasks.into_iter().enumerate() {
        match task.await.unwrap().unwrap() {
            PutOutcome::Created => winners.push(number),
            PutOutcome::AlreadyExists => {}
            PutOutcome::Unknown(error) => losers_unclear.push((number, error)),
        }
    }
    assert!(losers_unclear.is_empty(), "no answer: {losers_unclear:?}");
    assert_eq!(winners.len(), 1, "winners: {winners:?}");
    let content = store.get_required(&key).await.unwrap();
    assert_eq!(content, bytes(&format!("creator {}", winners[0])));
}

/// A refused create changes nothing.
pub async fn create_keeps_the_first_content(store: &Store) {
    let key = fresh(store, "create").join("k");
    let first = store.put_if_absent(&key, bytes("first")).await.unwrap();
    assert!(matches!(first, PutOutcome::Created), "{first:?}");
    for content in ["second", "first", ""] {
        let again = store.put_if_absent(&key, bytes(content)).await.unwrap();
        assert!(matches!(again, PutOutcome::AlreadyExists), "{again:?}");
    }
    assert_eq!(store.get(&key).await.unwrap(), Some(bytes("first")));
}

/// A write is seen by the next read, in full, and replaces what was there.
pub async fn write_is_read_at_once_and_overwritten(store: &Store) {
    let key = fresh(store, "write").join("deep/er/k");
    for content in ["", "a", "longer than before", "b"] {
        store.put(&key, bytes(content)).await.unwrap();
        assert_eq!(store.get_required(&key).await.unwrap(), bytes(content));
        let info = store.head(&key).await.unwrap().unwrap();
        assert_eq!(
            (info.key, info.size_bytes),
            (key.clone(), content.len() as u64)
        );
        assert!(
            info.last_modified.0 > 1_600_000_000_000,
            "{:?}",
            info.last_modified
        );
    }
}

/// What is not there reads as absent, lists as nothing and deletes without complaint.
pub async fn absence_is_not_an_error(store: &Store) {
    let dir = fresh(store, "absent");
    store
        .put(&dir.clone().join("folder").join("k"), bytes("x"))
        .await
        .unwrap();
    for name in ["missing", "folder", "folder/k/below"] {
        let key = Path::parse(format!("{dir}/{name}")).unwrap();
        assert_eq!(store.get(&key).await.unwrap(), None, "{name}");
        assert_eq!(store.head(&key).await.unwrap(), None, "{name}");
        let required = store.get_required(&key).await;
        assert!(
            matches!(required, Err(StoreError::NotFound { .. })),
            "{required:?}"
        );
        let range = store.get_range(&key, 0..1).await;
        assert!(
            matches!(range, Err(StoreError::NotFound { .. })),
            "{range:?}"
        );
    }
    let missing = dir.clone().join("missing");
    store.delete(&missing).await.unwrap();
    assert_eq!(store.list_after(&missing, None).await.unwrap(), vec![]);
    // A name that merely begins with the folder's is not below it.
    store
        .put(&dir.clone().join("missing-not"), bytes("x"))
        .await
        .unwrap();
    assert_eq!(store.list_after(&missing, None).await.unwrap(), vec![]);
}

/// Listings ascend by key bytes, at every depth, strictly after the offset.
pub async fn listing_is_ordered_and_bounded(store: &Store) {
    let dir = fresh(store, "list");
    // No name is also a folder: on a file system it cannot be both.
    let names = [
        "B", "a-/x", "a.b", "a/b", "a/b.c/d", "a0", "b/1/2/3", "\u{e9}", "\u{65e5}",
    ];
    let keys: Vec<Path> = names
        .iter()
        .map(|name| Path::parse(format!("{dir}/{name}")).unwrap())
        .collect();
    for key in keys.iter().rev() {
        store.put(key, bytes(key.as_ref())).await.unwrap();
    }
    let listed = store.list_after(&dir, None).await.unwrap();
    let listed_keys: Vec<Path> = listed.iter().map(|info| info.key.clone()).collect();
    assert_eq!(listed_keys, keys);
    for info in &listed {
        assert_eq!(info.size_bytes, info.key.as_ref().len() as u64);
    }
    let absent = Path::parse(format!("{dir}/a.a")).unwrap();
    for offset in keys.iter().chain([&absent]) {
        let after = store.list_after(&dir, Some(offset)).await.unwrap();
        let expected: Vec<_> = listed
            .iter()
            .filter(|info| info.key > *offset)
            .cloned()
            .collect();
        assert_eq!(after, expected, "after {offset}");
    }
}

/// Listings of more names than a store puts into one page hold every name once. Not one of
/// [`all`], since it makes 1,100 objects.
pub async fn long_listings_are_complete(store: &Store) {
    let dir = fresh(store, "long");
    let keys: Vec<Path> = (0..LONG_LISTING)
        .map(|number| Path::parse(format!("{dir}/{number:05}")).unwrap())
        .collect();
    let put = |key: Path| async move { store.put(&key, bytes("x")).await };
    futures::stream::iter(keys.iter().cloned().map(put))
        .buffer_unordered(CREATORS)
        .for_each(|stored| async move { stored.unwrap() })
        .await;
    for after in [None, Some(3), Some(LONG_LISTING - 2)] {
        let offset = after.map(|number| &keys[number]);
        let listed = store.list_after(&dir, offset).await.unwrap();
        let listed: Vec<Path> = listed.into_iter().map(|info| info.key).collect();
        let first = after.map_or(0, |number| number + 1);
        assert_eq!(listed, keys[first..], "after {after:?}");
    }
}

/// Ranges give exactly their bytes, or an error when the object is shorter.
pub async fn ranges_are_exact(store: &Store) {
    let key = fresh(store, "range").join("k");
    store.put(&key, bytes("0123456789")).await.unwrap();
    for (range, expected) in [
        (0..10, "0123456789"),
        (3..5, "34"),
        (9..10, "9"),
        (4..4, ""),
    ] {
        assert_eq!(store.get_range(&key, range).await.unwrap(), bytes(expected));
    }
    for range in [9..11, 10..11, 100..200] {
        assert!(
            store.get_range(&key, range.clone()).await.is_err(),
            "{range:?}"
        );
    }
    let parts = store
        .objects()
        .get_ranges(&key, &[7..9, 0..2, 1..4])
        .await
        .unwrap();
    assert_eq!(parts, vec![bytes("78"), bytes("01"), bytes("123")]);
}

/// A multipart object appears whole when it is completed, and never when it is aborted.
pub async fn multipart_shows_all_or_nothing(store: &Store) {
    let dir = fresh(store, "multipart");
    let key = dir.clone().join("big");
    let parts: Vec<Bytes> = [(b'a', PART_BYTES), (b'b', PART_BYTES), (b'c', 3)]
        .iter()
        .map(|(byte, length)| Bytes::from(vec![*byte; *length]))
        .collect();
    let mut upload = store.objects().put_multipart(&key).await.unwrap();
    let uploads: Vec<_> = parts
        .iter()
        .map(|part| upload.put_part(part.clone().into()))
        .collect();
    // Parts may arrive in any order.
    for part in uploads.into_iter().rev() {
        part.await.unwrap();
    }
    assert_eq!(store.head(&key).await.unwrap(), None);
    assert_eq!(store.list_after(&dir, None).await.unwrap(), vec![]);
    upload.complete().await.unwrap();
    assert_eq!(store.get_required(&key).await.unwrap(), parts.concat());
    let edge = PART_BYTES as u64;
    assert_eq!(
        store.get_range(&key, edge - 1..edge + 1).await.unwrap(),
        bytes("ab")
    );
    let aborted = dir.clone().join("aborted");
    let mut upload = store.objects().put_multipart(&aborted).await.unwrap();
    upload.put_part(bytes("x").into()).await.unwrap();
    upload.abort().await.unwrap();
    assert_eq!(store.list_after(&dir, None).await.unwrap().len(), 1);
}

/// Keys are taken as they are: nothing is encoded, decoded or folded. A backslash is not asked
/// for, since Azure takes it for a slash; no name of ours has one, and no prefix may.
pub async fn odd_keys_are_literal(store: &Store) {
    let dir = fresh(store, "odd keys % \u{e9}");
    let long = "n".repeat(200);
    let names = [
        "a b",
        "a%20b",
        "a%2Fb",
        "%",
        "%%",
        "p=1/q=%3A",
        "A",
        "\u{e9}",
        "e\u{301}",
        "\u{1f4a7}",
        ".hidden",
        "...",
        "~",
        "a+b&c",
        "#?",
        "quote'\"",
        "semi;colon:",
        "{x}",
        " lead",
        "trail ",
        &long,
    ];
    let mut keys: Vec<Path> = names
        .iter()
        .map(|name| Path::parse(format!("{dir}/{name}")).unwrap())
        .collect();
    for key in &keys {
        let outcome = store.put_if_absent(key, bytes(key.as_ref())).await.unwrap();
        assert!(matches!(outcome, PutOutcome::Created), "{key}: {outcome:?}");
    }
    keys.sort();
    let listed = store.list_after(&dir, None).await.unwrap();
    let listed: Vec<Path> = listed.into_iter().map(|info| info.key).collect();
    assert_eq!(listed, keys);
    for key in &keys {
        assert_eq!(
            store.get(key).await.unwrap(),
            Some(bytes(key.as_ref())),
            "{key}"
        );
        store.delete(key).await.unwrap();
    }
    assert_eq!(store.list_after(&dir, None).await.unwrap(), vec![]);
}

/// A deleted name is absent and can be created again.
pub async fn deleted_names_are_free(store: &Store) {
    let key = fresh(store, "delete").join("k");
    for round in ["1", "2"] {
        let outcome = store.put_if_absent(&key, bytes(round)).await.unwrap();
        assert!(matches!(outcome, PutOutcome::Created), "{outcome:?}");
        assert_eq!(store.get(&key).await.unwrap(), Some(bytes(round)));
        store.delete(&key).await.unwrap();
        assert_eq!(store.get(&key).await.unwrap(), None);
    }
}
