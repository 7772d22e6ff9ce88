//! Names and versions of entries.

use bytes::Bytes;
use object_store::path::Path;
use proptest::prelude::*;
use tarndb_storage::{Context, Store};

use super::LogDir;
use crate::error::LogError;

fn log(dir: &str) -> LogDir {
    LogDir::new(Store::memory(Context::seeded(1)), Path::from(dir))
}

proptest! {
    #[test]
    fn a_key_gives_its_version_back_and_keeps_the_order(a: u64, b: u64) {
        for dir in ["", "_tarndb/log"] {
            let log = log(dir);
            prop_assert_eq!(log.parse_key(&log.key(a)), Some(a));
            prop_assert_eq!(log.key(a).cmp(&log.key(b)), a.cmp(&b));
        }
    }
}

#[test]
fn only_exact_names_directly_in_the_folder_are_entries() {
    let log = log("d/log");
    for name in [
        "d/log/1.json",
        "d/log/000000000000000000001.json",
        "d/log/0000000000000000000a.json",
        "d/log/+0000000000000000001.json",
        "d/log/99999999999999999999.json",
        "d/log/00000000000000000001.json.tmp",
        "d/log/00000000000000000001.JSON",
        "d/log/x/00000000000000000001.json",
        "d/log00000000000000000001.json",
        "d/00000000000000000001.json",
        "00000000000000000001.json",
        "d/log/00000000000000000001.checkpoint.parquet",
    ] {
        assert_eq!(log.parse_key(&Path::parse(name).unwrap()), None, "{name}");
    }
    let key = Path::from("d/log/00000000000000000001.json");
    assert_eq!(log.parse_key(&key), Some(1));
}

#[tokio::test]
async fn entries_are_listed_and_read_in_order() {
    let log = log("l");
    for version in [0, 2, 10, 9, 1, 3, 4, 5, 6, 7, 8] {
        let bytes = Bytes::from(version.to_string());
        log.store().put(&log.key(version), bytes).await.unwrap();
    }
    log.store()
        .put(&Path::from("l/_last"), Bytes::new())
        .await
        .unwrap();
    log.store()
        .put(&Path::from("l/sub/00000000000000000011.json"), Bytes::new())
        .await
        .unwrap();
    assert_eq!(
        log.list_after(None).await.unwrap(),
        (0..=10).collect::<Vec<_>>()
    );
    assert_eq!(log.list_after(Some(8)).await.unwrap(), vec![9, 10]);
    assert_eq!(log.list_after(Some(10)).await.unwrap(), Vec::<u64>::new());
    let read = log.read_many(3..11).await.unwrap();
    let expected: Vec<_> = (3..11_u64)
        .map(|v| (v, Bytes::from(v.to_string())))
        .collect();
    assert_eq!(read, expected);
    assert_eq!(log.read(11).await.unwrap(), None);
    assert_eq!(log.read_many(4..4).await.unwrap(), vec![]);
}

#[tokio::test]
async fn reading_across_a_hole_names_the_missing_version() {
    let log = log("l");
    for version in [1, 2, 4] {
        log.store()
            .put(&log.key(version), Bytes::new())
            .await
            .unwrap();
    }
    let error = log.read_many(1..5).await.unwrap_err();
    assert!(
        matches!(error, LogError::Missing { version: 3, .. }),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("l/00000000000000000003.json"),
        "{error}"
    );
}
