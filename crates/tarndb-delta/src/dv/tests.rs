//! Tests of deletion vectors: bitmaps, Z85, files and damage.

use std::sync::Arc;

use tarndb_storage::context::Context;
use tarndb_storage::{Path, Store};
use tarndb_table::{DvStorage, RowSet};

use super::{load, relative_file, store as store_vectors};
use crate::error::DeltaError;

fn table() -> (Store, Path) {
    (Store::memory(Context::seeded(1)), Path::from("db/t"))
}

#[test]
fn file_name_of_the_specification() {
    assert_eq!(
        relative_file("ab^-aqEH.-t@S}K{vb[*k^").unwrap(),
        "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    );
    assert!(relative_file("short").is_err());
}

#[tokio::test]
async fn small_vectors_are_inline_and_large_ones_share_a_file() {
    let (store, location) = table();
    let rows: Vec<Arc<RowSet>> = vec![
        Arc::new((0..4000).step_by(2).collect()),
        Arc::new([7].into_iter().collect()),
        Arc::new([1, 1 << 33, 1 << 40].into_iter().chain(0..5000).collect()),
    ];
    let descriptors = store_vectors(&store, &location, &rows, 100).await.unwrap();
    assert_eq!(
        descriptors
            .iter()
            .map(|found| found.storage)
            .collect::<Vec<_>>(),
        [DvStorage::Relative, DvStorage::Inline, DvStorage::Relative]
    );
    assert_eq!(descriptors[0].path_or_inline, descriptors[2].path_or_inline);
    assert_eq!(descriptors[0].offset, Some(1));
    for (rows, descriptor) in rows.iter().zip(&descriptors) {
        assert_eq!(
            &load(&store, &location, descriptor).await.unwrap(),
            rows.as_ref()
        );
    }
    assert_eq!(store.list_after(&location, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn each_damage_of_a_vector_file_is_refused() {
    let (store, location) = table();
    let rows: Vec<Arc<RowSet>> = (0..2).map(|_| Arc::new((0..100).collect())).collect();
    let descriptors = store_vectors(&store, &location, &rows, 0).await.unwrap();
    let key = store.list_after(&location, None).await.unwrap()[0]
        .key
        .clone();
    let good = store.get_required(&key).await.unwrap();
    for (position, word) in [(0, "version"), (4, "log says"), (20, "checksum")] {
        let mut bytes = good.to_vec();
        bytes[position] ^= 1;
        store.put(&key, bytes.into()).await.unwrap();
        let error = load(&store, &location, &descriptors[0])
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(word) && error.contains(key.as_ref()),
            "{error}"
        );
    }
    store.put(&key, good.slice(..good.len() - 3)).await.unwrap();
    assert!(load(&store, &location, &descriptors[1]).await.is_err());
    store.put(&key, good).await.unwrap();
    let mut lying = descriptors[1].clone();
    lying.cardinality = 99;
    let error = load(&store, &location, &lying).await.unwrap_err();
    assert!(
        matches!(error, DeltaError::BadDeletionVector { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("100 rows"), "{error}");
    store.delete(&key).await.unwrap();
    assert!(load(&store, &location, &descriptors[1]).await.is_err());
}
