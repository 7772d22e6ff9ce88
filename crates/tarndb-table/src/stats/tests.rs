//! Tests of statistics.

use std::sync::Arc;

use ::arrow::buffer::NullBuffer;
use arrow_array::*;
use arrow_schema::{DataType as A, Field as AF};
use proptest::prelude::*;

use super::Scalar;
use super::*;
use crate::schema::{DataType, Field, Schema};

fn collect(data_type: DataType, arrays: Vec<ArrayRef>) -> ColumnStats {
    let schema = Schema::new(vec![Field::new("c", data_type, true)]);
    let mut collector = StatsCollector::new(&schema, &32.into());
    for array in arrays {
        collector.update(&RecordBatch::try_new(schema.to_arrow(), vec![array]).unwrap());
    }
    collector
        .finish()
        .columns
        .remove(&vec!["c".to_owned()])
        .unwrap()
}

fn doubles(values: &[f64]) -> ColumnStats {
    collect(
        DataType::Double,
        vec![Arc::new(Float64Array::from(values.to_vec()))],
    )
}

#[test]
fn bounds_and_nulls_add_up_over_batches() {
    let stats = collect(
        DataType::Long,
        vec![
            Arc::new(Int64Array::from(vec![Some(5), None])),
            Arc::new(Int64Array::from(vec![None::<i64>])),
            Arc::new(Int64Array::from(vec![-3, 4])),
        ],
    );
    assert_eq!(stats.min, Some(Scalar::Long(-3)));
    assert_eq!(stats.max, Some(Scalar::Long(5)));
    assert_eq!(stats.null_count, Some(2));
}

#[test]
fn an_all_null_column_has_no_bounds() {
    let stats = collect(
        DataType::Byte,
        vec![Arc::new(Int8Array::from(vec![None; 3]))],
    );
    assert_eq!(
        stats,
        ColumnStats {
            min: None,
            max: None,
            null_count: Some(3)
        }
    );
}

#[test]
fn nan_takes_the_bounds_away_and_infinity_its_own() {
    assert_eq!(doubles(&[1.0, f64::NAN]).min, None);
    assert_eq!(doubles(&[1.0, f64::NAN]).max, None);
    let infinite = doubles(&[1.0, f64::INFINITY]);
    assert_eq!(
        (infinite.min, infinite.max),
        (Some(Scalar::Double(1.0)), None)
    );
}

#[test]
fn nan_under_a_null_does_not_count() {
    let array = Float64Array::new(
        vec![f64::NAN, 1.0].into(),
        Some(NullBuffer::from(vec![false, true])),
    );
    assert_eq!(
        collect(DataType::Double, vec![Arc::new(array)]).max,
        Some(Scalar::Double(1.0))
    );
}

#[test]
fn negative_zero_is_below_zero() {
    let stats = doubles(&[0.0, -0.0]);
    assert_eq!(
        format!("{:?} {:?}", stats.min, stats.max),
        "Some(Double(-0.0)) Some(Double(0.0))"
    );
}

#[test]
fn booleans_binaries_and_lists_have_null_counts_only() {
    let boolean = collect(
        DataType::Boolean,
        vec![Arc::new(BooleanArray::from(vec![Some(true), None]))],
    );
    assert_eq!(
        boolean,
        ColumnStats {
            min: None,
            max: None,
            null_count: Some(1)
        }
    );
    let binary = collect(
        DataType::Binary,
        vec![Arc::new(BinaryArray::from(vec![&b"a"[..]]))],
    );
    assert_eq!(
        binary,
        ColumnStats {
            min: None,
            max: None,
            null_count: Some(0)
        }
    );
}

