//! Choosing checkpoint and commits, against examples and a naive model.

use object_store::path::Path;
use proptest::prelude::*;
use tarndb_storage::ObjectInfo;
use tarndb_types::TimestampMs;

use super::{CheckpointName, Segment, SegmentError, select_segment};

const UUID_A: &str = "0190a1b2-0000-7000-8000-00000000000a";
const UUID_B: &str = "0190a1b2-0000-7000-8000-00000000000b";

fn dir() -> Path {
    Path::from("t/_delta_log")
}

fn file(name: &str) -> ObjectInfo {
    sized(name, 10)
}

fn sized(name: &str, size_bytes: u64) -> ObjectInfo {
    let key = Path::parse(format!("t/_delta_log/{name}")).unwrap();
    ObjectInfo {
        key,
        size_bytes,
        last_modified: TimestampMs(0),
    }
}

fn commits(versions: impl IntoIterator<Item = u64>) -> Vec<ObjectInfo> {
    versions
        .into_iter()
        .map(|version| file(&format!("{version:020}.json")))
        .collect()
}

fn classic(version: u64) -> ObjectInfo {
    file(&format!("{version:020}.checkpoint.parquet"))
}

fn part(version: u64, part: u32, parts: u32) -> ObjectInfo {
    file(&format!(
        "{version:020}.checkpoint.{part:010}.{parts:010}.parquet"
    ))
}

fn unique(version: u64, uuid: &str, extension: &str) -> ObjectInfo {
    file(&format!("{version:020}.checkpoint.{uuid}.{extension}"))
}

fn select(listing: &[ObjectInfo], target: Option<u64>) -> Result<Segment, SegmentError> {
    select_segment(listing, &dir(), target)
}

fn base(segment: &Segment) -> Option<u64> {
    segment.checkpoint.as_ref().map(|(version, _, _)| *version)
}

#[test]
fn without_checkpoint_the_commits_from_zero_are_the_table() {
    let segment = select(&commits(0..4), None).unwrap();
    assert_eq!(segment.commits, vec![0, 1, 2, 3]);
    assert_eq!(
        (segment.version, segment.has_commit, base(&segment)),
        (3, true, None)
    );
    let earlier = select(&commits(0..4), Some(1)).unwrap();
    assert_eq!((earlier.version, earlier.commits), (1, vec![0, 1]));
}

#[test]
fn an_empty_or_foreign_folder_is_no_log() {
    for listing in [
        vec![],
        vec![file("_last_checkpoint"), file("00000000000000000000.crc")],
        vec![file(
            "00000000000000000000.00000000000000000004.compacted.json",
        )],
        vec![file(
            "_staged_commits/00000000000000000000.0190a1b2-0000-7000-8000-00000000000a.json",
        )],
        vec![sized("00000000000000000003.checkpoint.parquet", 0)],
        vec![part(3, 1, 2)],
    ] {
        let error = select(&listing, None).unwrap_err();
        assert!(
            matches!(error, SegmentError::NotFound { .. }),
            "{listing:?}: {error:?}"
        );
    }
}

#[test]
fn the_newest_complete_checkpoint_at_or_below_the_target_is_used() {
    let mut listing = commits(0..8);
    listing.extend([classic(2), classic(5)]);
    for (target, expected, count) in [
        (None, 5, 2),
        (Some(7), 5, 2),
        (Some(5), 5, 0),
        (Some(4), 2, 2),
        (Some(2), 2, 0),
    ] {
        let segment = select(&listing, target).unwrap();
        assert_eq!(
            (base(&segment), segment.commits.len()),
            (Some(expected), count)
        );
        assert!(segment.has_commit);
    }
    assert_eq!(base(&select(&listing, Some(1)).unwrap()), None);
}

#[test]
fn commits_before_the_checkpoint_may_be_missing_with_holes() {
    let mut listing = commits([0, 3, 6, 7]);
    listing.push(classic(5));
    let segment = select(&listing, None).unwrap();
    assert_eq!(
        (base(&segment), segment.commits, segment.version),
        (Some(5), vec![6, 7], 7)
    );
}

#[test]
fn a_checkpoint_alone_is_a_version_without_its_commit() {
    let segment = select(&[classic(5)], None).unwrap();
    assert_eq!((segment.version, segment.has_commit), (5, false));
    let mut listing = commits([5]);
    listing.push(classic(5));
    let segment = select(&listing, None).unwrap();
    assert!(segment.has_commit && segment.commits.is_empty());
}

#[test]
fn a_gap_above_the_checkpoint_is_an_error_that_names_it() {
    let gap = |missing, newest| SegmentError::Gap {
        missing,
        newest,
        dir: "t/_delta_log".to_owned(),
    };
    assert_eq!(select(&commits([0, 1, 3]), None), Err(gap(2, 3)));
    assert_eq!(select(&commits([0, 1, 3]), Some(3)), Err(gap(2, 3)));
    let mut listing = commits([7, 8]);
    listing.push(classic(5));
    assert_eq!(select(&listing, None), Err(gap(6, 8)));
    // Below the gap there is nothing wrong.
    assert!(select(&commits([0, 1, 3]), Some(1)).is_ok());
    // The target itself is the gap.
    assert_eq!(select(&commits([0, 1, 3]), Some(2)), Err(gap(2, 2)));
}

