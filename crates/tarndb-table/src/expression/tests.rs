//! Expressions against the values that Spark gives them (ANSI off, zone UTC).

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int8Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
};

use super::*;
use crate::schema::Field;

/// 2024-02-29 13:07:45.123456
const NOW: i64 = 1_709_212_065_123_456;

fn schema() -> Schema {
    let decimal = |precision, scale| DataType::Decimal { precision, scale };
    let nested = DataType::Struct(vec![Field::new("b", DataType::Integer, true)]);
    Schema::new(vec![
        Field::new("i", DataType::Integer, true),
        Field::new("big", DataType::Long, true),
        Field::new("tiny", DataType::Byte, true),
        Field::new("d", DataType::Double, true),
        Field::new("m", decimal(10, 2), true),
        Field::new("s", DataType::String, true),
        Field::new("day", DataType::Date, true),
        Field::new("ts", DataType::Timestamp, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("a", nested, true),
        Field::new("createdAt", DataType::Integer, true),
        Field::new("end date", DataType::Integer, true),
    ])
}

/// Row 0: i=7 big=2^40 tiny=127 d=2.5 m=12.34 s='Straw berry' day=1969-12-31
/// ts=1969-12-31 23:59:59.999999 flag=true a.b=5; row 1: all NULL.
fn batch() -> RecordBatch {
    let schema = schema();
    let inner = Arc::new(arrow_schema::Field::new(
        "b",
        arrow_schema::DataType::Int32,
        true,
    ));
    // Below the struct that is NULL lies a value that must not be seen.
    let b: ArrayRef = Arc::new(Int32Array::from(vec![Some(5), Some(99)]));
    let nulls = arrow::buffer::NullBuffer::from(vec![true, false]);
    let money = Decimal128Array::from(vec![Some(1234), None]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(7), None])),
        Arc::new(Int64Array::from(vec![Some(1 << 40), None])),
        Arc::new(Int8Array::from(vec![Some(127), None])),
        Arc::new(Float64Array::from(vec![Some(2.5), None])),
        Arc::new(money.with_precision_and_scale(10, 2).unwrap()),
        Arc::new(StringArray::from(vec![Some("Straw berry"), None])),
        Arc::new(Date32Array::from(vec![Some(-1), None])),
        Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None]).with_timezone("UTC")),
        Arc::new(BooleanArray::from(vec![Some(true), None])),
        Arc::new(StructArray::new(vec![inner].into(), vec![b], Some(nulls))),
        Arc::new(Int32Array::from(vec![Some(1), None])),
        Arc::new(Int32Array::from(vec![Some(2), None])),
    ];
    RecordBatch::try_new(schema.to_arrow(), columns).unwrap()
}

fn shown(array: &ArrayRef, row: usize) -> String {
    use arrow_array::Array as _;
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    arrow::util::display::array_value_to_string(array, row).unwrap()
}

/// The values in the row of values and in the row of NULLs.
#[track_caller]
fn check(text: &str, value: &str, of_nulls: &str) {
    let expression = Expression::parse(text, &schema()).unwrap();
    let values = expression.evaluate(&batch(), NOW).unwrap();
    let expected = expression.data_type().to_arrow();
    assert_eq!(*values.data_type(), expected, "{text}");
    assert_eq!(
        [shown(&values, 0), shown(&values, 1)],
        [value.to_owned(), of_nulls.to_owned()],
        "{text}"
    );
}

#[track_caller]
fn same(cases: &[(&str, &str, &str)]) {
    for (text, value, of_nulls) in cases {
        check(text, value, of_nulls);
    }
}

#[test]
fn columns_are_found_nested_quoted_and_in_any_case() {
    same(&[
        ("I", "7", "NULL"),
        ("a.b", "5", "NULL"),
        ("A.`B` + 1", "6", "NULL"),
        ("CREATEDAT", "1", "NULL"),
        ("`end date`", "2", "NULL"),
    ]);
}

#[test]
fn logic_has_three_values() {
    same(&[
        ("i > 5 AND flag", "true", "NULL"),
        ("i > 5 OR true", "true", "true"),
        ("i > 100 AND NULL", "false", "NULL"),
        ("NOT (i = 3)", "true", "NULL"),
        ("i NOT IN (3)", "true", "NULL"),
        ("i IN (3, NULL)", "NULL", "NULL"),
        ("i IN (7, NULL)", "true", "NULL"),
        ("i <=> NULL", "false", "true"),
        ("i <=> 7", "true", "false"),
        ("i IS NULL", "false", "true"),
        ("flag IS TRUE", "true", "false"),
        ("flag IS NOT TRUE", "false", "true"),
        ("flag IS FALSE", "false", "false"),
        ("i BETWEEN 7 AND 9", "true", "NULL"),
        ("i NOT BETWEEN 7 AND 9", "false", "NULL"),
        ("!flag", "false", "NULL"),
    ]);
}

