//! One database by URLs of every kind: the same prefix, spelt with and without a slash at its
//! end, with names that some store might encode, decode or fold.

use tarndb_db::Database;
use tarndb_delta::{NativeTarget, open_native};
use tarndb_storage::stub::Stub;
use tarndb_storage::{Context, Path, Store, StoreOptions, open};
use tarndb_table::{Deletion, DvStorage};

use crate::support::*;

const SUFFIXES: [&str; 8] = [
    "plain",
    "with space",
    "per%20cent",
    "100%",
    "\u{e9}\u{65e5}",
    "a=b&c+d;e@f",
    "deep/er/%2F",
    "#hash!$'()*,[]~",
];

/// Enough rows, every other one deleted, that their deletion vector is a file.
const ROWS: i64 = 4_000;

struct Root {
    url: String,
    options: StoreOptions,
}

impl Root {
    fn new(url: impl Into<String>, options: StoreOptions) -> Self {
        let url = url.into();
        Self { url, options }
    }

    fn store(&self, suffix: &str) -> Store {
        let url = format!("{}/{suffix}", self.url);
        open(&url, &self.options, Context::system()).unwrap()
    }
}

/// Creates with a slash, opens without (or the other way round), and finds the same rows and
/// deletion vectors; also the published table by its own path.
async fn agrees(root: &Root, suffix: &str, with_slash_first: bool) {
    let (with, without) = (format!("{suffix}/"), suffix.to_owned());
    let spelt = match with_slash_first {
        true => [with, without],
        false => [without, with],
    };
    let db = Database::create(root.store(&spelt[0]), manual())
        .await
        .unwrap();
    let id = create_table(&db, "t").await;
    let all: Vec<Row> = (0..ROWS).map(|n| (n, n)).collect();
    insert(&db, id, &all).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |(n, _)| n % 2 == 0).await;
    txn.commit().await.unwrap();
    db.publish().await.unwrap();
    let left: Vec<Row> = all.into_iter().filter(|(n, _)| n % 2 == 1).collect();
    let shown = root.store(&spelt[1]).url().to_owned();
    for spelling in &spelt {
        let again = Database::open(root.store(spelling), manual())
            .await
            .unwrap();
        assert_eq!(rows(&again, id).await, left, "{shown}");
        assert_clean(&again).await;
        let table = root.store(&format!("{}/main/t", spelling.trim_end_matches('/')));
        let state = open_native(&table, NativeTarget::Latest).await.unwrap();
        let vectors: Vec<_> = state
            .files
            .values()
            .map(|file| file.deletion.clone())
            .collect();
        let is_file = vectors.iter().any(|deletion| match deletion {
            Deletion::Stored(vector) => vector.storage == DvStorage::Relative,
            _ => false,
        });
        assert!(is_file, "{shown}: the vector is not a file: {vectors:?}");
    }
    let beside = root.store("").list_after(&Path::ROOT, None).await.unwrap();
    let here = |key: &Path| key.as_ref().starts_with(&format!("{suffix}/"));
    assert!(beside.iter().any(|info| here(&info.key)), "{shown}");
}

async fn all_agree(root: &Root) {
    for (n, suffix) in SUFFIXES.iter().enumerate() {
        agrees(root, suffix, n % 2 == 0).await;
    }
}

/// A prefix of this run only: emulators keep what earlier runs stored.
fn emulator(name: &str, test: &str) -> Option<Root> {
    let Ok(url) = std::env::var(format!("TARNDB_TEST_{name}_URL")) else {
        eprintln!("SKIPPED {test}: TARNDB_TEST_{name}_URL is not set");
        return None;
    };
    // Account, endpoint and credentials are in the environment, as a user has them.
    let url = format!("{url}/urls/{}", Context::system().uuid());
    Some(Root::new(url, StoreOptions::default()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ex_07_memory_and_folders_agree_on_prefixes() {
    all_agree(&Root::new("memory://urls", StoreOptions::default())).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let options = StoreOptions::default().with("durability", "none");
    all_agree(&Root::new(path, options)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ex_07_the_stubs_of_s3_and_google_agree_on_prefixes() {
    let stub = Stub::start(Context::system()).await;
    all_agree(&Root::new("s3://bucket/s3", stub.s3_options())).await;
    all_agree(&Root::new("gs://bucket/gs", stub.gcs_options())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emulated_s3_agrees_on_prefixes_ex_07() {
    if let Some(root) = emulator("S3", "emulated_s3_agrees_on_prefixes_ex_07") {
        all_agree(&root).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emulated_azure_agrees_on_prefixes_ex_07() {
    if let Some(root) = emulator("AZURE", "emulated_azure_agrees_on_prefixes_ex_07") {
        all_agree(&root).await;
    }
}
