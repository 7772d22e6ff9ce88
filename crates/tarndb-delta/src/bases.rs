//! `Bases`: the folders of other tables in which a clone may name files.
//!
//! Invariant: a path of a log leads out of its table only when it is spelled in the one way that
//! TarnDB writes (`../../schema/table/..`), and only into one of the folders that the database
//! says the table was cloned from. Whoever has no bases is never led out.
//! Does not: know absolute paths; those are never followed.
//! Spec: docs/format/delta.md, "Clones"; RFC 2396, "Relative URI References".

use std::sync::Arc;

use tarndb_storage::Path;
use tarndb_table::data_key;

/// The folders into which the paths of one table may lead.
#[derive(Clone, Debug, Default)]
pub struct Bases {
    /// From the table's root to the root of the store.
    up: String,
    folders: Arc<[Path]>,
}

impl Bases {
    /// Those of the table at `location`.
    pub fn new(location: &Path, folders: &[Path]) -> Self {
        Self {
            up: "../".repeat(location.parts().count()),
            folders: folders.into(),
        }
    }

    /// The key of a canonical path that leads into one of the folders; `None` for any other.
    pub fn key(&self, path: &str) -> Option<Path> {
        let from_root = path
            .strip_prefix(&self.up)
            .filter(|_| !self.up.is_empty())?;
        self.folders.iter().find_map(|folder| {
            let inside = from_root.strip_prefix(folder.as_ref())?.strip_prefix('/')?;
            data_key(folder, inside).ok()
        })
    }

    /// The path by which the table names a key of the store.
    pub fn path_to(&self, key: &Path) -> String {
        format!("{}{key}", self.up)
    }
}

#[cfg(test)]
mod tests {
    use tarndb_storage::Path;

    use super::Bases;

    #[test]
    fn a_path_leads_only_into_a_base() {
        let bases = Bases::new(
            &Path::from("main/copy"),
            &[Path::from("main/sales"), Path::from("other/x")],
        );
        for (path, key) in [
            (
                "../../main/sales/a b/1.parquet",
                Some("main/sales/a b/1.parquet"),
            ),
            ("../../other/x/1.parquet", Some("other/x/1.parquet")),
            ("../../main/sales-copy/1.parquet", None),
            ("../../main/salesx", None),
            ("../../main/sales", None),
            ("../../main/sales/", None),
            ("../../main/sales/../third/1.parquet", None),
            ("../../main/sales/./1.parquet", None),
            ("../../_tarndb/log/0.json", None),
            ("../sales/1.parquet", None),
            ("../../../main/sales/1.parquet", None),
            ("a/../../../main/sales/1.parquet", None),
            ("/main/sales/1.parquet", None),
            ("main/sales/1.parquet", None),
        ] {
            let found = bases.key(path);
            assert_eq!(found.as_ref().map(Path::as_ref), key, "{path}");
            assert_eq!(Bases::default().key(path), None, "{path}");
            if let Some(key) = found {
                assert_eq!(bases.path_to(&key), path);
            }
        }
    }

    #[test]
    fn a_table_that_is_the_root_is_never_led_out() {
        let bases = Bases::new(&Path::default(), &[Path::from("a/b")]);
        assert_eq!(bases.key("a/b/c"), None);
        assert_eq!(bases.key("../a/b/c"), None);
    }
}
