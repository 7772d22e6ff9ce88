//! From URLs to stores.

use bytes::Bytes;
use object_store::path::Path;

use super::open;
use crate::context::Context;
use crate::error::StoreError;
use crate::options::StoreOptions;

fn options(pairs: &[(&str, &str)]) -> StoreOptions {
    pairs
        .iter()
        .fold(StoreOptions::default(), |all, (key, value)| {
            all.with(key, value)
        })
}

#[tokio::test]
async fn memory_urls_share_one_store_per_name() {
    let open = |url: &str| open(url, &StoreOptions::default(), Context::seeded(1)).unwrap();
    let key = Path::from("k");
    open("memory://open-shared/p q/%")
        .put(&key, Bytes::from_static(b"1"))
        .await
        .unwrap();
    let same = open("memory://open-shared/p q/%");
    assert_eq!(
        same.get(&key).await.unwrap(),
        Some(Bytes::from_static(b"1"))
    );
    assert_eq!(same.url(), "memory://open-shared/p q/%");
    let listed = same.list_after(&Path::ROOT, None).await.unwrap();
    assert_eq!(listed[0].key, key);
    let root = open("memory://open-shared");
    let whole = root.list_after(&Path::ROOT, None).await.unwrap();
    assert_eq!(whole[0].key.as_ref(), "p q/%/k");
    assert_eq!(open("memory://open-other").get(&key).await.unwrap(), None);
    assert_eq!(
        open("memory://open-shared/p").get(&key).await.unwrap(),
        None
    );
}

#[test]
fn a_file_is_not_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    std::fs::write(&file, b"x").unwrap();
    let result = open(
        file.to_str().unwrap(),
        &StoreOptions::default(),
        Context::seeded(1),
    );
    assert!(matches!(result, Err(StoreError::NotAFolder { .. })));
}

#[test]
fn opening_a_folder_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new");
    open(
        path.to_str().unwrap(),
        &StoreOptions::default(),
        Context::seeded(1),
    )
    .unwrap();
    assert!(!path.exists());
}

#[test]
fn unknown_and_malformed_options_are_named_without_their_value() {
    for (url, key, value) in [
        ("/tmp/x", "aws_region", "s3cret"),
        ("memory://", "durability", "s3cret"),
        ("s3://b/p", "aws_regoin", "s3cret"),
        ("gs://b/p", "google_service_account_key", "s3cret"),
        ("az://c/p", "account_name_", "s3cret"),
        ("memory://", "fault.lost_answer", "s3cret"),
        ("memory://", "fault.nonsense", "1"),
    ] {
        let given = options(&[(key, value)]);
        let error = open(url, &given, Context::seeded(1)).unwrap_err();
        assert!(
            matches!(error, StoreError::InvalidOption { .. }),
            "{url} {error:?}"
        );
        let text = format!("{error} {error:?} {given:?}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn cloud_stores_are_built_from_options_and_show_no_secret() {
    let s3 = options(&[
        ("aws_access_key_id", "AKID"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2"),
        ("aws_region", "eu-central-1"),
        ("aws_endpoint", "http://127.0.0.1:1"),
        ("aws_allow_http", "true"),
    ]);
    let gcs_key = r#"{"gcs_base_url":"http://127.0.0.1:1","disable_oauth":true,"client_email":"",
        "private_key":"","private_key_id":"hunter2"}"#;
    let gcs = options(&[
        ("google_service_account_key", gcs_key),
        ("allow_http", "true"),
    ]);
    // Base64 of "hunter2hunter2".
    let azure = options(&[
        ("account_name", "acc"),
        ("account_key", "aHVudGVyMmh1bnRlcjI="),
    ]);
    for (url, given) in [
        ("s3://bucket/some prefix", &s3),
        ("gs://bucket/p%20q", &gcs),
        ("az://container/p", &azure),
        ("abfss://container@acc.dfs.core.windows.net/p", &azure),
    ] {
        let store = open(url, given, Context::seeded(1)).unwrap();
        assert_eq!(store.url(), url);
        let text = format!(
            "{store:?} {given:?} {:?} {}",
            store.objects(),
            store.objects()
        );
        assert!(
            !text.contains("hunter2") && !text.contains("aHVudGVy"),
            "{text}"
        );
    }
}
