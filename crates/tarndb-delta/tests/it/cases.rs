//! Cases that other implementations got wrong: BC-16, BC-17, BC-19, BC-20, BC-22.
//!
//! Each table is written by the table writer, committed by the codec, loaded again from its
//! published log (with and without a checkpoint), and read with pruning on and off.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use futures::TryStreamExt;
use percent_encoding::percent_decode_str;
use tarndb_table::{
    Comparison, DataType, Field, Predicate, Scalar, TableCodec as _, TableState, TableWriter,
    WriteOptions, conform_batch, may_match, parse_partition_value, read_file,
};

use crate::support::{Table, Work};

/// Commits one file per batch, publishes, and loads the table anew; with a checkpoint too.
async fn stored(
    fields: Vec<Field>,
    partition_columns: &[&str],
    batches: Vec<RecordBatch>,
) -> (Table, Vec<TableState>) {
    let mut table = Table::create_with(fields, partition_columns);
    for batch in batches {
        let mut writer = TableWriter::new(
            table.store.clone(),
            table.location.clone(),
            Arc::clone(&table.state().schema),
            table.state().partition_columns.clone(),
            WriteOptions::default(),
        );
        let conformed = conform_batch(&batch, &table.state().schema).unwrap();
        writer.write(&conformed).await.unwrap();
        let adds = writer.finish().await.unwrap().files;
        table.commit(Work {
            operation: "WRITE",
            adds,
            ..Work::default()
        });
    }
    let last = table.entries.len() as u64 - 1;
    table.publish(last).await;
    let replayed = table.load(last, Some(last), &[]).await.unwrap();
    let (store, location) = (&table.store, &table.location);
    table
        .codec
        .checkpoint(store, location, &replayed)
        .await
        .unwrap();
    let from_checkpoint = table.load(last, Some(last), &[]).await.unwrap();
    (table, vec![replayed, from_checkpoint])
}

/// Rows for which the predicate is true, over all files and over those that may match.
async fn counts(table: &Table, state: &TableState, predicate: &Predicate) -> (u64, u64) {
    let (mut all, mut kept) = (0, 0);
    for file in state.files.values() {
        let columns = &state.partition_columns;
        let (store, location) = (&table.store, &table.location);
        let rows = read_file(store, location, &file, &state.schema, columns, None).await;
        let batches: Vec<RecordBatch> = rows.unwrap().try_collect().await.unwrap();
        let count = |batch: &RecordBatch| {
            let matches = predicate.evaluate(batch, &state.schema).unwrap();
            matches.true_count() as u64
        };
        let rows: u64 = batches.iter().map(count).sum();
        all += rows;
        if may_match(predicate, &file, &state.schema, columns) {
            kept += rows;
        }
    }
    (all, kept)
}

fn compare(column: &str, op: Comparison, value: &Scalar) -> Predicate {
    Predicate::Compare {
        column: column.to_owned(),
        op,
        value: value.clone(),
    }
}

/// Every comparison of a column with each value, NULL tests, and pairs of values.
fn predicates(column: &str, values: &[Scalar]) -> Vec<Predicate> {
    let ops = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];
    let each = values
        .iter()
        .flat_map(|value| ops.map(|op| compare(column, op, value)));
    let pairs = values.windows(2).map(|pair| {
        let parts = pair
            .iter()
            .map(|value| compare(column, Comparison::Equal, value));
        Predicate::Or(parts.collect())
    });
    let nulls = [
        Predicate::IsNull(column.to_owned()),
        Predicate::IsNotNull(column.to_owned()),
    ];
    each.chain(pairs).chain(nulls).collect()
}

