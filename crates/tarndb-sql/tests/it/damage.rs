//! Data files that cannot be read: which table, which file, which kind.

use bytes::Bytes;
use tarndb_db::{Database, ErrorKind};
use tarndb_storage::{ObjectInfo, Path};

use crate::support::*;

/// Two tables; `b` has three files.
const SETUP: &str = "CREATE TABLE a (id INT, v TEXT);
    INSERT INTO a SELECT value, 'a' || value FROM generate_series(1, 500);
    CREATE TABLE b (id INT, v TEXT);
    INSERT INTO b SELECT value, 'b' || value FROM generate_series(1, 500);
    INSERT INTO b SELECT value, 'c' || value FROM generate_series(501, 1000);
    INSERT INTO b SELECT value, 'd' || value FROM generate_series(1001, 1500)";

/// The data files in the order in which they were written.
async fn data_files(db: &Database) -> Vec<ObjectInfo> {
    let listed = db.store().list_after(&Path::default(), None).await.unwrap();
    let mut files = listed
        .into_iter()
        .filter(|object| object.key.as_ref().ends_with(".parquet"))
        .collect::<Vec<_>>();
    files.sort_by_key(|object| object.last_modified);
    files
}

#[tokio::test]
async fn a_damaged_page_names_table_and_file() {
    let db = database().await;
    let mut session = session(&db);
    ok(&mut session, SETUP).await;
    for object in data_files(&db).await {
        let whole = db.store().get_required(&object.key).await.unwrap();
        let mut bytes = whole.to_vec();
        for byte in bytes.iter_mut().skip(4).take(56) {
            *byte ^= 0xff;
        }
        db.store()
            .put(&object.key, Bytes::from(bytes))
            .await
            .unwrap();
        let query = "SELECT (SELECT sum(id + length(v)) FROM a), sum(id + length(v)) FROM b";
        for statement in [
            query,
            "UPDATE a SET id = (SELECT max(b.id + 0) FROM b) + id",
        ] {
            let error = err(&mut session, statement).await;
            let text = chain(&error);
            assert_eq!(error.sqlstate(), "XX001", "{text}");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}");
            assert!(text.contains(object.key.as_ref()), "{text}");
            assert!(text.contains("main.a") || text.contains("main.b"), "{text}");
        }
        db.store().put(&object.key, whole).await.unwrap();
    }
    assert_eq!(rows(&mut session, "SELECT count(v) FROM b").await, "1500");
}

#[tokio::test]
async fn a_file_that_is_cut_off_or_missing_names_table_and_file() {
    let db = database().await;
    let mut session = session(&db);
    ok(&mut session, SETUP).await;
    for object in data_files(&db).await {
        let whole = db.store().get_required(&object.key).await.unwrap();
        for cut in [Some(whole.len() - 100), Some(10), Some(0), None] {
            match cut {
                Some(length) => {
                    let short = whole.slice(..length);
                    db.store().put(&object.key, short).await.unwrap();
                }
                None => db.store().delete(&object.key).await.unwrap(),
            }
            // A handle of its own: a footer that was read is kept.
            let mut session = crate::support::session(&reopened(&db).await);
            let query = "SELECT sum(id) FROM (SELECT * FROM a UNION ALL SELECT * FROM b)";
            let error = err(&mut session, query).await;
            let text = chain(&error);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{cut:?}: {text}");
            assert_eq!(error.sqlstate(), "XX001", "{cut:?}: {text}");
            assert!(text.contains(object.key.as_ref()), "{cut:?}: {text}");
            assert!(text.contains("main."), "{cut:?}: {text}");
        }
        db.store().put(&object.key, whole).await.unwrap();
    }
}
