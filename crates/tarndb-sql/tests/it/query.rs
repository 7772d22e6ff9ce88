//! Queries, SHOW, SET, EXPLAIN, errors of the engine.

use crate::support::*;

const TABLES: &str = "
    CREATE TABLE t (id INT, v TEXT);
    CREATE SCHEMA Other;
    CREATE TABLE Other.u (x BIGINT COMMENT 'an x', p DATE NOT NULL) PARTITIONED BY (p);
    INSERT INTO t VALUES (1, 'a'), (2, 'b')";

#[tokio::test]
async fn queries_run() {
    let mut session = setup(TABLES).await;
    for (query, expected) in [
        ("SELECT 1", "1"),
        ("VALUES (1), (2)", "1; 2"),
        ("FROM t ORDER BY id", "1|a; 2|b"),
        ("TABLE t", "1|a; 2|b"),
        ("SELECT id, id, 1, 1 FROM t WHERE id = 1", "1|1|1|1"),
        ("SELECT * EXCLUDE (v) FROM t ORDER BY ALL", "1; 2"),
        ("SELECT count(*) FROM Other.U", "0"),
        ("SELECT max(p) FROM other.u", "NULL"),
        (
            "SELECT id FROM t UNION ALL SELECT id FROM t ORDER BY 1",
            "1; 1; 2; 2",
        ),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT sum(n) FROM r",
            "6",
        ),
        (
            "SELECT id, row_number() OVER (ORDER BY id DESC) AS r FROM t QUALIFY r = 1",
            "2|1",
        ),
        ("SELECT unnest([1, 2])", "1; 2"),
        ("SELECT count(*) FROM generate_series(1, 5)", "5"),
        ("SELECT t.v FROM t WHERE v ~ '^b'", "b"),
        ("SELECT 1 = ANY(ARRAY[1, 2])", "true"),
        (
            "SELECT a.id FROM t a LEFT JOIN t b ON a.id = b.id + 1 WHERE b.id IS NULL",
            "1",
        ),
        ("SELECT id FROM t LIMIT 1 OFFSET 1", "2"),
        ("SELECT DISTINCT id + 1 FROM t ORDER BY 1", "2; 3"),
        (
            "SELECT count(*) FROM t GROUP BY v ORDER BY count(*), v",
            "1; 1",
        ),
        (
            "SELECT sum(id), v FROM t GROUP BY v ORDER BY sum(id) DESC",
            "2|b; 1|a",
        ),
        (
            "SELECT id % 2, count(*) FROM t GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
            "0|1; 1|1",
        ),
        (
            "SELECT upper(v), max(id) FROM t GROUP BY ALL ORDER BY 1",
            "A|1; B|2",
        ),
        ("SELECT t.id FROM t ORDER BY t.v DESC", "2; 1"),
        ("SELECT id + 1 FROM t ORDER BY v DESC", "3; 2"),
        (
            "SELECT COUNT(*) FILTER (WHERE id > 1), sum(id) OVER () FROM t GROUP BY id ORDER BY 1",
            "0|3; 1|3",
        ),
        ("SELECT (SELECT max(id) FROM t)", "2"),
        ("SELECT unnest(named_struct('a', 1, 'b', 2))", "1|2"),
        (
            "SELECT CASE WHEN v = 'a' THEN NULL ELSE v END FROM t ORDER BY id",
            "NULL; b",
        ),
    ] {
        assert_eq!(rows(&mut session, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn what_is_computed_is_named_by_its_text() {
    let mut session = setup(TABLES).await;
    let query = "SELECT count(*), Max(ID), id + 1 AS Next, v FROM t GROUP BY id, v";
    let names = columns(&mut session, query).await;
    assert_eq!(names, ["count(*)", "Max(ID)", "Next", "v"]);
}

#[tokio::test]
async fn show_and_describe_tell_what_is_there() {
    let mut session = setup(TABLES).await;
    assert_eq!(rows(&mut session, "SHOW TABLES").await, "Other|u; main|t");
    assert_eq!(rows(&mut session, "SHOW TABLES IN other").await, "Other|u");
    assert_eq!(rows(&mut session, "SHOW SCHEMAS").await, "Other; main");
    assert_eq!(
        rows(&mut session, "DESCRIBE other.u").await,
        "x|BIGINT|YES|NO|an x; p|DATE|NO|YES|NULL"
    );
    assert_eq!(
        err(&mut session, "SHOW TABLES IN nope").await.sqlstate(),
        "3F000"
    );
    let query = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema <> 'information_schema' ORDER BY 1, 2";
    assert_eq!(rows(&mut session, query).await, "Other|u; main|t");
    ok(
        &mut session,
        "ALTER TABLE t ADD COLUMN w DOUBLE COMMENT 'new'",
    )
    .await;
    assert_eq!(
        rows(&mut session, "DESCRIBE t").await,
        "id|INT|YES|NO|NULL; v|VARCHAR|YES|NO|NULL; w|DOUBLE|YES|NO|new"
    );
    assert_eq!(
        rows(&mut session, "SELECT * FROM t ORDER BY id").await,
        "1|a|NULL; 2|b|NULL"
    );
}

#[tokio::test]
async fn settings_are_set_shown_and_reset() {
    let mut session = setup("").await;
    let name = "datafusion.execution.batch_size";
    let before = rows(&mut session, &format!("SHOW {name}")).await;
    ok(&mut session, &format!("SET {name} = 100")).await;
    assert_eq!(rows(&mut session, &format!("SHOW {name}")).await, "100");
    ok(&mut session, &format!("RESET {name}")).await;
    assert_eq!(rows(&mut session, &format!("SHOW {name}")).await, before);
    ok(&mut session, "SET tarndb.isolation = 'serializable'").await;
    assert_eq!(
        rows(&mut session, "SHOW TRANSACTION ISOLATION LEVEL").await,
        "serializable"
    );
    for statement in [
        "SET datafusion.sql_parser.enable_ident_normalization = true",
        "SET tarndb.transaction_id = 'x'",
        "SET tarndb.isolation = 'dirty'",
        "SET datafusion.execution.batch_siz = 1",
        "SHOW nope",
    ] {
        assert_eq!(
            err(&mut session, statement).await.sqlstate(),
            "22023",
            "{statement}"
        );
    }
    assert!(
        rows(&mut session, "SHOW ALL")
            .await
            .contains("tarndb.isolation|serializable")
    );
}

#[tokio::test]
async fn errors_of_queries_are_told_in_our_words() {
    let mut session = setup(TABLES).await;
    for (query, state) in [
        ("SELECT 1 / 0", "22012"),
        ("SELECT CAST('x' AS INT)", "22P02"),
        ("SELECT id + v FROM t", "42804"),
        ("SELECT v FROM t GROUP BY id", "42803"),
        ("SELECT abs(-9223372036854775807 - id) FROM t", "22003"),
        ("SELECT sum(v) FROM t", "42883"),
        ("SELECT abs(1, 2)", "42883"),
        ("SELECT abs(v) FROM t", "42883"),
        ("SELECT * FROM delta_scan(1)", "42883"),
        ("SELECT * FROM delta_scan('/nowhere/at/all')", "58P01"),
        ("COPY t TO '/nowhere/at/all.csv'", "58030"),
        ("CREATE SCHEMA Information_Schema", "42939"),
        ("SELECT (SELECT id FROM t)", "21000"),
        ("SELECT * FROM t VERSION AS OF 99", "58P01"),
        ("SELECT 9223372036854775807 + id FROM t", "22003"),
        (
            "SELECT id FROM t WHERE id * 9223372036854775807 > 5",
            "22003",
        ),
        (
            "CREATE TABLE big AS SELECT 9223372036854775807 - (0 - id) AS n FROM t",
            "22003",
        ),
    ] {
        let error = err(&mut session, query).await;
        assert_eq!(error.sqlstate(), state, "{query}: {}", chain(&error));
        assert!(chain(&error).len() < 200, "{query}: {}", chain(&error));
    }
    let version = rows(&mut session, "SELECT version()").await;
    assert!(version.starts_with("TarnDB "), "{version}");
}

#[tokio::test]
async fn explain_shows_the_plan_and_exact_counts_need_no_read() {
    let mut session = setup(TABLES).await;
    let plan = rows(&mut session, "EXPLAIN SELECT count(*) FROM t").await;
    assert!(
        plan.contains("PlaceholderRowExec") && !plan.contains("parquet"),
        "{plan}"
    );
    ok(&mut session, "DELETE FROM t WHERE id = 1").await;
    let plan = rows(&mut session, "EXPLAIN SELECT count(*) FROM t").await;
    assert!(!plan.contains("parquet"), "{plan}");
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "1");
    let plan = rows(&mut session, "EXPLAIN ANALYZE SELECT * FROM t WHERE id > 1").await;
    assert!(plan.contains("output_rows"), "{plan}");
    assert!(plan.starts_with("executed plan:; "), "{plan}");
    assert_eq!(columns(&mut session, "EXPLAIN SELECT 1").await, ["plan"]);
    let plan = rows(&mut session, "EXPLAIN SELECT id FROM t").await;
    for line in plan.split("; ") {
        assert!(!line.contains('\n') && !line.contains("\\n"), "{line:?}");
    }
    assert!(plan.contains("logical plan:; ") && plan.contains("physical plan:; "));
}

#[tokio::test]
async fn is_distinct_from_binds_tighter_than_and() {
    let mut session = setup(
        "CREATE TABLE f (id INT, b BOOLEAN, c BOOLEAN);
         INSERT INTO f VALUES (1, true, true), (2, false, true), (3, NULL, false), (4, NULL, true)",
    )
    .await;
    for (filter, bracketed) in [
        (
            "b IS DISTINCT FROM true AND c",
            "(b IS DISTINCT FROM true) AND c",
        ),
        (
            "b IS NOT DISTINCT FROM true OR c",
            "(b IS NOT DISTINCT FROM true) OR c",
        ),
        (
            "NOT b IS DISTINCT FROM NULL AND c",
            "(NOT (b IS DISTINCT FROM NULL)) AND c",
        ),
        (
            "id IS DISTINCT FROM 1 + 1 AND b",
            "(id IS DISTINCT FROM (1 + 1)) AND b",
        ),
    ] {
        let of = |filter: &str| format!("SELECT id FROM f WHERE {filter} ORDER BY id");
        let (given, wanted) = (of(filter), of(bracketed));
        let given = rows(&mut session, &given).await;
        assert_eq!(given, rows(&mut session, &wanted).await, "{filter}");
        assert!(!given.is_empty(), "{filter}");
    }
    let case = "SELECT CASE WHEN b IS DISTINCT FROM true AND c THEN id END FROM f ORDER BY id";
    assert_eq!(rows(&mut session, case).await, "NULL; 2; NULL; 4");
    let join =
        "SELECT x.id FROM f x JOIN f y ON x.b IS NOT DISTINCT FROM y.b AND x.id = y.id ORDER BY 1";
    assert_eq!(rows(&mut session, join).await, "1; 2; 3; 4");
    let update = "UPDATE f SET id = 0 WHERE b IS NOT DISTINCT FROM NULL AND NOT c";
    assert_eq!(count(&mut session, update).await, 1);
    let delete = "DELETE FROM f WHERE b IS DISTINCT FROM true AND c";
    assert_eq!(count(&mut session, delete).await, 2);
}

#[tokio::test]
async fn maps_and_structs_have_literals() {
    let mut session = setup("CREATE TABLE n (m MAP<TEXT, INT>, s STRUCT<X INT, y TEXT>)").await;
    ok(
        &mut session,
        "INSERT INTO n VALUES (MAP {'Key': 1, 'b': 2}, {'X': 1, 'y': 'a'})",
    )
    .await;
    assert_eq!(
        rows(&mut session, "SELECT m['Key'], s.x, s['y'] FROM n").await,
        "1|1|a"
    );
    assert_eq!(
        rows(&mut session, "SELECT MAP {'k': 1 + 1}, {'x': 1}, MAP {}").await,
        "{k: 2}|{x: 1}|{}"
    );
}

#[tokio::test]
async fn results_are_named_by_the_text_of_their_expressions() {
    let mut session = setup(TABLES).await;
    let query = "SELECT 1, id + 1.5, Count(*), st['x'], st.x, max(id) \
                 FROM t, (SELECT {'x': 1} AS st) GROUP BY id, st";
    assert_eq!(
        columns(&mut session, query).await,
        ["1", "id + 1.5", "Count(*)", "st['x']", "st[x]", "max(id)"]
    );
    let query = "WITH w AS (SELECT 1, 2) SELECT DISTINCT ID IS DISTINCT FROM 1, \
                 CASE WHEN True THEN [1,  2] END, ID FROM t UNION ALL SELECT true, [3], 4 FROM w";
    assert_eq!(
        columns(&mut session, query).await,
        [
            "ID IS DISTINCT FROM 1",
            "CASE WHEN True THEN [1,  2] END",
            "id"
        ]
    );
    let query = "SELECT id, id, 1, 1 FROM t";
    assert_eq!(columns(&mut session, query).await, ["id", "id", "1", "1"]);
}

#[tokio::test]
async fn comments_are_set_and_removed() {
    let mut session = setup("CREATE TABLE c (Id INT COMMENT 'old', b TEXT)").await;
    for (statement, described) in [
        (
            "COMMENT ON COLUMN c.id IS 'it''s'",
            "Id|INT|YES|NO|it's; b|VARCHAR|YES|NO|NULL",
        ),
        (
            "COMMENT ON COLUMN main.c.B IS 'x'",
            "Id|INT|YES|NO|it's; b|VARCHAR|YES|NO|x",
        ),
        (
            "COMMENT ON COLUMN c.id IS NULL",
            "Id|INT|YES|NO|NULL; b|VARCHAR|YES|NO|x",
        ),
        (
            "COMMENT ON TABLE c IS 'all'",
            "Id|INT|YES|NO|NULL; b|VARCHAR|YES|NO|x",
        ),
    ] {
        ok(&mut session, statement).await;
        assert_eq!(
            rows(&mut session, "DESCRIBE c").await,
            described,
            "{statement}"
        );
    }
    let error = err(&mut session, "COMMENT ON COLUMN c.bb IS 'x'").await;
    assert_eq!(
        (error.sqlstate(), error.hint()),
        ("42703", Some("did you mean b?".to_owned()))
    );
}
