//! The formats of results, and pipes.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use expect_test::expect;

use crate::harness::{Fixture, binary};

const MIXED: &str = "SELECT 1 AS n, 'a,b' AS t, CAST(NULL AS TEXT) AS nothing, '' AS empty, \
                     1.5 AS x, TRUE AS yes, DATE '2013-01-31' AS d";

#[test]
fn table_is_aligned() {
    let run = Fixture::new().sql(MIXED).ok();
    expect![[r#"
         n | t   | nothing | empty |   x | yes  | d
        ---+-----+---------+-------+-----+------+------------
         1 | a,b | NULL    |       | 1.5 | true | 2013-01-31
        (1 row)
    "#]]
    .assert_eq(&run.stdout);
}

#[test]
fn csv_and_ndjson_hold_data_only() {
    let fixture = Fixture::new();
    let script = format!("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1); {MIXED}");
    let csv = fixture.run(&["--format", "csv", "sql", &script]).ok();
    expect![[r#"
        n,t,nothing,empty,x,yes,d
        1,"a,b",,"",1.5,true,2013-01-31
    "#]]
    .assert_eq(&csv.stdout);
    let query = format!("DROP TABLE t; {MIXED}");
    let ndjson = fixture.run(&["--format", "ndjson", "sql", &query]).ok();
    expect![[r#"
        {"n":1,"t":"a,b","nothing":null,"empty":"","x":1.5,"yes":true,"d":"2013-01-31"}
    "#]]
    .assert_eq(&ndjson.stdout);
}

#[test]
fn counts_and_tags_are_told_in_tables_only() {
    let run = Fixture::new()
        .sql("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2); DELETE FROM t WHERE a = 1")
        .ok();
    assert_eq!(run.stdout, "CREATE TABLE\nINSERT 2\nDELETE 1\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_without_a_word() {
    let fixture = Fixture::new();
    let mut child = binary(&fixture.db)
        .args([
            "--format",
            "csv",
            "sql",
            "SELECT * FROM generate_series(1, 3000000)",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "value");
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn the_shell_reads_a_pipe_without_prompts() {
    let fixture = Fixture::new();
    let input =
        "CREATE TABLE t\n (a BIGINT);\nINSERT INTO t VALUES (7);\n\\d t\nSELECT a\nFROM t;\n\\q\n";
    let run = fixture.run_with(&["shell"], input).ok();
    assert!(
        run.stdout.starts_with("CREATE TABLE\nINSERT 1\n"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.contains("BIGINT")
            || run.stdout.contains("bigint")
            || run.stdout.contains("long")
    );
    assert!(
        run.stdout.ends_with(" a\n---\n 7\n(1 row)\n"),
        "{}",
        run.stdout
    );
}
