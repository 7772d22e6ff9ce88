//! Key sets: what two of them have in common.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tarndb_txn::KeySet;

fn set(hashes: BTreeSet<u64>, bits: u32) -> KeySet {
    KeySet {
        columns: vec!["id".to_owned()],
        bits,
        hashes: hashes.into_iter().map(|hash| hash >> (64 - bits)).collect(),
        covers_adds: true,
    }
}

fn cut(set: &KeySet, bits: u32) -> BTreeSet<u64> {
    let hashes = set.hashes.iter();
    hashes.map(|hash| hash >> (set.bits - bits)).collect()
}

/// Hashes that are equal in their leading bits more often than chance has it.
fn hashes(len: usize) -> impl Strategy<Value = BTreeSet<u64>> {
    let near = (0..4_u64, 0..4_u64).prop_map(|(high, low)| high << 60 | high << 30 | low);
    prop::collection::btree_set(prop_oneof![near, any::<u64>()], 0..len)
}

proptest! {
    /// Whichever is larger or finer.
    #[test]
    fn what_two_sets_have_in_common_is_counted_at_the_coarser_width(
        (a, b) in (hashes(8), hashes(40)),
        widths in prop::sample::select(vec![(64, 64), (64, 40), (40, 64), (40, 40), (8, 64), (64, 8)]),
    ) {
        let (a, b) = (set(a, widths.0), set(b, widths.1));
        let bits = widths.0.min(widths.1);
        let expected = cut(&a, bits).intersection(&cut(&b, bits)).count() as u64;
        prop_assert_eq!(a.common(&b), Some(expected));
        prop_assert_eq!(b.common(&a), Some(expected));
    }
}

#[test]
fn sets_over_other_columns_cannot_be_compared() {
    let a = set(BTreeSet::from([1]), 64);
    let b = KeySet {
        columns: vec!["other".to_owned()],
        ..a.clone()
    };
    assert_eq!(a.common(&b), None);
}
