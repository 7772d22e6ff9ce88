//! Numbers: literals, DECIMAL against DOUBLE, overflow, VALUES, IN lists with NULL.

use crate::support::*;

const FLOATS: &str = "
    CREATE TABLE fl (id INT, d DOUBLE, r REAL, x DECIMAL(10, 2), b BIGINT);
    INSERT INTO fl VALUES (1, 1e300, 1.5, 1.5, 1);
    INSERT INTO fl VALUES (2, 'NaN', 'NaN', 2.5, 2);
    INSERT INTO fl VALUES (3, 'inf', 0.1, 0.1, 3);
    INSERT INTO fl VALUES (4, 0.1, -1.5, -1.5, 4);
    INSERT INTO fl VALUES (5, -1e-20, NULL, NULL, NULL);
    INSERT INTO fl VALUES (6, NULL, 1.1, 1.1, 6)";

/// Checks queries; `expected` may be the SQLSTATE of an error.
async fn check(session: &mut tarndb_sql::Session, cases: &[(&str, &str)]) {
    for (query, expected) in cases {
        assert_eq!(rows(session, query).await, *expected, "{query}");
    }
}

#[tokio::test]
async fn a_literal_with_an_exponent_is_a_double() {
    let mut session = setup(FLOATS).await;
    check(
        &mut session,
        &[
            (
                "SELECT arrow_typeof(1e2), arrow_typeof(-1.5E-3), arrow_typeof(1.5)",
                "Float64|Float64|Decimal128(2, 1)",
            ),
            ("SELECT 1e100, -1e-100, 1e0", "1e100|-1e-100|1.0"),
            (
                "SELECT arrow_typeof(a), a FROM (VALUES (1.5), (1e300)) v(a) ORDER BY a",
                "Float64|1.5; Float64|1e300",
            ),
            (
                "SELECT a FROM (VALUES (1, 1e-20), (2, 0.1), (3, NULL)) v(i, a) ORDER BY i",
                "1e-20; 0.1; NULL",
            ),
            (
                "SELECT arrow_typeof(a) FROM (VALUES (CAST(1e0 AS DECIMAL(30, 15))), (NULL)) v(a)",
                "Decimal128(30, 15); Decimal128(30, 15)",
            ),
        ],
    )
    .await;
    let names = columns(&mut session, "SELECT 1e2, d > 1.5 FROM fl").await;
    assert_eq!(names, ["1e2", "d > 1.5"]);
    assert_eq!(err(&mut session, "SELECT 1e400").await.sqlstate(), "22003");
}

#[tokio::test]
async fn a_decimal_that_meets_a_double_becomes_one() {
    let mut session = setup(FLOATS).await;
    check(
        &mut session,
        &[
            ("SELECT id FROM fl WHERE d > 1.5 ORDER BY id", "1; 2; 3"),
            ("SELECT id FROM fl WHERE d = 0.1", "4"),
            ("SELECT id FROM fl WHERE 0.1 >= d ORDER BY id", "4; 5"),
            ("SELECT id FROM fl WHERE d < 0.0", "5"),
            ("SELECT id FROM fl WHERE d <> 0.1 ORDER BY id", "1; 2; 3; 5"),
            ("SELECT id FROM fl WHERE d BETWEEN -0.5 AND 0.5 ORDER BY id", "4; 5"),
            ("SELECT id FROM fl WHERE d IN (0.1, 2.5)", "4"),
            ("SELECT id FROM fl WHERE d NOT IN (0.1, 2.5) ORDER BY id", "1; 2; 3; 5"),
            ("SELECT id FROM fl WHERE d = ANY(ARRAY[0.1, 2.5])", "4"),
            ("SELECT id FROM fl WHERE d IS DISTINCT FROM 0.1 ORDER BY id", "1; 2; 3; 5; 6"),
            ("SELECT id FROM fl WHERE r = 1.5", "1"),
            ("SELECT id FROM fl WHERE r > 0.5 ORDER BY id", "1; 2; 6"),
            ("SELECT id FROM fl WHERE x > d ORDER BY id", ""),
            ("SELECT id FROM fl WHERE d > x ORDER BY id", "1; 2; 3; 4"),
            ("SELECT d * 2.0, d + x, d - x, d / 2.0 FROM fl WHERE id = 3", "inf|inf|inf|inf"),
            ("SELECT d * 1.5 FROM fl WHERE id = 1", "1.5e300"),
            ("SELECT CASE WHEN id = 5 THEN d ELSE 1.5 END FROM fl WHERE id >= 5 ORDER BY id", "-1e-20; 1.5"),
            ("SELECT CASE d WHEN 0.1 THEN 'y' ELSE 'n' END FROM fl WHERE id IN (1, 4) ORDER BY id", "n; y"),
            ("SELECT coalesce(d, 0.5), coalesce(x, d), nullif(d, 0.1), greatest(d, 0.5) FROM fl WHERE id >= 4 ORDER BY id", "0.1|-1.5|NULL|0.5; -1e-20|-1e-20|-1e-20|0.5; 0.5|1.1|NULL|0.5"),
            ("SELECT d FROM fl WHERE id = 1 UNION ALL SELECT 1.5 ORDER BY 1", "1.5; 1e300"),
            ("SELECT x FROM fl WHERE id = 1 UNION SELECT d FROM fl WHERE id IN (1, 5) ORDER BY 1", "-1e-20; 1.5; 1e300"),
            ("SELECT d FROM fl WHERE id = 4 INTERSECT SELECT 0.1", "0.1"),
            ("SELECT a.id, b.id FROM fl a JOIN fl b ON a.d = b.x ORDER BY 1", "4|3"),
            ("SELECT id FROM fl WHERE d IN (SELECT x FROM fl)", "4"),
            ("SELECT id FROM fl WHERE x IN (SELECT d FROM fl)", "3"),
            ("SELECT id FROM fl WHERE d > (SELECT max(x) FROM fl) ORDER BY id", "1; 2; 3"),
            ("SELECT id FROM fl o WHERE EXISTS (SELECT 1 FROM fl i WHERE i.x = o.d)", "4"),
            ("SELECT d * 1.5, count(*) FROM fl WHERE id = 1 GROUP BY d * 1.5", "1.5e300|1"),
            ("SELECT sum(d * 0.5) FROM fl WHERE id = 1", "5e299"),
            ("SELECT arrow_typeof(x * 1.5), arrow_typeof(x + 1), x = 1.10 FROM fl WHERE id = 6", "Decimal128(13, 3)|Decimal128(23, 2)|true"),
        ],
    )
    .await;
    assert_eq!(count(&mut session, "DELETE FROM fl WHERE d > 1.5").await, 3);
    assert_eq!(
        count(&mut session, "UPDATE fl SET d = d * 2.5 WHERE d < 0.5").await,
        2
    );
}

