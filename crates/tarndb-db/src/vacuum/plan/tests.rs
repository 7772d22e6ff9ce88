//! What goes and what stays, in one table.

use std::collections::BTreeSet;

use tarndb_storage::{ObjectInfo, Path};
use tarndb_types::TimestampMs;

use super::{TableView, absolute_key, plan};

const ID: &str = "0190163c-cf3e-7a0b-8a4c-5d3f4b1d2e6f";
const OTHER: &str = "0190163c-cf3e-7a0b-8a4c-5d3f4b1d2e70";

fn expand(name: &str) -> String {
    name.replace("{ID}", ID).replace("{OTHER}", OTHER)
}

fn key(name: &str) -> Path {
    Path::parse(format!("main/t/{}", expand(name))).unwrap()
}

fn set(names: &[&str]) -> BTreeSet<Path> {
    names.iter().map(|name| key(name)).collect()
}

/// `files`: name, age when the retention is 10, whether it goes.
#[track_caller]
fn check(view: &TableView<'_>, files: &[(&str, i64, bool)]) {
    let now = 1000;
    let listing: Vec<ObjectInfo> = files
        .iter()
        .map(|(name, age, _)| ObjectInfo {
            key: key(name),
            size_bytes: 1,
            last_modified: TimestampMs(now - age),
        })
        .collect();
    let doomed = plan(view, &listing, TimestampMs(now - 10));
    let found: BTreeSet<Path> = doomed.into_iter().map(|file| file.key).collect();
    let expected = files.iter().filter(|(_, _, goes)| *goes);
    let expected: BTreeSet<Path> = expected.map(|(name, _, _)| key(name)).collect();
    assert_eq!(found, expected);
}

fn view(location: &Path) -> TableView<'_> {
    TableView {
        location,
        referenced: set(&["part-{ID}.parquet", "p=a%2Fb c/part-{ID}.parquet"]),
        removed: set(&["foreign-removed.parquet"]),
        row_maps: Some(set(&["_tarndb/rowmap-{ID}.json.zst"])),
        is_purged: false,
    }
}

#[test]
fn only_old_unreferenced_files_of_our_making_go() {
    let location = Path::from("main/t");
    check(
        &view(&location),
        &[
            ("part-{ID}.parquet", 999, false),
            ("p=a%2Fb c/part-{ID}.parquet", 999, false),
            ("p=a%2Fb c/part-{OTHER}.parquet", 11, true),
            ("part-{OTHER}.parquet", 11, true),
            // As old as the retention is too young.
            ("deletion_vector_{ID}.bin", 10, false),
            ("deletion_vector_{OTHER}.bin", 11, true),
            ("_change_data/cdc-{ID}.parquet", 11, true),
            ("_change_data/cdc-{OTHER}.parquet", 9, false),
            ("foreign-removed.parquet", 11, true),
            ("foreign.parquet", 999, false),
            ("part-00000-{ID}-c000.snappy.parquet", 999, false),
            ("README.md", 999, false),
            ("_tarndb/rowmap-{ID}.json.zst", 999, false),
            ("_tarndb/rowmap-{OTHER}.json.zst", 999, true),
            (
                "_delta_log/_staged_commits/00000000000000000007.{ID}.json",
                11,
                true,
            ),
            ("_delta_log/00000000000000000000.json", 999, false),
            ("_delta_log/_last_checkpoint", 999, false),
        ],
    );
}

#[test]
fn row_maps_stay_when_it_is_not_known_who_names_them() {
    let location = Path::from("main/t");
    let view = TableView {
        row_maps: None,
        ..view(&location)
    };
    check(&view, &[("_tarndb/rowmap-{OTHER}.json.zst", 999, false)]);
}

#[test]
fn of_a_dropped_table_all_goes_but_foreign_files_and_the_log_goes_last() {
    let location = Path::from("main/t");
    let view = TableView {
        location: &location,
        referenced: BTreeSet::new(),
        removed: BTreeSet::new(),
        row_maps: None,
        is_purged: true,
    };
    let files = [
        ("_delta_log/00000000000000000000.json", 11, true),
        (
            "_delta_log/00000000000000000010.checkpoint.parquet",
            11,
            true,
        ),
        ("_delta_log/00000000000000000010.crc", 11, true),
        ("_delta_log/_last_checkpoint", 11, true),
        ("_delta_log/_sidecars/x.parquet", 11, true),
        ("_delta_log/notes.txt", 999, false),
        ("_delta_log/backup/00000000000000000000.json", 999, false),
        ("_tarndb/rowmap-{ID}.json.zst", 11, true),
        ("part-{ID}.parquet", 11, true),
        ("part-{OTHER}.parquet", 9, false),
        ("foreign.parquet", 999, false),
    ];
    check(&view, &files);
    let listing: Vec<ObjectInfo> = files
        .iter()
        .map(|(name, _, _)| ObjectInfo {
            key: key(name),
            size_bytes: 1,
            last_modified: TimestampMs(0),
        })
        .collect();
    let doomed = plan(&view, &listing, TimestampMs(1));
    let is_log: Vec<bool> = doomed
        .iter()
        .map(|file| file.key.as_ref().contains("_delta_log"))
        .collect();
    assert!(is_log.is_sorted(), "{is_log:?}");
}

#[test]
fn absolute_paths_below_the_root_are_keys() {
    for (url, file, expected) in [
        (
            "s3://bucket/db",
            "s3://bucket/db/main/t/x",
            Some("main/t/x"),
        ),
        ("s3://bucket/db/", "s3://bucket/db/x", Some("x")),
        ("s3://bucket/db", "s3://bucket/dbx/y", None),
        ("s3://bucket/db", "s3://other/db/x", None),
        ("file:///data/db", "/data/db/main/t/x", Some("main/t/x")),
        ("file:///data/db", "/data/other/x", None),
    ] {
        let found = absolute_key(url, file);
        assert_eq!(found, expected.map(Path::from), "{url} {file}");
    }
}
