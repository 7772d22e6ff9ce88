//! Tests of planning.

use tarndb_table::{Deletion, RowSet, Statistics};

use super::*;

const TARGET: u64 = 100;

fn file(path: &str, partition: &str, size: u64, deleted: u64) -> Arc<DataFile> {
    let mut rows = RowSet::new();
    rows.insert_range(0..deleted);
    Arc::new(DataFile {
        path: path.to_owned(),
        raw_path: path.to_owned(),
        partition_values: BTreeMap::from([("p".to_owned(), Some(partition.to_owned()))]),
        size_bytes: size,
        modification_time_ms: 0,
        stats: Some(Arc::new(Statistics {
            num_records: Some(10),
            ..Statistics::default()
        })),
        raw_stats: None,
        deletion: match deleted {
            0 => Deletion::None,
            _ => Deletion::Loaded(Arc::new(rows)),
        },
        base_row_id: None,
        default_row_commit_version: None,
        tags: BTreeMap::new(),
        clustering_provider: None,
        held: None,
        beside: None,
    })
}

/// The paths of each bin, joined by `+`.
fn planned(files: &[Arc<DataFile>], options: &CompactOptions) -> Vec<String> {
    let bins = plan(files.iter().cloned(), TARGET, options);
    let names = |bin: &Bin| {
        let paths: Vec<_> = bin.files.iter().map(|file| file.path.as_str()).collect();
        paths.join("+")
    };
    bins.iter().map(names).collect()
}

#[test]
fn small_files_are_joined_within_a_partition_in_the_order_of_writing() {
    let mut late = DataFile::clone(&file("a", "x", 10, 0));
    late.modification_time_ms = 1;
    let files = [
        Arc::new(late),
        file("b", "x", 10, 0),
        file("c", "y", 10, 0),
        file("d", "x", 10, 0),
        file("e", "y", 10, 0),
        file("f", "z", 10, 0),
    ];
    let found = planned(&files, &CompactOptions::default());
    assert_eq!(found, ["b+d+a", "c+e"]);
}

#[test]
fn a_bin_ends_where_the_target_would_be_exceeded() {
    let files: Vec<_> = ["a", "b", "c", "d", "e"]
        .map(|path| file(path, "x", 40, 0))
        .into();
    let options = CompactOptions::default();
    assert_eq!(planned(&files, &options), ["a+b", "c+d"]);
    let large = [file("a", "x", 74, 0), file("b", "x", 74, 0)];
    assert_eq!(planned(&large, &options), Vec::<String>::new());
    let none = [file("a", "x", 75, 0), file("b", "x", 10, 0)];
    assert_eq!(planned(&none, &options), Vec::<String>::new());
}

#[test]
fn a_file_with_many_deleted_rows_is_rewritten_by_itself() {
    let options = CompactOptions {
        max_deleted_fraction: 0.3,
        ..CompactOptions::default()
    };
    assert_eq!(planned(&[file("a", "x", 500, 3)], &options), ["a"]);
    assert_eq!(
        planned(&[file("a", "x", 500, 2)], &options),
        Vec::<String>::new()
    );
    // Its live rows alone count for the size of the new file.
    let both = [file("a", "x", 100, 9), file("b", "x", 70, 0)];
    assert_eq!(planned(&both, &options), ["a+b"]);
}

#[test]
fn all_takes_every_file_and_min_files_leaves_small_groups() {
    let files = [file("a", "x", 500, 0), file("b", "x", 10, 0)];
    let all = CompactOptions {
        all: true,
        ..CompactOptions::default()
    };
    assert_eq!(planned(&files, &all), ["a", "b"]);
    let files = [file("a", "x", 1, 0), file("b", "x", 1, 0)];
    let three = CompactOptions {
        min_files: 3,
        ..CompactOptions::default()
    };
    assert_eq!(planned(&files, &three), Vec::<String>::new());
}

#[test]
fn a_group_is_bounded_by_bytes_and_files_and_never_empty() {
    let bins = || {
        let files: Vec<_> = ["a", "b", "c", "d", "e", "f"]
            .map(|path| file(path, "x", 40, 0))
            .into();
        plan(files.iter().cloned(), TARGET, &CompactOptions::default())
    };
    let taken = |bytes, files| first_group(bins(), Limits { bytes, files }).len();
    assert_eq!(taken(1000, 1000), 3);
    assert_eq!(taken(160, 1000), 2);
    assert_eq!(taken(1000, 4), 2);
    assert_eq!(taken(0, 0), 1);
    assert!(first_group(Vec::new(), Limits { bytes: 9, files: 9 }).is_empty());
}
