//! `TableState`: a table at one version.
//!
//! Invariant: immutable and cheap to clone; files and application transactions are persistent
//! maps, so that the state of the next version shares all that did not change.
//! Spec: Delta PROTOCOL, "Table State".

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use tarndb_types::TableVersion;

use crate::files::Files;
use crate::schema::Schema;
use crate::stats::NamePath;

/// What a codec keeps beside the model (protocol, unknown fields, ...), opaque to everyone else.
pub trait FormatState: Any + Send + Sync + Debug {
    /// For the codec to get its own type back.
    fn as_any(&self) -> &dyn Any;
}

/// A table at one version.
#[derive(Clone, Debug)]
pub struct TableState {
    /// The version.
    pub version: TableVersion,
    /// Columns, partition columns included.
    pub schema: Arc<Schema>,
    /// Names of the partition columns, in partitioning order, spelled as in the schema.
    pub partition_columns: Vec<String>,
    /// Columns by which data is clustered, by their names in files; they have statistics always.
    pub clustering_columns: Vec<NamePath>,
    /// Table properties, verbatim.
    pub properties: BTreeMap<String, String>,
    /// The table's comment.
    pub description: Option<String>,
    /// Live files by [`DataFile::path`].
    pub files: Files,
    /// Latest version of each application transaction.
    pub app_txns: imbl::OrdMap<String, i64>,
    /// In-commit timestamp of this version, milliseconds since 1970 UTC.
    pub in_commit_timestamp: Option<i64>,
    /// The codec's own part.
    pub format: Arc<dyn FormatState>,
}

/// Property that turns deletion vectors off (`off`), so that changes copy files.
pub const DELETION_VECTORS_PROPERTY: &str = "tarndb.deletionVectors";

/// Property that asks for a change data feed.
pub const CHANGE_DATA_FEED_PROPERTY: &str = "delta.enableChangeDataFeed";

impl TableState {
    /// Whether rows are deleted by deletion vectors rather than by rewriting files.
    pub fn deletion_vectors_enabled(&self) -> bool {
        let is = |key: &str, word: &str| {
            let setting = self.properties.get(key);
            setting.is_some_and(|value| value.trim().eq_ignore_ascii_case(word))
        };
        !is(DELETION_VECTORS_PROPERTY, "off") && !is("delta.enableDeletionVectors", "false")
    }

    /// Whether the table asks for a change data feed.
    pub fn has_change_feed(&self) -> bool {
        let asked = self.properties.get(CHANGE_DATA_FEED_PROPERTY);
        asked.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// Rows of the table; `None` when a file does not say how many it has.
    pub fn live_rows(&self) -> Option<u64> {
        self.files
            .values()
            .try_fold(0_u64, |sum, file| Some(sum + file.live_rows()?))
    }

    /// Bytes of all data files.
    pub fn size_bytes(&self) -> u64 {
        self.files.size_bytes()
    }

    /// Whether `column` partitions the table, ignoring case.
    pub fn is_partition_column(&self, column: &str) -> bool {
        crate::partition::is_partition_column(&self.partition_columns, column)
    }
}
