//! Which files a table's states and commits name, and which names are this build's own.
//!
//! Invariant: [`own_file`] knows exactly the names that a writer of this workspace gives: each
//! holds an id of version 7, so that no other engine's file is taken for one of ours.
//! Does not: read or delete anything.
//! Spec: docs/guide/maintenance.md, "What vacuum deletes".

use std::collections::BTreeSet;

use tarndb_types::{TableVersion, Uuid};

/// Digits of a version in a name.
const VERSION_DIGITS: usize = 20;

/// The files that a state or an entry names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Data files, change files and files of deletion vectors: decoded paths relative to the
    /// table, or absolute ones as the log has them.
    pub files: BTreeSet<String>,
    /// Files that the log knows to be removed and that are not live again.
    pub removed: BTreeSet<String>,
}

impl References {
    /// Takes over what `other` names.
    pub fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
        self.removed.extend(other.removed);
    }
}

/// A file that a writer of ours may have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnFile {
    /// Rows, in the table's folder or in a folder of partition values.
    Data,
    /// Rows of the change data feed.
    ChangeData,
    /// Deletion vectors.
    DeletionVector,
    /// A row map of a compaction.
    RowMap,
    /// A commit that was written before its record.
    Staged(TableVersion),
}

/// What a path relative to a table's folder is, when its name is one that we give.
pub fn own_file(path: &str) -> Option<OwnFile> {
    let (dir, name) = match path.rsplit_once('/') {
        Some((dir, name)) => (dir, name),
        None => ("", path),
    };
    match dir {
        "_delta_log/_staged_commits" => {
            let (version, rest) = name.split_once('.')?;
            is_own_id(rest.strip_suffix(".json")?).then_some(())?;
            let plain = version.len() == VERSION_DIGITS
                && version.bytes().all(|byte| byte.is_ascii_digit());
            let version = version.parse().ok().filter(|_| plain)?;
            return Some(OwnFile::Staged(TableVersion(version)));
        }
        "_tarndb" => {
            let id = name.strip_prefix("rowmap-")?.strip_suffix(".json.zst")?;
            return is_own_id(id).then_some(OwnFile::RowMap);
        }
        _ => {}
    }
    if let Some(id) = name.strip_prefix("deletion_vector_") {
        let own = dir.is_empty() && is_own_id(id.strip_suffix(".bin")?);
        return own.then_some(OwnFile::DeletionVector);
    }
    let stem = name.strip_suffix(".parquet")?;
    let changes = dir == "_change_data" || dir.starts_with("_change_data/");
    let id = match stem.strip_prefix("cdc-").filter(|_| changes) {
        Some(id) => id,
        None => stem.strip_prefix("part-")?,
    };
    if !is_own_id(id) {
        return None;
    }
    if changes {
        return Some(OwnFile::ChangeData);
    }
    is_partition_dir(dir).then_some(OwnFile::Data)
}

/// The table's own folder, or folders `column=value` below it.
fn is_partition_dir(dir: &str) -> bool {
    dir.is_empty() || dir.split('/').all(|part| part.contains('='))
}

fn is_own_id(text: &str) -> bool {
    let plain = text.len() == 36;
    plain && Uuid::parse_str(text).is_ok_and(|id| id.get_version_num() == 7)
}

#[cfg(test)]
mod tests {
    use super::{OwnFile, own_file};
    use tarndb_types::TableVersion;

    const ID: &str = "0190163c-cf3e-7a0b-8a4c-5d3f4b1d2e6f";
    const FOREIGN: &str = "4f6a1c1e-0f5b-4b0e-9d0a-1d2f3c4b5a69";

    #[test]
    fn only_names_that_we_give_are_ours() {
        let own = [
            (format!("part-{ID}.parquet"), OwnFile::Data),
            (format!("a=1/b=x%2Fy/part-{ID}.parquet"), OwnFile::Data),
            (
                format!("_change_data/cdc-{ID}.parquet"),
                OwnFile::ChangeData,
            ),
            (
                format!("_change_data/a=1/part-{ID}.parquet"),
                OwnFile::ChangeData,
            ),
            (format!("deletion_vector_{ID}.bin"), OwnFile::DeletionVector),
            (format!("_tarndb/rowmap-{ID}.json.zst"), OwnFile::RowMap),
            (
                format!("_delta_log/_staged_commits/00000000000000000007.{ID}.json"),
                OwnFile::Staged(TableVersion(7)),
            ),
        ];
        for (path, kind) in own {
            assert_eq!(own_file(&path), Some(kind), "{path}");
        }
        for path in [
            format!("part-{FOREIGN}.parquet"),
            format!("part-00000-{ID}-c000.snappy.parquet"),
            format!("deletion_vector_{FOREIGN}.bin"),
            format!("ab/deletion_vector_{ID}.bin"),
            format!("backup/part-{ID}.parquet"),
            format!("_hidden/part-{ID}.parquet"),
            format!("_delta_log/part-{ID}.parquet"),
            format!("part-{ID}.parquet.tmp"),
            format!("_delta_log/_staged_commits/7.{ID}.json"),
            "_delta_log/00000000000000000007.json".to_owned(),
            format!("cdc-{ID}.parquet"),
            format!("rowmap-{ID}.json.zst"),
            "README.md".to_owned(),
            String::new(),
        ] {
            assert_eq!(own_file(&path), None, "{path}");
        }
    }
}
