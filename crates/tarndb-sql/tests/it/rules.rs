//! CHECK, DEFAULT, GENERATED and IDENTITY in statements.

use crate::support::*;

const TABLE: &str = "
    CREATE TABLE t (
        id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 10),
        v INT NOT NULL DEFAULT 40 + 2 CHECK (v > 0),
        y INT GENERATED ALWAYS AS (v * 2),
        s TEXT DEFAULT 'x',
        CONSTRAINT Named CHECK (s <> 'bad' AND length(s) < 4)
    )";
const ALL: &str = "SELECT * FROM t ORDER BY id, v";

#[tokio::test]
async fn columns_that_are_left_out_are_filled() {
    for (insert, expected) in [
        ("INSERT INTO t (v) VALUES (1), (2)", "10|1|2|x; 20|2|4|x"),
        ("INSERT INTO t (s) VALUES (NULL)", "23514"),
        ("INSERT INTO t (s) VALUES ('a')", "10|42|84|a"),
        (
            "INSERT INTO t VALUES (DEFAULT, 5, DEFAULT, DEFAULT)",
            "10|5|10|x",
        ),
        (
            "INSERT INTO t VALUES (DEFAULT, 5, DEFAULT, 'a'), (DEFAULT, DEFAULT, DEFAULT, DEFAULT)",
            "10|5|10|a; 20|42|84|x",
        ),
        (
            "INSERT INTO t (s, v) SELECT 'q', i FROM (VALUES (3), (4)) AS n(i) ORDER BY i",
            "10|3|6|q; 20|4|8|q",
        ),
        ("INSERT INTO t (v, y) VALUES (5, 10)", "10|5|10|x"),
        ("INSERT INTO t (v, y) VALUES (5, 11)", "23514"),
        ("INSERT INTO t (v, y) VALUES (5, 10), (6, DEFAULT)", "0A000"),
        ("INSERT INTO t (v) VALUES (NULL)", "23502"),
        ("INSERT INTO t (v) VALUES (-1)", "23514"),
        ("INSERT INTO t (v, s) VALUES (1, 'bad')", "23514"),
        ("INSERT INTO t (v, s) VALUES (1, 'four')", "23514"),
        ("INSERT INTO t (id, v) VALUES (1, 1)", "428C9"),
    ] {
        let mut session = setup(TABLE).await;
        if expected.len() == 5 {
            let error = err(&mut session, insert).await;
            assert_eq!(error.sqlstate(), expected, "{insert}: {}", chain(&error));
            assert_eq!(rows(&mut session, ALL).await, "", "{insert}");
        } else {
            ok(&mut session, insert).await;
            assert_eq!(rows(&mut session, ALL).await, expected, "{insert}");
        }
    }
}

#[tokio::test]
async fn an_update_computes_anew_what_depends_on_it() {
    let mut session = setup(TABLE).await;
    ok(&mut session, "INSERT INTO t (v) VALUES (1), (2)").await;
    for (update, expected) in [
        (
            "UPDATE t SET v = v + 10 WHERE id = 10",
            "10|11|22|x; 20|2|4|x",
        ),
        ("UPDATE t SET s = 'b'", "10|11|22|b; 20|2|4|b"),
        ("UPDATE t SET y = 22 WHERE id = 10", "10|11|22|b; 20|2|4|b"),
        ("UPDATE t SET y = 1", "23514"),
        ("UPDATE t SET v = 0", "23514"),
        ("UPDATE t SET id = 1", "428C9"),
    ] {
        if expected.len() == 5 {
            let error = err(&mut session, update).await;
            assert_eq!(error.sqlstate(), expected, "{update}: {}", chain(&error));
            continue;
        }
        ok(&mut session, update).await;
        assert_eq!(rows(&mut session, ALL).await, expected, "{update}");
    }
}

#[tokio::test]
async fn generated_columns_survive_new_columns_and_refuse_contradictions() {
    // BC-23 (delta-rs #4186).
    let mut session = setup(
        "CREATE TABLE t (ts TIMESTAMP, y INT GENERATED ALWAYS AS (year(ts)));
         INSERT INTO t (ts) VALUES (TIMESTAMP '2020-01-01 00:00:00');
         ALTER TABLE t ADD COLUMN z INT;
         INSERT INTO t (ts, z) VALUES (TIMESTAMP '2021-01-01 00:00:00', 1);
         INSERT INTO t (ts) VALUES (TIMESTAMP '1969-12-31 23:59:59')",
    )
    .await;
    let all = "SELECT y, z FROM t ORDER BY y";
    assert_eq!(
        rows(&mut session, all).await,
        "1969|NULL; 2020|NULL; 2021|1"
    );
    ok(&mut session, "UPDATE t SET ts = ts + INTERVAL '1 year'").await;
    assert_eq!(
        rows(&mut session, all).await,
        "1970|NULL; 2021|NULL; 2022|1"
    );
    let error = err(&mut session, "UPDATE t SET y = 1").await;
    assert!(
        chain(&error).contains("expression=year(ts)"),
        "{}",
        chain(&error)
    );
    let described = rows(&mut session, "DESCRIBE t").await;
    assert!(
        described.contains("GENERATED ALWAYS AS (year(ts))"),
        "{described}"
    );
}

