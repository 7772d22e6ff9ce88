//! What is held is read as if it were stored, and costs no request.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;

use super::Origin;
use crate::context::Context;
use crate::error::StoreError;
use crate::store::Store;

/// Knows one object.
#[derive(Debug)]
struct One(Path);

#[async_trait]
impl Origin for One {
    async fn find(&self, key: &Path) -> Result<Option<Bytes>, StoreError> {
        Ok((*key == self.0).then(|| Bytes::from_static(b"origin")))
    }
}

fn store() -> Store {
    let plain = Store::memory(Context::seeded(1));
    plain.holding(Arc::new(One(Path::from("t/one"))))
}

#[tokio::test]
async fn a_held_file_is_read_as_if_it_were_stored_until_its_writer_lets_it_go() {
    let store = store();
    let key = Path::from("t/new");
    let held = store.held().unwrap();
    let file = held.hold(key.clone(), Bytes::from_static(b"0123456789"));
    let again = file.clone();
    assert_eq!(store.get(&key).await.unwrap().unwrap(), "0123456789");
    assert_eq!(store.get_range(&key, 2..5).await.unwrap(), "234");
    assert_eq!(store.head(&key).await.unwrap().unwrap().size_bytes, 10);
    let ranges = store.objects().get_ranges(&key, &[0..1, 9..10]).await;
    assert_eq!(ranges.unwrap(), ["0", "9"]);
    assert!(matches!(
        store.get_range(&key, 8..12).await,
        Err(StoreError::ShortRead { got: 2, .. })
    ));
    assert_eq!(store.meter().counts().requests(), 0);
    assert_eq!(store.direct().get(&key).await.unwrap(), None);
    assert_eq!(store.list_after(&Path::from("t"), None).await.unwrap(), []);

    drop(file);
    assert!(store.get(&key).await.unwrap().is_some());
    drop(again);
    assert_eq!(store.get(&key).await.unwrap(), None);
}

#[tokio::test]
async fn a_settled_file_is_stored_once_and_stays_when_its_writer_lets_it_go() {
    let store = store();
    let key = Path::from("t/new");
    let file = store.held().unwrap().hold(key.clone(), "x".into());
    assert!(!file.is_stored());
    store.store_held(&file).await.unwrap();
    store.store_held(&file).await.unwrap();
    assert!(file.is_stored());
    assert_eq!(store.meter().counts().put, 1);
    drop(file);
    assert_eq!(store.get(&key).await.unwrap().unwrap(), "x");
}

#[tokio::test]
async fn what_the_origin_knows_comes_from_there_and_everything_else_from_the_store() {
    let store = store();
    let key = Path::from("t/one");
    assert_eq!(store.get(&key).await.unwrap().unwrap(), "origin");
    assert_eq!(store.meter().counts().requests(), 0);
    let other = Path::from("t/two");
    assert_eq!(store.get(&other).await.unwrap(), None);
    store.put(&other, "y".into()).await.unwrap();
    assert_eq!(store.get(&other).await.unwrap().unwrap(), "y");
    assert_eq!(store.meter().counts().get, 2);
}
