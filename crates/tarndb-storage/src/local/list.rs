//! Listing a folder as a store lists a prefix.
//!
//! Invariant: ascending by the bytes of the whole key (a folder's own order differs: `a.b`
//! stands before `a/b`). Does not: show temporary files, folders, or names that are no key;
//! does not enter symbolic links to folders. Names are durable before they are told.

use std::fs::{DirEntry, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use object_store::path::Path;
use object_store::{ListResult, ObjectMeta};

use super::error::{Effect, LocalResult, failed};
use super::folder::{Folder, hidden};

/// The metadata of a file as that of an object.
pub(super) fn object_meta(location: Path, metadata: &Metadata) -> ObjectMeta {
    let modified = metadata.modified().unwrap_or(std::time::UNIX_EPOCH);
    let e_tag = format!(
        "{:x}-{:x}.{:x}-{:x}",
        metadata.ino(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.len()
    );
    ObjectMeta {
        location,
        last_modified: modified.into(),
        size: metadata.len(),
        e_tag: Some(e_tag),
        version: None,
    }
}

/// Every object below `prefix` whose key is greater than `after`, ascending.
pub(super) fn list(
    folder: &Folder,
    prefix: &Path,
    after: Option<&Path>,
) -> LocalResult<Vec<ObjectMeta>> {
    folder.check_root()?;
    let mut found = Vec::new();
    let mut pending = vec![prefix.clone()];
    while let Some(dir) = pending.pop() {
        let mut files = Vec::new();
        for (key, entry) in entries(folder, &dir)? {
            let kind = entry
                .file_type()
                .map_err(failed("read", &entry.path(), Effect::None))?;
            if kind.is_dir() {
                if may_hold_after(&key, after) {
                    pending.push(key);
                }
            } else if after.is_none_or(|offset| key > *offset) {
                files.extend(file(key, &entry)?);
            }
        }
        found.extend(durable(folder, files)?);
    }
    found.sort_by(|a, b| a.location.cmp(&b.location));
    Ok(found)
}

/// The objects directly in `prefix` and the folders in it that hold anything.
pub(super) fn list_shallow(folder: &Folder, prefix: &Path) -> LocalResult<ListResult> {
    folder.check_root()?;
    let mut result = ListResult {
        common_prefixes: Vec::new(),
        objects: Vec::new(),
    };
    let mut files = Vec::new();
    for (key, entry) in entries(folder, prefix)? {
        let kind = entry
            .file_type()
            .map_err(failed("read", &entry.path(), Effect::None))?;
        if !kind.is_dir() {
            files.extend(file(key, &entry)?);
        } else if holds_object(folder, &key)? {
            result.common_prefixes.push(key);
        }
    }
    result.objects = durable(folder, files)?;
    result.common_prefixes.sort();
    result.objects.sort_by(|a, b| a.location.cmp(&b.location));
    Ok(result)
}

fn holds_object(folder: &Folder, dir: &Path) -> LocalResult<bool> {
    let mut pending = vec![dir.clone()];
    while let Some(dir) = pending.pop() {
        for (key, entry) in entries(folder, &dir)? {
            let kind = entry
                .file_type()
                .map_err(failed("read", &entry.path(), Effect::None))?;
            if kind.is_dir() {
                pending.push(key);
            } else if file(key, &entry)?.is_some() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// True unless every key below the folder `dir` is at most `after`.
fn may_hold_after(dir: &Path, after: Option<&Path>) -> bool {
    // Keys below `dir` start with `dir/` and are therefore smaller than `dir0`.
    after.is_none_or(|offset| format!("{dir}0").as_str() > offset.as_ref())
}

/// What stands in one folder; nothing when it does not exist.
fn entries(folder: &Folder, dir: &Path) -> LocalResult<Vec<(Path, DirEntry)>> {
    let path = folder.root().join(dir.as_ref());
    let reader = match std::fs::read_dir(&path) {
        Ok(reader) => reader,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", &path, Effect::None)(error)),
    };
    let mut found = Vec::new();
    for entry in reader {
        let entry = entry.map_err(failed("list", &path, Effect::None))?;
        let name = entry.file_name();
        // A name that is not UTF-8, or holds control characters, cannot be an object's.
        let key = name.to_str().and_then(|name| child(dir, name));
        if let Some(key) = key.filter(|key| !hidden(key.as_ref())) {
            found.push((key, entry));
        }
    }
    Ok(found)
}

fn child(dir: &Path, name: &str) -> Option<Path> {
    let key = if dir.is_root() {
        name.to_owned()
    } else {
        format!("{dir}/{name}")
    };
    Path::parse(key).ok()
}

/// A file found in a folder.
struct Found {
    key: Path,
    path: PathBuf,
    metadata: Metadata,
}

/// `None` for what is not a file, or was removed since its folder was read.
fn file(key: Path, entry: &DirEntry) -> LocalResult<Option<Found>> {
    let path = entry.path();
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(Found {
            key,
            path,
            metadata,
        })),
        Ok(_) => Ok(None),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(failed("read", &path, Effect::None)(error)),
    }
}

/// The files of one folder as objects, when their names are durable.
fn durable(folder: &Folder, files: Vec<Found>) -> LocalResult<Vec<ObjectMeta>> {
    let (mut names, mut objects) = (Vec::new(), Vec::new());
    for file in files {
        objects.push(object_meta(file.key, &file.metadata));
        names.push((file.path, file.metadata));
    }
    folder.require_durable_all(&names)?;
    Ok(objects)
}

/// True for the ways in which a path can lead to nothing.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
