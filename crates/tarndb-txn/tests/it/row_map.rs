//! Row maps: where rows are after a rewrite, and which maps are none.
//!
//! Invariant: a map that would put a row in two places is never accepted.
//! Spec: docs/conflicts.md, "Row maps".

use tarndb_txn::{RowMap, RowSet, Run, Source, Target};

/// Source, first row, number of rows.
type Runs<'a> = &'a [(u32, u64, u64)];

fn map(sources: &[&str], targets: &[(&str, Runs<'_>)]) -> RowMap {
    let source = |path: &&str| Source {
        path: (*path).to_owned(),
        vector: None,
    };
    let run = |(source, first, len): &(u32, u64, u64)| Run {
        source: *source,
        first: *first,
        len: *len,
    };
    RowMap {
        sources: sources.iter().map(source).collect(),
        targets: targets
            .iter()
            .map(|(path, runs)| Target {
                path: (*path).to_owned(),
                runs: runs.iter().map(run).collect(),
            })
            .collect(),
    }
}

fn rows(positions: &[u64]) -> RowSet {
    positions.iter().copied().collect()
}

#[test]
fn rows_are_carried_to_where_their_run_is() {
    // Input a: 0 1 2 . 4 5, input b: 7 8; output x: b7 b8 a4 a5, output y: a0 a1 a2.
    let map = map(
        &["a", "b"],
        &[("x", &[(1, 7, 2), (0, 4, 2)]), ("y", &[(0, 0, 3)])],
    );
    assert_eq!(map.violation(), None);
    let carried = map.carry("a", &rows(&[0, 2, 3, 5, 6])).unwrap();
    assert_eq!(carried.gone, rows(&[3, 6]));
    assert_eq!(carried.moved["x"], rows(&[3]));
    assert_eq!(carried.moved["y"], rows(&[0, 2]));
    assert_eq!(map.carry("b", &rows(&[8])).unwrap().moved["x"], rows(&[1]));
    assert_eq!(map.carry("c", &rows(&[0])), None);
    let all = map.carry_all("a");
    assert_eq!(all["x"], rows(&[2, 3]));
    assert_eq!(all["y"], rows(&[0, 1, 2]));
    assert!(map.carry_all("c").is_empty());
}

#[test]
fn what_is_no_map_is_told_and_never_panics() {
    let max = u64::MAX;
    let cases = [
        map(&["a"], &[("x", &[(1, 0, 1)])]),
        map(&["a"], &[("x", &[(0, 0, 0)])]),
        map(&["a"], &[("x", &[(0, max, 2)])]),
        map(&["a", "b"], &[("x", &[(0, 0, max), (1, 0, 2)])]),
        map(&["a"], &[("x", &[(0, 0, 3)]), ("y", &[(0, 2, 1)])]),
        map(&["a", "a"], &[]),
        map(&["a"], &[("x", &[]), ("x", &[])]),
    ];
    for wrong in cases {
        assert!(wrong.violation().is_some(), "{wrong:?}");
        drop(wrong.carry("a", &rows(&[0, 2, max])));
    }
}