#[tokio::test]
async fn a_literal_in_a_comparison_with_a_double_prunes_files() {
    let mut session = setup(
        "CREATE TABLE p (d DOUBLE);
         INSERT INTO p VALUES (1.0); INSERT INTO p VALUES (2.0); INSERT INTO p VALUES (3.0)",
    )
    .await;
    for filter in [
        "d > 2.5",
        "d = 3.0",
        "d BETWEEN 2.5 AND 1e1",
        "d IN (3.0, 7.5)",
    ] {
        let plan = rows(
            &mut session,
            &format!("EXPLAIN SELECT * FROM p WHERE {filter}"),
        )
        .await;
        assert_eq!(plan.matches(".parquet").count(), 1, "{filter}: {plan}");
        assert!(!plan.contains("Decimal"), "{filter}: {plan}");
    }
}

#[tokio::test]
async fn integers_never_wrap_around() {
    let mut session = setup(
        "CREATE TABLE o (id INT, b BIGINT, i INT);
         INSERT INTO o VALUES (1, 9223372036854775807, 2147483647), (2, -9223372036854775808, -1)",
    )
    .await;
    for statement in [
        "SELECT 9223372036854775807 + 1",
        "SELECT -9223372036854775808 - 1",
        "SELECT 9223372036854775807 * 2",
        "SELECT -b FROM o",
        "SELECT -(-9223372036854775808)",
        "SELECT m + 1 FROM (SELECT 9223372036854775807 AS m) q",
        "SELECT CAST('9223372036854775807' AS BIGINT) + 1",
        "SELECT b + 1 FROM o",
        "SELECT sum(b) FROM o WHERE id = 1 HAVING sum(b) > 0 AND sum(b) + 1 > 0",
        "SELECT sum(b * 2) FROM o",
        "SELECT max(b + 1) FROM o",
        "SELECT id FROM o ORDER BY b * 2",
        "SELECT count(*) FROM o GROUP BY b * 2",
        "SELECT a.id FROM o a JOIN o c ON a.b * 2 = c.b",
        "SELECT sum(v) FROM (SELECT b AS v FROM o WHERE id = 1 UNION ALL SELECT 1) q",
        "SELECT sum(b) OVER (ORDER BY id) FROM (SELECT 1 AS id, 9223372036854775807 AS b UNION ALL SELECT 2, 1) q",
        "UPDATE o SET b = b + 1",
        "INSERT INTO o VALUES (3, 9223372036854775807 + 1, 1)",
        "DELETE FROM o WHERE b + 1 > 0",
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), "22003", "{statement}: {}", chain(&error));
    }
    check(
        &mut session,
        &[
            ("SELECT sum(b), arrow_typeof(sum(b)) FROM o", "-1|Int64"),
            ("SELECT sum(b), sum(DISTINCT b), sum(b) FILTER (WHERE id = 1), avg(i) FROM o", "-1|-1|9223372036854775807|1073741823.0"),
            ("SELECT sum(b) FROM o WHERE id = 9", "NULL"),
            ("SELECT id % 2, sum(b), sum(b) + 0 AS s FROM o GROUP BY 1 HAVING sum(b) <> 5 ORDER BY s", "0|-9223372036854775808|-9223372036854775808; 1|9223372036854775807|9223372036854775807"),
            ("SELECT id, sum(b) FROM o GROUP BY ROLLUP (id) ORDER BY id NULLS LAST", "1|9223372036854775807; 2|-9223372036854775808; NULL|-1"),
            ("SELECT id, sum(b) OVER (ORDER BY id) FROM o ORDER BY id", "1|9223372036854775807; 2|-1"),
            ("SELECT sum(sum(b)) OVER () FROM o", "-1"),
            ("SELECT (SELECT sum(c.b) FROM o c WHERE c.id = o.id) FROM o ORDER BY id", "9223372036854775807; -9223372036854775808"),
            ("SELECT id FROM o WHERE b = (SELECT sum(c.b) FROM o c WHERE c.id = o.id) ORDER BY id", "1; 2"),
            ("SELECT coalesce((SELECT sum(c.b) FROM o c WHERE c.id = o.id + 5), 0) FROM o", "0; 0"),
            ("SELECT i + 1, -i, i * 2 FROM o ORDER BY id", "2147483648|-2147483647|4294967294; 0|1|-2"),
            ("SELECT id FROM o LIMIT 1 + 0 OFFSET 2 - 1", "2"),
            ("SELECT DATE '2024-01-31' + 1", "2024-02-01"),
            ("SELECT CASE WHEN b < 0 THEN b + 1 ELSE 0 END FROM o ORDER BY id", "0; -9223372036854775807"),
            ("SELECT sum(i), arrow_typeof(sum(i)) FROM o", "2147483646|Int64"),
        ],
    )
    .await;
}