#[test]
fn a_log_that_does_not_begin_at_zero_has_no_start() {
    let error = select(&commits(41..45), None).unwrap_err();
    assert_eq!(
        error,
        SegmentError::NoStart {
            first: 41,
            dir: "t/_delta_log".to_owned()
        }
    );
    // An incomplete checkpoint is none.
    let mut listing = commits(41..45);
    listing.push(part(40, 1, 2));
    assert!(matches!(
        select(&listing, None),
        Err(SegmentError::NoStart { first: 41, .. })
    ));
}

#[test]
fn targets_outside_what_is_there_are_told_apart() {
    let mut listing = commits(11..13);
    listing.push(classic(10));
    let too_new = select(&listing, Some(13)).unwrap_err();
    assert!(
        matches!(
            too_new,
            SegmentError::TooNew {
                target: 13,
                newest: 12,
                ..
            }
        ),
        "{too_new:?}"
    );
    let too_old = select(&listing, Some(9)).unwrap_err();
    assert!(
        matches!(
            too_old,
            SegmentError::TooOld {
                target: 9,
                oldest: 10,
                ..
            }
        ),
        "{too_old:?}"
    );
    assert!(
        too_old.to_string().contains("ask for version 10"),
        "{too_old}"
    );
}

#[test]
fn parts_count_only_when_all_of_one_count_are_there() {
    let mut listing = commits(0..6);
    listing.extend([part(3, 1, 2), part(5, 1, 3), part(5, 3, 3), part(5, 2, 2)]);
    // 5 has parts of two checkpoints, neither complete; so has 3.
    assert_eq!(base(&select(&listing, None).unwrap()), None);
    listing.push(part(3, 2, 2));
    let segment = select(&listing, None).unwrap();
    let (version, name, files) = segment.checkpoint.unwrap();
    assert_eq!((version, name), (3, CheckpointName::MultiPart { parts: 2 }));
    assert_eq!(files, vec![part(3, 1, 2).key, part(3, 2, 2).key]);
}

#[test]
fn an_empty_part_makes_the_checkpoint_incomplete() {
    let mut listing = commits(0..4);
    listing.push(part(3, 1, 2));
    listing.push(ObjectInfo {
        size_bytes: 0,
        ..part(3, 2, 2)
    });
    assert_eq!(base(&select(&listing, None).unwrap()), None);
}

#[test]
fn malformed_parts_are_ignored() {
    let mut listing = commits(0..4);
    listing.extend([part(3, 0, 1), part(3, 2, 1), part(2, 0, 0)]);
    assert_eq!(base(&select(&listing, None).unwrap()), None);
}

#[test]
fn several_checkpoints_at_one_version_are_chosen_in_a_fixed_order() {
    let mut listing = vec![classic(4)];
    let chosen = |listing: &[ObjectInfo]| select(listing, None).unwrap().checkpoint.unwrap();
    assert_eq!(chosen(&listing).1, CheckpointName::Classic);
    listing.extend([part(4, 1, 2), part(4, 2, 2), part(4, 1, 1)]);
    assert_eq!(chosen(&listing).1, CheckpointName::MultiPart { parts: 2 });
    listing.push(unique(4, UUID_B, "json"));
    listing.push(unique(4, UUID_A, "parquet"));
    let (_, name, files) = chosen(&listing);
    let expected = unique(4, UUID_B, "json");
    assert_eq!(
        name,
        CheckpointName::V2Json {
            name: expected.key.filename().unwrap().to_owned()
        }
    );
    assert_eq!(files, vec![expected.key]);
    listing.reverse();
    assert_eq!(chosen(&listing).1, name);
}

#[test]
fn unique_names_need_a_real_uuid() {
    for name in [
        "x",
        "0190a1b2000070008000000000000000a",
        "{0190a1b2-0000-7000-8000-000000000a}",
    ] {
        let listing = [unique(4, name, "parquet"), unique(4, name, "json")];
        assert!(select(&listing, None).is_err(), "{name}");
    }
    assert!(select(&[unique(4, &UUID_A.to_uppercase(), "parquet")], None).is_ok());
}

#[test]
fn compactions_staged_commits_and_folders_do_not_fill_gaps() {
    let mut listing = commits([0, 1, 4]);
    listing.extend([
        file("00000000000000000000.00000000000000000004.compacted.json"),
        file(&format!(
            "_staged_commits/00000000000000000002.{UUID_A}.json"
        )),
        file("sub/00000000000000000003.json"),
        file(&format!("00000000000000000003.{UUID_A}.json")),
    ]);
    assert!(matches!(
        select(&listing, None),
        Err(SegmentError::Gap { missing: 2, .. })
    ));
}

