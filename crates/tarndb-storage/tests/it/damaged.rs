//! Folders in which something is wrong.

use bytes::Bytes;
use tarndb_storage::{
    Context, Path, PutOutcome, Store, StoreError, StoreErrorKind, StoreOptions, open,
};

fn folder_store(path: &std::path::Path) -> Store {
    open(
        path.to_str().unwrap(),
        &StoreOptions::default(),
        Context::seeded(5),
    )
    .unwrap()
}

#[tokio::test]
async fn a_file_where_a_folder_is_needed_refuses_definitely() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main"), b"a file").unwrap();
    let store = folder_store(folder.path());
    let result = store
        .put_if_absent(&Path::from("main/t/x"), Bytes::from_static(b"1"))
        .await;
    let error = result.unwrap_err();
    assert!(error.is_not_stored(), "{error:?}");
    assert!(error.to_string().contains("main"), "{error}");
    assert_eq!(store.get(&Path::from("main/t/x")).await.unwrap(), None);
}

#[tokio::test]
async fn a_place_where_no_folder_can_be_made_refuses_definitely() {
    let store = folder_store(std::path::Path::new("/proc/tarndb-no-such-place/db"));
    assert_eq!(store.list_after(&Path::ROOT, None).await.unwrap(), vec![]);
    let error = store
        .put(&Path::from("x"), Bytes::from_static(b"1"))
        .await
        .unwrap_err();
    assert!(error.is_not_stored(), "{error:?}");
    assert!(error.to_string().contains("/proc/"), "{error}");
}

#[tokio::test]
async fn a_folder_that_may_not_be_written_says_so() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("_tarndb")).unwrap();
    let writable = std::fs::metadata(folder.path()).unwrap().permissions();
    let mut mode = writable.clone();
    mode.set_readonly(true);
    for path in [folder.path().join("_tarndb"), folder.path().to_owned()] {
        std::fs::set_permissions(path, mode.clone()).unwrap();
    }
    if std::fs::write(folder.path().join("try"), b"x").is_ok() {
        eprintln!("SKIPPED a_folder_that_may_not_be_written_says_so: this user may write anyway");
        return;
    }
    let store = folder_store(folder.path());
    let result = store
        .put_if_absent(&Path::from("main/x"), Bytes::from_static(b"1"))
        .await;
    let error = result.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::PermissionDenied, "{error:?}");
    assert!(
        error.is_not_stored() && error.to_string().contains("give this user"),
        "{error}"
    );
}