#[tokio::test]
async fn cells_of_values_become_their_column_one_by_one() {
    let mut session = setup(
        "CREATE TABLE mix (k INT, d DOUBLE, s TEXT, x DECIMAL(38, 20), t TIMESTAMP, l ARRAY<DOUBLE>, st STRUCT<a DOUBLE, b TEXT>, i INT)",
    )
    .await;
    ok(&mut session, "INSERT INTO mix (k, d) VALUES (1, CAST('1e-20' AS DOUBLE)), (2, 0.1), (3, 1), (4, '2.5'), (5, NULL), (6, 1e300), (7, -0.1234567890123456789)").await;
    assert_eq!(
        rows(&mut session, "SELECT d FROM mix ORDER BY k").await,
        "1e-20; 0.1; 1.0; 2.5; NULL; 1e300; -0.12345678901234568"
    );
    ok(&mut session, "TRUNCATE TABLE mix").await;
    ok(&mut session, "INSERT INTO mix (s, k) VALUES (1, 1), ('a', 2), (1.50, 3), (DATE '2024-01-01', 4), (NULL, 5), (upper('b') || 'c', 6), (true, 7)").await;
    assert_eq!(
        rows(&mut session, "SELECT s FROM mix ORDER BY k").await,
        "1; a; 1.50; 2024-01-01; NULL; Bc; true"
    );
    ok(&mut session, "TRUNCATE TABLE mix").await;
    ok(&mut session, "INSERT INTO mix (k, x) VALUES (1, 123456789012345678.5), (2, 0.00000000000000000001), (3, 7), (4, 1e-7), (5, '1.25')").await;
    assert_eq!(
        rows(&mut session, "SELECT x FROM mix ORDER BY k").await,
        "123456789012345678.50000000000000000000; 0.00000000000000000001; 7.00000000000000000000; 0.00000010000000000000; 1.25000000000000000000"
    );
    ok(&mut session, "TRUNCATE TABLE mix").await;
    ok(&mut session, "INSERT INTO mix (k, t, l, st) VALUES (1, DATE '2024-01-01', [1, 2.5], named_struct('a', 1, 'b', 'x')), (2, '2024-01-01 10:00:00', [1e-20], named_struct('a', 0.1, 'b', 5)), (3, TIMESTAMP '2024-01-02', NULL, NULL)").await;
    assert_eq!(
        rows(&mut session, "SELECT t, l, st FROM mix ORDER BY k").await,
        "2024-01-01T00:00:00|[1.0, 2.5]|{a: 1.0, b: x}; 2024-01-01T10:00:00|[1e-20]|{a: 0.1, b: 5}; 2024-01-02T00:00:00|NULL|NULL"
    );
    ok(&mut session, "INSERT INTO mix (k, i) VALUES (10, (SELECT max(k) FROM mix)), (11, 1 + 1), (12, CAST('7' AS BIGINT))").await;
    assert_eq!(
        rows(&mut session, "SELECT i FROM mix WHERE k >= 10 ORDER BY k").await,
        "3; 2; 7"
    );
}

