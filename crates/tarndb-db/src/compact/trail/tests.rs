//! Tests of trails.

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_table::{Deletion, Statistics};

use super::*;

fn file(path: &str, rows: u64) -> DataFile {
    DataFile {
        path: path.to_owned(),
        raw_path: path.to_owned(),
        partition_values: BTreeMap::new(),
        size_bytes: 1,
        modification_time_ms: 0,
        stats: Some(Arc::new(Statistics {
            num_records: Some(rows),
            ..Statistics::default()
        })),
        raw_stats: None,
        deletion: Deletion::None,
        base_row_id: None,
        default_row_commit_version: None,
        tags: BTreeMap::new(),
        clustering_provider: None,
        held: None,
        beside: None,
    }
}

fn trail() -> Trail {
    let mut trail = Trail::default();
    trail.note(0, &[0, 1, 2]);
    trail.note(0, &[3, 5]);
    trail.note(1, &[6, 7]);
    trail
}

fn runs(target: &Target) -> Vec<(u32, u64, u64)> {
    let run = |run: &Run| (run.source, run.first, run.len);
    target.runs.iter().map(run).collect()
}

#[test]
fn neighbours_become_one_run_and_files_cut_runs() {
    let targets = trail().targets(&[file("x", 3), file("y", 4)]).unwrap();
    assert_eq!(runs(&targets[0]), [(0, 0, 3)]);
    assert_eq!(runs(&targets[1]), [(0, 3, 1), (0, 5, 1), (1, 6, 2)]);
    let targets = trail().targets(&[file("x", 1), file("y", 6)]).unwrap();
    assert_eq!(runs(&targets[0]), [(0, 0, 1)]);
    assert_eq!(runs(&targets[1]), [(0, 1, 3), (0, 5, 1), (1, 6, 2)]);
}

#[test]
fn files_with_other_rows_than_noted_have_no_map() {
    assert_eq!(trail().targets(&[file("x", 6)]), None);
    assert_eq!(trail().targets(&[file("x", 8)]), None);
}