#[tokio::test]
async fn partitions_by_a_generated_column_are_filled() {
    let mut session = setup(
        "CREATE TABLE t (ts TIMESTAMP, d DATE GENERATED ALWAYS AS (CAST(ts AS DATE))) \
         PARTITIONED BY (d);
         INSERT INTO t (ts) VALUES (TIMESTAMP '2024-01-01 00:00:00'), (TIMESTAMP '2024-01-02 00:00:00'), \
         (TIMESTAMP '2024-01-01 12:00:00'), (TIMESTAMP '2024-01-02 12:00:00')",
    )
    .await;
    let query = "SELECT d, count(*) FROM t GROUP BY d ORDER BY d LIMIT 2";
    assert_eq!(
        rows(&mut session, query).await,
        "2024-01-01|2; 2024-01-02|2"
    );
}

#[tokio::test]
async fn constraints_and_defaults_come_and_go() {
    let mut session = setup("CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (1, 'x')").await;
    ok(
        &mut session,
        "ALTER TABLE t ADD CONSTRAINT small CHECK (a < 10);
         ALTER TABLE t ADD CHECK (a <> 5);
         ALTER TABLE t ALTER COLUMN b SET DEFAULT concat('d', 'e');
         INSERT INTO t (a) VALUES (2)",
    )
    .await;
    assert_eq!(
        rows(&mut session, "SELECT * FROM t ORDER BY a").await,
        "1|x; 2|de"
    );
    let described = rows(&mut session, "DESCRIBE t").await;
    for part in [
        "constraint small|",
        "CHECK (a < 10)",
        "constraint check_1",
        "DEFAULT concat('d', 'e')",
    ] {
        assert!(described.contains(part), "{part}: {described}");
    }
    for (statement, state) in [
        ("INSERT INTO t VALUES (10, 'x')", "23514"),
        ("INSERT INTO t VALUES (5, 'x')", "23514"),
        ("ALTER TABLE t ADD CONSTRAINT two CHECK (a <> 2)", "23514"),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (rand() < a)", "0A000"),
        ("ALTER TABLE t ADD COLUMN c INT DEFAULT 1", "22000"),
        (
            "ALTER TABLE t SET TBLPROPERTIES ('delta.constraints.x' = 'a > 0')",
            "22000",
        ),
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {}", chain(&error));
    }
    ok(
        &mut session,
        "ALTER TABLE t DROP CONSTRAINT SMALL;
         ALTER TABLE t DROP CONSTRAINT IF EXISTS small;
         ALTER TABLE t ALTER COLUMN b DROP DEFAULT;
         INSERT INTO t (a) VALUES (10)",
    )
    .await;
    let query = "SELECT b FROM t WHERE a = 10";
    assert_eq!(rows(&mut session, query).await, "NULL");
    ok(
        &mut session,
        "CREATE OR REPLACE TABLE t (a INT CHECK (a = 1))",
    )
    .await;
    let error = err(&mut session, "INSERT INTO t VALUES (2)").await;
    assert_eq!(error.sqlstate(), "23514");
}

#[tokio::test]
async fn a_default_that_does_not_fit_its_column_is_refused_when_it_is_made() {
    for definition in [
        "x INT DEFAULT 3000000000",
        "x TINYINT DEFAULT 300",
        "x DECIMAL(4,2) DEFAULT 12345.678",
        "x DATE DEFAULT '2020-13-45'",
        "x INT DEFAULT 'q'",
        "x INT DEFAULT 1.5",
    ] {
        let mut session = setup("").await;
        let create = format!("CREATE TABLE f ({definition}, y INT)");
        let error = err(&mut session, &create).await;
        assert!(
            chain(&error).contains("does not fit"),
            "{definition}: {}",
            chain(&error)
        );
    }
    let mut session = setup("CREATE TABLE f (x INT, y TINYINT)").await;
    err(&mut session, "ALTER TABLE f ALTER COLUMN y SET DEFAULT 300").await;
    ok(&mut session, "ALTER TABLE f ALTER COLUMN y SET DEFAULT 100").await;
    ok(&mut session, "INSERT INTO f (x) VALUES (1)").await;
    assert_eq!(rows(&mut session, "SELECT * FROM f").await, "1|100");
    let generated = "CREATE TABLE g (x INT, y TINYINT GENERATED ALWAYS AS (x))";
    ok(&mut session, generated).await;
    err(&mut session, "INSERT INTO g (x) VALUES (300)").await;
    ok(&mut session, "INSERT INTO g (x) VALUES (3)").await;
    assert_eq!(rows(&mut session, "SELECT * FROM g").await, "3|3");
}
