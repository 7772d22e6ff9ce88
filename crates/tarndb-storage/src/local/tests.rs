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
use super::disk::{Disk, SyncPoint, SystemDisk};
use crate::context::Context;
use crate::error::{StoreError, StoreErrorKind};
use crate::options::Durability;
use crate::store::{PutOutcome, Store};

const ENOSPC: i32 = 28;
const EACCES: i32 = 13;
const EROFS: i32 = 30;
const EIO: i32 = 5;
const EPERM: i32 = 1;
const EINVAL: i32 = 22;
const EMFILE: i32 = 24;
const EMLINK: i32 = 31;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

/// Records every step and fails some.
#[derive(Debug)]
struct Watched {
    root: PathBuf,
    steps: Mutex<Vec<String>>,
    /// Steps of these kinds fail with that code.
    failing: Mutex<Vec<(String, i32)>>,
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
        let mut steps = self.steps.lock().unwrap();
        // How many folders there are above the root is the machine's affair.
        let above = step.ends_with("ABOVE");
        if !(above && (kind == "mkdir" || steps.last() == Some(&step))) {
            steps.push(step.clone());
        }
        let failing = self.failing.lock().unwrap();
        match failing.iter().find(|(pattern, _)| *pattern == step) {
            Some((_, code)) => Err(io::Error::from_raw_os_error(*code)),
            None => Ok(()),
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
    fn sync(&self, file: &File, at: SyncPoint) -> io::Result<()> {
        self.0.step("sync", None)?;
        self.0.real.sync(file, at)
    }
    fn link(&self, from: &FsPath, to: &FsPath) -> io::Result<()> {
        self.0.step("link", Some(to))?;
        self.0.real.link(from, to)
    }
    fn rename_new(&self, from: &FsPath, to: &FsPath) -> io::Result<()> {
        self.0.step("rename_new", Some(to))?;
        self.0.real.rename_new(from, to)
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
    fn sync_folder(&self, path: &FsPath, at: SyncPoint) -> io::Result<()> {
        self.0.step("syncdir", Some(path))?;
        self.0.real.sync_folder(path, at)
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
        let (objects, store) = Self::handle(&watched, 1);
        Self {
            _folder: folder,
            watched,
            objects,
            store,
        }
    }

    /// A handle as another process would have it.
    fn other(&self) -> Store {
        Self::handle(&self.watched, 2).1
    }

    fn handle(watched: &Arc<Watched>, seed: u64) -> (Arc<DurableLocal>, Store) {
        let context = Context::seeded(seed);
        let disk = Box::new(Shared(Arc::clone(watched)));
        let objects = Arc::new(DurableLocal::over(watched.root.clone(), disk, &context));
        let store = Store::new(
            Arc::clone(&objects) as Arc<dyn ObjectStore>,
            "test",
            context,
        );
        (objects, store)
    }

    fn take_steps(&self) -> Vec<String> {
        std::mem::take(&mut *self.watched.steps.lock().unwrap())
    }

    fn fail(&self, step: &str, code: i32) {
        let mut failing = self.watched.failing.lock().unwrap();
        failing.push((step.to_owned(), code));
    }

    fn heal(&self) {
        self.watched.failing.lock().unwrap().clear();
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
        "syncdir ABOVE",
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
        steps,
        [
            "create TEMP",
            "write",
            "sync",
            "link TEMP",
            "rename log/1",
            "syncdir log",
            "unlink TEMP",
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
        "link TEMP",
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
        ("syncdir ROOT", EMFILE, StoreErrorKind::Unavailable),
        ("syncdir ROOT", EINVAL, StoreErrorKind::Unsupported),
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
async fn a_name_that_failed_to_be_synced_is_told_only_after_another_handle_syncs_it() {
    let world = World::new();
    world.create("log/1").await.unwrap();
    world.fail("syncdir log", EIO);
    let outcome = world.create("log/2").await.unwrap();
    assert!(matches!(outcome, PutOutcome::Unknown(_)), "{outcome:?}");
    // Reading it now would tell of a record that a power cut can still take away.
    let key = Path::from("log/2");
    let hidden = |error: &StoreError| !error.is_not_stored();
    assert!(
        world
            .store
            .get(&key)
            .await
            .is_err_and(|error| hidden(&error))
    );
    assert!(
        world
            .store
            .list_after(&Path::from("log"), None)
            .await
            .is_err()
    );
    assert!(world.other().get(&key).await.is_err());
    assert!(world.store.get(&Path::from("log/1")).await.is_ok());
    world.heal();
    // The kernel tells of a failed write once: for this handle a success would prove nothing.
    world.take_steps();
    let error = world.store.get(&key).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert!(
        format!("{source:?}").contains("start the program again"),
        "{source:?}"
    );
    let next = world.create("log/3").await.unwrap();
    assert!(matches!(next, PutOutcome::Unknown(_)), "{next:?}");
    assert!(!world.take_steps().contains(&"syncdir log".to_owned()));
    let other = world.other();
    let found = other.get(&key).await.unwrap();
    assert_eq!(found, Some(Bytes::from_static(b"data")));
    assert_eq!(world.take_steps(), ["syncdir log"]);
    // Once is enough.
    other.get(&key).await.unwrap();
    assert_eq!(world.take_steps(), Vec::<String>::new());
}

#[tokio::test]
async fn a_folder_that_could_not_be_opened_is_synced_later() {
    let world = World::new();
    world.create("log/1").await.unwrap();
    world.fail("syncdir log", EMFILE);
    let outcome = world.create("log/2").await.unwrap();
    assert!(matches!(outcome, PutOutcome::Unknown(_)), "{outcome:?}");
    let key = Path::from("log/2");
    assert!(world.store.get(&key).await.is_err());
    world.heal();
    world.take_steps();
    for expected in [&["syncdir log"][..], &[]] {
        let found = world.store.get(&key).await.unwrap();
        assert_eq!(found, Some(Bytes::from_static(b"data")));
        assert_eq!(world.take_steps(), expected);
    }
    let again = world.create("log/2").await;
    assert!(matches!(again, Ok(PutOutcome::AlreadyExists)), "{again:?}");
}

#[tokio::test]
async fn an_image_of_hard_links_that_cannot_be_synced_is_read() {
    let world = World::new();
    world.create("log/1").await.unwrap();
    let log = world.watched.root.join("log");
    std::fs::hard_link(log.join("1"), log.join("2")).unwrap();
    world.fail("syncdir log", EINVAL);
    for key in ["log/1", "log/2"] {
        let found = world.store.get(&Path::from(key)).await.unwrap();
        assert_eq!(found, Some(Bytes::from_static(b"data")));
    }
    world.heal();
    world.fail("syncdir log", EIO);
    let other = world.other().get(&Path::from("log/1")).await;
    assert!(other.is_err(), "{other:?}");
}

#[tokio::test]
async fn a_new_folder_that_failed_to_be_synced_is_not_written_to() {
    let world = World::new();
    world.create("log/1").await.unwrap();
    world.fail("syncdir ROOT", EIO);
    for _ in 0..2 {
        let error = world.create("new/1").await.unwrap_err();
        assert!(error.is_not_stored(), "{error:?}");
        world.heal();
    }
    let found = world
        .other()
        .put_if_absent(&Path::from("new/1"), Bytes::new())
        .await;
    assert!(matches!(found, Ok(PutOutcome::Created)), "{found:?}");
}

#[tokio::test]
async fn without_hard_links_a_create_is_an_exclusive_rename() {
    for code in [EPERM, EOPNOTSUPP, ENOSYS, EMLINK] {
        let world = World::new();
        world.fail("link log/1", code);
        world.create("log/1").await.unwrap();
        let steps = world.take_steps();
        let shown = [
            "link log/1",
            "rename_new log/1",
            "syncdir log",
            "unlink TEMP",
        ];
        assert!(steps.ends_with(&shown.map(str::to_owned)), "{steps:?}");
        world.create("log/2").await.unwrap();
        let expected = [
            "create TEMP",
            "write",
            "sync",
            "rename_new log/2",
            "syncdir log",
            "unlink TEMP",
        ];
        assert_eq!(world.take_steps(), expected, "it is asked once only");
        let again = world.create("log/1").await;
        assert!(matches!(again, Ok(PutOutcome::AlreadyExists)), "{again:?}");
        let left = std::fs::read_dir(world.watched.root.join("_tarndb/tmp")).unwrap();
        assert_eq!(left.count(), 0);
    }
}

#[tokio::test]
async fn a_file_system_without_any_exclusive_create_is_refused_by_path() {
    for code in [EINVAL, ENOSYS] {
        let world = World::new();
        world.fail("link log/1", EPERM);
        world.fail("rename_new log/1", code);
        let error = world.create("log/1").await.unwrap_err();
        assert!(error.is_not_stored(), "{error:?}");
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        let path = world.watched.root.join("log/1").display().to_string();
        assert!(error.to_string().contains(&path), "{error}");
        assert!(
            error.to_string().contains("use a folder on another one"),
            "{error}"
        );
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(
            source.contains("neither hard links nor RENAME_NOREPLACE"),
            "{source}"
        );
        assert_eq!(world.store.get(&Path::from("log/1")).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_folder_that_refuses_every_new_name_is_told_as_such() {
    let world = World::new();
    world.fail("link log/1", EPERM);
    world.fail("rename_new log/1", EPERM);
    let error = world.create("log/1").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::PermissionDenied, "{error:?}");
    world.heal();
    world.take_steps();
    world.create("log/1").await.unwrap();
    assert!(world.take_steps().contains(&"link log/1".to_owned()));
}

/// A disk without hard links; with `exclusive` false also without `RENAME_NOREPLACE`.
#[derive(Debug)]
struct Plain {
    real: SystemDisk,
    exclusive: bool,
}

impl Disk for Plain {
    fn create_new(&self, path: &FsPath) -> io::Result<File> {
        self.real.create_new(path)
    }
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.real.write_at(file, bytes, offset)
    }
    fn sync(&self, file: &File, at: SyncPoint) -> io::Result<()> {
        self.real.sync(file, at)
    }
    fn link(&self, _: &FsPath, _: &FsPath) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(EPERM))
    }
    fn rename_new(&self, from: &FsPath, to: &FsPath) -> io::Result<()> {
        match self.exclusive {
            true => self.real.rename_new(from, to),
            false => Err(io::Error::from_raw_os_error(EINVAL)),
        }
    }
    fn rename(&self, from: &FsPath, to: &FsPath) -> io::Result<()> {
        self.real.rename(from, to)
    }
    fn unlink(&self, path: &FsPath) -> io::Result<()> {
        self.real.unlink(path)
    }
    fn make_folder(&self, path: &FsPath) -> io::Result<()> {
        self.real.make_folder(path)
    }
    fn sync_folder(&self, path: &FsPath, at: SyncPoint) -> io::Result<()> {
        self.real.sync_folder(path, at)
    }
}

fn plain(folder: &TempDir, exclusive: bool) -> Store {
    let real = SystemDisk {
        durability: Durability::Full,
    };
    let disk = Box::new(Plain { real, exclusive });
    let context = Context::seeded(3);
    let objects = DurableLocal::over(folder.path().to_owned(), disk, &context);
    Store::new(Arc::new(objects), "test", context)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_folder_without_hard_links_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let store = plain(&folder, true);
    crate::conformance::all(&store).await;
    let left = std::fs::read_dir(folder.path().join("_tarndb/tmp")).unwrap();
    assert_eq!(left.count(), 0, "temporary files left");
}

#[tokio::test]
async fn the_probe_refuses_a_folder_without_any_exclusive_create() {
    let folder = tempfile::tempdir().unwrap();
    let error = plain(&folder, false).probe(&Path::from("_tarndb")).await;
    let kind = error.as_ref().map_err(StoreError::kind);
    assert_eq!(kind, Err(StoreErrorKind::Unsupported), "{error:?}");
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