#[test]
fn null_parents_make_nested_leaves_null() {
    let inner = Int64Array::from(vec![Some(1), Some(100), None]);
    let array = StructArray::new(
        vec![AF::new("a", A::Int64, true)].into(),
        vec![Arc::new(inner)],
        Some(NullBuffer::from(vec![true, false, true])),
    );
    let data_type = DataType::Struct(vec![Field::new("a", DataType::Long, true)]);
    let schema = Schema::new(vec![Field::new("s", data_type, true)]);
    let mut collector = StatsCollector::new(&schema, &32.into());
    collector.update(&RecordBatch::try_new(schema.to_arrow(), vec![Arc::new(array)]).unwrap());
    let stats = collector.finish();
    assert_eq!(stats.num_records, Some(3));
    let leaf = &stats.columns[&vec!["s".to_owned(), "a".to_owned()]];
    assert_eq!(
        (&leaf.max, leaf.null_count),
        (&Some(Scalar::Long(1)), Some(2))
    );
}

#[test]
fn only_the_first_leaves_are_indexed() {
    let fields = (0..40)
        .map(|i| Field::new(format!("c{i}"), DataType::Long, true))
        .collect();
    let stats = StatsCollector::new(&Schema::new(fields), &32.into()).finish();
    assert_eq!(stats.columns.len(), 32);
    assert!(stats.columns.contains_key(&vec!["c31".to_owned()]));
}

#[test]
fn long_strings_are_cut_to_bounds() {
    let long = "a".repeat(40);
    assert_eq!(truncated_min(&long), "a".repeat(32));
    assert_eq!(
        truncated_max(&long).unwrap(),
        format!("{}\u{7F}", "a".repeat(32))
    );
    let wide = "\u{e9}".repeat(40);
    assert_eq!(
        truncated_max(&wide).unwrap(),
        format!("{}\u{10FFFF}", "\u{e9}".repeat(32))
    );
    assert_eq!(truncated_max(&"a".repeat(32)).unwrap(), "a".repeat(32));
    let extended = format!("{}{}b", "a".repeat(32), "\u{10FFFF}".repeat(3));
    let expected = format!("{}{}\u{7F}", "a".repeat(32), "\u{10FFFF}".repeat(3));
    assert_eq!(truncated_max(&extended).unwrap(), expected);
    assert_eq!(truncated_max(&"\u{10FFFF}".repeat(100)), None);
}

#[test]
fn timestamp_maxima_are_widened_for_pruning() {
    let array = TimestampMicrosecondArray::from(vec![1_500]).with_timezone("UTC");
    let stats = collect(DataType::Timestamp, vec![Arc::new(array)]);
    assert_eq!(stats.max, Some(Scalar::TimestampMicros(1_500)));
    assert_eq!(stats.upper_bound(), Some(Scalar::TimestampMicros(2_499)));
}

#[test]
fn scalars_order_within_a_kind_only() {
    assert!(Scalar::Decimal(15, 1) < Scalar::Decimal(151, 2));
    assert!(Scalar::String("\u{FFFF}".into()) < Scalar::String("\u{10000}".into()));
    assert_eq!(Scalar::Long(1).partial_cmp(&Scalar::Double(2.0)), None);
    assert_eq!(
        Scalar::Decimal(i128::MAX, 0).partial_cmp(&Scalar::Decimal(1, 38)),
        None
    );
}

proptest! {
    #[test]
    fn string_bounds_enclose_every_value(texts in prop::collection::vec("[a-c\u{e9}\u{10FFFF}\u{7F}]{0,70}", 1..8)) {
        let array = StringArray::from(texts.clone());
        let stats = collect(DataType::String, vec![Arc::new(array)]);
        for text in &texts {
            let text = Scalar::String(text.clone());
            prop_assert!(stats.min.as_ref().is_none_or(|min| *min <= text));
            prop_assert!(stats.max.as_ref().is_none_or(|max| *max >= text));
        }
    }

    #[test]
    fn truncated_maxima_are_upper_bounds(text in ".{0,80}") {
        prop_assert!(truncated_min(&text) <= text.as_str());
        if let Some(max) = truncated_max(&text) {
            prop_assert!(max.as_str() >= text.as_str());
            prop_assert!(max.chars().count() <= 65);
        }
    }
}
