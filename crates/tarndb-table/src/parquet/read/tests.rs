//! Tests of the ranges of wanted rows.

use object_store::path::Path;
use proptest::prelude::*;

use super::Wanted;
use crate::deletion_vector::RowSet;

#[test]
fn a_deleted_row_beyond_the_file_is_refused() {
    let rows = RowSet::from_iter([3, 10]);
    for wanted in [Wanted::AllBut(&rows), Wanted::Only(&rows)] {
        assert!(wanted.ranges(10, &Path::from("f")).is_err());
        assert!(wanted.ranges(11, &Path::from("f")).is_ok());
    }
    assert_eq!(Wanted::All.ranges(0, &Path::from("f")).unwrap(), vec![]);
}

proptest! {
    #[test]
    fn named_rows_and_the_others_are_complements(
        named in prop::collection::btree_set(0_u64..40, 0..40),
    ) {
        let set: RowSet = named.iter().copied().collect();
        let rows = |wanted: Wanted<'_>| -> Vec<u64> {
            let ranges = wanted.ranges(40, &Path::from("f")).unwrap();
            ranges.into_iter().flatten().collect()
        };
        let others: Vec<u64> = (0..40).filter(|row| !named.contains(row)).collect();
        prop_assert_eq!(rows(Wanted::AllBut(&set)), others);
        let named: Vec<u64> = named.into_iter().collect();
        prop_assert_eq!(rows(Wanted::Only(&set)), named);
    }
}
