//! `DataFile`: one live file of a table, with what the log says of it.
//!
//! Invariant: `path` is a storage key relative to the table's root, decoded; `raw_path` is the
//! spelling of the log, which a later removal must repeat byte for byte.
//! Spec: Delta PROTOCOL, "Add File and Remove File".

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::path::Path;
use tarndb_storage::{HeldFile, ObjectId};

use crate::deletion_vector::Deletion;
use crate::error::TableError;
use crate::stats::Statistics;

/// One data file.
#[derive(Clone, Debug, PartialEq)]
pub struct DataFile {
    /// Storage key relative to the table's root, percent-decoded once.
    pub path: String,
    /// The path as the log spells it.
    pub raw_path: String,
    /// Value of each partition column in the log's text form; `None` is NULL.
    pub partition_values: BTreeMap<String, Option<String>>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// When it was written, milliseconds since 1970 UTC.
    pub modification_time_ms: i64,
    /// Its statistics, if there are any that can be read.
    pub stats: Option<Arc<Statistics>>,
    /// Its statistics as the log spells them; `None` for a file just written.
    pub raw_stats: Option<String>,
    /// Its deleted rows.
    pub deletion: Deletion,
    /// Row tracking: id of the first row.
    pub base_row_id: Option<i64>,
    /// Row tracking: version at which its rows were last written.
    pub default_row_commit_version: Option<i64>,
    /// Free-form tags.
    pub tags: BTreeMap<String, String>,
    /// Who clustered its rows, when somebody did.
    pub clustering_provider: Option<String>,
    /// A file just written that is not stored yet: whoever commits it sees to that. Gone with
    /// the last clone.
    pub held: Option<HeldFile>,
    /// Its key when it lies in another table's folder, into which this table may reach: it was
    /// cloned from there. `None`: below the table's own root.
    pub beside: Option<Path>,
}

impl DataFile {
    /// Physical rows of the file, deleted ones included, when known.
    pub fn num_records(&self) -> Option<u64> {
        self.stats.as_ref().and_then(|stats| stats.num_records)
    }

    /// Rows that are not deleted, when known.
    pub fn live_rows(&self) -> Option<u64> {
        self.num_records()
            .map(|rows| rows.saturating_sub(self.deletion.cardinality()))
    }

    /// Its bytes, when nobody stored them yet.
    pub fn unstored(&self) -> Option<&HeldFile> {
        self.held.as_ref().filter(|held| !held.is_stored())
    }

    /// Storage key of the file of a table at `location`.
    ///
    /// # Errors
    /// [`TableError::PathOutsideTable`] when the path is absolute or climbs out of the table, and
    /// nobody allowed the place that it names.
    pub fn key(&self, location: &Path) -> Result<Path, TableError> {
        match &self.beside {
            Some(key) => Ok(key.clone()),
            None => data_key(location, &self.path),
        }
    }

    /// The file as an object that never changes.
    ///
    /// # Errors
    /// As [`Self::key`].
    pub fn object_id(&self, location: &Path) -> Result<ObjectId, TableError> {
        Ok(ObjectId {
            key: self.key(location)?,
            size_bytes: self.size_bytes,
            modified_ms: self.modification_time_ms,
        })
    }
}

/// Storage key of a `path` relative to a table at `location`, both decoded.
///
/// # Errors
/// [`TableError::PathOutsideTable`] when the path is absolute, climbs out of the table or has
/// a segment that no store can hold.
pub fn data_key(location: &Path, path: &str) -> Result<Path, TableError> {
    let outside = || TableError::PathOutsideTable {
        path: path.to_owned(),
    };
    let has_scheme = path.split('/').next().is_some_and(|first| {
        first.strip_suffix(':').is_some_and(|scheme| {
            !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric())
        })
    });
    let climbs = path
        .split('/')
        .any(|segment| matches!(segment, "" | "." | ".."));
    if has_scheme || climbs {
        return Err(outside());
    }
    let full = match location.as_ref() {
        "" => path.to_owned(),
        root => format!("{root}/{path}"),
    };
    Path::parse(full).map_err(|_| outside())
}

#[cfg(test)]
mod tests;
