//! Tests of the three output formats.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, NullArray, StringArray};
use expect_test::{Expect, expect};

use super::*;

fn sample() -> RecordBatch {
    RecordBatch::try_from_iter([
        (
            "n",
            Arc::new(Int64Array::from(vec![Some(1), None, Some(30_000)])) as ArrayRef,
        ),
        (
            "text",
            Arc::new(StringArray::from(vec![Some("NULL"), None, Some("")])),
        ),
        (
            "wide",
            Arc::new(StringArray::from(vec!["abc", "a,\"b\"", "two\nlines"])),
        ),
        ("x", Arc::new(Float64Array::from(vec![0.5, -1.0, 2.25]))),
        ("void", Arc::new(NullArray::new(3))),
    ])
    .unwrap()
}

#[track_caller]
fn check(format: Format, expected: &Expect) {
    let mut out = Vec::new();
    Renderer::new(&mut out, format, false)
        .batch(&sample())
        .unwrap();
    expected.assert_eq(&String::from_utf8(out).unwrap());
}

#[test]
fn table_aligns_and_shows_null_distinctly() {
    check(
        Format::Table,
        &expect![[r#"
             n | text   | wide       |    x | void
        -------+--------+------------+------+------
             1 | 'NULL' | abc        |  0.5 | NULL
          NULL | NULL   | a,"b"      | -1.0 | NULL
         30000 |        | two\nlines | 2.25 | NULL
        (3 rows)
    "#]],
    );
}

#[test]
fn columns_are_as_wide_as_their_characters_look() {
    let names = StringArray::from(vec!["\u{e9}t\u{e9}", "\u{6771}\u{4eac}", "x"]);
    let twos = Int64Array::from(vec![2, 2, 2]);
    let columns = [("name", Arc::new(names) as ArrayRef), ("n", Arc::new(twos))];
    let mut out = Vec::new();
    Renderer::new(&mut out, Format::Table, false)
        .batch(&RecordBatch::try_from_iter(columns).unwrap())
        .unwrap();
    let text = String::from_utf8(out).unwrap();
    let expected = [" \u{e9}t\u{e9}  | 2", " \u{6771}\u{4eac} | 2", " x    | 2"];
    assert!(
        expected
            .iter()
            .all(|line| text.lines().any(|other| other == *line)),
        "{text}"
    );
}

#[test]
fn csv_tells_null_from_empty_text() {
    check(
        Format::Csv,
        &expect![[r#"
        n,text,wide,x,void
        1,NULL,abc,0.5,
        ,,"a,""b""",-1.0,
        30000,"","two
        lines",2.25,
    "#]],
    );
}

#[test]
fn ndjson_writes_every_column_of_every_row() {
    check(
        Format::Ndjson,
        &expect![[r#"
        {"n":1,"text":"NULL","wide":"abc","x":0.5,"void":null}
        {"n":null,"text":null,"wide":"a,\"b\"","x":-1.0,"void":null}
        {"n":30000,"text":"","wide":"two\nlines","x":2.25,"void":null}
    "#]],
    );
}

#[test]
fn rows_after_the_sample_are_written_as_they_come() {
    let numbers = Int64Array::from_iter_values(0..2500);
    let batch = RecordBatch::try_from_iter([("n", Arc::new(numbers) as ArrayRef)]).unwrap();
    let mut out = Vec::new();
    let mut renderer = Renderer::new(&mut out, Format::Table, false);
    let mut rows = renderer.rows(batch.schema()).unwrap();
    rows.batch(&batch).unwrap();
    let written = String::from_utf8(rows.renderer.out.clone()).unwrap();
    assert_eq!(
        written.lines().count(),
        2502,
        "nothing is held back after the sample"
    );
    rows.finish().unwrap();
    assert!(String::from_utf8(out).unwrap().ends_with("(2500 rows)\n"));
}

#[test]
fn results_are_set_apart_by_an_empty_line() {
    let mut out = Vec::new();
    let mut renderer = Renderer::new(&mut out, Format::Csv, false);
    renderer.batch(&sample()).unwrap();
    renderer.batch(&sample()).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("\n\nn,text"));
}

#[test]
fn sizes_and_durations_are_short() {
    use std::time::Duration;
    let sizes = [0, 999, 1000, 1_400_000, 999_960, 7_000_000_000].map(human_bytes);
    assert_eq!(
        sizes,
        ["0 B", "999 B", "1.0 kB", "1.4 MB", "1.0 MB", "7.0 GB"]
    );
    let times = [4, 250, 3_400, 125_000].map(|ms| human_duration(Duration::from_millis(ms)));
    assert_eq!(times, ["4.0 ms", "250 ms", "3.4 s", "2 min 5 s"]);
}
