//! Where one URL lies as seen from another: in it, around it, or elsewhere.
//!
//! Invariant: equal places get one spelling. Links of folders are followed, so that a folder has
//! one place whatever path leads to it; makes no request to a remote store.
//! Does not: know that two buckets are one (aliases, mounted buckets).
//! Spec: docs/format/log.md, "Attached tables".

use std::path::Component;

use object_store::path::Path;

use crate::error::StoreError;
use crate::location::{self, Location};
use crate::open::shown;

/// A place as seen from a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the root: its key there.
    Inside(Path),
    /// The root itself, or around it.
    Around,
    /// Elsewhere: its URL in the one spelling.
    Outside(String),
}

/// Where `url` lies as seen from `root`.
///
/// # Errors
/// [`StoreError::InvalidUrl`].
pub fn placement(root: &str, url: &str) -> Result<Placement, StoreError> {
    let there = followed(location::parse(url)?);
    let outside = Placement::Outside(shown(&there));
    // A store of a test has a name that is no URL: nothing lies in it.
    let Ok(root) = location::parse(root) else {
        return Ok(outside);
    };
    let root = followed(root);
    if !same_store(&root, &there) {
        return Ok(outside);
    }
    let (root, inner) = (segments(&root), segments(&there));
    if let Some(rest) = inner.strip_prefix(root.as_slice()) {
        if rest.is_empty() {
            return Ok(Placement::Around);
        }
        let key = Path::parse(rest.join("/")).map_err(|error| StoreError::InvalidUrl {
            url: url.to_owned(),
            reason: error.to_string(),
        })?;
        return Ok(Placement::Inside(key));
    }
    match root.starts_with(&inner) {
        true => Ok(Placement::Around),
        false => Ok(outside),
    }
}

/// A folder by its real path, as far as it is there.
fn followed(location: Location) -> Location {
    match location {
        Location::Folder(path) => {
            let real = std::fs::canonicalize(&path);
            Location::Folder(real.unwrap_or_else(|_| path.components().collect()))
        }
        other => other,
    }
}

fn same_store(a: &Location, b: &Location) -> bool {
    match (a, b) {
        (Location::Folder(_), Location::Folder(_)) => true,
        (Location::Memory { name: a, .. }, Location::Memory { name: b, .. }) => a == b,
        (
            Location::Cloud {
                cloud,
                bucket,
                host,
                ..
            },
            Location::Cloud {
                cloud: other,
                bucket: theirs,
                host: host_there,
                ..
            },
        ) => cloud == other && bucket == theirs && host == host_there,
        _ => false,
    }
}

fn segments(location: &Location) -> Vec<String> {
    match location {
        Location::Folder(path) => folder_segments(path),
        Location::Memory { prefix, .. } | Location::Cloud { prefix, .. } => prefix
            .parts()
            .map(|part| part.as_ref().to_owned())
            .collect(),
    }
}

fn folder_segments(path: &std::path::Path) -> Vec<String> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        Component::ParentDir => Some("..".to_owned()),
        _ => None,
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::{Placement, placement};

    fn told(root: &str, url: &str) -> String {
        match placement(root, url).unwrap() {
            Placement::Inside(key) => format!("in {key}"),
            Placement::Around => "around".to_owned(),
            Placement::Outside(url) => format!("out {url}"),
        }
    }

    #[test]
    fn place_is_in_around_or_elsewhere_by_its_segments() {
        for (root, url, expected) in [
            ("s3://b/db", "s3://b/db/main/t", "in main/t"),
            ("s3://b/db", "s3a://b/db/main/t/", "in main/t"),
            ("s3://b", "s3://b/t", "in t"),
            ("s3://b/db", "s3://b/db", "around"),
            ("s3://b/db", "s3://b", "around"),
            ("s3://b/db", "s3://b/db2/t", "out s3://b/db2/t"),
            ("s3://b/db", "s3://c/db/t", "out s3://c/db/t"),
            ("s3://b/db", "gs://b/db/t", "out gs://b/db/t"),
            ("memory://a/db", "memory://a/db/t", "in t"),
            ("memory://a/db", "memory://b/db/t", "out memory://b/db/t"),
            ("/nowhere/db", "file:///nowhere/db/a%20b", "in a b"),
            ("/nowhere/db", "/nowhere/db2/t", "out /nowhere/db2/t"),
            ("/nowhere/db", "/nowhere", "around"),
            ("no url://", "/nowhere/t", "out /nowhere/t"),
        ] {
            assert_eq!(told(root, url), expected, "{root} {url}");
        }
        assert!(placement("/a", "ftp://b/c").is_err());
    }

    #[test]
    fn folder_is_the_same_by_whatever_link_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (db, link) = (dir.path().join("db"), dir.path().join("link"));
        std::fs::create_dir_all(db.join("t")).unwrap();
        std::os::unix::fs::symlink(&db, &link).unwrap();
        let (db, link) = (db.to_str().unwrap(), link.to_str().unwrap());
        assert_eq!(told(db, &format!("{link}/t")), "in t");
        assert_eq!(told(link, &format!("{db}/t")), "in t");
    }
}
