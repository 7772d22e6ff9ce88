//! Key filters: which keys an upsert inserted, and whether two upserts may have met.
//!
//! Invariant: a filter never hides a key; "may meet" errs on the side of meeting.
//! Does not hash keys; filters arrive as they were written.
//! Spec: docs/conflicts.md, "Strict rules".

use std::collections::BTreeSet;

use super::operation::FieldId;

/// The keys of rows inserted under the unenforced primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFilter {
    /// The key fields, in order.
    pub fields: Vec<FieldId>,
    /// The keys.
    pub keys: KeySet,
}

/// A set of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySet {
    /// 64-bit hashes of all of them.
    Exact(BTreeSet<u64>),
    /// A split block Bloom filter.
    Bloom {
        /// Its bits.
        bitmap: Vec<u8>,
        /// How many there are.
        num_bits: u32,
        /// Items it was made for.
        items: u64,
        /// Bits of the false-positive probability it was made for (as IEEE 754 double).
        probability: u64,
    },
}

impl KeySet {
    /// A common key cannot be excluded. Two Bloom filters meet when any bit is set in both;
    /// sets that were made differently always do.
    #[must_use]
    pub fn may_meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(ours), Self::Exact(theirs)) => !ours.is_disjoint(theirs),
            (Self::Bloom { bitmap: ours, .. }, Self::Bloom { bitmap: theirs, .. })
                if self.is_made_like(other) =>
            {
                ours.iter()
                    .zip(theirs)
                    .any(|(ours, theirs)| ours & theirs != 0)
            }
            _ => true,
        }
    }

    fn is_made_like(&self, other: &Self) -> bool {
        let shape = |set: &Self| match set {
            Self::Exact(_) => None,
            Self::Bloom {
                bitmap,
                num_bits,
                items,
                probability,
            } => Some((bitmap.len(), *num_bits, *items, *probability)),
        };
        shape(self) == shape(other)
    }
}
