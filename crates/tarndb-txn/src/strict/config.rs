//! Changes of configuration and metadata.
//!
//! Invariant: an absent map and an empty one differ, as they do for the specification's code.
//! Does not keep values: two changes of one key meet whatever they set.
//! Spec: docs/conflicts.md, "Strict rules".

use std::collections::{BTreeMap, BTreeSet};

use super::operation::FieldId;

/// Keys of one map that change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataChange {
    /// Keys set or deleted.
    pub keys: BTreeSet<String>,
    /// The whole map is replaced.
    pub replaces: bool,
}

impl MetadataChange {
    /// It changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.replaces
    }
}

/// An UpdateConfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigChange {
    /// Configuration keys set.
    pub upserted: BTreeSet<String>,
    /// Configuration keys deleted.
    pub deleted: BTreeSet<String>,
    /// Metadata of the table.
    pub table: Option<MetadataChange>,
    /// Metadata of the schema.
    pub schema: Option<MetadataChange>,
    /// Metadata of fields.
    pub fields: BTreeMap<FieldId, MetadataChange>,
}

impl ConfigChange {
    /// Metadata of schema or fields really changes.
    #[must_use]
    pub fn changes_schema(&self) -> bool {
        let mut changes = self.schema.iter().chain(self.fields.values());
        changes.any(|change| !change.is_empty())
    }
}
