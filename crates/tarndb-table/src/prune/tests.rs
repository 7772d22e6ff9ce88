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
        clustering_provider: None,
        held: None,
        beside: None,
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
fn a_float_maximum_leaves_room_for_nan() {
    let bounds = ColumnStats {
        min: Some(Scalar::Double(1.0)),
        max: Some(Scalar::Double(2.0)),
        null_count: Some(0),
    };
    let file = file(bounds, None);
    let matches = |op, value| matches(&compare("id", op, Scalar::Double(value)), &file);
    // NaN is greater than every number, and many writers leave it out of their bounds.
    assert!(matches(Comparison::Greater, 5.0));
    assert!(matches(Comparison::GreaterOrEqual, 5.0));
    assert!(matches(Comparison::NotEqual, 1.0));
    assert!(!matches(Comparison::Less, 1.0));
    assert!(!matches(Comparison::Equal, 5.0));
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

mod evaluating {
    use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};

    use super::*;

    fn rows() -> (Schema, RecordBatch) {
        let schema = Schema::new(vec![
            Field::new("K", DataType::Long, true),
            Field::new("p", DataType::String, true),
            Field::new("f", DataType::Double, true),
        ]);
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), Some(2), None])),
            Arc::new(StringArray::from(vec![Some("a"), None, Some("it's")])),
            Arc::new(Float64Array::from(vec![-0.0, f64::NAN, f64::INFINITY])),
        ];
        let batch = RecordBatch::try_new(schema.to_arrow(), arrays).unwrap();
        (schema, batch)
    }

    #[track_caller]
    fn check(predicate: &Predicate, text: &str, expected: [Option<bool>; 3]) {
        let (schema, batch) = rows();
        assert_eq!(predicate.to_string(), text);
        let found = predicate.evaluate(&batch, &schema).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn comparisons_follow_sql_with_null_zero_and_nan() {
        use Comparison::*;
        let (yes, no, unknown) = (Some(true), Some(false), None);
        let k = |op, value| compare("k", op, Scalar::Long(value));
        let f = |op, value| compare("f", op, Scalar::Double(value));
        check(&k(Equal, 2), "k = 2", [no, yes, unknown]);
        check(&k(NotEqual, 2), "k <> 2", [yes, no, unknown]);
        check(&k(Less, 2), "k < 2", [yes, no, unknown]);
        check(&k(LessOrEqual, 2), "k <= 2", [yes, yes, unknown]);
        check(&k(Greater, 1), "k > 1", [no, yes, unknown]);
        check(&k(GreaterOrEqual, 2), "k >= 2", [no, yes, unknown]);
        check(&f(Equal, 0.0), "f = 0.0", [yes, no, no]);
        check(&f(Equal, -f64::NAN), "f = NaN", [no, yes, no]);
        check(
            &f(Greater, f64::MAX),
            "f > 1.7976931348623157e308",
            [no, yes, yes],
        );
        let quoted = compare("p", Equal, Scalar::String("it's".to_owned()));
        check(&quoted, "p = 'it''s'", [no, unknown, yes]);
        check(
            &Predicate::IsNull("P".to_owned()),
            "P IS NULL",
            [no, yes, no],
        );
        check(
            &Predicate::IsNotNull("k".to_owned()),
            "k IS NOT NULL",
            [yes, yes, no],
        );
        let both = Predicate::And(vec![k(Greater, 1), quoted.clone()]);
        check(&both, "k > 1 AND p = 'it''s'", [no, unknown, unknown]);
        let either = Predicate::Or(vec![both, k(Equal, 1)]);
        check(
            &either,
            "(k > 1 AND p = 'it''s') OR k = 1",
            [yes, unknown, unknown],
        );
        check(&Predicate::And(vec![]), "TRUE", [yes, yes, yes]);
        check(&Predicate::Or(vec![]), "FALSE", [no, no, no]);
    }

    #[test]
    fn wrong_columns_and_literals_are_refused() {
        let (schema, batch) = rows();
        let missing = compare("x", Comparison::Equal, Scalar::Long(1));
        assert!(matches!(
            missing.columns(&schema),
            Err(crate::TableError::NoSuchColumn { .. })
        ));
        let text = compare("k", Comparison::Equal, Scalar::String("1".to_owned()));
        assert!(matches!(
            text.evaluate(&batch, &schema),
            Err(crate::TableError::TypeMismatch { .. })
        ));
        let both = Predicate::Or(vec![
            compare("f", Comparison::Less, Scalar::Double(1.0)),
            Predicate::IsNull("K".to_owned()),
        ]);
        let names: Vec<_> = both
            .columns(&schema)
            .unwrap()
            .fields
            .into_iter()
            .map(|field| field.name)
            .collect();
        assert_eq!(names, ["K", "f"]);
    }
}

#[test]
fn alternatives_added_one_by_one_stay_on_one_level() {
    let is = |value| Predicate::Compare {
        column: "id".to_owned(),
        op: Comparison::Equal,
        value: Scalar::Long(value),
    };
    assert_eq!(is(1).or(is(1)), is(1));
    assert_eq!(
        is(1).or(is(2)).or(is(2)).or(is(3)),
        Predicate::Or(vec![is(1), is(2), is(3)])
    );
    assert_eq!(
        Predicate::Or(Vec::new()).or(Predicate::Or(Vec::new())),
        Predicate::Or(Vec::new())
    );
    assert_eq!(Predicate::Or(Vec::new()).or(is(1)), is(1));
    // One level each would not fit the stack of a thread.
    let many = (0..200_000).map(is).reduce(Predicate::or).unwrap();
    let Predicate::Or(parts) = many.clone() else {
        panic!("{many:?}");
    };
    assert_eq!(parts.len(), 200_000);
}
