//! Index segments that a CreateIndex publishes and removes.
//!
//! Invariant: several segments may share a name; a segment is known by its uuid.
//! Does not know index types, beyond what a rule asks.
//! Spec: docs/conflicts.md, "Strict rules".

use tarndb_types::Uuid;

use super::operation::{FieldSet, FragmentSet, Generation};

/// The system index that records where compactions moved rows.
pub const REUSE_INDEX: &str = "__lance_frag_reuse";

/// The system index of the in-memory write-ahead log.
pub const MEM_WAL_INDEX: &str = "__lance_mem_wal";

/// Which name of a row a segment stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowDomain {
    /// Stable row ids (row addresses where the table has none).
    RowId,
    /// Fragment and offset.
    RowAddress,
}

/// A segment that is published.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Its identity.
    pub uuid: Uuid,
    /// The logical index.
    pub name: String,
    /// Key and covering fields.
    pub fields: FieldSet,
    /// Fragments covered; `None`: not known.
    pub coverage: Option<FragmentSet>,
    /// What it stores of a row.
    pub domain: RowDomain,
    /// An n-gram index: it cannot be read through the fragment reuse index.
    pub is_ngram: bool,
}

/// A segment that is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedSegment {
    /// Its identity.
    pub uuid: Uuid,
    /// The logical index.
    pub name: String,
}

/// A CreateIndex.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexChange {
    /// Segments published.
    pub added: Vec<Segment>,
    /// Segments removed.
    pub removed: Vec<RemovedSegment>,
    /// It shortens (or removes) the fragment reuse index of a tagged history and does nothing
    /// else; it is derived again when it is rebased.
    pub trims_reuse: bool,
    /// Generations in the `__lance_mem_wal` entry that it publishes.
    pub generations: Vec<Generation>,
}

impl IndexChange {
    /// It publishes a segment of this name.
    #[must_use]
    pub fn adds(&self, name: &str) -> bool {
        self.added.iter().any(|segment| segment.name == name)
    }

    /// It removes a segment of this name.
    #[must_use]
    pub fn removes(&self, name: &str) -> bool {
        self.removed.iter().any(|segment| segment.name == name)
    }

    /// It replaces the fragment reuse index and something else besides, which no writer does.
    #[must_use]
    pub fn mixes_reuse(&self) -> bool {
        self.adds(REUSE_INDEX) && (self.added.len() != 1 || self.removed.len() != 1)
    }

    /// Fields that the published segments are built on.
    #[must_use]
    pub fn fields(&self) -> FieldSet {
        let segments = self.added.iter();
        segments
            .flat_map(|segment| segment.fields.iter().copied())
            .collect()
    }
}
