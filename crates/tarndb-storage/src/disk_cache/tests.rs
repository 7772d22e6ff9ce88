//! Tests of the cache on disk.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "a list of one range is what is meant"
)]

use std::fs::{self, File};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use object_store::path::Path;

use super::*;

const MIB: u64 = 1 << 20;

struct World {
    folder: tempfile::TempDir,
    cache: DiskCache,
    asked: Mutex<Vec<Vec<Range<u64>>>>,
}

fn id(name: &str, size_bytes: u64) -> ObjectId {
    ObjectId {
        key: Path::from(name),
        size_bytes,
        modified_ms: 0,
    }
}

/// Bytes that tell which object they belong to and, some of them, where they stand.
fn stored(id: &ObjectId, range: Range<u64>) -> Bytes {
    let mut bytes = vec![id.key.as_ref().len() as u8; (range.end - range.start) as usize];
    for at in (range.start.div_ceil(97) * 97..range.end).step_by(97) {
        bytes[(at - range.start) as usize] = (at % 251) as u8;
    }
    bytes.into()
}

impl World {
    fn new(bytes_max: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), "store", bytes_max);
        let asked = Mutex::default();
        Self {
            folder,
            cache,
            asked,
        }
    }

    async fn read_by(&self, cache: &DiskCache, id: &ObjectId, ranges: &[Range<u64>]) {
        let fetch = |missing: Vec<Range<u64>>| {
            self.asked.lock().unwrap().push(missing.clone());
            let bytes = missing.into_iter().map(|range| stored(id, range)).collect();
            futures::future::ready(Ok(bytes))
        };
        let got = cache.read(id, ranges, fetch).await.unwrap();
        let expected: Vec<_> = ranges
            .iter()
            .map(|range| stored(id, range.clone()))
            .collect();
        assert!(got == expected);
    }

    async fn read(&self, id: &ObjectId, ranges: &[Range<u64>]) {
        self.read_by(&self.cache, id, ranges).await;
    }

    /// What was asked of the store since the last call.
    fn asked(&self) -> Vec<Vec<Range<u64>>> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn files(&self) -> Vec<PathBuf> {
        files_below(self.folder.path())
    }
}

/// The wall clock, as the cache sees it.
fn now() -> SystemTime {
    let since = Context::system().now().0;
    SystemTime::UNIX_EPOCH + Duration::from_millis(since as u64)
}

fn cache(folder: &FilePath, store: &str, bytes_max: u64) -> DiskCache {
    let options = DiskCacheOptions {
        folder: folder.to_owned(),
        bytes_max,
    };
    DiskCache::new(options, store, Context::system())
}

fn files_below(folder: &FilePath) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[tokio::test]
async fn what_was_read_once_is_not_asked_again() {
    let world = World::new(MIB * 100);
    let id = id("f", MIB * 3 + 100);
    world.read(&id, &[10..20, MIB * 2..MIB * 2 + 5]).await;
    assert_eq!(world.asked(), [vec![0..MIB, MIB * 2..MIB * 3]]);
    world.read(&id, &[0..MIB, MIB * 2 + 7..MIB * 3, 5..5]).await;
    assert_eq!(world.asked(), [] as [Vec<Range<u64>>; 0]);
    // Across blocks, one of them known; the last is short.
    world.read(&id, &[MIB * 2 + 1..MIB * 3 + 100]).await;
    assert_eq!(world.asked(), [vec![MIB * 3..MIB * 3 + 100]]);
    // Another process finds it too.
    let other = cache(world.folder.path(), "store", MIB * 100);
    world
        .read_by(&other, &id, &[0..10, MIB * 3..MIB * 3 + 100])
        .await;
    assert_eq!(world.asked(), [] as [Vec<Range<u64>>; 0]);
}

#[tokio::test]
async fn objects_of_another_store_name_size_or_time_are_other_objects() {
    let world = World::new(MIB * 100);
    let first = id("f", 100);
    world.read(&first, &[0..100]).await;
    world.asked();
    let later = ObjectId {
        modified_ms: 1,
        ..first.clone()
    };
    for other in [id("g", 100), id("f", 99), later] {
        world.read(&other, &[0..99]).await;
        assert_eq!(world.asked().len(), 1, "{other:?}");
    }
    let elsewhere = cache(world.folder.path(), "other store", MIB * 100);
    world.read_by(&elsewhere, &first, &[0..100]).await;
    assert_eq!(world.asked().len(), 1);
}

