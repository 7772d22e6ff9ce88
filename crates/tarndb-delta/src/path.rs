//! Paths of the log: URI references to storage keys and back.
//!
//! Invariant: percent escapes are decoded exactly once; paths that mean the same file give
//! the same canonical text; what lies outside the table is never read.
//! Spec: Delta PROTOCOL, "Add File and Remove File" (path); RFC 2396.

use percent_encoding::percent_decode_str;
use tarndb_storage::Path;

use crate::error::DeltaError;

/// The canonical, decoded form of a path of the log: relative to the table root, or absolute
/// (`/..` or `scheme://..`) when the log says so.
///
/// # Errors
/// `BadPath` when the escapes do not give UTF-8, or the path is empty.
pub(crate) fn table_path(raw: &str) -> Result<String, DeltaError> {
    let decoded = percent_decode_str(raw)
        .decode_utf8()
        .map_err(|_| DeltaError::BadPath {
            path: raw.to_owned(),
        })?;
    if decoded.is_empty() {
        return Err(DeltaError::BadPath {
            path: raw.to_owned(),
        });
    }
    // `file:/x`, `file:///x` and `/x` are one file.
    let path = match decoded.strip_prefix("file:") {
        Some(rest) => format!("/{}", rest.trim_start_matches('/')),
        None => decoded.into_owned(),
    };
    Ok(path)
}

/// Storage key of a canonical relative path of the table at `location`.
///
/// # Errors
/// `PathOutsideTable`.
pub(crate) fn data_key(location: &Path, path: &str) -> Result<Path, DeltaError> {
    tarndb_table::data_key(location, path).map_err(|_| DeltaError::PathOutsideTable {
        path: path.to_owned(),
    })
}

/// Is the canonical path one below the table root?
pub(crate) fn is_inside(path: &str) -> bool {
    data_key(&Path::default(), path).is_ok()
}

/// `<location>/_delta_log`.
pub(crate) fn log_dir(location: &Path) -> Path {
    location.clone().join("_delta_log")
}

#[cfg(test)]
mod tests {
    use super::{is_inside, table_path};

    #[test]
    fn escapes_are_decoded_once() {
        for (raw, path) in [
            ("a%20b/c.parquet", "a b/c.parquet"),
            ("region=US%252FEast/x", "region=US%2FEast/x"),
            ("a+b", "a+b"),
            ("\u{fc}/%C3%BC", "\u{fc}/\u{fc}"),
        ] {
            assert_eq!(table_path(raw).unwrap(), path, "{raw}");
        }
        assert!(table_path("%FF").is_err());
        assert!(table_path("").is_err());
    }

    #[test]
    fn absolute_spellings_of_one_file_are_equal() {
        for raw in ["file:/a/b", "file:///a/b", "/a/b", "file:/a/%62"] {
            assert_eq!(table_path(raw).unwrap(), "/a/b", "{raw}");
        }
    }

    #[test]
    fn what_leaves_the_table_is_told() {
        for path in ["../x", "a/../../x", "/a", "s3://bucket/x"] {
            assert!(!is_inside(path), "{path}");
        }
        assert!(is_inside("a=1/b c%.parquet"));
    }
}
