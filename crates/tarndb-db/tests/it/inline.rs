//! Small data files ride in the log record, and nobody can tell.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tarndb_db::{Database, DbError, DbOptions, ErrorKind};

use crate::support::*;

/// Keys of the data files that are stored.
async fn stored_files(world: &World) -> Vec<String> {
    let keys = world.keys("main").await;
    let is_data = |key: &String| key.ends_with(".parquet") && !key.contains("_delta_log");
    keys.into_iter().filter(is_data).collect()
}

async fn record_text(world: &World, version: u64) -> String {
    let bytes = world.get(&record_key(version)).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a foreign reader needs: every file that a published version adds is stored.
async fn assert_published_is_complete(world: &World) {
    for key in world.keys("main").await {
        let Some((table, _)) = key.split_once("/_delta_log/") else {
            continue;
        };
        let bytes = world.get(&key).await.unwrap();
        for line in String::from_utf8_lossy(&bytes).lines() {
            let action: serde_json::Value = serde_json::from_str(line).unwrap();
            let Some(path) = action["add"]["path"].as_str() else {
                continue;
            };
            let stored = world.get(&format!("{table}/{path}")).await;
            let size = stored.map(|bytes| bytes.len() as u64);
            assert_eq!(size, action["add"]["size"].as_u64(), "{key}: {path}");
        }
    }
}

#[tokio::test]
async fn a_small_file_is_in_the_record_until_it_is_published_and_every_handle_reads_it() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let first = insert(&db, id, &[(1, 10), (2, 20)]).await.version.unwrap();
    insert(&db, id, &[(3, 30)]).await;
    assert_eq!(stored_files(&world).await, [""; 0]);
    let text = record_text(&world, first.0).await;
    assert!(
        text.contains("\"readerFeatures\":[\"inlineFiles\"]"),
        "{text}"
    );
    assert!(text.contains("\"files\":{\"part-"), "{text}");

    let other = world.open().await;
    for db in [&db, &other] {
        assert_eq!(rows(db, id).await, [(1, 10), (2, 20), (3, 30)]);
        let before = db.snapshot_at(first).await.unwrap();
        assert_eq!(rows_at(&before, id).await, [(1, 10), (2, 20)]);
        assert_clean(db).await;
    }
    let held = other.snapshot().await.unwrap();

    // Somebody else publishes; handles that know nothing of that read on.
    world.open().await.publish().await.unwrap();
    assert_eq!(stored_files(&world).await.len(), 2);
    assert_published_is_complete(&world).await;
    assert_eq!(rows_at(&held, id).await.len(), 3);
    for db in [&db, &other, &world.open().await] {
        assert_eq!(rows(db, id).await.len(), 3);
        assert_clean(db).await;
        assert_eq!(db.publish().await.unwrap().versions_written(), 0);
    }
    let before = db.snapshot_at(first).await.unwrap();
    assert_eq!(rows_at(&before, id).await, [(1, 10), (2, 20)]);
}

#[tokio::test]
async fn an_open_transaction_reads_its_own_small_files_and_a_rollback_leaves_nothing() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(1, 1), (2, 2)]).await;
    let mark = txn.mark();
    append(&mut txn, id, &[(3, 3)]).await;
    update(&mut txn, id, |row| row.0 == 1, |row| (row.0, 7)).await;
    assert_eq!(rows_in(&txn, id).await, [(1, 7), (2, 2), (3, 3)]);
    txn.rewind(mark);
    assert_eq!(rows_in(&txn, id).await, [(1, 1), (2, 2)]);
    assert_eq!(db.store().meter().counts().put, 0);
    drop(txn);
    assert_eq!(stored_files(&world).await, [""; 0]);

    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(4, 4)]).await;
    let mark = txn.mark();
    append(&mut txn, id, &[(5, 5)]).await;
    txn.rewind(mark);
    append(&mut txn, id, &[(6, 6)]).await;
    txn.commit().await.unwrap();
    assert_eq!(rows(&world.open().await, id).await, [(4, 4), (6, 6)]);
}

