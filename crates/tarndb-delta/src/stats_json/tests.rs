//! Tests of statistics as JSON: bounds that never exclude a value.

use tarndb_table::{ColumnStats, DataType, Field, Scalar, Schema, Statistics, StatsNeeded};

use super::{loosened, write};

fn parse(text: &str, schema: &Schema) -> Option<Statistics> {
    super::parse(text, schema, StatsNeeded::All)
}

fn schema() -> Schema {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    Schema {
        fields: vec![
            field("i", DataType::Integer),
            field("f", DataType::Double),
            field(
                "d",
                DataType::Decimal {
                    precision: 38,
                    scale: 2,
                },
            ),
            field("s", DataType::String),
            field("day", DataType::Date),
            field("t", DataType::Timestamp),
            field("n", DataType::TimestampNtz),
            field("b", DataType::Boolean),
            field("st", DataType::Struct(vec![field("x\"y", DataType::Long)])),
        ],
    }
}

fn column(min: Scalar, max: Scalar) -> ColumnStats {
    ColumnStats {
        min: Some(min),
        max: Some(max),
        null_count: Some(1),
    }
}

fn sample() -> Statistics {
    let long = |value| Scalar::Long(value);
    let columns = [
        (vec!["i"], column(long(-1), long(5))),
        (
            vec!["f"],
            column(Scalar::Double(-0.5), Scalar::Double(1e300)),
        ),
        (
            vec!["d"],
            column(
                Scalar::Decimal(-5, 2),
                Scalar::Decimal(10_i128.pow(37) + 1, 2),
            ),
        ),
        (
            vec!["s"],
            column(
                Scalar::String("a\n".into()),
                Scalar::String("\u{fc}".into()),
            ),
        ),
        (vec!["day"], column(Scalar::Date(-1), Scalar::Date(19_000))),
        (
            vec!["t"],
            column(
                Scalar::TimestampMicros(-1_000),
                Scalar::TimestampMicros(5_000),
            ),
        ),
        (
            vec!["n"],
            column(Scalar::TimestampMicros(0), Scalar::TimestampMicros(1_000)),
        ),
        (
            vec!["b"],
            ColumnStats {
                min: None,
                max: None,
                null_count: Some(3),
            },
        ),
        (vec!["st", "x\"y"], column(long(1), long(i64::MAX))),
    ];
    Statistics {
        num_records: Some(10),
        columns: columns
            .into_iter()
            .map(|(path, stats)| (path.into_iter().map(str::to_owned).collect(), stats))
            .collect(),
        tight_bounds: true,
    }
}

#[test]
fn statistics_round_trip() {
    let text = write(&sample(), &schema());
    assert_eq!(parse(&text, &schema()).unwrap(), sample(), "{text}");
    assert!(
        text.starts_with(r#"{"numRecords":10,"minValues":{"i":-1,"f":-0.5,"d":-0.05,"#),
        "{text}"
    );
    assert!(
        text.contains(r#""d":100000000000000000000000000000000000.01"#),
        "{text}"
    );
    assert!(
        text.contains(r#""t":"1970-01-01T00:00:00.005Z","n":"1970-01-01T00:00:00.001""#),
        "{text}"
    );
}

#[test]
fn timestamps_are_cut_outwards() {
    let mut stats = sample();
    let micros = |value| Some(Scalar::TimestampMicros(value));
    stats.columns.insert(
        vec!["t".to_owned()],
        ColumnStats {
            min: micros(-1),
            max: micros(1),
            null_count: None,
        },
    );
    let parsed = parse(&write(&stats, &schema()), &schema()).unwrap();
    let t = &parsed.columns[&vec!["t".to_owned()]];
    assert_eq!(
        (t.min.clone(), t.max.clone()),
        (micros(-1000), micros(1000))
    );
}

#[test]
fn malformed_cells_are_absent_and_the_rest_is_kept() {
    let text = r#"{"numRecords":3,"minValues":{"i":"x","f":"NaN","s":1,"day":null,"st":null,"t":"2020-01-01T00:00:00.000-08:00"},
        "maxValues":[],"nullCount":{"i":-1,"s":2,"st":{"x\"y":"?"}},"unknown":{}}"#;
    let stats = parse(text, &schema()).unwrap();
    assert_eq!(stats.num_records, Some(3));
    assert!(stats.tight_bounds);
    let names: Vec<_> = stats.columns.keys().flatten().cloned().collect();
    assert_eq!(names, ["s", "t"]);
    let t = &stats.columns[&vec!["t".to_owned()]];
    assert_eq!(t.min, Some(Scalar::TimestampMicros(1_577_865_600_000_000)));
    assert_eq!(parse("[1]", &schema()), None);
    assert_eq!(parse("{", &schema()), None);
}

#[test]
fn maximum_of_32_characters_may_have_been_cut() {
    let prefix = "a".repeat(32);
    let text = format!(r#"{{"numRecords":1,"maxValues":{{"s":"{prefix}"}}}}"#);
    let stats = parse(&text, &schema()).unwrap();
    let max = stats.columns[&vec!["s".to_owned()]].max.clone().unwrap();
    assert!(max > Scalar::String(format!("{prefix}zzzz")));
}

#[test]
fn loosening_keeps_every_digit() {
    let text =
        r#"{"numRecords":10,"minValues":{"d":12345678901234567890.10},"tightBounds":true,"x":[1]}"#;
    assert_eq!(
        loosened(text).unwrap(),
        r#"{"numRecords":10,"minValues":{"d":12345678901234567890.10},"x":[1],"tightBounds":false}"#
    );
    assert_eq!(loosened(r#"{"minValues":{}}"#), None);
}

/// All statistics but those of other columns.
fn only(mut stats: Statistics, names: &[String]) -> Statistics {
    stats.columns.retain(|path, _| names.contains(&path[0]));
    stats
}

#[test]
fn statistics_of_some_columns_are_those_of_all_cut_to_them() {
    let texts = [
        write(&sample(), &schema()),
        // Members twice, out of order, escaped, of wrong types, unknown ones between.
        r#"{"maxValues":{"x":{"i":9},"s":"b","i":7},"nullCount":{"i":1,"i":2,"st":[]},
            "numRecords":4,"minValues":{"\u0069":3,"f":{},"st":{"x\"y":1,"z":2}},"tightBounds":false,
            "minValues":{"s":"a","\u0069":5,"st":{"x\"y":-1}}}"#
            .to_owned(),
        r#"{"numRecords":1,"minValues":{"i":1},"minValues":[],"nullCount":null}"#.to_owned(),
        r#"{"numRecords":1,"minValues":{"i":1,"s":"#.to_owned(),
        r#"{"numRecords":1} x"#.to_owned(),
        "[]".to_owned(),
    ];
    let choices: [&[&str]; 5] = [&[], &["i"], &["st"], &["s", "i"], &["none", "f"]];
    for text in &texts {
        let all = parse(text, &schema());
        for names in choices {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let some = super::parse(text, &schema(), StatsNeeded::Columns(&names));
            let expected = all.clone().map(|stats| only(stats, &names));
            assert_eq!(some, expected, "{names:?} of {text}");
        }
    }
    let second = parse(&texts[1], &schema()).unwrap();
    let i = &second.columns[&vec!["i".to_owned()]];
    assert_eq!(i.min, Some(Scalar::Long(5)));
    assert_eq!(
        (i.max.clone(), i.null_count),
        (Some(Scalar::Long(7)), Some(2))
    );
    assert!(!second.tight_bounds);
}
