//! Public bug reports about who is first and how the others learn of it, named after their ids.

use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path as FilePath;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use futures::stream::{BoxStream, StreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tarndb_db::{Database, DbError, ErrorKind, RetryPolicy, TxnOptions};
use tarndb_storage::{Context, Store, StoreOptions};

use crate::support::*;

/// A store whose errors have another text than anybody expects.
#[derive(Debug)]
struct Reworded(Arc<dyn ObjectStore>);

const TEXT: &str = "409 NotFound 412: der Schluessel wurde nicht gefunden, 404 AlreadyExists";

fn reworded(error: Error) -> Error {
    let (path, source) = (TEXT.to_owned(), TEXT.into());
    match error {
        Error::AlreadyExists { .. } => Error::AlreadyExists { path, source },
        Error::NotFound { .. } => Error::NotFound { path, source },
        Error::Precondition { .. } => Error::Precondition { path, source },
        other => other,
    }
}

impl fmt::Display for Reworded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TEXT)
    }
}

#[async_trait]
impl ObjectStore for Reworded {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let put = self.0.put_opts(location, payload, opts).await;
        put.map_err(reworded)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let got = self.0.get_opts(location, options).await;
        got.map_err(reworded)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let deleted = self.0.delete_stream(locations);
        deleted.map(|done| done.map_err(reworded)).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await.map_err(reworded)
    }
}

fn kind<T>(result: std::result::Result<T, DbError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Whatever can go wrong between two handles over one store: what they are told, as kinds.
async fn meet(store: impl Fn() -> Store) -> (Vec<Option<ErrorKind>>, Vec<Row>) {
    let mut told = vec![kind(Database::open(store(), manual()).await)];
    let db = Database::create(store(), manual()).await.unwrap();
    told.push(kind(Database::create(store(), manual()).await));
    let other = Database::open(store(), manual()).await.unwrap();
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 0), (2, 0)]).await;

    // A lost put, and nothing in the way.
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    update(&mut first, id, |row| row.0 == 1, |row| (row.0, 5)).await;
    update(&mut second, id, |row| row.0 == 2, |row| (row.0, 6)).await;
    told.push(kind(first.commit().await));
    told.push(kind(second.commit().await));
    // The same row.
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    update(&mut first, id, |row| row.0 == 1, |row| (row.0, 7)).await;
    update(&mut second, id, |row| row.0 == 1, |row| (row.0, 8)).await;
    told.push(kind(first.commit().await));
    told.push(kind(second.commit().await));
    // The same name.
    let (mut first, mut second) = (begin(&db).await, begin(&other).await);
    first.create_table("main", new_table("u")).await.unwrap();
    second.create_table("main", new_table("u")).await.unwrap();
    told.push(kind(first.commit().await));
    told.push(kind(second.commit().await));
    // Counted up by both at once, running again after each conflict.
    let count = |db: Database| async move {
        for _ in 0..10 {
            let counted = db.transact(
                TxnOptions::default(),
                RetryPolicy::default(),
                |mut txn| async move {
                    update(&mut txn, id, |row| row.0 == 2, |row| (2, row.1 + 1)).await;
                    Ok::<_, DbError>((txn, ()))
                },
            );
            counted.await.unwrap();
        }
    };
    join_all([count(db.clone()), count(other)]).await;
    assert_clean(&db).await;
    (told, rows(&db, id).await)
}

#[tokio::test]
async fn ex_10_conflicts_are_told_by_code_and_not_by_text() {
    let expected = vec![
        Some(ErrorKind::NotFound),
        Some(ErrorKind::AlreadyExists),
        None,
        None,
        None,
        Some(ErrorKind::ConflictRetryable),
        None,
        Some(ErrorKind::ConflictIncompatible),
    ];
    let expected = (expected, vec![(1, 7), (2, 26)]);
    let plain = World::new();
    assert_eq!(meet(|| plain.store()).await, expected);
    let world = World::new();
    let objects: Arc<dyn ObjectStore> = Arc::new(Reworded(Arc::clone(&world.objects)));
    let found = meet(|| world.store_over(Arc::clone(&objects))).await;
    assert_eq!(found, expected);
}

/// Who was first with the database and with the table `t`.
#[derive(Debug, PartialEq, Eq)]
struct Firsts {
    database: bool,
    table: bool,
}

/// Rows that each adds once the table is there.
const ROWS: i64 = 5;

/// One of several that all create the database, the table and its first rows.
async fn contend(store: impl Fn() -> Store, who: i64) -> Firsts {
    let (db, database) = match Database::create(store(), manual()).await {
        Ok(db) => (db, true),
        Err(DbError::DatabaseExists { .. }) => {
            (Database::open(store(), manual()).await.unwrap(), false)
        }
        Err(error) => panic!("{error}"),
    };
    let table = match create_filled(&db, who).await {
        Ok(()) => true,
        Err(error) => {
            let kind = error.kind();
            let exists = [ErrorKind::AlreadyExists, ErrorKind::ConflictIncompatible];
            assert!(exists.contains(&kind), "{error}");
            false
        }
    };
    let snapshot = db.snapshot().await.unwrap();
    let id = snapshot.catalog().find("main", "t").unwrap().id;
    for n in 1..=ROWS {
        insert(&db, id, &[(who, n)]).await;
    }
    db.close().await.unwrap();
    Firsts { database, table }
}