async fn pruning_is_safe(table: &Table, states: &[TableState], column: &str, values: &[Scalar]) {
    for predicate in predicates(column, values) {
        for (at, state) in states.iter().enumerate() {
            let (all, kept) = counts(table, state, &predicate).await;
            assert_eq!(all, kept, "{predicate:?} checkpoint={at}");
        }
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}

#[tokio::test]
async fn bc_16_decimal_partition_values_are_written_exactly_and_read_in_any_spelling() {
    let decimal = DataType::Decimal {
        precision: 10,
        scale: 2,
    };
    let fields = vec![
        Field::new("id", DataType::Integer, true),
        Field::new("p", decimal.clone(), true),
    ];
    let values = [150, 0, -5, 9_999_999_999];
    let array = Decimal128Array::from(values.to_vec())
        .with_precision_and_scale(10, 2)
        .unwrap();
    let rows = batch(vec![
        ("id", Arc::new(Int32Array::from(vec![1, 2, 3, 4]))),
        ("p", Arc::new(array)),
    ]);
    let (table, states) = stored(fields, &["p"], vec![rows]).await;
    let mut texts: Vec<_> = states[1]
        .files
        .values()
        .map(|file| file.partition_values["p"].clone().unwrap())
        .collect();
    texts.sort();
    assert_eq!(texts, ["-0.05", "0.00", "1.50", "99999999.99"]);
    let scalars = values.map(|value| Scalar::Decimal(value, 2));
    pruning_is_safe(&table, &states, "p", &scalars).await;
    let (all, _) = counts(
        &table,
        &states[0],
        &compare("p", Comparison::Equal, &Scalar::Decimal(15, 1)),
    )
    .await;
    assert_eq!(all, 1, "1.5 is 1.50");

    for (text, value) in [
        ("1.5", 150),
        ("1.50", 150),
        ("1.500", 150),
        ("0E-10", 0),
        ("-5E-2", -5),
    ] {
        let read = parse_partition_value(Some(text), &decimal).unwrap();
        assert_eq!(read, Some(Scalar::Decimal(value, 2)), "{text}");
    }
    for text in ["1.501", "100000000.00", "x"] {
        let error = parse_partition_value(Some(text), &decimal).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn bc_17_any_text_is_a_partition_value_and_is_encoded_once_in_paths() {
    let mut texts: Vec<String> = (1..=255_u8)
        .map(|c| format!("x{}y", char::from(c)))
        .collect();
    let special = [".", "..", "/a/", "a%2Fb", " ", "\u{1F600}"];
    texts.extend(special.map(str::to_owned));
    texts.push("l".repeat(300));
    let fields = vec![
        Field::new("id", DataType::Integer, true),
        Field::new("p", DataType::String, true),
    ];
    let mut values: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
    values.push(None);
    let ids = Int32Array::from_iter_values(0..i32::try_from(values.len()).unwrap());
    let rows = batch(vec![
        ("id", Arc::new(ids)),
        ("p", Arc::new(StringArray::from(values.clone()))),
    ]);
    let (table, states) = stored(fields, &["p"], vec![rows]).await;
    for state in &states {
        assert_eq!(state.files.len(), values.len());
        let mut read = Vec::new();
        for file in state.files.values() {
            let decoded = percent_decode_str(&file.raw_path).decode_utf8().unwrap();
            assert_eq!(decoded, file.path);
            read.push(file.partition_values["p"].clone());
        }
        let mut wanted: Vec<_> = values.iter().map(|v| v.map(str::to_owned)).collect();
        wanted.sort();
        read.sort();
        assert_eq!(read, wanted);
    }
    for text in ["a%2Fb", "..", "x%y", "x/y"] {
        let predicate = compare("p", Comparison::Equal, &Scalar::String(text.to_owned()));
        for state in &states {
            assert_eq!(counts(&table, state, &predicate).await, (1, 1), "{text}");
        }
    }
}

#[tokio::test]
async fn bc_19_filters_on_a_not_null_partition_column_keep_rows_with_a_checkpoint() {
    let fields = vec![
        Field::new("n", DataType::Long, true),
        Field::new("region", DataType::String, false),
    ];
    let rows = |region: &str, n: i64| {
        batch(vec![
            ("n", Arc::new(Int64Array::from(vec![n]))),
            ("region", Arc::new(StringArray::from(vec![region]))),
        ])
    };
    let mut batches: Vec<_> = (0..40).map(|n| rows("eu", n)).collect();
    batches.extend([rows("us", 1), rows("asia", 2)]);
    let (table, states) = stored(fields, &["region"], batches).await;
    let values = ["eu", "us", "asia", "none"].map(|text| Scalar::String(text.to_owned()));
    pruning_is_safe(&table, &states, "region", &values).await;
    for state in &states {
        let not_eu = compare("region", Comparison::NotEqual, &values[0]);
        assert_eq!(counts(&table, state, &not_eu).await, (2, 2));
        let eu = compare("region", Comparison::Equal, &values[0]);
        assert_eq!(counts(&table, state, &eu).await, (40, 40));
    }
}

#[tokio::test]
async fn bc_20_times_before_1970_are_found_by_every_comparison() {
    const DAY: i64 = 86_400_000_000;
    // 1969-12-31 23:59:59.999999, 1970-01-01, 1901-12-13, 0001-01-01, 9999-12-31 23:59:59.999999
    let times = [
        -1,
        0,
        -24_855 * DAY - 11,
        -719_162 * DAY,
        2_932_897 * DAY - 1,
    ];
    let days = [-1, 0, -24_856, -719_162, 2_932_896];
    let fields = vec![
        Field::new("at", DataType::Timestamp, true),
        Field::new("ntz", DataType::TimestampNtz, true),
        Field::new("day", DataType::Date, true),
        Field::new("p", DataType::Date, true),
    ];
    let batches = times.iter().zip(days).map(|(time, day)| {
        let zoned = TimestampMicrosecondArray::from(vec![*time]).with_timezone("UTC");
        batch(vec![
            ("at", Arc::new(zoned)),
            (
                "ntz",
                Arc::new(TimestampMicrosecondArray::from(vec![*time])),
            ),
            ("day", Arc::new(Date32Array::from(vec![day]))),
            ("p", Arc::new(Date32Array::from(vec![day]))),
        ])
    });
    let (table, states) = stored(fields, &["p"], batches.collect()).await;
    let near = |time: i64| [time - 1000, time - 1, time, time + 1, time + 999];
    let instants: Vec<_> = times.iter().flat_map(|time| near(*time)).collect();
    let instants: Vec<_> = instants.into_iter().map(Scalar::TimestampMicros).collect();
    for column in ["at", "ntz"] {
        pruning_is_safe(&table, &states, column, &instants).await;
    }
    let dates = days.map(Scalar::Date);
    for column in ["day", "p"] {
        pruning_is_safe(&table, &states, column, &dates).await;
        for date in &dates {
            let equal = compare(column, Comparison::Equal, date);
            let found = counts(&table, &states[1], &equal).await;
            assert_eq!(found, (1, 1), "{column} {date:?}");
        }
    }
    for file in states[0].files.values() {
        let stats = file.stats.as_ref().unwrap();
        for column in stats.columns.values() {
            if let (Some(min), Some(max)) = (&column.min, column.upper_bound()) {
                assert!(*min <= max, "{column:?}");
            }
        }
    }
}

#[tokio::test]
async fn bc_22_nan_infinity_and_zeros_are_found_by_every_comparison() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let files = [
        vec![Some(1.0), Some(nan)],
        vec![Some(nan)],
        vec![Some(inf), Some(-inf)],
        vec![Some(-0.0), Some(0.0)],
        vec![None, Some(nan)],
        vec![Some(2.0)],
    ];
    let fields = vec![
        Field::new("x", DataType::Double, true),
        Field::new("f", DataType::Float, true),
    ];
    let batches = files.iter().map(|values| {
        let floats = values.iter().map(|value| value.map(|value| value as f32));
        batch(vec![
            ("x", Arc::new(Float64Array::from(values.clone()))),
            ("f", Arc::new(floats.collect::<Float32Array>())),
        ])
    });
    let (table, states) = stored(fields, &[], batches.collect()).await;
    let values = [2.0, 1.0, 0.0, -0.0, inf, -inf, nan, 3.4].map(Scalar::Double);
    for column in ["x", "f"] {
        pruning_is_safe(&table, &states, column, &values).await;
    }
    for file in states[0].files.values() {
        let text = file.raw_stats.as_ref().unwrap();
        serde_json::from_str::<serde_json::Value>(text).unwrap();
    }
    let greater = compare("x", Comparison::Greater, &Scalar::Double(2.0));
    let found = counts(&table, &states[1], &greater).await;
    assert_eq!(
        found,
        (4, 4),
        "three NaN and an infinity are greater than 2"
    );
}