#[test]
fn numbers_widen_wrap_and_divide_as_in_spark() {
    same(&[
        ("i / 2", "3.5", "NULL"),
        ("i / 0", "NULL", "NULL"),
        ("i % 0", "NULL", "NULL"),
        ("-i % 4", "-3", "NULL"),
        ("d % 0.0", "NULL", "NULL"),
        ("2147483647 + i", "-2147483642", "NULL"),
        ("tiny + tiny", "-2", "NULL"),
        ("tiny + 1", "128", "NULL"),
        ("2147483648 + i", "2147483655", "NULL"),
        ("-9223372036854775808 - big > 0", "true", "NULL"),
        ("i + 0.5", "7.5", "NULL"),
        ("m * 3", "37.02", "NULL"),
        ("m - 0.345", "11.995", "NULL"),
        ("m = 12.340", "true", "NULL"),
        ("m > 12", "true", "NULL"),
        ("m < d", "false", "NULL"),
        ("i < 7.5", "true", "NULL"),
        ("d + i", "9.5", "NULL"),
        ("1e2 > big", "false", "NULL"),
        ("CAST('NaN' AS DOUBLE) > 1e300", "true", "true"),
        (
            "CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)",
            "true",
            "true",
        ),
        ("-0e0 = 0e0", "true", "true"),
        ("abs(-i)", "7", "NULL"),
        ("ceil(d)", "3", "NULL"),
        ("floor(-d)", "-3", "NULL"),
        ("ceil(m)", "13", "NULL"),
        ("floor(0 - m)", "-13", "NULL"),
        ("round(d)", "3.0", "NULL"),
        ("round(m, 1)", "12.3", "NULL"),
        ("round(0 - m * 10, 0)", "-123", "NULL"),
        ("round(2.675e0, 2)", "2.68", "2.68"),
    ]);
}

#[test]
fn casts_are_those_of_spark_without_ansi() {
    same(&[
        ("CAST(big AS INT)", "0", "NULL"),
        ("CAST(300 AS TINYINT)", "44", "44"),
        ("CAST(d AS INT)", "2", "NULL"),
        ("CAST(1e300 AS INT)", "2147483647", "2147483647"),
        ("CAST(CAST('NaN' AS DOUBLE) AS BIGINT)", "0", "0"),
        ("CAST(' 12 ' AS INT)", "12", "12"),
        ("CAST('1.9' AS INT)", "1", "1"),
        ("CAST('x' AS INT)", "NULL", "NULL"),
        ("CAST('3000000000' AS INT)", "NULL", "NULL"),
        ("CAST('1.005' AS DECIMAL(10,2))", "1.01", "1.01"),
        ("CAST(d AS DECIMAL(3,0))", "3", "NULL"),
        ("CAST(12345 AS DECIMAL(4,1))", "NULL", "NULL"),
        ("CAST(m AS INT)", "12", "NULL"),
        ("CAST(m AS STRING)", "12.34", "NULL"),
        ("CAST(flag AS INT)", "1", "NULL"),
        ("CAST('yes' AS BOOLEAN)", "true", "true"),
        ("CAST(ts AS DATE)", "1969-12-31", "NULL"),
        ("CAST(ts AS BIGINT)", "-1", "NULL"),
        ("CAST(ts AS STRING)", "1969-12-31 23:59:59.999999", "NULL"),
        ("CAST(day AS STRING)", "1969-12-31", "NULL"),
        ("CAST('2024-2-9' AS DATE)", "2024-02-09", "2024-02-09"),
        ("CAST('2024-02-30' AS DATE)", "NULL", "NULL"),
        ("i::string", "7", "NULL"),
    ]);
}

#[test]
fn dates_before_1970_are_in_the_right_day() {
    same(&[
        ("year(ts)", "1969", "NULL"),
        ("quarter(ts)", "4", "NULL"),
        ("month(day)", "12", "NULL"),
        ("dayofmonth(day)", "31", "NULL"),
        ("hour(ts)", "23", "NULL"),
        ("minute(ts)", "59", "NULL"),
        ("second(ts)", "59", "NULL"),
        ("dayofweek(day)", "4", "NULL"),
        ("dayofyear(ts)", "365", "NULL"),
        ("EXTRACT(YEAR FROM ts)", "1969", "NULL"),
        ("date_trunc('HOUR', ts)", "1969-12-31T23:00:00Z", "NULL"),
        ("date_trunc('week', ts)", "1969-12-29T00:00:00Z", "NULL"),
        ("trunc(day, 'MM')", "1969-12-01", "NULL"),
        ("trunc(ts, 'quarter')", "1969-10-01", "NULL"),
        ("to_date(ts)", "1969-12-31", "NULL"),
        ("date_format(ts, 'yyyy-MM')", "1969-12", "NULL"),
        (
            "date_format(ts, 'dd/MM/yyyy HH:mm:ss')",
            "31/12/1969 23:59:59",
            "NULL",
        ),
        ("day >= '1969-12-31'", "true", "NULL"),
        ("ts < '1970-01-01'", "true", "NULL"),
        ("ts < TIMESTAMP '1970-01-01 00:00:00'", "true", "NULL"),
        ("TIMESTAMP '1970-01-01T01:00:00+01:00' > ts", "true", "NULL"),
        ("day < ts", "true", "NULL"),
        ("day = DATE '1969-12-31'", "true", "NULL"),
        ("year(current_timestamp())", "2024", "2024"),
        ("current_date", "2024-02-29", "2024-02-29"),
        ("year('2021-05-01')", "2021", "2021"),
    ]);
}