/// Creates the table with one row in it.
async fn create_filled(db: &Database, who: i64) -> std::result::Result<(), DbError> {
    let mut txn = begin(db).await;
    let id = txn.create_table("main", new_table("t")).await?;
    append(&mut txn, id, &[(who, 0)]).await;
    txn.commit().await.map(drop)
}

/// One was first with each, and nobody's rows are lost.
async fn assert_nothing_overwritten(store: Store, firsts: &[Firsts]) {
    let won = |what: fn(&Firsts) -> bool| firsts.iter().filter(|first| what(first)).count();
    assert_eq!(won(|first| first.database), 1, "{firsts:?}");
    assert_eq!(won(|first| first.table), 1, "{firsts:?}");
    let db = Database::open(store, manual()).await.unwrap();
    let snapshot = db.snapshot().await.unwrap();
    assert_eq!(snapshot.catalog().tables().count(), 1);
    let id = snapshot.catalog().find("main", "t").unwrap().id;
    let creator = firsts.iter().position(|first| first.table).unwrap() as i64;
    let mut expected = vec![(creator, 0)];
    for who in 0..firsts.len() as i64 {
        expected.extend((1..=ROWS).map(|n| (who, n)));
    }
    expected.sort_unstable();
    assert_eq!(rows(&db, id).await, expected);
    db.publish().await.unwrap();
    assert_clean(&db).await;
}

fn folder_store(folder: &FilePath) -> Store {
    let options = StoreOptions::default();
    tarndb_storage::open(folder.to_str().unwrap(), &options, Context::system()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ex_11_handles_that_all_create_the_database_and_the_table_at_once() {
    let world = World::new();
    let contenders = (0..8).map(|who| {
        let world = world.clone();
        tokio::spawn(async move { contend(|| world.store(), who).await })
    });
    let ended = join_all(contenders).await;
    let firsts: Vec<_> = ended.into_iter().map(|firsts| firsts.unwrap()).collect();
    assert_nothing_overwritten(world.store(), &firsts).await;

    let folder = tempfile::tempdir().unwrap();
    let contenders = (0..8).map(|who| {
        let path = folder.path().to_owned();
        tokio::spawn(async move { contend(|| folder_store(&path), who).await })
    });
    let ended = join_all(contenders).await;
    let firsts: Vec<_> = ended.into_iter().map(|firsts| firsts.unwrap()).collect();
    assert_nothing_overwritten(folder_store(folder.path()), &firsts).await;
}

/// Tells a process of the next test its folder and number.
const PROCESS: &str = "TARNDB_TEST_EX_11_PROCESS";
const PROCESSES: usize = 4;

/// Not a test of its own: what each process of the next test runs.
#[tokio::test]
async fn ex_11_process() {
    let Ok(asked) = std::env::var(PROCESS) else {
        return;
    };
    let (who, folder) = asked.split_once(' ').unwrap();
    eprintln!("ready");
    // All wait for one word, so that they begin together.
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let firsts = contend(|| folder_store(FilePath::new(folder)), who.parse().unwrap()).await;
    eprintln!("ended {} {}", firsts.database, firsts.table);
}

fn start(folder: &FilePath, who: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "cases_firsts::ex_11_process"])
        .env(PROCESS, format!("{who} {}", folder.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn ex_11_processes_that_all_create_the_database_and_the_table_on_a_local_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes: Vec<Child> = (0..PROCESSES)
        .map(|who| start(folder.path(), who))
        .collect();
    let mut told: Vec<_> = processes
        .iter_mut()
        .map(|process| BufReader::new(process.stderr.take().unwrap()).lines())
        .collect();
    for lines in &mut told {
        assert!(lines.any(|line| line.unwrap() == "ready"));
    }
    for process in &mut processes {
        let mut input = process.stdin.take().unwrap();
        input.write_all(b"go\n").unwrap();
    }
    let mut firsts = Vec::new();
    for (lines, process) in told.into_iter().zip(&mut processes) {
        let lines: Vec<String> = lines.map(|line| line.unwrap()).collect();
        assert!(process.wait().unwrap().success(), "{lines:#?}");
        let ended = lines.iter().find_map(|line| line.strip_prefix("ended "));
        let (database, table) = ended.unwrap().split_once(' ').unwrap();
        firsts.push(Firsts {
            database: database == "true",
            table: table == "true",
        });
    }
    assert_nothing_overwritten(folder_store(folder.path()), &firsts).await;
}