#[tokio::test]
async fn cells_of_values_are_checked_like_any_assignment() {
    let mut session =
        setup("CREATE TABLE c (i TINYINT, d DECIMAL(4, 1), n INT NOT NULL, r REAL)").await;
    for (statement, state, word) in [
        (
            "INSERT INTO c VALUES (1, 1, 1, 1), (300, 2, 2, 2)",
            "22003",
            "300",
        ),
        (
            "INSERT INTO c VALUES (1, 1, 1, 1), (CAST(300 AS BIGINT), 2, 2, 2)",
            "22003",
            "column=i",
        ),
        (
            "INSERT INTO c VALUES (1, 1, 1, 1), (1.5, 2, 2, 2)",
            "22003",
            "1.5",
        ),
        (
            "INSERT INTO c VALUES (1, 1, 1, 1), (2, 12345.5, 2, 2)",
            "22003",
            "column=d",
        ),
        (
            "INSERT INTO c VALUES (1, 1, 1, 1), (2, 2, 2, 1e300)",
            "22003",
            "column=r",
        ),
        (
            "INSERT INTO c VALUES (1, 1, 1, 1), (2, 2, NULL, 2)",
            "23502",
            "column",
        ),
        (
            "INSERT INTO c VALUES (1, 1, 1, 1), (2, 2, DEFAULT, 2)",
            "23502",
            "column",
        ),
        ("INSERT INTO c VALUES (1, 1, 1, 1), (2, 2, 2)", "42601", ""),
        (
            "INSERT INTO c VALUES (1, 1, 1, 1, 1), (2, 2.5, 2, 2, 'a')",
            "42601",
            "",
        ),
        (
            "INSERT INTO c (n, i) VALUES (1, 1), (2, nope)",
            "42703",
            "nope",
        ),
    ] {
        let error = err(&mut session, statement).await;
        let text = chain(&error);
        assert!(text.contains(word), "{statement}: {text}");
        if state != "42601" {
            assert_eq!(error.sqlstate(), state, "{statement}: {text}");
        }
    }
    assert_eq!(rows(&mut session, "SELECT count(*) FROM c").await, "0");
    // The functions that assign are gone with the statement.
    let error = err(&mut session, "SELECT \"\u{2}assign0\"(1)").await;
    assert_eq!(error.sqlstate(), "42883", "{}", chain(&error));
}

#[tokio::test]
async fn in_lists_with_null_are_three_valued() {
    let mut session =
        setup("CREATE TABLE n (x INT); INSERT INTO n VALUES (1), (2), (3), (NULL)").await;
    check(
        &mut session,
        &[
            ("SELECT x FROM (VALUES (1), (3)) v(x) WHERE x IN (1, 3) AND x NOT IN (1, NULL)", ""),
            ("SELECT x FROM n WHERE x IN (1, 3) AND x NOT IN (1, NULL)", ""),
            ("SELECT x FROM n WHERE x IN (1, 3) AND x NOT IN (1, CAST(NULL AS INT))", ""),
            ("SELECT x FROM n WHERE x IN (1, 3) AND x NOT IN (1, nullif(1, 1))", ""),
            ("SELECT x FROM n WHERE x IN (1, 3) AND x NOT IN (1, 2)", "3"),
            ("SELECT x FROM n WHERE x IN (1, NULL) OR x IN (3, NULL) ORDER BY x", "1; 3"),
            ("SELECT x FROM n WHERE x IN (1, 2, NULL) AND x IN (2, 3, NULL)", "2"),
            ("SELECT x FROM n WHERE NOT (x IN (1, NULL))", ""),
            ("SELECT x FROM n WHERE (x IN (1, NULL)) IS NULL ORDER BY x", "2; 3; NULL"),
            ("SELECT x IN (1, NULL), x NOT IN (1, NULL), x IN (NULL), x NOT IN (NULL) FROM n ORDER BY x", "true|false|NULL|NULL; NULL|NULL|NULL|NULL; NULL|NULL|NULL|NULL; NULL|NULL|NULL|NULL"),
            ("SELECT x FROM n WHERE x NOT IN (SELECT y FROM (VALUES (1), (NULL)) v(y))", ""),
            ("SELECT x FROM n WHERE x = 3 AND x NOT IN (1, NULL)", ""),
            ("SELECT x FROM n WHERE x IN (1, x) ORDER BY x", "1; 2; 3"),
        ],
    )
    .await;
}
