//! Tables whose commits a catalog decides.

use bytes::Bytes;
use tarndb_delta::{
    CatalogTail, DeltaError, NativeTarget, RatifiedCommit, RatifiedContent, open_native,
    open_with_tail,
};
use tarndb_storage::{Context, Path, Store};
use tarndb_table::TableError;

const SCHEMA: &str = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}"#;

fn create(features: &str) -> String {
    format!(
        "{{\"protocol\":{{\"minReaderVersion\":3,\"minWriterVersion\":7,\"readerFeatures\":[{features}],\
         \"writerFeatures\":[{features}]}}}}\n{{\"metaData\":{{\"id\":\"t\",\"format\":{{\"provider\":\
         \"parquet\",\"options\":{{}}}},\"schemaString\":\"{SCHEMA}\",\"partitionColumns\":[],\
         \"configuration\":{{}}}}}}\n"
    )
}

fn add(path: &str) -> String {
    format!(
        "{{\"add\":{{\"path\":\"{path}\",\"partitionValues\":{{}},\"size\":1,\"modificationTime\":0,\
         \"dataChange\":true}}}}\n"
    )
}

async fn put(store: &Store, key: &str, text: &str) {
    let key = Path::from(format!("_delta_log/{key}"));
    store.put(&key, Bytes::from(text.to_owned())).await.unwrap();
}

fn inline(version: u64, path: &str) -> RatifiedCommit {
    RatifiedCommit {
        version,
        content: RatifiedContent::Inline(Bytes::from(add(path))),
    }
}

fn staged(version: u64, name: &str) -> RatifiedCommit {
    RatifiedCommit {
        version,
        content: RatifiedContent::Staged(name.to_owned()),
    }
}

/// Version 0 published, 1 published with other content than the catalog's, 2 staged, and 3
/// published although the catalog does not know it.
async fn table(features: &str) -> Store {
    let store = Store::memory(Context::seeded(1));
    put(&store, &format!("{:020}.json", 0), &create(features)).await;
    put(&store, &format!("{:020}.json", 1), &add("published")).await;
    put(&store, "_staged_commits/two.json", &add("two")).await;
    put(&store, "_staged_commits/forgotten.json", &add("forgotten")).await;
    put(&store, &format!("{:020}.json", 3), &add("three")).await;
    store
}

async fn paths(store: &Store, tail: &CatalogTail, version: Option<u64>) -> Vec<String> {
    let state = open_with_tail(store, tail, version).await.unwrap();
    state.files.paths().collect()
}

#[tokio::test]
async fn the_catalogs_copy_wins_and_nothing_above_its_latest_is_read() {
    let store = table("\"catalogManaged\"").await;
    let tail = CatalogTail {
        latest: 2,
        commits: vec![staged(2, "two.json"), inline(1, "one")],
    };
    assert_eq!(paths(&store, &tail, None).await, ["one", "two"]);
    assert_eq!(paths(&store, &tail, Some(1)).await, ["one"]);
    assert!(paths(&store, &tail, Some(0)).await.is_empty());
    let all_published = CatalogTail {
        latest: 1,
        commits: Vec::new(),
    };
    assert_eq!(paths(&store, &all_published, None).await, ["published"]);
}

#[tokio::test]
async fn by_path_alone_a_catalogs_table_is_refused() {
    let store = table("\"catalogManaged\"").await;
    let target = NativeTarget::Version(1);
    let error = open_native(&store, target).await.unwrap_err();
    assert!(error.to_string().contains("catalogManaged"), "{error}");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_refused() {
    let store = table("\"catalogManaged\"").await;
    let tail = |latest, commits| CatalogTail { latest, commits };
    for (answer, version, part) in [
        (tail(2, vec![inline(1, "one")]), None, "end at 1"),
        (
            tail(3, vec![inline(1, "one"), inline(3, "three")]),
            None,
            "followed by 3",
        ),
        (tail(1, vec![inline(1, "one")]), Some(2), "above"),
        (tail(2, vec![staged(2, "../two.json")]), None, "name"),
        (tail(2, Vec::new()), None, ""),
        (tail(1, vec![staged(1, "missing.json")]), None, ""),
    ] {
        let error = open_with_tail(&store, &answer, version).await.unwrap_err();
        assert!(error.to_string().contains(part), "{answer:?}: {error}");
    }
    let plain = table("").await;
    let one = tail(1, vec![inline(1, "one")]);
    let error = open_with_tail(&plain, &one, None).await.unwrap_err();
    let TableError::Format { source, .. } = &error else {
        panic!("{error:?}");
    };
    let refused = source.downcast_ref::<DeltaError>();
    assert!(
        matches!(refused, Some(DeltaError::NotCatalogManaged)),
        "{error}"
    );
}