#[test]
fn a_listing_of_the_root_folder_works_alike() {
    let key = Path::from("00000000000000000000.json");
    let listing = [ObjectInfo {
        key,
        size_bytes: 1,
        last_modified: TimestampMs(0),
    }];
    assert_eq!(
        select_segment(&listing, &Path::ROOT, None).unwrap().version,
        0
    );
}

#[test]
fn widest_compactions_within_what_is_needed_are_chosen() {
    let compacted = |ranges: &[(u64, u64)]| -> Vec<ObjectInfo> {
        let name = |(first, last): &(u64, u64)| format!("{first:020}.{last:020}.compacted.json");
        ranges.iter().map(|range| file(&name(range))).collect()
    };
    type Ranges = &'static [(u64, u64)];
    let cases: [(Ranges, Option<u64>, Option<u64>, Ranges); 8] = [
        (&[(0, 4), (0, 9), (5, 9)], None, None, &[(0, 9)]),
        // Overlapping ranges: those that begin where the last one ends, or after.
        (
            &[(0, 4), (2, 9), (5, 7), (6, 9)],
            None,
            None,
            &[(0, 4), (5, 7)],
        ),
        // Beyond the version asked for.
        (&[(0, 4), (0, 9)], Some(7), None, &[(0, 4)]),
        (&[(3, 9)], Some(8), None, &[]),
        // At or below the checkpoint, also in part.
        (&[(0, 4), (3, 8), (6, 8)], None, Some(5), &[(6, 8)]),
        (&[(0, 9)], None, Some(9), &[]),
        // Not a range of versions.
        (&[(4, 4), (7, 5), (8, 9)], None, None, &[(8, 9)]),
        (&[], None, None, &[]),
    ];
    for (ranges, target, checkpoint, expected) in cases {
        let mut listing = commits(0..10);
        listing.extend(compacted(ranges));
        listing.extend(checkpoint.map(classic));
        let segment = select(&listing, target).unwrap();
        assert_eq!(segment.compactions, expected, "{ranges:?} {target:?}");
        let without = select(&commits(0..10), target).unwrap();
        assert!(without.commits.ends_with(&segment.commits));
    }
    // A compaction replaces no commit that is missing, and an empty one is none.
    let mut gap = commits((0..10).filter(|version| *version != 3));
    gap.extend(compacted(&[(0, 9)]));
    assert!(matches!(
        select(&gap, None),
        Err(SegmentError::Gap { missing: 3, .. })
    ));
    let mut empty = commits(0..10);
    empty.push(sized(
        "00000000000000000000.00000000000000000009.compacted.json",
        0,
    ));
    assert!(select(&empty, None).unwrap().compactions.is_empty());
}

/// What a reader who tries every checkpoint by hand would find.
fn naive(
    present: &[u64],
    checkpoints: &[u64],
    target: Option<u64>,
) -> Option<(Option<u64>, Vec<u64>, u64)> {
    let newest = present.iter().chain(checkpoints).max()?;
    let version = target.unwrap_or(*newest);
    let base = checkpoints
        .iter()
        .filter(|at| **at <= version)
        .max()
        .copied();
    let needed: Vec<u64> = (base.map_or(0, |at| at + 1)..=version).collect();
    let exists = version <= *newest && needed.iter().all(|commit| present.contains(commit));
    exists.then_some((base, needed, version))
}

proptest! {
    #[test]
    fn selection_agrees_with_the_naive_reader(
        present in proptest::collection::btree_set(0_u64..12, 0..12),
        checkpoints in proptest::collection::btree_set(0_u64..12, 0..3),
        target in proptest::option::of(0_u64..13),
        shuffle: u64,
    ) {
        let mut listing = commits(present.iter().copied());
        listing.extend(checkpoints.iter().map(|at| classic(*at)));
        listing.sort_by_key(|info| {
            info.key.as_ref().bytes().fold(shuffle, |acc, byte| {
                acc.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
            })
        });
        let present: Vec<u64> = present.into_iter().collect();
        let checkpoints: Vec<u64> = checkpoints.into_iter().collect();
        let expected = naive(&present, &checkpoints, target);
        match (select(&listing, target), expected) {
            (Ok(segment), Some((base_version, needed, version))) => {
                prop_assert_eq!(base(&segment), base_version);
                prop_assert_eq!(segment.has_commit, present.contains(&version));
                prop_assert_eq!((segment.commits, segment.version), (needed, version));
            }
            (Err(SegmentError::Gap { missing, newest, .. }), None) => {
                prop_assert!(!present.contains(&missing) && missing <= newest);
            }
            (Err(_), None) => {}
            (got, expected) => prop_assert!(false, "{:?} but expected {:?}", got, expected),
        }
    }
}