#[tokio::test]
async fn names_that_are_no_keys_and_temporary_files_are_not_listed() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let store = folder_store(root);
    store
        .put(&Path::from("t/ok"), Bytes::from_static(b"1"))
        .await
        .unwrap();
    std::fs::write(root.join("_tarndb/tmp/left-behind"), b"torn").unwrap();
    let not_utf8 = std::ffi::OsStr::from_bytes(b"t/\xff");
    std::fs::write(root.join(not_utf8), b"x").unwrap();
    std::fs::write(root.join("t/bell\u{7}"), b"x").unwrap();
    std::os::unix::fs::symlink("/nowhere", root.join("t/dangling")).unwrap();
    std::os::unix::fs::symlink(root, root.join("t/loop")).unwrap();
    let listed = store.list_after(&Path::ROOT, None).await.unwrap();
    let keys: Vec<&str> = listed.iter().map(|info| info.key.as_ref()).collect();
    assert_eq!(keys, ["t/ok"]);
    let shallow = store.objects().list_with_delimiter(None).await.unwrap();
    assert_eq!(shallow.common_prefixes, vec![Path::from("t")]);
    let hidden = store.get(&Path::from("_tarndb/tmp/left-behind")).await;
    assert!(hidden.is_err(), "{hidden:?}");
    // A name that begins alike is an ordinary one.
    store
        .put(&Path::from("_tarndb/tmp2"), Bytes::from_static(b"1"))
        .await
        .unwrap();
    assert_eq!(
        store
            .list_after(&Path::from("_tarndb"), None)
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_folder_below_the_root_removed_behind_our_back_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("db");
    let store = folder_store(&root);
    store
        .put(&Path::from("a/b/1"), Bytes::from_static(b"1"))
        .await
        .unwrap();
    std::fs::remove_dir_all(root.join("a/b")).unwrap();
    let outcome = store
        .put_if_absent(&Path::from("a/b/2"), Bytes::from_static(b"2"))
        .await;
    assert!(matches!(outcome, Ok(PutOutcome::Created)), "{outcome:?}");
    std::fs::remove_dir_all(root.join("a")).unwrap();
    std::fs::remove_dir_all(root.join("_tarndb")).unwrap();
    store
        .put(&Path::from("a/b/3"), Bytes::from_static(b"3"))
        .await
        .unwrap();
    assert_eq!(store.list_after(&Path::ROOT, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_upload_that_is_dropped_leaves_nothing() {
    use object_store::ObjectStoreExt;
    let folder = tempfile::tempdir().unwrap();
    let store = folder_store(folder.path());
    let mut upload = store
        .objects()
        .put_multipart(&Path::from("t/x"))
        .await
        .unwrap();
    upload
        .put_part(Bytes::from_static(b"abc").into())
        .await
        .unwrap();
    drop(upload);
    let mut holed = store
        .objects()
        .put_multipart(&Path::from("t/x"))
        .await
        .unwrap();
    drop(holed.put_part(Bytes::from_static(b"abc").into()));
    holed
        .put_part(Bytes::from_static(b"def").into())
        .await
        .unwrap();
    let error = holed.complete().await.unwrap_err();
    assert!(error.to_string().contains("3 of 6 bytes"), "{error}");
    drop(holed);
    assert_eq!(store.get(&Path::from("t/x")).await.unwrap(), None);
    assert_eq!(
        std::fs::read_dir(folder.path().join("_tarndb/tmp"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn a_half_written_object_is_a_short_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder_store(folder.path());
    store
        .put(&Path::from("x"), Bytes::from_static(b"0123456789"))
        .await
        .unwrap();
    std::fs::write(folder.path().join("x"), b"0123").unwrap();
    let result = store.get_range(&Path::from("x"), 2..8).await;
    assert!(
        matches!(result, Err(StoreError::ShortRead { got: 2, .. })),
        "{result:?}"
    );
}

/// What is written after the root was moved, removed or replaced would be acknowledged in a
/// place of its own: it is refused, and nothing is made there.
#[tokio::test]
async fn a_root_that_is_not_the_same_any_more_is_refused_and_not_made_anew() {
    for replaced in [false, true] {
        for moved in [false, true] {
            for written_before in [false, true] {
                let outside = tempfile::tempdir().unwrap();
                let root = outside.path().join("db");
                std::fs::create_dir(&root).unwrap();
                let store = folder_store(&root);
                assert_eq!(store.get(&Path::from("a")).await.unwrap(), None);
                if written_before {
                    put(&store, "a/1").await.unwrap();
                }
                match moved {
                    true => std::fs::rename(&root, outside.path().join("moved")).unwrap(),
                    false => std::fs::remove_dir_all(&root).unwrap(),
                }
                if replaced {
                    // Of many folders one would get the inode, were it free.
                    for n in 0..8 {
                        std::fs::create_dir(outside.path().join(format!("other-{n}"))).unwrap();
                    }
                    std::fs::create_dir(&root).unwrap();
                }
                let error = put(&store, "a/2").await.unwrap_err();
                assert!(error.is_not_stored(), "{error}");
                let text = format!("{error:?}");
                assert!(text.contains("moved, removed or replaced"), "{text}");
                assert!(store.get(&Path::from("a/1")).await.is_err());
                assert!(store.list_after(&Path::from("a"), None).await.is_err());
                let made = std::fs::read_dir(&root).map_or(0, |entries| entries.count());
                assert_eq!((root.exists(), made), (replaced, 0));
            }
        }
    }
}

async fn put(store: &Store, key: &str) -> Result<(), StoreError> {
    store.put(&Path::from(key), Bytes::from_static(b"x")).await
}
