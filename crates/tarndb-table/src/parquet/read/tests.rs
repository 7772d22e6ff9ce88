//! Tests of the ranges of live rows.

use object_store::path::Path;
use proptest::prelude::*;

use super::live_ranges;
use crate::deletion_vector::RowSet;

#[test]
fn a_deleted_row_beyond_the_file_is_refused() {
    let rows = RowSet::from_iter([3, 10]);
    assert!(live_ranges(Some(&rows), 10, &Path::from("f")).is_err());
    assert!(live_ranges(Some(&rows), 11, &Path::from("f")).is_ok());
    assert_eq!(live_ranges(None, 0, &Path::from("f")).unwrap(), vec![]);
}

proptest! {
    #[test]
    fn live_ranges_are_the_complement(deleted in prop::collection::btree_set(0_u64..40, 0..40)) {
        let set: RowSet = deleted.iter().copied().collect();
        let live = live_ranges(Some(&set), 40, &Path::from("f")).unwrap();
        let live: Vec<u64> = live.into_iter().flatten().collect();
        let expected: Vec<u64> = (0..40).filter(|row| !deleted.contains(row)).collect();
        prop_assert_eq!(live, expected);
    }
}
