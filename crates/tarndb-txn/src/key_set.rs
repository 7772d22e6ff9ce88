//! `KeySet`: the keys that an upsert looked for and wrote, in a form that two can be compared in.
//!
//! Invariant: two sets that hold a common key always intersect; two that do not may seem to,
//! with the stated probability. Hashes are of the keys' canonical bytes (`tarndb-table`), so
//! they mean the same to every build.
//! Does not hold the keys themselves, and does not hash.
//! Spec: docs/conflicts.md, "Keys".

use std::collections::BTreeSet;

/// Keys up to this number are kept with all 64 bits of their hashes.
pub const EXACT_KEYS_MAX: usize = 4096;
/// Keys above [`EXACT_KEYS_MAX`] are kept with so many bits: `n` keys and `m` others that are
/// all different seem to have one in common with a probability below `n * m / 2^40`.
pub const FILTER_BITS: u32 = 40;
/// Above this number no keys are recorded: what was added is then read to decide.
pub const KEYS_MAX: usize = 65_536;

/// Hashes of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet {
    /// The key columns, in the order of the key: ids where columns are mapped, else names.
    pub columns: Vec<String>,
    /// Leading bits of each hash that are kept: 64 or [`FILTER_BITS`].
    pub bits: u32,
    /// The hashes, shifted down to `bits` bits.
    pub hashes: BTreeSet<u64>,
    /// Every row that the transaction added to the table is covered, new forms of changed rows
    /// included.
    pub covers_adds: bool,
}

impl KeySet {
    /// Of full 64-bit hashes; `None` when there are too many to keep.
    #[must_use]
    pub fn of(columns: Vec<String>, hashes: &BTreeSet<u64>, covers_adds: bool) -> Option<Self> {
        if hashes.len() > KEYS_MAX {
            return None;
        }
        let bits = if hashes.len() > EXACT_KEYS_MAX {
            FILTER_BITS
        } else {
            64
        };
        Some(Self {
            columns,
            bits,
            hashes: hashes
                .iter()
                .map(|hash| shifted(*hash, 64 - bits))
                .collect(),
            covers_adds,
        })
    }

    /// Keys that both (seem to) hold, at most; `None` when the sets cannot be compared, because
    /// their columns differ.
    #[must_use]
    pub fn common(&self, other: &Self) -> Option<u64> {
        if self.columns != other.columns {
            return None;
        }
        let (coarse, fine) = match self.bits <= other.bits {
            true => (self, other),
            false => (other, self),
        };
        let by = fine.bits - coarse.bits;
        if by == 0 {
            return Some(coarse.hashes.intersection(&fine.hashes).count() as u64);
        }
        // One of them may be much larger: its hashes are looked up, not gone through. Those of
        // `fine` that are cut to the same stand side by side.
        let lies_in_fine = |hash: &&u64| {
            let first = shifted_up(**hash, by);
            let last = first | shifted(u64::MAX, u64::BITS - by);
            fine.hashes.range(first..=last).next().is_some()
        };
        if coarse.hashes.len() <= fine.hashes.len() {
            return Some(coarse.hashes.iter().filter(lies_in_fine).count() as u64);
        }
        let mut cut: Vec<u64> = fine.hashes.iter().map(|hash| shifted(*hash, by)).collect();
        cut.dedup();
        let common = cut.iter().filter(|hash| coarse.hashes.contains(hash));
        Some(common.count() as u64)
    }

    /// Whether a key with this 64-bit hash is (or seems to be) in the set.
    #[must_use]
    pub fn may_hold(&self, hash: u64) -> bool {
        self.hashes.contains(&shifted(hash, 64 - self.bits))
    }
}

const fn shifted_up(hash: u64, by: u32) -> u64 {
    match hash.checked_shl(by) {
        Some(wide) => wide,
        None => 0,
    }
}

const fn shifted(hash: u64, by: u32) -> u64 {
    match hash.checked_shr(by) {
        Some(cut) => cut,
        None => 0,
    }
}
