//! What is called exact, and what is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_table::{ColumnStats, Deletion, Statistics as FileStatistics};

use super::*;

/// Ten rows with one column `c`.
fn file(min: Option<Scalar>, max: Option<Scalar>, null_count: Option<u64>) -> DataFile {
    let column = ColumnStats {
        min,
        max,
        null_count,
    };
    let stats = FileStatistics {
        num_records: Some(10),
        columns: BTreeMap::from([(vec!["c".to_owned()], column)]),
        tight_bounds: true,
    };
    DataFile {
        path: "f".to_owned(),
        raw_path: "f".to_owned(),
        partition_values: BTreeMap::new(),
        size_bytes: 1,
        modification_time_ms: 1,
        stats: Some(Arc::new(stats)),
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

fn longs(min: i64, max: i64, nulls: u64) -> DataFile {
    file(
        Some(Scalar::Long(min)),
        Some(Scalar::Long(max)),
        Some(nulls),
    )
}

fn text(value: &str) -> Option<Scalar> {
    Some(Scalar::String(value.to_owned()))
}

fn place(data_type: DataType, is_partition: bool) -> Place {
    Place {
        index: 0,
        field: Field::new("c", data_type, true),
        is_partition,
    }
}

/// `min..max nulls` with `~` before what is not exact and `?` for what is not known.
fn shown(column: &ColumnStatistics) -> String {
    fn one<T: std::fmt::Debug + std::fmt::Display + Clone + PartialEq + Eq + PartialOrd>(
        value: &Precision<T>,
    ) -> String {
        match value {
            Precision::Exact(value) => value.to_string(),
            Precision::Inexact(value) => format!("~{value}"),
            Precision::Absent => "?".to_owned(),
        }
    }
    let (min, max) = (one(&column.min_value), one(&column.max_value));
    format!("{min}..{max} {}", one(&column.null_count))
}

fn planned(files: &[DataFile], data_type: &DataType, own: bool) -> String {
    let place = place(data_type.clone(), false);
    let columns = files.iter().map(|file| Column::of(file, &place, own));
    let all = columns.fold(Column::EMPTY, Column::and);
    shown(&all.planned(data_type))
}

fn deleted(mut file: DataFile, rows: u64) -> DataFile {
    file.deletion = Deletion::Loaded(Arc::new((0..rows).collect()));
    file
}

#[test]
fn bounds_of_whole_files_of_ours_are_exact() {
    let long = DataType::Long;
    let files = [longs(3, 9, 1), longs(-2, 4, 0)];
    assert_eq!(planned(&files, &long, true), "-2..9 1");
    assert_eq!(planned(&files, &long, false), "~-2..~9 ~1");
    assert_eq!(planned(&[], &long, true), "?..? 0");
    // A file of NULLs alone adds no bounds and takes none away.
    let nulls = file(None, None, Some(10));
    assert_eq!(
        planned(&[longs(3, 9, 0), nulls.clone()], &long, true),
        "3..9 10"
    );
    assert_eq!(planned(&[nulls], &long, true), "?..? 10");
}

#[test]
fn deleted_rows_make_bounds_and_counts_rough() {
    let long = DataType::Long;
    let one = |file| planned(&[file], &long, true);
    assert_eq!(one(deleted(longs(3, 9, 1), 2)), "~3..~9 ~1");
    assert_eq!(one(deleted(longs(3, 9, 0), 2)), "~3..~9 0");
    assert_eq!(one(deleted(file(None, None, Some(10)), 4)), "?..? 6");
    assert_eq!(one(deleted(longs(3, 9, 1), 10)), "?..? 0");
    // More rows deleted than there are: nothing is known.
    assert_eq!(one(deleted(longs(3, 9, 1), 11)), "?..? ?");
    let files = [longs(5, 6, 0), deleted(longs(3, 9, 0), 1)];
    assert_eq!(planned(&files, &long, true), "~3..~9 0");
}

#[test]
fn unknown_statistics_of_one_file_make_all_unknown() {
    let long = DataType::Long;
    let mut nothing = longs(1, 1, 0);
    nothing.stats = None;
    assert_eq!(planned(&[longs(3, 9, 1), nothing], &long, true), "?..? ?");
    let half = file(Some(Scalar::Long(1)), None, Some(0));
    assert_eq!(planned(&[longs(3, 9, 1), half], &long, true), "?..? 1");
    let mut wide = longs(3, 9, 1);
    Arc::make_mut(wide.stats.as_mut().unwrap()).tight_bounds = false;
    assert_eq!(planned(&[wide], &long, true), "~3..~9 ~1");
    let mut cloned = longs(3, 9, 1);
    cloned.beside = Some("other/f".into());
    assert_eq!(planned(&[cloned], &long, true), "~3..~9 ~1");
}

#[test]
fn types_whose_bounds_may_be_cut_are_never_exact() {
    let cases = [
        (DataType::String, text("a"), text("b"), "a..b 0"),
        (
            DataType::String,
            text(&"a".repeat(32)),
            text("b"),
            "~aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..~b 0",
        ),
        (
            DataType::String,
            text("\u{e9}"),
            text(&"\u{e9}".repeat(31)),
            "\u{e9}..\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9} 0",
        ),
        (
            DataType::Double,
            Some(Scalar::Double(0.0)),
            Some(Scalar::Double(2.0)),
            "?..? 0",
        ),
        (
            DataType::TimestampNtz,
            Some(Scalar::TimestampMicros(1000)),
            Some(Scalar::TimestampMicros(5000)),
            "~1000..~5999 0",
        ),
        (
            DataType::Date,
            Some(Scalar::Date(0)),
            Some(Scalar::Date(1)),
            "1970-01-01..1970-01-02 0",
        ),
        // Of another kind than the column: not used.
        (
            DataType::Date,
            Some(Scalar::Long(0)),
            Some(Scalar::Long(1)),
            "?..? 0",
        ),
    ];
    for (data_type, min, max, expected) in cases {
        let given = planned(&[file(min, max, Some(0))], &data_type, true);
        assert_eq!(given, expected, "{data_type}");
    }
}

#[test]
fn partition_columns_are_known_by_their_values() {
    let of = |values: &[Option<&str>], data_type: &DataType| {
        let place = place(data_type.clone(), true);
        let files = values.iter().map(|value| {
            let mut file = longs(0, 0, 0);
            let value = value.map(str::to_owned);
            file.partition_values.insert("c".to_owned(), value);
            file
        });
        let columns = files.map(|file| Column::of(&file, &place, false));
        shown(&columns.fold(Column::EMPTY, Column::and).planned(data_type))
    };
    let long = DataType::Long;
    assert_eq!(of(&[Some("7"), Some("-1"), None], &long), "-1..7 10");
    assert_eq!(of(&[None], &long), "?..? 10");
    assert_eq!(of(&[Some("7"), Some("seven")], &long), "?..? ?");
    assert_eq!(of(&[Some("1.5")], &DataType::Double), "?..? 0");
}

#[test]
fn bounds_that_contain_all_values_leave_out_files_at_run_time() {
    let long = DataType::Long;
    let one = |file: DataFile, own| {
        let column = Column::of(&file, &place(long.clone(), false), own);
        shown(&column.pruning(&long))
    };
    assert_eq!(one(longs(3, 9, 1), true), "3..9 1");
    // Without an exact count of NULLs no column is taken for a constant.
    assert_eq!(one(deleted(longs(3, 3, 1), 2), true), "3..3 ?");
    assert_eq!(one(longs(3, 3, 0), false), "3..3 ?");
}

#[test]
fn rows_are_counted_with_deletions_of_ours_only() {
    let files = [longs(1, 1, 0), deleted(longs(1, 1, 0), 3)];
    let count = |own| row_count(files.iter().map(|file| Arc::new(file.clone())), own);
    assert_eq!(count(true), Precision::Exact(17));
    assert_eq!(count(false), Precision::Inexact(17));
    let damaged = [Arc::new(deleted(longs(1, 1, 0), 11))];
    assert_eq!(row_count(damaged.iter(), true), Precision::Absent);
}
