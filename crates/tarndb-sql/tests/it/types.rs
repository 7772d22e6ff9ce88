//! Types: round trips, widening, nesting.

use crate::support::*;

#[tokio::test]
async fn every_type_survives_a_round_trip() {
    let mut session = setup(
        "CREATE TABLE t (a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f REAL, g DOUBLE,
           h DECIMAL(20, 3), i TEXT, j BYTEA, k DATE, l TIMESTAMPTZ, m TIMESTAMP,
           n ARRAY<INT>, o STRUCT<x INT, Yy TEXT>, p MAP<TEXT, BIGINT>)",
    )
    .await;
    ok(
        &mut session,
        "INSERT INTO t VALUES (true, -128, 32767, -2147483648, 9223372036854775807, 1.5, 2.25,
           12345678901234567.891, '\u{e9}', X'00ff', DATE '0001-01-01',
           TIMESTAMPTZ '2024-03-31 01:30:00.123456+02:00', TIMESTAMP '1969-12-31 23:59:59.999999',
           [1, NULL, 3], named_struct('x', 1, 'yy', 'q'), map(['k'], [5]))",
    )
    .await;
    ok(&mut session, "INSERT INTO t VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)").await;
    let expected = "true|-128|32767|-2147483648|9223372036854775807|1.5|2.25|12345678901234567.891|\u{e9}|00ff|0001-01-01|2024-03-30T23:30:00.123456Z|1969-12-31T23:59:59.999999|[1, NULL, 3]|{x: 1, Yy: q}|{k: 5}";
    assert_eq!(
        rows(&mut session, "SELECT * FROM t WHERE a").await,
        expected
    );
    assert_eq!(
        rows(
            &mut session,
            "SELECT count(*), count(n), count(o), count(p) FROM t"
        )
        .await,
        "2|1|1|1"
    );
    ok(&mut session, "UPDATE t SET d = 1 WHERE a").await;
    assert_eq!(
        rows(&mut session, "SELECT * FROM t WHERE a").await,
        expected.replace("-2147483648", "1")
    );
    ok(&mut session, "CREATE TABLE u AS SELECT * FROM t").await;
    let described = rows(&mut session, "DESCRIBE t").await;
    assert_eq!(rows(&mut session, "DESCRIBE u").await, described);
    assert!(
        described.contains("l|TIMESTAMPTZ|YES") && described.contains("m|TIMESTAMP|YES"),
        "{described}"
    );
}

#[tokio::test]
async fn casts_and_literals_have_the_types_of_columns() {
    let mut session = setup("CREATE TABLE x (a INT)").await;
    for (expr, expected) in [
        (
            "CAST('2024-01-01 00:00:00+01:00' AS TIMESTAMPTZ)",
            "Timestamp(\u{b5}s, \"UTC\")",
        ),
        ("TIMESTAMP '2024-01-01'", "Timestamp(\u{b5}s)"),
        ("CAST('a' AS VARCHAR(10))", "Utf8"),
        ("CAST('a' AS BYTEA)", "Binary"),
        ("CAST(1 AS DECIMAL)", "Decimal128(38, 10)"),
        ("'2024-01-01'::date", "Date32"),
        ("CAST(1 AS TIMESTAMP_NTZ)", "Timestamp(\u{b5}s)"),
        ("now()", "Timestamp(\u{b5}s, \"UTC\")"),
        ("current_timestamp", "Timestamp(\u{b5}s, \"UTC\")"),
        ("substr('abc', 2)", "Utf8"),
        ("0.1 + 0.2", "Decimal128(2, 1)"),
    ] {
        let query = format!("SELECT arrow_typeof({expr})");
        let found = rows(&mut session, &query).await;
        let found = found.replace("Utf8View", "Utf8");
        assert_eq!(found, expected, "{expr}");
    }
    assert_eq!(rows(&mut session, "SELECT 0.1 + 0.2 = 0.3").await, "true");
}