#[tokio::test]
async fn what_is_too_large_for_the_record_is_stored_before() {
    let world = World::new();
    world.create().await;
    let options = DbOptions {
        inline_file_bytes_max: 1000,
        inline_bytes_max: 2500,
        ..manual()
    };
    let db = Database::open(world.store(), options).await.unwrap();
    let id = create_table(&db, "t").await;
    let many: Vec<Row> = (0..2000).map(|n| (n, n * 7919 % 1999)).collect();
    let version = insert(&db, id, &many).await.version.unwrap();
    assert_eq!(stored_files(&world).await.len(), 1, "one large file");
    assert!(!record_text(&world, version.0).await.contains("inlineFiles"));

    // Small ones until their sum is too much: then those held so far are stored too.
    let mut txn = begin(&db).await;
    let mut stored = Vec::new();
    for n in 0..5 {
        append(&mut txn, id, &[(10_000 + n, n)]).await;
        stored.push(stored_files(&world).await.len() - 1);
    }
    assert_eq!(stored, [0, 0, 0, 4, 4], "files of some 700 bytes");
    let version = txn.commit().await.unwrap().version.unwrap();
    assert_eq!(stored_files(&world).await.len(), 5);
    assert_eq!(
        record_text(&world, version.0).await.matches("PAR1").count(),
        0
    );
    assert_eq!(
        record_text(&world, version.0)
            .await
            .matches("\"files\":{\"part-")
            .count(),
        1
    );
    assert_eq!(rows(&world.open().await, id).await.len(), 2005);
    assert_clean(&world.open().await).await;

    // A record that is full carries none.
    let options = DbOptions {
        record_bytes_max: 1500,
        ..manual()
    };
    let tight = Database::open(world.store(), options).await.unwrap();
    let version = insert(&tight, id, &[(1, 1)]).await.version.unwrap();
    assert!(!record_text(&world, version.0).await.contains("\"files\""));
    assert_eq!(stored_files(&world).await.len(), 6);
    assert_eq!(rows(&world.open().await, id).await.len(), 2006);
}

#[tokio::test]
async fn a_commit_that_loses_its_place_sends_the_same_bytes_again() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    let mut txn = begin(&db).await;
    append(&mut txn, id, &[(1, 1)]).await;
    let path = {
        let state = txn.table(id).await.unwrap();
        state.files.paths().next().unwrap()
    };
    let other = world.open().await;
    insert(&other, id, &[(2, 2)]).await;
    let committed = txn.commit().await.unwrap();
    assert_eq!(committed.attempts, 2);
    let text = record_text(&world, committed.version.unwrap().0).await;
    assert!(
        text.contains(&format!("\"files\":{{\"{path}\":\"")),
        "{text}"
    );
    assert_eq!(stored_files(&world).await, [""; 0]);
    assert_eq!(rows(&other, id).await, [(1, 1), (2, 2)]);
}

#[tokio::test]
async fn a_file_that_others_put_at_the_path_is_left_alone_and_stops_publishing() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    let key = format!("main/t/{}", state.files.paths().next().unwrap());
    world.put(&key, "something else").await;
    let report = world.open().await.publish().await.unwrap();
    assert_eq!(report.diverged.len(), 1, "{report:?}");
    assert_eq!(report.diverged[0].key, key);
    assert_eq!(world.get(&key).await.unwrap(), "something else");
    assert_eq!(rows(&db, id).await, [(1, 1)], "the record has the bytes");
    let found = kinds(&db.check(false, |_| {}).await.unwrap());
    assert_eq!(found, ["file.size"]);
}

#[tokio::test]
async fn dropped_tables_get_their_files_too() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |_| true).await;
    txn.commit().await.unwrap();
    let mut txn = begin(&db).await;
    txn.drop_table(id).unwrap();
    txn.commit().await.unwrap();
    drop(db);
    let report = world.open().await.publish().await.unwrap();
    assert_eq!(report.versions_written(), 3);
    assert_published_is_complete(&world).await;
}

#[tokio::test]
async fn a_check_finds_a_stored_file_that_is_gone_and_bytes_of_another_size() {
    let world = World::new();
    let db = world.create().await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    assert_clean(&db).await;
    db.publish().await.unwrap();
    let key = stored_files(&world).await.remove(0);
    let bytes = world.get(&key).await.unwrap();
    world.delete(&key).await;
    let found = kinds(&db.check(true, |_| {}).await.unwrap());
    assert_eq!(found, ["file.missing"]);
    let error = world.open().await;
    let error = error.snapshot().await.unwrap();
    let missing = error.table(id).await.unwrap();
    assert_eq!(missing.files.len(), 1);
    world.put(&key, bytes).await;
    assert_clean(&db).await;

    let version = insert(&db, id, &[(2, 2)]).await.version.unwrap();
    let text = record_text(&world, version.0).await;
    let at = text.find("\":\"UEFSM").unwrap();
    let damaged = format!("{}{}", &text[..at + 3], &text[at + 7..]);
    world.put(&record_key(version.0), damaged).await;
    let fresh = world.open().await;
    let report = fresh.check(false, |_| {}).await.unwrap();
    assert_eq!(
        kinds(&report),
        ["inline.differs", "file.size"],
        "{report:#?}"
    );
    let torn = format!("{}!{}", &text[..at + 3], &text[at + 4..]);
    world.put(&record_key(version.0), torn).await;
    let error = world.try_open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// Dies after some writes: nothing after that has an effect or an answer.
struct Mortal {
    inner: Arc<dyn ObjectStore>,
    writes_left: AtomicI64,
}

impl Mortal {
    fn write(&self) -> Result<()> {
        match self.writes_left.fetch_sub(1, Ordering::SeqCst) {
            left if left > 0 => Ok(()),
            _ => self.dead(),
        }
    }

    fn dead(&self) -> Result<()> {
        if self.writes_left.load(Ordering::SeqCst) >= 0 {
            return Ok(());
        }
        Err(Error::Generic {
            store: "mortal",
            source: "dead".into(),
        })
    }
}

impl fmt::Debug for Mortal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mortal")
    }
}

