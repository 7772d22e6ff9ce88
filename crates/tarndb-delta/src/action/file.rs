//! `add`, `remove`, `cdc` and the descriptor of a deletion vector, as they stand in the log.
//!
//! Invariant: `path` is kept byte for byte, for engines compare it in different ways.
//! Spec: Delta PROTOCOL, "Add File and Remove File", "Deletion Vector Descriptor Schema".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::null_default;

/// Values of the partition columns by name; `None` is NULL.
pub(crate) type PartitionValues = BTreeMap<String, Option<String>>;

/// Where the deleted rows of a file are told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionVector {
    /// `u` relative file, `p` absolute URI, `i` inline.
    pub storage_type: String,
    /// Encoded id, URI or data.
    pub path_or_inline_dv: String,
    /// Position of the size field in the file; absent for inline ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i32>,
    /// Bytes of the serialised bitmap, its magic number included.
    pub size_in_bytes: i32,
    /// Number of deleted rows.
    pub cardinality: i64,
}

impl DeletionVector {
    /// The id that is part of a file's identity in reconciliation.
    pub fn unique_id(&self) -> String {
        match self.offset {
            Some(offset) => format!("{}{}@{offset}", self.storage_type, self.path_or_inline_dv),
            None => format!("{}{}", self.storage_type, self.path_or_inline_dv),
        }
    }
}

/// A live file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// URI reference relative to the table root, or absolute.
    pub path: String,
    /// By (physical) partition column name.
    #[serde(default, deserialize_with = "null_default")]
    pub partition_values: PartitionValues,
    /// Bytes of the data file.
    pub size: i64,
    /// ms since 1970 UTC.
    #[serde(default, deserialize_with = "null_default")]
    pub modification_time: i64,
    /// False: the commit only rearranges rows.
    #[serde(default, deserialize_with = "null_default")]
    pub data_change: bool,
    /// JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    /// Never needed for correctness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, Option<String>>>,
    /// Deleted rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<DeletionVector>,
    /// Row id of row 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_row_id: Option<i64>,
    /// Version that first added the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_row_commit_version: Option<i64>,
    /// Who clustered the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clustering_provider: Option<String>,
}

/// A file that is no longer live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// The add's path, byte for byte.
    pub path: String,
    /// ms since 1970 UTC; absent counts as long ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<i64>,
    /// False: the commit only rearranges rows.
    #[serde(default, deserialize_with = "null_default")]
    pub data_change: bool,
    /// True: `partition_values` and `size` are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_file_metadata: Option<bool>,
    /// Of the add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_values: Option<PartitionValues>,
    /// Of the add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// Of the add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    /// Of the add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, Option<String>>>,
    /// Of the add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<DeletionVector>,
    /// Of the add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_row_id: Option<i64>,
    /// Of the add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_row_commit_version: Option<i64>,
}

/// A file of changed rows; no part of the table's rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cdc {
    /// As that of an `add`.
    pub path: String,
    /// By (physical) partition column name.
    #[serde(default, deserialize_with = "null_default")]
    pub partition_values: PartitionValues,
    /// Bytes of the file.
    pub size: i64,
    /// Always false.
    #[serde(default, deserialize_with = "null_default")]
    pub data_change: bool,
    /// Never needed for correctness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, Option<String>>>,
}
