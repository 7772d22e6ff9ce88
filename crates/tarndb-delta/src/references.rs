//! The files that states and commits of a Delta table name, and nothing else of them.
//!
//! Invariant: every file that a reader of the state, or of the commit's changes, would open is
//! named. Inline deletion vectors have no file.
//! Spec: Delta PROTOCOL, "Add File and Remove File", "Add CDC File", "Deletion Vectors".

use serde::Deserialize;
use tarndb_table::{Deletion, DvDescriptor, DvStorage, Entry, References, TableState};

use crate::error::DeltaError;
use crate::state::DeltaState;
use crate::{dv, path};

/// What of a line names a file.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    add: Option<File>,
    #[serde(default)]
    cdc: Option<File>,
    #[serde(default)]
    remove: Option<File>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    path: String,
    #[serde(default)]
    deletion_vector: Option<Vector>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    storage_type: String,
    path_or_inline_dv: String,
}

/// The files that an entry adds.
///
/// # Errors
/// `BadLine`, `BadPath`, `BadDeletionVector`.
pub(crate) fn of_entry(entry: &Entry) -> Result<References, DeltaError> {
    let mut references = References::default();
    for (at, text) in entry.lines.iter().enumerate() {
        let line: Line = serde_json::from_str(text).map_err(|source| DeltaError::BadLine {
            file: format!("the entry of version {}", entry.version),
            line: at + 1,
            source,
        })?;
        for file in line.add.into_iter().chain(line.cdc) {
            references.files.insert(path::table_path(&file.path)?);
            let vector = file.deletion_vector.as_ref().map(Vector::file);
            references.files.extend(vector.transpose()?.flatten());
        }
        if let Some(file) = line.remove {
            references.removed.insert(path::table_path(&file.path)?);
            let vector = file.deletion_vector.as_ref().map(Vector::file);
            references.removed.extend(vector.transpose()?.flatten());
        }
    }
    Ok(references)
}

impl Vector {
    /// The file of the vector, if it is in one.
    fn file(&self) -> Result<Option<String>, DeltaError> {
        Ok(match self.storage_type.as_str() {
            "u" => Some(dv::relative_file(&self.path_or_inline_dv)?),
            "p" => Some(path::table_path(&self.path_or_inline_dv)?),
            _ => None,
        })
    }
}

/// The files of a state: live ones, and those that its tombstones name.
///
/// # Errors
/// `BadDeletionVector`, `BadPath`, `ForeignState`.
pub(crate) fn of_state(state: &TableState) -> Result<References, DeltaError> {
    let mut references = References::default();
    for file in state.files.values() {
        references.files.insert(file.path.clone());
        if let Deletion::Stored(descriptor) = &file.deletion {
            references.files.extend(vector_file(descriptor)?);
        }
    }
    for ((removed, _), remove) in &DeltaState::of(state)?.tombstones {
        references.removed.insert(removed.clone());
        if let Some(vector) = &remove.deletion_vector {
            let descriptor = dv::to_descriptor(vector)?;
            references.removed.extend(vector_file(&descriptor)?);
        }
    }
    Ok(references)
}

/// The file of a deletion vector, relative to its table, if it is in one.
///
/// # Errors
/// `BadDeletionVector`, `BadPath`.
pub fn vector_file(descriptor: &DvDescriptor) -> Result<Option<String>, DeltaError> {
    Ok(match descriptor.storage {
        DvStorage::Inline => None,
        DvStorage::Relative => Some(dv::relative_file(&descriptor.path_or_inline)?),
        DvStorage::Absolute => Some(path::table_path(&descriptor.path_or_inline)?),
    })
}

#[cfg(test)]
mod tests {
    use tarndb_table::Entry;
    use tarndb_types::TableVersion;

    use super::of_entry;

    #[test]
    fn an_entry_names_data_changes_and_vectors() {
        let lines = [
            r#"{"commitInfo":{"operation":"MERGE"}}"#,
            r#"{"add":{"path":"a%20b/part-1.parquet","deletionVector":{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":1,"sizeInBytes":36,"cardinality":2}}}"#,
            r#"{"add":{"path":"part-2.parquet","deletionVector":{"storageType":"i","pathOrInlineDv":"wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L","sizeInBytes":40,"cardinality":6}}}"#,
            r#"{"cdc":{"path":"_change_data/cdc-1.parquet"}}"#,
            r#"{"remove":{"path":"old.parquet"}}"#,
        ];
        let entry = Entry {
            version: TableVersion(3),
            lines: lines.map(str::to_owned).to_vec(),
        };
        let references = of_entry(&entry).unwrap();
        let files: Vec<&str> = references.files.iter().map(String::as_str).collect();
        assert_eq!(
            files,
            [
                "_change_data/cdc-1.parquet",
                "a b/part-1.parquet",
                "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
                "part-2.parquet",
            ]
        );
        assert_eq!(
            references.removed.into_iter().collect::<Vec<_>>(),
            ["old.parquet"]
        );
    }
}
