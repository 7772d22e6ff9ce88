//! `metaData` and `protocol`, as they stand in the log.
//!
//! Invariant: whatever of a table's metadata this build does not understand is kept.
//! Spec: Delta PROTOCOL, "Change Metadata", "Protocol Evolution".

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::null_default;

/// The file format of the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Format {
    /// Always `parquet`.
    pub provider: String,
    /// Always empty.
    #[serde(default, deserialize_with = "null_default")]
    pub options: BTreeMap<String, String>,
}

impl Default for Format {
    fn default() -> Self {
        Self {
            provider: "parquet".to_owned(),
            options: BTreeMap::new(),
        }
    }
}

/// Schema, partitioning and properties; a later one replaces the former entirely.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Identity of the table, never changed.
    pub id: String,
    /// Name, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Comment, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// File format.
    #[serde(default, deserialize_with = "null_default")]
    pub format: Format,
    /// The schema as JSON text; empty in the first commit of some writers.
    #[serde(default, deserialize_with = "null_default")]
    pub schema_string: String,
    /// Display names of the partition columns.
    #[serde(default, deserialize_with = "null_default")]
    pub partition_columns: Vec<String>,
    /// ms since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<i64>,
    /// Table properties.
    #[serde(default, deserialize_with = "null_default")]
    pub configuration: BTreeMap<String, String>,
}

/// What a client must understand to read and to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    /// 1, 2, or 3 = see `reader_features`.
    pub min_reader_version: i32,
    /// Up to 6, or 7 = see `writer_features`.
    pub min_writer_version: i32,
    /// Exactly with reader version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_features: Option<BTreeSet<String>>,
    /// Exactly with writer version 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_features: Option<BTreeSet<String>>,
}

impl Protocol {
    /// Does the protocol list the writer feature?
    pub fn lists_writer_feature(&self, name: &str) -> bool {
        self.writer_features
            .as_ref()
            .is_some_and(|set| set.contains(name))
    }

    /// Does the protocol list the reader feature?
    pub fn lists_reader_feature(&self, name: &str) -> bool {
        self.reader_features
            .as_ref()
            .is_some_and(|set| set.contains(name))
    }
}