impl fmt::Display for Mortal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mortal")
    }
}

#[async_trait]
impl ObjectStore for Mortal {
    async fn put_opts(&self, key: &Path, bytes: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.write()?;
        self.inner.put_opts(key, bytes, opts).await
    }

    async fn put_multipart_opts(
        &self,
        key: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.write()?;
        self.inner.put_multipart_opts(key, opts).await
    }

    async fn get_opts(&self, key: &Path, options: GetOptions) -> Result<GetResult> {
        self.dead()?;
        self.inner.get_opts(key, options).await
    }

    async fn get_ranges(&self, key: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.dead()?;
        self.inner.get_ranges(key, ranges).await
    }

    fn delete_stream(
        &self,
        keys: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(keys)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Two tables, each with two inserts and an update by one transaction, all published.
async fn work(db: &Database, acknowledged: &mut i64) -> std::result::Result<(), DbError> {
    let snapshot = db.snapshot().await?;
    let (t, u) = (
        snapshot.find("main", "t")?.id,
        snapshot.find("main", "u")?.id,
    );
    for n in 1..=3 {
        let mut txn = db.begin(tarndb_db::TxnOptions::default()).await?;
        for id in [t, u] {
            let rows = futures::stream::iter([Ok::<_, DbError>(batch(&[(n, n)]))]);
            txn.append(id, rows).await?;
        }
        txn.commit().await?;
        *acknowledged = n;
    }
    db.publish().await?;
    Ok(())
}

#[tokio::test]
async fn a_writer_that_dies_at_any_write_leaves_nothing_half_done() {
    let mut deaths = BTreeMap::new();
    for writes in 0.. {
        let world = World::new();
        let db = world.create().await;
        let tables = [create_table(&db, "t").await, create_table(&db, "u").await];
        drop(db);
        let mortal = Mortal {
            inner: Arc::clone(&world.objects),
            writes_left: AtomicI64::new(writes),
        };
        let options = DbOptions {
            commit_deadline: std::time::Duration::ZERO,
            background: false,
            ..manual()
        };
        let store = world.store_over(Arc::new(mortal));
        let dying = Database::open(store, options).await.unwrap();
        let mut acknowledged = 0;
        let outcome = work(&dying, &mut acknowledged).await;
        drop(dying);

        assert_published_is_complete(&world).await;
        let next = world.open().await;
        let found = rows(&next, tables[0]).await;
        let expected: Vec<Row> = (1..=acknowledged).map(|n| (n, n)).collect();
        assert_eq!(found, expected, "after {writes} writes");
        assert_eq!(rows(&next, tables[1]).await, expected);
        assert_clean(&next).await;
        next.publish().await.unwrap();
        assert_published_is_complete(&world).await;
        assert_clean(&world.open().await).await;
        assert_eq!(rows(&world.open().await, tables[0]).await, expected);
        let files = stored_files(&world).await.len() as i64;
        assert_eq!(files, 2 * acknowledged, "each file once");
        *deaths.entry(acknowledged).or_insert(0) += 1;
        if outcome.is_ok() {
            break;
        }
    }
    // Before each of three records, and at each of 8 versions, 6 files and one table's checksum
    // of the publisher; that of the other is the last write, and its loss is no failure.
    assert_eq!(deaths, BTreeMap::from([(0, 1), (1, 1), (2, 1), (3, 16)]));
}

#[tokio::test]
async fn the_old_way_is_there_by_option() {
    let world = World::new();
    world.create().await;
    let options = DbOptions {
        inline_file_bytes_max: 0,
        ..manual()
    };
    let db = Database::open(world.store(), options).await.unwrap();
    let id = create_table(&db, "t").await;
    let version = insert(&db, id, &[(1, 1)]).await.version.unwrap();
    assert_eq!(stored_files(&world).await.len(), 1);
    let text = record_text(&world, version.0).await;
    assert!(text.contains("\"readerFeatures\":[]"), "{text}");
}
