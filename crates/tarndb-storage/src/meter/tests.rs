//! What the meter counts.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt, PutMode};

use super::{Counts, Meter, MeteredStore, coalesced};
use crate::context::Context;

fn metered() -> (MeteredStore, Meter) {
    let meter = Meter::default();
    (
        MeteredStore::new(Arc::new(InMemory::new()), meter.clone()),
        meter,
    )
}

#[test]
fn near_ranges_count_as_one_request() {
    const MIB: u64 = 1 << 20;
    assert_eq!(coalesced(&[]), 0);
    assert_eq!(coalesced(std::slice::from_ref(&(0..10))), 1);
    assert_eq!(coalesced(&[0..10, 20..30]), 1);
    assert_eq!(coalesced(&[3 * MIB..3 * MIB + 1, 0..10]), 2);
    assert_eq!(coalesced(&[0..4 * MIB, 10..20, 5 * MIB..6 * MIB]), 1);
}

#[tokio::test]
async fn each_kind_of_request_is_counted_once() {
    let (store, meter) = metered();
    let key = Path::from("a/b");
    store
        .put(&key, Bytes::from_static(b"12345").into())
        .await
        .unwrap();
    let again = store
        .put_opts(
            &key,
            Bytes::from_static(b"1").into(),
            PutMode::Create.into(),
        )
        .await;
    assert!(again.is_err());
    store.get(&key).await.unwrap().bytes().await.unwrap();
    store.get_range(&key, 1..3).await.unwrap();
    store.get_ranges(&key, &[0..1, 2..4]).await.unwrap();
    store.head(&key).await.unwrap();
    store.list(None).try_collect::<Vec<_>>().await.unwrap();
    store.copy(&key, &Path::from("c")).await.unwrap();
    let mut upload = store.put_multipart(&Path::from("d")).await.unwrap();
    upload
        .put_part(Bytes::from_static(b"123").into())
        .await
        .unwrap();
    upload.complete().await.unwrap();
    store.delete(&key).await.unwrap();
    let counts = meter.counts();
    let expected = Counts {
        put: 1,
        put_if_absent: 1,
        get: 1,
        get_range: 2,
        head: 1,
        list: 1,
        delete: 1,
        multipart: 3,
        copy: 1,
        bytes_read: 5 + 2 + 3,
        bytes_written: 5 + 1 + 3,
    };
    assert_eq!(counts, expected);
    assert_eq!((counts - counts).requests(), 0);
    assert!(
        counts
            .to_string()
            .starts_with("requests=12 put_if_absent=1")
    );
}

#[tokio::test]
async fn get_names_the_key_that_was_asked_for() {
    let inner = Arc::new(InMemory::new());
    inner
        .put(&Path::from("p/x"), Bytes::from_static(b"1").into())
        .await
        .unwrap();
    let rooted = object_store::prefix::PrefixStore::new(inner, "p");
    let store = MeteredStore::new(Arc::new(rooted), Meter::default());
    let result = store
        .get_opts(&Path::from("x"), GetOptions::default())
        .await
        .unwrap();
    assert_eq!(result.meta.location, Path::from("x"));
}

#[tokio::test]
async fn a_range_beyond_the_end_names_the_object() {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().join("db").display().to_string();
    let local = crate::open(&url, &crate::StoreOptions::default(), Context::seeded(1)).unwrap();
    let memory = crate::Store::memory(Context::seeded(1));
    let key = Path::from("t/part-1.parquet");
    for (store, starts) in [(memory, vec![3_u64]), (local, vec![3, 9])] {
        store.put(&key, Bytes::from_static(b"12345")).await.unwrap();
        for start in starts {
            let objects = store.objects();
            let one = objects.get_range(&key, start..12).await.unwrap_err();
            let many = objects
                .get_ranges(&key, &[0..1, start..12])
                .await
                .unwrap_err();
            for error in [one, many] {
                let error = crate::StoreError::from_objects("read", &key, error);
                assert_eq!(error.kind(), crate::StoreErrorKind::Corrupt, "{error}");
                assert!(error.to_string().contains("part-1.parquet"), "{error}");
            }
        }
    }
}
