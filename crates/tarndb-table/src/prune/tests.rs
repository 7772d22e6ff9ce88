//! Tests of pruning.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::deletion_vector::Deletion;
use crate::schema::{DataType, Field};
use crate::stats::{ColumnStats, Statistics};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::Long, true),
        Field::new("at", DataType::Timestamp, true),
        Field::new("p", DataType::String, true),
    ])
}

fn file(id: ColumnStats, p: Option<&str>) -> DataFile {
    let at = ColumnStats {
        min: Some(Scalar::TimestampMicros(0)),
        max: Some(Scalar::TimestampMicros(1_000)),
        null_count: Some(0),
    };
    let columns = [("id", id), ("at", at)].map(|(name, stats)| (vec![name.to_owned()], stats));
    let stats = Statistics {
        num_records: Some(3),
        columns: columns.into(),
        tight_bounds: true,
    };
    DataFile {
        path: "f".into(),
        raw_path: "f".into(),
        partition_values: BTreeMap::from([("p".to_owned(), p.map(str::to_owned))]),
        size_bytes: 1,
        modification_time_ms: 0,
        stats: Some(Arc::new(stats)),
        raw_stats: None,
        deletion: Deletion::None,
        base_row_id: None,
        default_row_commit_version: None,
        tags: BTreeMap::new(),
    }
}

fn ids(min: i64, max: i64, null_count: Option<u64>) -> ColumnStats {
    let (min, max) = (Some(Scalar::Long(min)), Some(Scalar::Long(max)));
    ColumnStats {
        min,
        max,
        null_count,
    }
}

fn compare(column: &str, op: Comparison, value: Scalar) -> Predicate {
    Predicate::Compare {
        column: column.to_owned(),
        op,
        value,
    }
}

fn matches(predicate: &Predicate, file: &DataFile) -> bool {
    may_match(predicate, file, &schema(), &["p".to_owned()])
}

#[test]
fn partition_values_prune_exactly() {
    let file = file(ids(1, 5, Some(0)), Some("x"));
    let equals = |text: &str| compare("P", Comparison::Equal, Scalar::String(text.into()));
    assert!(matches(&equals("x"), &file));
    assert!(!matches(&equals("y"), &file));
    assert!(!matches(&Predicate::IsNull("p".into()), &file));
    assert!(matches(
        &Predicate::Or(vec![equals("y"), equals("x")]),
        &file
    ));
    assert!(!matches(
        &Predicate::And(vec![equals("y"), equals("x")]),
        &file
    ));
}

#[test]
fn null_partitions_match_only_is_null() {
    let file = file(ids(1, 5, Some(0)), None);
    assert!(matches(&Predicate::IsNull("p".into()), &file));
    assert!(!matches(&Predicate::IsNotNull("p".into()), &file));
    assert!(!matches(
        &compare("p", Comparison::Equal, Scalar::String("x".into())),
        &file
    ));
}

#[test]
fn null_counts_decide_is_null() {
    let is_null = Predicate::IsNull("id".into());
    let is_not_null = Predicate::IsNotNull("id".into());
    assert!(!matches(&is_null, &file(ids(1, 5, Some(0)), None)));
    assert!(matches(&is_null, &file(ids(1, 5, None), None)));
    let none = ColumnStats {
        min: None,
        max: None,
        null_count: Some(3),
    };
    assert!(!matches(&is_not_null, &file(none, None)));
}

#[test]
fn what_is_unknown_or_of_another_kind_keeps_the_file() {
    let file = file(ColumnStats::default(), None);
    assert!(matches(
        &compare("id", Comparison::Equal, Scalar::Long(9)),
        &file
    ));
    assert!(matches(
        &compare("nope", Comparison::Equal, Scalar::Long(9)),
        &file
    ));
    assert!(matches(
        &compare("at", Comparison::Equal, Scalar::Long(9)),
        &file
    ));
}

#[test]
fn timestamp_maxima_may_be_a_millisecond_short() {
    let file = file(ids(1, 5, Some(0)), None);
    let after = |micros| compare("at", Comparison::Greater, Scalar::TimestampMicros(micros));
    assert!(matches(&after(1_998), &file));
    assert!(!matches(&after(1_999), &file));
}

type Holds = fn(&i64, &i64) -> bool;

proptest! {
    #[test]
    fn no_file_with_a_matching_row_is_left_out(
        rows in prop::collection::vec(-5_i64..5, 1..6),
        value in -6_i64..6,
    ) {
        let stats = ids(*rows.iter().min().unwrap(), *rows.iter().max().unwrap(), Some(0));
        let file = file(stats, None);
        let cases: [(Comparison, Holds); 6] = [
            (Comparison::Equal, |a, b| a == b),
            (Comparison::NotEqual, |a, b| a != b),
            (Comparison::Less, |a, b| a < b),
            (Comparison::LessOrEqual, |a, b| a <= b),
            (Comparison::Greater, |a, b| a > b),
            (Comparison::GreaterOrEqual, |a, b| a >= b),
        ];
        for (op, holds) in cases {
            if rows.iter().any(|row| holds(row, &value)) {
                prop_assert!(matches(&compare("id", op, Scalar::Long(value)), &file));
            }
        }
    }
}
