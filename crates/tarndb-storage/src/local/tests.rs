//! The order of a durable write, and what each failing step means.

use std::fs::File;
use std::io;
use std::path::{Path as FsPath, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;

use super::DurableLocal;
use super::disk::{Disk, SystemDisk};
use crate::context::Context;
use crate::error::{StoreError, StoreErrorKind};
use crate::options::Durability;
use crate::store::{PutOutcome, Store};

const ENOSPC: i32 = 28;
const EACCES: i32 = 13;
const EROFS: i32 = 30;
const EIO: i32 = 5;

/// Records every step and fails some.
#[derive(Debug)]
struct Watched {
    root: PathBuf,
    steps: Mutex<Vec<String>>,
    /// Steps of these kinds fail with that code.
    failing: Mutex<Option<(String, i32)>>,
    real: SystemDisk,
}

impl Watched {
    fn step(&self, kind: &str, path: Option<&FsPath>) -> io::Result<()> {
        let shown = path.map_or(String::new(), |path| {
            let temp = path.starts_with(self.root.join("_tarndb/tmp"))
                && path != self.root.join("_tarndb/tmp");
            let below = path
                .strip_prefix(&self.root)
                .map(|p| p.display().to_string());
            match (temp, below) {
                (true, _) => " TEMP".to_owned(),
                (false, Ok(below)) if below.is_empty() => " ROOT".to_owned(),
                (false, Ok(below)) => format!(" {below}"),
                (false, Err(_)) => " ABOVE".to_owned(),
            }
        });
        let step = format!("{kind}{shown}");
        self.steps.lock().unwrap().push(step.clone());
        match &*self.failing.lock().unwrap() {
            Some((pattern, code)) if *pattern == step => Err(io::Error::from_raw_os_error(*code)),
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Shared(Arc<Watched>);

impl Disk for Shared {
    fn create_new(&self, path: &FsPath) -> io::Result<File> {
        self.0.step("create", Some(path))?;
        self.0.real.create_new(path)
    }
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.step("write", None)?;
        self.0.real.write_at(file, bytes, offset)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        self.0.step("sync", None)?;
        self.0.real.sync(file)
    }
    fn link(&self, from: &FsPath, to: &FsPath) -> io::Result<()> {
        self.0.step("link", Some(to))?;
        self.0.real.link(from, to)
    }
    fn rename(&self, from: &FsPath, to: &FsPath) -> io::Result<()> {
        self.0.step("rename", Some(to))?;
        self.0.real.rename(from, to)
    }
    fn unlink(&self, path: &FsPath) -> io::Result<()> {
        self.0.step("unlink", Some(path))?;
        self.0.real.unlink(path)
    }
    fn make_folder(&self, path: &FsPath) -> io::Result<()> {
        self.0.step("mkdir", Some(path))?;
        self.0.real.make_folder(path)
    }
    fn sync_folder(&self, path: &FsPath) -> io::Result<()> {
        self.0.step("syncdir", Some(path))?;
        self.0.real.sync_folder(path)
    }
}

struct World {
    _folder: TempDir,
    watched: Arc<Watched>,
    objects: Arc<DurableLocal>,
    store: Store,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let watched = Arc::new(Watched {
            root: root.clone(),
            steps: Mutex::default(),
            failing: Mutex::default(),
            real: SystemDisk {
                durability: Durability::Full,
            },
        });
        let context = Context::seeded(1);
        let disk = Box::new(Shared(Arc::clone(&watched)));
        let objects = Arc::new(DurableLocal::over(root, disk, &context));
        let store = Store::new(
            Arc::clone(&objects) as Arc<dyn ObjectStore>,
            "test",
            context,
        );
        Self {
            _folder: folder,
            watched,
            objects,
            store,
        }
    }

    fn take_steps(&self) -> Vec<String> {
        std::mem::take(&mut *self.watched.steps.lock().unwrap())
    }

    fn fail(&self, step: &str, code: i32) {
        *self.watched.failing.lock().unwrap() = Some((step.to_owned(), code));
    }

    fn heal(&self) {
        *self.watched.failing.lock().unwrap() = None;
    }

    async fn create(&self, key: &str) -> Result<PutOutcome, StoreError> {
        self.store
            .put_if_absent(&Path::from(key), Bytes::from_static(b"data"))
            .await
    }
}

#[tokio::test]
async fn a_first_create_syncs_every_new_folder_before_it_shows_the_object() {
    let world = World::new();
    assert!(matches!(
        world.create("a/b/k").await,
        Ok(PutOutcome::Created)
    ));
    let expected = [
        "mkdir ROOT",
        "syncdir ABOVE",
        "mkdir a",
        "syncdir ROOT",
        "mkdir a/b",
        "syncdir a",
        "mkdir _tarndb",
        "syncdir ROOT",
        "mkdir _tarndb/tmp",
        "syncdir _tarndb",
        "create TEMP",
        "write",
        "sync",
        "link a/b/k",
        "syncdir a/b",
        "unlink TEMP",
    ];
    assert_eq!(world.take_steps(), expected);
}

#[tokio::test]
async fn a_warm_create_is_six_calls_in_the_order_that_durability_needs() {
    let world = World::new();
    world.create("log/1").await.unwrap();
    world.take_steps();
    world.create("log/2").await.unwrap();
    let expected = [
        "create TEMP",
        "write",
        "sync",
        "link log/2",
        "syncdir log",
        "unlink TEMP",
    ];
    assert_eq!(world.take_steps(), expected);
}

#[tokio::test]
async fn an_overwrite_renames_a_synced_file() {
    let world = World::new();
    let key = Path::from("log/1");
    world.create("log/1").await.unwrap();
    world.take_steps();
    world
        .store
        .put(&key, Bytes::from_static(b"new"))
        .await
        .unwrap();
    let steps = world.take_steps();
    assert_eq!(
        steps[..5],
        [
            "create TEMP",
            "write",
            "sync",
            "rename log/1",
            "syncdir log"
        ]
    );
    assert_eq!(
        world.store.get_required(&key).await.unwrap(),
        Bytes::from_static(b"new")
    );
}

#[tokio::test]
async fn a_multipart_upload_is_synced_before_it_is_shown() {
    let world = World::new();
    world.create("t/1").await.unwrap();
    world.take_steps();
    let mut upload = world
        .objects
        .put_multipart(&Path::from("t/2"))
        .await
        .unwrap();
    upload
        .put_part(Bytes::from_static(b"one").into())
        .await
        .unwrap();
    upload
        .put_part(Bytes::from_static(b"two").into())
        .await
        .unwrap();
    upload.complete().await.unwrap();
    let expected = [
        "create TEMP",
        "write",
        "write",
        "sync",
        "rename t/2",
        "syncdir t",
    ];
    assert_eq!(world.take_steps(), expected);
}

#[tokio::test]
async fn a_taken_name_is_refused_before_anything_is_written() {
    let world = World::new();
    world.create("log/1").await.unwrap();
    world.take_steps();
    assert!(matches!(
        world.create("log/1").await,
        Ok(PutOutcome::AlreadyExists)
    ));
    assert_eq!(world.take_steps(), Vec::<String>::new());
}

#[tokio::test]
async fn a_failure_before_the_link_is_definite_and_leaves_nothing() {
    for (step, code, kind) in [
        ("create TEMP", EACCES, StoreErrorKind::PermissionDenied),
        ("create TEMP", EROFS, StoreErrorKind::ReadOnly),
        ("write", ENOSPC, StoreErrorKind::ResourceExhausted),
        ("sync", ENOSPC, StoreErrorKind::ResourceExhausted),
        ("sync", EIO, StoreErrorKind::Unavailable),
        ("link log/2", ENOSPC, StoreErrorKind::ResourceExhausted),
        ("mkdir new", EACCES, StoreErrorKind::PermissionDenied),
        ("syncdir ROOT", EIO, StoreErrorKind::Unavailable),
    ] {
        let world = World::new();
        world.create("log/1").await.unwrap();
        world.fail(step, code);
        let new_folder = step.contains("new") || step.contains("ROOT");
        let key = if new_folder { "new/2" } else { "log/2" };
        let error = world.create(key).await.unwrap_err();
        assert!(error.is_not_stored(), "{step}: {error:?}");
        assert_eq!(error.kind(), kind, "{step}: {error:?}");
        assert!(
            error
                .to_string()
                .contains(&world.objects.to_string()[13..20]),
            "{error}"
        );
        world.heal();
        assert_eq!(
            world.store.get(&Path::from(key)).await.unwrap(),
            None,
            "{step}"
        );
        let left = std::fs::read_dir(world.watched.root.join("_tarndb/tmp"))
            .unwrap()
            .count();
        assert_eq!(left, 0, "{step}");
        assert!(
            matches!(world.create(key).await, Ok(PutOutcome::Created)),
            "{step}"
        );
    }
}

#[tokio::test]
async fn a_failure_after_the_link_is_unknown_and_hidden_until_it_is_durable() {
    let world = World::new();
    world.create("log/1").await.unwrap();
    world.fail("syncdir log", EIO);
    let outcome = world.create("log/2").await.unwrap();
    assert!(matches!(outcome, PutOutcome::Unknown(_)), "{outcome:?}");
    // Reading it now would tell of a record that a power cut can still take away.
    assert!(world.store.get(&Path::from("log/2")).await.is_err());
    assert!(world.store.get(&Path::from("log/1")).await.is_err());
    world.heal();
    world.take_steps();
    let found = world.store.get(&Path::from("log/2")).await.unwrap();
    assert_eq!(found, Some(Bytes::from_static(b"data")));
    assert_eq!(world.take_steps(), ["syncdir log"]);
    assert!(matches!(
        world.create("log/2").await,
        Ok(PutOutcome::AlreadyExists)
    ));
}

#[tokio::test]
async fn a_link_with_a_lost_answer_is_unknown() {
    let world = World::new();
    world.create("log/1").await.unwrap();
    world.fail("link log/2", EIO);
    let outcome = world.create("log/2").await.unwrap();
    assert!(matches!(outcome, PutOutcome::Unknown(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_failing_cleanup_does_not_fail_the_write() {
    let world = World::new();
    world.fail("unlink TEMP", EIO);
    assert!(matches!(
        world.create("log/1").await,
        Ok(PutOutcome::Created)
    ));
    let listed = world.store.list_after(&Path::ROOT, None).await.unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
}

#[tokio::test]
async fn keys_that_leave_the_root_are_refused() {
    let world = World::new();
    // `Path` refuses such segments itself when parsed, and encodes them otherwise.
    assert!(Path::parse("../x").is_err());
    assert!(Path::parse("a/./x").is_err());
    assert_eq!(Path::from("../x").as_ref(), "%2E%2E/x");
    let root = world
        .store
        .put(&Path::ROOT, Bytes::from_static(b"x"))
        .await
        .unwrap_err();
    assert!(root.is_not_stored(), "{root:?}");
    let hidden = world
        .store
        .put(&Path::from("_tarndb/tmp/x"), Bytes::new())
        .await
        .unwrap_err();
    assert!(hidden.is_not_stored(), "{hidden:?}");
    assert_eq!(world.take_steps(), Vec::<String>::new());
}

#[tokio::test]
async fn copies_and_renames_obey_their_mode() {
    let world = World::new();
    let objects = &world.objects;
    let (from, to) = (Path::from("a/from"), Path::from("b/to"));
    objects
        .put(&from, Bytes::from_static(b"1").into())
        .await
        .unwrap();
    objects.copy_if_not_exists(&from, &to).await.unwrap();
    let again = objects.copy_if_not_exists(&from, &to).await;
    assert!(
        matches!(again, Err(object_store::Error::AlreadyExists { .. })),
        "{again:?}"
    );
    let missing = objects.copy(&Path::from("none"), &to).await;
    assert!(
        matches!(missing, Err(object_store::Error::NotFound { .. })),
        "{missing:?}"
    );
    objects
        .put(&from, Bytes::from_static(b"2").into())
        .await
        .unwrap();
    objects.rename(&from, &to).await.unwrap();
    assert_eq!(
        world.store.get(&to).await.unwrap(),
        Some(Bytes::from_static(b"2"))
    );
    assert_eq!(world.store.get(&from).await.unwrap(), None);
}

#[tokio::test]
async fn what_a_crash_left_is_swept_when_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let temp = folder.path().join("_tarndb/tmp");
    std::fs::create_dir_all(&temp).unwrap();
    for (name, age_days) in [("old", 8), ("young", 6)] {
        let file = File::create(temp.join(name)).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        let age = std::time::Duration::from_secs(age_days * 24 * 3600);
        file.set_modified(modified - age).unwrap();
    }
    let store = DurableLocal::new(folder.path(), Durability::Full, Context::seeded(1));
    store
        .put(&Path::from("x"), Bytes::from_static(b"1").into())
        .await
        .unwrap();
    let left: Vec<_> = std::fs::read_dir(&temp)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left, ["young"]);
}