#[test]
fn texts_and_choices() {
    same(&[
        ("s LIKE 'Str%'", "true", "NULL"),
        ("s NOT LIKE '_raw%'", "true", "NULL"),
        (r"s LIKE '%\_%'", "false", "NULL"),
        ("upper(s)", "STRAW BERRY", "NULL"),
        ("length(trim('  x '))", "1", "1"),
        ("substring(s, 1, 5)", "Straw", "NULL"),
        ("substr(s, -5)", "berry", "NULL"),
        ("substring(s, 0, 2)", "St", "NULL"),
        ("substring(s FROM 7 FOR 2)", "be", "NULL"),
        ("concat(s, '-', i)", "Straw berry-7", "NULL"),
        ("s || '!'", "Straw berry!", "NULL"),
        ("coalesce(i, 0) + 1", "8", "1"),
        ("nvl(s, 'none')", "Straw berry", "none"),
        (
            "CASE WHEN i > 5 THEN 'big' ELSE 'small' END",
            "big",
            "small",
        ),
        ("CASE i WHEN 7 THEN 1 WHEN 8 THEN 2 END", "1", "NULL"),
        ("s = \"Straw berry\"", "true", "NULL"),
    ]);
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = Expression::parse(text, &schema()).unwrap_err().to_string();
    assert!(error.contains(expected), "{text}: {error}");
}

#[test]
fn what_is_not_on_the_list_is_refused_by_name() {
    for (text, expected) in [
        ("rand() > 0.5", "the function rand()"),
        ("i IN (SELECT 1)", "a subquery"),
        ("s RLIKE 'x'", "RLIKE"),
        ("ts + INTERVAL 1 DAY > ts", "interval"),
        ("s > 3", "string is compared with integer"),
        ("\"i\" > 3", "in Spark \"..\" is text"),
        ("nope > 3", "column=nope"),
        ("a.c = 1", "column=a.c"),
        ("i", "a condition must be a BOOLEAN"),
        ("i > ", "not an expression"),
        ("i > 3 i", "ends before"),
        ("m / 2 > 1", "no division of decimals"),
        (r"s = 'a\nb'", "a backslash"),
        ("date_format(ts, 'MMM') = 'Dec'", "date_format()"),
        ("CAST(d AS STRING) = '1'", "a CAST of double to string"),
        ("count(*) > 1", "count()"),
        ("i DIV 2 = 3", "not an expression"),
        ("sum(i) OVER () > 1", "sum()"),
        ("day > 'x'", "is no date"),
        ("i AND flag", "where a condition must stand"),
    ] {
        let error = Expression::parse_condition(text, &schema());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn no_length_or_depth_exhausts_the_stack() {
    refused(&"x".repeat(TEXT_MAX + 1), "too long");
    refused(&vec!["1"; 2000].join("+"), "too long");
    refused(&vec!["1"; 400].join("+"), "nests too deeply");
    let brackets = format!("{}1{}", "(".repeat(400), ")".repeat(400));
    refused(&brackets, "not an expression");
    let nots = format!("{} true", "NOT ".repeat(900));
    refused(&nots, "");
    assert!(Expression::parse(&vec!["i > 1"; 100].join(" AND "), &schema()).is_ok());
}

#[test]
fn columns_used_are_told() {
    let expression = Expression::parse("a.b + i > coalesce(i, 1)", &schema()).unwrap();
    assert_eq!(expression.columns().into_iter().collect::<Vec<_>>(), [0, 9]);
    assert!(!expression.uses_clock());
    assert!(
        Expression::parse("now() > ts", &schema())
            .unwrap()
            .uses_clock()
    );
}

#[test]
fn a_value_becomes_its_column_s_type() {
    let value = Expression::parse_value("'2024-01-01'", &schema(), &DataType::Date).unwrap();
    assert_eq!(
        shown(&value.evaluate(&batch(), NOW).unwrap(), 0),
        "2024-01-01"
    );
    let value = Expression::parse_value("NULL", &schema(), &DataType::Long).unwrap();
    assert_eq!(shown(&value.evaluate(&batch(), NOW).unwrap(), 0), "NULL");
}