#[tokio::test]
async fn any_damage_of_a_block_is_noticed_and_mended() {
    let world = World::new(MIB * 100);
    let id = id("f", 60);
    world.read(&id, &[0..60]).await;
    let [file] = &world.files()[..] else {
        panic!("one block")
    };
    let good = fs::read(file).unwrap();
    let flipped = (0..good.len()).map(|at| {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        bad
    });
    let cut = (0..good.len()).map(|length| good[..length].to_vec());
    let longer = std::iter::once([good.as_slice(), b"x"].concat());
    for bad in flipped.chain(cut).chain(longer) {
        world.asked();
        fs::write(file, bad).unwrap();
        world.read(&id, &[0..60]).await;
        assert_eq!(world.asked().len(), 1);
        assert!(fs::read(file).unwrap() == good);
    }
}

#[tokio::test]
async fn a_device_or_a_pipe_in_place_of_a_block_is_not_read() {
    let world = World::new(MIB * 100);
    let id = id("f", 60);
    world.read(&id, &[0..60]).await;
    let file = world.files().remove(0);
    for place in ["/dev/zero", "a pipe"] {
        fs::remove_file(&file).unwrap();
        if place == "a pipe" {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &file, kind, mode, 0).unwrap();
        } else {
            std::os::unix::fs::symlink(place, &file).unwrap();
        }
        world.asked();
        world.read(&id, &[0..60]).await;
        assert_eq!(world.asked().len(), 1, "{place}");
        assert!(fs::symlink_metadata(&file).unwrap().is_file(), "{place}");
    }
}

#[tokio::test]
async fn a_block_under_the_name_of_another_is_not_taken_for_it() {
    let world = World::new(MIB * 100);
    let id = id("f", MIB * 2);
    world.read(&id, &[0..MIB * 2]).await;
    let files = world.files();
    fs::copy(&files[0], &files[1]).unwrap();
    world.asked();
    world.read(&id, &[0..MIB * 2]).await;
    assert_eq!(world.asked(), [vec![MIB..MIB * 2]]);
}

#[tokio::test]
async fn what_was_not_used_for_longest_is_evicted() {
    let world = World::new(MIB * 20);
    let kept = id("kept", MIB);
    world.read(&kept, &[0..MIB]).await;
    let [first] = &world.files()[..] else {
        panic!("one block")
    };
    let first = first.clone();
    let old = now() - Duration::from_secs(10_000);
    let age = |path: &FilePath, seconds: u64| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(old + Duration::from_secs(seconds))
            .unwrap();
    };
    age(&first, 0);
    // Use makes it young again.
    world.read(&kept, &[0..1]).await;
    for number in 0..40 {
        let before = world.files();
        world.read(&id(&format!("{number}"), MIB), &[0..MIB]).await;
        let after = world.files();
        for new in after.iter().filter(|file| !before.contains(file)) {
            age(new, 1 + number);
        }
        let bytes: u64 = after
            .iter()
            .map(|file| fs::metadata(file).unwrap().len())
            .sum();
        assert!(bytes <= MIB * 23, "{bytes}");
    }
    assert!(first.exists());
    world.asked();
    world.read(&id("39", MIB), &[0..MIB]).await;
    assert!(world.asked().is_empty());
    world.read(&id("0", MIB), &[0..MIB]).await;
    assert_eq!(world.asked().len(), 1);
}

#[tokio::test]
async fn other_files_of_the_folder_are_not_touched() {
    let world = World::new(MIB * 16);
    let theirs = world.folder.path().join("ab");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("letter"), vec![0; 30 << 20]).unwrap();
    for number in 0..20 {
        world.read(&id(&format!("{number}"), MIB), &[0..MIB]).await;
    }
    assert!(theirs.join("letter").exists());
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_fails_no_read() {
    let world = World::new(MIB * 100);
    // A file stands where the folder should be.
    let blocked = world.folder.path().join("file");
    fs::write(&blocked, "x").unwrap();
    let cache = cache(&blocked, "store", MIB * 100);
    let id = id("f", 100);
    for _ in 0..2 {
        world.read_by(&cache, &id, &[0..100]).await;
        assert_eq!(world.asked().len(), 1);
    }
}

#[tokio::test]
async fn an_error_of_the_store_is_passed_on_and_not_kept() {
    let world = World::new(MIB * 100);
    let id = id("f", 100);
    let missing = |_| {
        let key = "f".to_owned();
        futures::future::ready(Err(StoreError::NotFound { key }))
    };
    let error = world.cache.read(&id, &[0..100], missing).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    world.read(&id, &[0..100]).await;
    assert_eq!(world.asked().len(), 1);
}
