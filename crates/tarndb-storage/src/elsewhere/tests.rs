//! Objects of other stores under keys of this one.

use bytes::Bytes;
use object_store::ObjectStore as _;
use object_store::path::Path;

use crate::{Context, PutOutcome, Store, StoreOptions, elsewhere_key, open};

const DIR: &str = "_own/elsewhere";

fn stores(name: &str) -> (Store, Store, Path) {
    let context = Context::system();
    let url = format!("memory://{name}/far/place");
    let options = StoreOptions::default();
    let far = open(&url, &options, context.clone()).unwrap();
    let near = open(&format!("memory://{name}/near"), &options, context).unwrap();
    (near.reaching(DIR), far, elsewhere_key(DIR, &url).unwrap())
}

#[tokio::test]
async fn key_below_the_folder_is_an_object_of_the_other_store() {
    let (near, far, at) = stores("reached");
    let key = at.clone().join("log").join("0.json");
    let bytes = Bytes::from_static(b"hello");
    let put = near.put_if_absent(&key, bytes.clone()).await.unwrap();
    assert!(matches!(put, PutOutcome::Created));
    let put = near.put_if_absent(&key, bytes.clone()).await.unwrap();
    assert!(matches!(put, PutOutcome::AlreadyExists));
    let there = Path::from("log/0.json");
    assert_eq!(far.get(&there).await.unwrap(), Some(bytes.clone()));
    assert_eq!(near.get(&key).await.unwrap(), Some(bytes.clone()));
    assert_eq!(near.get_range(&key, 1..3).await.unwrap(), "el");
    assert_eq!(near.head(&key).await.unwrap().unwrap().key, key);
    assert_eq!(near.direct().get(&key).await.unwrap(), Some(bytes));
    // Nothing of it is in the store itself, and its own keys stay its own.
    assert!(
        near.list_after(&Path::default(), None)
            .await
            .unwrap()
            .is_empty()
    );
    near.put(&Path::from("a"), Bytes::new()).await.unwrap();
    assert_eq!(far.get(&Path::from("a")).await.unwrap(), None);
    near.delete(&key).await.unwrap();
    assert_eq!(far.get(&there).await.unwrap(), None);
}

#[tokio::test]
async fn listing_has_the_keys_of_this_store() {
    let (near, far, at) = stores("listed");
    for name in ["a", "log/0", "log/1", "log/2"] {
        far.put(&Path::from(name), Bytes::new()).await.unwrap();
    }
    let keys = |listed: Vec<crate::ObjectInfo>| -> Vec<String> {
        let prefix = format!("{at}/");
        let rest = |key: &Path| key.as_ref().strip_prefix(&prefix).unwrap().to_owned();
        listed.iter().map(|object| rest(&object.key)).collect()
    };
    let all = near.list_after(&at, None).await.unwrap();
    assert_eq!(keys(all), ["a", "log/0", "log/1", "log/2"]);
    let log = at.clone().join("log");
    let after = log.clone().join("0");
    let some = near.list_after(&log, Some(&after)).await.unwrap();
    assert_eq!(keys(some), ["log/1", "log/2"]);
    let folders = near.objects().list_with_delimiter(Some(&at)).await.unwrap();
    assert_eq!(folders.common_prefixes, [log]);
    assert_eq!(folders.objects.len(), 1);
}

#[tokio::test]
async fn url_that_is_none_is_an_error_and_requests_are_counted_together() {
    let (near, _, at) = stores("counted");
    let wrong = elsewhere_key(DIR, "ftp://a/b").unwrap().join("x");
    let error = near.get(&wrong).await.unwrap_err();
    assert!(format!("{error:?}").contains("unknown scheme"), "{error:?}");
    let before = near.meter().counts();
    near.get(&at.join("nothing")).await.unwrap();
    assert_eq!((near.meter().counts() - before).requests(), 1);
}

#[test]
fn options_of_a_cloud_are_for_clouds_only() {
    let options = StoreOptions::default()
        .with("durability", "none")
        .with("retry.budget_ms", "5")
        .with("cache.dir", "/nowhere")
        .with("aws_region", "x");
    let names =
        |of_cloud| -> Vec<String> { options.elsewhere(of_cloud).values.into_keys().collect() };
    assert_eq!(names(false), ["durability", "retry.budget_ms"]);
    assert_eq!(names(true), ["aws_region", "durability", "retry.budget_ms"]);
}
