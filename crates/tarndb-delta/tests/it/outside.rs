//! EX-01: paths of a log that lead out of the table are refused by type, whatever is there.

use bytes::Bytes;
use tarndb_delta::{DeltaCodec, NativeTarget, open_native};
use tarndb_storage::{Context, Path, Store, StoreOptions, open};
use tarndb_table::parquet::read::read_file;
use tarndb_table::{Deletion, DvDescriptor, DvStorage, TableCodec as _, TableError};

const PATHS: [&str; 9] = [
    "%2e%2e/x",
    "/etc/x",
    "a/../../x",
    // The root is `sales`: a name that merely begins like it lies beside it.
    "../sales-copy/x",
    "%2E%2E%2Fsales-copy/x",
    "file:///etc/x",
    "s3://bucket/x",
    "a//x",
    "./x",
];

/// A table whose only file has this path, beside a file at every place that it could mean.
async fn table(store: &Store, root: &str, path: &str) {
    for decoy in [
        "x",
        "etc/x",
        "a/x",
        "sales-copy/x",
        "sales/x",
        "sales/etc/x",
    ] {
        let key = Path::from(decoy);
        store
            .put(&key, Bytes::from_static(b"not yours"))
            .await
            .unwrap();
    }
    let schema = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}"#;
    let commit = format!(
        "{{\"protocol\":{{\"minReaderVersion\":1,\"minWriterVersion\":2}}}}\n\
         {{\"metaData\":{{\"id\":\"t\",\"format\":{{\"provider\":\"parquet\",\"options\":{{}}}},\
         \"schemaString\":\"{schema}\",\"partitionColumns\":[],\"configuration\":{{}}}}}}\n\
         {{\"add\":{{\"path\":\"{path}\",\"partitionValues\":{{}},\"size\":9,\
         \"modificationTime\":0,\"dataChange\":true}}}}\n"
    );
    let key = Path::from(format!("{root}/_delta_log/{:020}.json", 0));
    store.put(&key, Bytes::from(commit)).await.unwrap();
}

#[tokio::test]
async fn ex_01_a_logged_path_that_leaves_the_table_is_refused() {
    for (n, path) in PATHS.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let on_disk = folder.path().display().to_string();
        for base in [format!("memory://ex-01-{n}"), on_disk] {
            let store =
                |url: &str| open(url, &StoreOptions::default(), Context::seeded(1)).unwrap();
            table(&store(&base), "sales", path).await;
            let root = store(&format!("{base}/sales"));
            // The table opens: one bad file must not hide the others' damage.
            let state = open_native(&root, NativeTarget::Latest).await.unwrap();
            for file in state.files.values() {
                let columns = &state.partition_columns;
                let read = read_file(&root, &Path::ROOT, &file, &state.schema, columns, None).await;
                let Err(error) = read else {
                    panic!("{path}: read from outside")
                };
                let refused = matches!(error, TableError::PathOutsideTable { .. });
                assert!(refused, "{path}: {error:?}");
            }
            assert_eq!(state.files.len(), 1, "{path}");
        }
    }
}

#[tokio::test]
async fn ex_01_a_deletion_vector_outside_the_table_is_refused() {
    let store = Store::memory(Context::seeded(1));
    for path in PATHS {
        let vector = DvDescriptor {
            storage: DvStorage::Absolute,
            path_or_inline: path.to_owned(),
            offset: Some(1),
            size_in_bytes: 4,
            cardinality: 1,
        };
        let loaded = DeltaCodec::default()
            .load_deletion(&store, &Path::from("sales"), &Deletion::Stored(vector))
            .await;
        let error = loaded.unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("PathOutsideTable"), "{path}: {text}");
    }
}
