//! Deletion vectors: which rows of a data file are gone, and where that is written.
//!
//! Invariant: positions are physical (0-based, row groups concatenated, counted before any
//! deletion), so they do not depend on earlier deletions.
//! Does not: read or write the bytes of a vector; that is the codec's.
//! Spec: Delta PROTOCOL, "Deletion Vectors".

use std::sync::Arc;

pub use tarndb_txn::RowSet;

/// Where the bytes of a deletion vector are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DvStorage {
    /// In the descriptor itself.
    Inline,
    /// In a file below the table's root, named by an id.
    Relative,
    /// In a file named by an absolute URI.
    Absolute,
}

/// A stored deletion vector, as a format's log names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DvDescriptor {
    /// Where the bytes are.
    pub storage: DvStorage,
    /// The encoded bytes, the encoded id with its directory prefix, or the URI.
    pub path_or_inline: String,
    /// Byte offset of the vector in its file; absent when inline.
    pub offset: Option<i32>,
    /// Bytes of the vector, without framing and before any text encoding.
    pub size_in_bytes: i32,
    /// Rows it deletes.
    pub cardinality: i64,
}

impl DvDescriptor {
    /// Tells stored vectors of one table apart: a storage letter, the path or inline bytes, and
    /// `@offset` where there is one.
    pub fn unique_id(&self) -> String {
        let storage = match self.storage {
            DvStorage::Inline => 'i',
            DvStorage::Relative => 'u',
            DvStorage::Absolute => 'p',
        };
        match self.offset {
            Some(offset) => format!("{storage}{}@{offset}", self.path_or_inline),
            None => format!("{storage}{}", self.path_or_inline),
        }
    }
}

/// The deletions of one data file.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Deletion {
    /// Every row is live.
    #[default]
    None,
    /// Rows of a stored vector.
    Stored(DvDescriptor),
    /// Rows deleted inside an open transaction (earlier stored ones included), not yet stored.
    Loaded(Arc<RowSet>),
}

impl Deletion {
    /// Number of deleted rows; 0 for a (damaged) negative cardinality.
    pub fn cardinality(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Stored(descriptor) => u64::try_from(descriptor.cardinality).unwrap_or(0),
            Self::Loaded(rows) => rows.len(),
        }
    }

    /// Whether no row is deleted by construction, so that nothing must be read.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}
