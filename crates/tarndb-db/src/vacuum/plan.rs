//! What a vacuum deletes: a pure function of what is referenced, what is there, and when.
//!
//! Invariant: nothing that a retained version names is in a plan, nothing that the store has had
//! for less than the retention, and nothing that neither a writer of ours can have made nor the
//! table's own log knows to be removed. A plan is the same whether it is carried out or shown.
//! Spec: docs/format/log.md, "Vacuum"; docs/guide/maintenance.md, "What vacuum deletes".

use std::collections::BTreeSet;
use std::fmt;

use tarndb_storage::{ObjectInfo, Path};
use tarndb_table::{OwnFile, References, data_key, own_file};
use tarndb_types::TimestampMs;

/// Why a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// No version that is kept names it: it was removed before, or its transaction never
    /// committed.
    Unreferenced,
    /// Its table was dropped before the versions that are kept.
    DroppedTable,
    /// An entry of the table's own log below a checkpoint that everything kept is read from.
    ExpiredLog,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreferenced => "unreferenced",
            Self::DroppedTable => "dropped table",
            Self::ExpiredLog => "expired log",
        })
    }
}

/// A file that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// Its key in the store.
    pub key: Path,
    /// Its bytes.
    pub size_bytes: u64,
    /// When the store says it was written.
    pub last_modified: TimestampMs,
    /// Why.
    pub reason: Reason,
}

impl Doomed {
    fn new(object: &ObjectInfo, reason: Reason) -> Self {
        Self {
            key: object.key.clone(),
            size_bytes: object.size_bytes,
            last_modified: object.last_modified,
            reason,
        }
    }
}

/// A table as a vacuum sees it.
#[derive(Clone, Debug)]
pub(crate) struct TableView<'a> {
    pub(crate) location: &'a Path,
    /// Every file that a retained version of the database or the newest published version
    /// names, by its key.
    pub(crate) referenced: BTreeSet<Path>,
    /// Files that the table's own log knows to be removed.
    pub(crate) removed: BTreeSet<Path>,
    /// Row maps whose record is still there, by their keys; `None`: not known, none goes.
    pub(crate) row_maps: Option<BTreeSet<Path>>,
    /// It was dropped before all that is retained.
    pub(crate) is_purged: bool,
}

/// The files of `listing` that go, in its order; of a purged table those of its log last, so
/// that what is left of it can always be told.
pub(crate) fn plan(
    view: &TableView<'_>,
    listing: &[ObjectInfo],
    before: TimestampMs,
) -> Vec<Doomed> {
    let old = listing
        .iter()
        .filter(|object| object.last_modified < before);
    let unnamed = old.filter(|object| !view.referenced.contains(&object.key));
    let doomed = unnamed.filter_map(|object| {
        let reason = reason(view, object)?;
        Some(Doomed::new(object, reason))
    });
    let mut doomed: Vec<Doomed> = doomed.collect();
    if view.is_purged {
        let log = format!("{}/_delta_log/", view.location);
        doomed.sort_by_key(|file| file.key.as_ref().starts_with(&log));
    }
    doomed
}

fn reason(view: &TableView<'_>, object: &ObjectInfo) -> Option<Reason> {
    let prefix = format!("{}/", view.location);
    let path = object.key.as_ref().strip_prefix(&prefix)?;
    let known = view.removed.contains(&object.key);
    let own = own_file(path);
    if view.is_purged {
        let ours = own.is_some() || known || is_log_file(path);
        return ours.then_some(Reason::DroppedTable);
    }
    match own {
        Some(OwnFile::RowMap) => {
            let kept = view.row_maps.as_ref()?.contains(&object.key);
            (!kept).then_some(Reason::Unreferenced)
        }
        Some(_) => Some(Reason::Unreferenced),
        None => known.then_some(Reason::Unreferenced),
    }
}

/// What stands in a log folder of the format.
fn is_log_file(path: &str) -> bool {
    let Some(name) = path.strip_prefix("_delta_log/") else {
        return false;
    };
    if matches!(name, "_last_checkpoint") {
        return true;
    }
    let plain = name.rsplit('/').next().unwrap_or(name);
    let known_dir = matches!(
        name.rsplit_once('/').map(|(dir, _)| dir),
        None | Some("_staged_commits" | "_sidecars")
    );
    let versioned = plain
        .get(..20)
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let sidecar = name.starts_with("_sidecars/") && plain.ends_with(".parquet");
    known_dir && (versioned || sidecar)
}

/// The keys of files relative to the table; what lies elsewhere comes in the second set.
pub(crate) fn keys(location: &Path, files: BTreeSet<String>) -> (BTreeSet<Path>, BTreeSet<String>) {
    let (mut inside, mut outside) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        match data_key(location, &file) {
            Ok(key) => {
                inside.insert(key);
            }
            Err(_) => {
                outside.insert(file);
            }
        }
    }
    (inside, outside)
}

/// The key of a file that a table names by an absolute path, when it lies below the root.
pub(crate) fn absolute_key(url: &str, file: &str) -> Option<Path> {
    let root = url.trim_end_matches('/');
    let local = root.strip_prefix("file://");
    let rest = file
        .strip_prefix(root)
        .or_else(|| file.strip_prefix(local?))?;
    Path::parse(rest.strip_prefix('/')?).ok()
}

/// The key of a file that a table names by a path that leads out of its folder, when it lies
/// below the root.
pub(crate) fn relative_key(location: &Path, file: &str) -> Option<Path> {
    let mut folders: Vec<&str> = location.as_ref().split('/').collect();
    let mut rest = file;
    while let Some(above) = rest.strip_prefix("../") {
        folders.pop()?;
        rest = above;
    }
    data_key(&Path::parse(folders.join("/")).ok()?, rest).ok()
}

/// What a table names, as keys.
pub(crate) fn split(
    location: &Path,
    references: References,
) -> (BTreeSet<Path>, BTreeSet<Path>, BTreeSet<String>) {
    let (referenced, outside) = keys(location, references.files);
    let (removed, _) = keys(location, references.removed);
    (referenced, removed, outside)
}

#[cfg(test)]
mod tests;