#[tokio::test]
async fn now_goes_into_a_table_and_nanoseconds_only_without_loss() {
    let mut session = setup("CREATE TABLE t (ts TIMESTAMPTZ, n TIMESTAMP)").await;
    ok(&mut session, "INSERT INTO t VALUES (now(), NULL)").await;
    ok(
        &mut session,
        "INSERT INTO t SELECT NULL, to_timestamp_nanos(1000)",
    )
    .await;
    let error = err(
        &mut session,
        "INSERT INTO t SELECT NULL, to_timestamp_nanos(1001)",
    )
    .await;
    assert!(chain(&error).contains("column n"), "{}", chain(&error));
    ok(
        &mut session,
        "INSERT INTO t SELECT NULL, CAST(to_timestamp_nanos(1001) AS TIMESTAMP(6))",
    )
    .await;
    assert_eq!(
        rows(
            &mut session,
            "SELECT count(*) FROM t WHERE ts > now() - INTERVAL '1 hour'"
        )
        .await,
        "1"
    );
    ok(
        &mut session,
        "CREATE TABLE u AS SELECT to_timestamp_nanos(1000) AS a",
    )
    .await;
    assert_eq!(
        rows(&mut session, "SELECT * FROM u").await,
        "1970-01-01T00:00:00.000001Z"
    );
}

#[tokio::test]
async fn unsigned_columns_are_widened() {
    let mut session = setup(
        "CREATE TABLE t (a TINYINT UNSIGNED, b SMALLINT UNSIGNED, c INT UNSIGNED, d BIGINT UNSIGNED);
         INSERT INTO t VALUES (255, 65535, 4294967295, 18446744073709551615);
         CREATE TABLE u AS SELECT arrow_cast(255, 'UInt8') AS a, arrow_cast(18446744073709551615, 'UInt64') AS d",
    )
    .await;
    assert_eq!(
        rows(&mut session, "SELECT * FROM t").await,
        "255|65535|4294967295|18446744073709551615"
    );
    let described = rows(&mut session, "SELECT ordinal_position, column_name, data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position").await;
    assert_eq!(
        described,
        "1|a|SMALLINT; 2|b|INT; 3|c|BIGINT; 4|d|DECIMAL(20,0)"
    );
    let described = rows(&mut session, "DESCRIBE u").await;
    assert_eq!(
        described,
        "a|SMALLINT|YES|NO|NULL; d|DECIMAL(20,0)|YES|NO|NULL"
    );
}

#[tokio::test]
async fn fields_of_structs_are_found_without_regard_to_case() {
    let mut session = setup(
        "CREATE TABLE t (S STRUCT<innerName: STRUCT<X: INT>, L: ARRAY<TEXT>>);
         INSERT INTO t VALUES (named_struct('innerName', named_struct('X', 7), 'L', ['p', 'q']))",
    )
    .await;
    assert_eq!(
        rows(
            &mut session,
            "SELECT s.innername.x, t.s.INNERNAME['x'], s['l'][2] FROM t"
        )
        .await,
        "7|7|q"
    );
    assert_eq!(
        count(&mut session, "DELETE FROM t WHERE s.innerName.x = 7").await,
        1
    );
}

#[tokio::test]
async fn what_no_table_stores_is_refused_by_name() {
    let mut session = setup("CREATE TABLE x (a INT)").await;
    for (statement, state) in [
        ("CREATE TABLE t (a TIME)", "42601"),
        ("CREATE TABLE t (a TIMESTAMP(9))", "42601"),
        ("CREATE TABLE t (a INT, A TEXT)", "42701"),
        ("CREATE TABLE t (\"a b\" INT)", "42602"),
        ("CREATE TABLE t AS SELECT INTERVAL '1 day' AS i", "0A000"),
        ("CREATE TABLE t AS SELECT a + 1 FROM x", "42602"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (b)", "42703"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (a)", "42P16"),
        (
            "CREATE TABLE t (a ARRAY<INT>, b INT) PARTITIONED BY (a)",
            "42P16",
        ),
        ("CREATE TABLE x (a INT)", "42P07"),
        ("CREATE TABLE nope.t (a INT)", "3F000"),
        ("CREATE TABLE t (a INT) WITH (zstd_level = 99)", "22023"),
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {}", chain(&error));
    }
    ok(&mut session, "CREATE TABLE IF NOT EXISTS x (b TEXT)").await;
    assert_eq!(rows(&mut session, "DESCRIBE x").await, "a|INT|YES|NO|NULL");
}

#[tokio::test]
async fn or_replace_changes_schema_and_rows_in_one_commit() {
    let mut session =
        setup("CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y')").await;
    ok(
        &mut session,
        "CREATE OR REPLACE TABLE t AS SELECT b AS name, a * 10 AS ten FROM t WHERE a > 1",
    )
    .await;
    assert_eq!(rows(&mut session, "SELECT * FROM t").await, "y|20");
    ok(
        &mut session,
        "CREATE OR REPLACE TABLE t (z DATE) COMMENT 'empty'",
    )
    .await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "0");
    assert_eq!(rows(&mut session, "DESCRIBE t").await, "z|DATE|YES|NO|NULL");
}

#[tokio::test]
async fn described_types_create_the_same_table() {
    let mut session = setup(
        "CREATE TABLE t (a TIMESTAMPTZ, b TIMESTAMP, c DECIMAL(7,3), d BLOB, e REAL, f TINYINT,
         g ARRAY<MAP<TEXT, STRUCT<X BIGINT, \"y-z\" DATE>>>, h BOOLEAN)",
    )
    .await;
    for source in [
        "DESCRIBE t",
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't'",
    ] {
        let described = rows(&mut session, source).await;
        let columns = described
            .split("; ")
            .map(|row| row.split('|').take(2).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>();
        let create = format!("CREATE OR REPLACE TABLE u ({})", columns.join(", "));
        ok(&mut session, &create).await;
        assert_eq!(
            rows(&mut session, "DESCRIBE u").await,
            rows(&mut session, "DESCRIBE t").await
        );
    }
}

#[tokio::test]
async fn values_that_do_not_fit_tell_form_from_range() {
    let mut session = setup("CREATE TABLE t (i INT NOT NULL, d DATE, s TINYINT)").await;
    for (statement, state, text) in [
        ("INSERT INTO t (i) SELECT 'abc'", "22P02", "column=i"),
        ("INSERT INTO t (i, d) SELECT '1', 'x'", "22P02", "column=d"),
        ("INSERT INTO t (i, s) SELECT 1, 300", "22003", "column=s"),
        (
            "INSERT INTO t SELECT NULL, NULL, NULL",
            "23502",
            "column i of main.t",
        ),
        (
            "INSERT INTO t (i) VALUES (1, 2)",
            "42601",
            "2 values for 1 column",
        ),
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {}", chain(&error));
        assert!(chain(&error).contains(text), "{}", chain(&error));
    }
}

#[tokio::test]
async fn statements_with_nothing_to_do_say_so() {
    let mut session =
        setup("CREATE SCHEMA s; CREATE TABLE s.A (i INT); CREATE TABLE s.b (i INT)").await;
    for (statement, notice) in [
        (
            "CREATE TABLE IF NOT EXISTS s.a (x TEXT)",
            "table s.a exists already",
        ),
        ("CREATE SCHEMA IF NOT EXISTS s", "schema s exists already"),
        ("DROP TABLE IF EXISTS s.c", "table s.c does not exist"),
        ("DROP SCHEMA IF EXISTS x", "schema x does not exist"),
    ] {
        session.take_notices();
        ok(&mut session, statement).await;
        assert_eq!(session.take_notices(), [notice], "{statement}");
    }
    let error = err(&mut session, "DROP SCHEMA s").await;
    assert_eq!(error.sqlstate(), "2BP01");
    assert_eq!(error.to_string(), "schema s is not empty, it has A, b");
    ok(&mut session, "DROP SCHEMA s CASCADE").await;
}
