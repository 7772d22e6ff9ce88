//! Views: what they give, what they are refused, and what others do beside them.

use crate::support::*;

const TABLES: &str = "
    CREATE TABLE Sales (Id INT, Region TEXT, Amount INT);
    INSERT INTO sales VALUES (1, 'north', 10), (2, 'south', 20), (3, 'north', 30)";

#[tokio::test]
async fn a_view_is_read_like_a_table_under_every_spelling() {
    let mut session = setup(TABLES).await;
    ok(
        &mut session,
        "CREATE VIEW Totals AS SELECT Region, sum(amount) AS Total FROM sales GROUP BY region",
    )
    .await;
    for (query, expected) in [
        ("SELECT * FROM totals ORDER BY region", "north|40; south|20"),
        (
            "SELECT T.total FROM main.TOTALS t WHERE t.REGION = 'south'",
            "20",
        ),
        (
            "SELECT s.id, t.total FROM sales s JOIN totals t ON s.region = t.region ORDER BY 1",
            "1|40; 2|20; 3|40",
        ),
        ("WITH totals AS (SELECT 7 AS x) SELECT x FROM totals", "7"),
        ("SELECT (SELECT max(total) FROM totals)", "40"),
    ] {
        assert_eq!(rows(&mut session, query).await, expected, "{query}");
    }
    assert_eq!(
        columns(&mut session, "SELECT * FROM totals").await,
        ["Region", "Total"]
    );
    ok(&mut session, "INSERT INTO sales VALUES (4, 'south', 5)").await;
    let query = "SELECT total FROM totals WHERE region = 'south'";
    assert_eq!(rows(&mut session, query).await, "25");
    ok(&mut session, "CREATE TABLE copied AS SELECT * FROM totals").await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM copied").await, "2");
}

#[tokio::test]
async fn columns_are_those_of_the_creation() {
    let mut session = setup(TABLES).await;
    ok(
        &mut session,
        "CREATE VIEW all_of AS SELECT * FROM sales;
         CREATE VIEW named (A, b) AS SELECT id, id FROM sales WHERE id = 1;
         CREATE VIEW computed AS SELECT id + 1, count(*) OVER () FROM sales;
         ALTER TABLE sales ADD COLUMN extra INT",
    )
    .await;
    let all = columns(&mut session, "SELECT * FROM all_of").await;
    assert_eq!(all, ["Id", "Region", "Amount"]);
    assert_eq!(rows(&mut session, "SELECT b, a FROM named").await, "1|1");
    let names = columns(&mut session, "SELECT * FROM computed").await;
    assert_eq!(names, ["id + 1", "count(*) OVER ()"]);
    ok(
        &mut session,
        "ALTER TABLE sales RENAME COLUMN region TO area",
    )
    .await;
    let error = err(&mut session, "SELECT id FROM all_of").await;
    let text = chain(&error);
    assert!(
        text.contains("view main.all_of") && text.contains("egion"),
        "{text}"
    );
    for (statement, state) in [
        ("CREATE VIEW x (a) AS SELECT id, amount FROM sales", "42601"),
        ("CREATE VIEW x AS SELECT id, id FROM sales", "42701"),
        ("CREATE VIEW x AS SELECT $1 AS a", "42601"),
        ("CREATE VIEW x AS SELECT nope FROM sales", "42703"),
        ("CREATE VIEW x AS DELETE FROM sales", "42601"),
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {error}");
    }
}

#[tokio::test]
async fn nested_views_work_and_cycles_are_refused_by_name() {
    let mut session = setup(TABLES).await;
    ok(
        &mut session,
        "CREATE SCHEMA s;
         CREATE VIEW a AS SELECT id FROM sales WHERE id < 3;
         CREATE VIEW s.b AS SELECT id FROM a WHERE id > 1;
         CREATE VIEW c AS SELECT x.id FROM s.b x JOIN a y ON x.id = y.id",
    )
    .await;
    assert_eq!(rows(&mut session, "SELECT * FROM c").await, "2");
    for query in ["SELECT id FROM c", "SELECT 1 AS id FROM a"] {
        let error = err(
            &mut session,
            &format!("CREATE OR REPLACE VIEW a AS {query}"),
        )
        .await;
        assert_eq!(error.sqlstate(), "42P17", "{error}");
        assert!(
            chain(&error).contains("view main.a leads back to itself"),
            "{error}"
        );
    }
    ok(&mut session, "DROP VIEW a").await;
    let error = err(&mut session, "SELECT * FROM c").await;
    assert_eq!(error.sqlstate(), "42P01");
    assert!(
        chain(&error).starts_with("view main.c: ") && chain(&error).contains("table a "),
        "{error:?}"
    );
    ok(&mut session, "CREATE VIEW a AS SELECT id FROM sales").await;
    assert_eq!(
        rows(&mut session, "SELECT * FROM c ORDER BY 1").await,
        "2; 3"
    );
}

#[tokio::test]
async fn a_view_is_no_table_and_a_table_no_view() {
    let mut session = setup(TABLES).await;
    ok(&mut session, "CREATE VIEW v AS SELECT id FROM sales").await;
    for (statement, state) in [
        ("CREATE TABLE V (a INT)", "42809"),
        ("CREATE VIEW SALES AS SELECT 1 AS a", "42P07"),
        ("CREATE OR REPLACE VIEW sales AS SELECT 1 AS a", "42809"),
        ("CREATE VIEW v AS SELECT 1 AS a", "42P07"),
        ("INSERT INTO v VALUES (1)", "42809"),
        ("UPDATE v SET id = 1", "42809"),
        ("DELETE FROM v", "42809"),
        ("TRUNCATE v", "42809"),
        ("ALTER TABLE v ADD COLUMN x INT", "42809"),
        ("DROP TABLE v", "42809"),
        ("DROP TABLE IF EXISTS v", "42809"),
        ("DROP VIEW sales", "42809"),
        ("DROP VIEW nope", "42P01"),
        ("SELECT * FROM v VERSION AS OF 0", "42809"),
        ("ALTER TABLE sales RENAME TO v", "42P07"),
        ("ALTER VIEW v RENAME TO sales", "42P07"),
        ("CREATE VIEW nope.v AS SELECT 1 AS a", "3F000"),
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {}", chain(&error));
    }
    assert_eq!(rows(&mut session, "SELECT count(*) FROM v").await, "3");
    ok(&mut session, "DROP VIEW IF EXISTS nope").await;
    assert_eq!(session.take_notices(), ["view nope does not exist"]);
    ok(&mut session, "CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS a").await;
    assert_eq!(session.take_notices(), ["v exists already"]);
}

#[tokio::test]
async fn views_are_renamed_commented_listed_and_dropped() {
    let mut session = setup(TABLES).await;
    ok(
        &mut session,
        "CREATE SCHEMA s;
         CREATE VIEW v AS SELECT id FROM sales;
         COMMENT ON VIEW v IS 'ids';
         ALTER VIEW v RENAME TO W;
         ALTER VIEW w SET SCHEMA s;
         CREATE OR REPLACE VIEW other AS SELECT 1 AS a;
         CREATE OR REPLACE VIEW other AS SELECT 2 AS b",
    )
    .await;
    assert_eq!(
        rows(&mut session, "SHOW VIEWS").await,
        "main|other|NULL; s|W|ids"
    );
    assert_eq!(rows(&mut session, "SHOW VIEWS IN s").await, "s|W|ids");
    assert_eq!(
        rows(&mut session, "SHOW COLUMNS FROM s.w").await,
        "Id|INT|YES"
    );
    assert_eq!(rows(&mut session, "SELECT b FROM other").await, "2");
    let error = err(&mut session, "DROP SCHEMA s").await;
    assert_eq!(error.sqlstate(), "2BP01");
    ok(&mut session, "DROP SCHEMA s CASCADE").await;
    assert_eq!(rows(&mut session, "SHOW VIEWS").await, "main|other|NULL");
}

#[tokio::test]
async fn a_transaction_sees_its_own_views_and_takes_them_back() {
    let db = database().await;
    let (mut one, mut two) = (session(&db), session(&db));
    ok(&mut one, TABLES).await;
    ok(
        &mut one,
        "BEGIN; CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2);
         CREATE VIEW v AS SELECT sum(a) AS s FROM t",
    )
    .await;
    assert_eq!(rows(&mut one, "SELECT s FROM v").await, "3");
    assert_eq!(err(&mut two, "SELECT s FROM v").await.sqlstate(), "42P01");
    ok(&mut one, "INSERT INTO t VALUES (4)").await;
    assert_eq!(rows(&mut one, "SELECT s FROM v").await, "7");
    ok(&mut one, "COMMIT").await;
    assert_eq!(rows(&mut two, "SELECT s FROM v").await, "7");
    ok(&mut one, "BEGIN; DROP VIEW v; CREATE TABLE v (x INT)").await;
    assert_eq!(rows(&mut one, "SELECT count(*) FROM v").await, "0");
    ok(&mut one, "ROLLBACK").await;
    let reopened = reopened(&db).await;
    assert_eq!(rows(&mut session(&reopened), "SELECT s FROM v").await, "7");
    // What was created and dropped again was never there.
    ok(
        &mut one,
        "BEGIN; CREATE VIEW w AS SELECT 1 AS a; DROP VIEW w; COMMIT",
    )
    .await;
    ok(&mut two, "CREATE VIEW w AS SELECT 2 AS a").await;
}

#[tokio::test]
async fn two_that_replace_one_view_conflict_and_a_serializable_reader_notices() {
    let db = database().await;
    let (mut one, mut two) = (session(&db), session(&db));
    ok(&mut one, TABLES).await;
    ok(&mut one, "CREATE VIEW v AS SELECT id FROM sales").await;
    ok(&mut one, "BEGIN; CREATE OR REPLACE VIEW v AS SELECT 1 AS a").await;
    ok(&mut two, "BEGIN; DROP VIEW v").await;
    ok(&mut one, "COMMIT").await;
    let error = err(&mut two, "COMMIT").await;
    assert_eq!(error.sqlstate(), "55000", "{error}");
    assert!(chain(&error).contains("view main.v"), "{}", chain(&error));
    ok(&mut two, "CREATE TABLE sink (n BIGINT)").await;
    for (level, fails) in [("SNAPSHOT", false), ("SERIALIZABLE", true)] {
        ok(
            &mut two,
            &format!("BEGIN ISOLATION LEVEL {level}; INSERT INTO sink SELECT count(*) FROM v"),
        )
        .await;
        ok(&mut one, "CREATE OR REPLACE VIEW v AS SELECT 2 AS a").await;
        let ended = two.sql("COMMIT").await;
        assert_eq!(ended.is_err(), fails, "{level}");
        if let Err(error) = ended {
            assert_eq!(error.sqlstate(), "40001", "{error}");
        }
    }
}

#[tokio::test]
async fn information_schema_tells_of_views_and_of_those_that_do_not_work() {
    let mut session = setup(TABLES).await;
    ok(
        &mut session,
        "CREATE VIEW v AS SELECT id, amount * 2 AS Twice FROM sales;
         CREATE TABLE gone (a INT); CREATE VIEW broken AS SELECT a FROM gone; DROP TABLE gone",
    )
    .await;
    let query = "SELECT table_name, table_type FROM information_schema.tables \
                 WHERE table_schema = 'main' ORDER BY 1";
    assert_eq!(
        rows(&mut session, query).await,
        "Sales|BASE TABLE; broken|VIEW; v|VIEW"
    );
    let query = "SELECT column_name, data_type, ordinal_position FROM information_schema.columns \
                 WHERE table_name = 'v' ORDER BY 3";
    assert_eq!(rows(&mut session, query).await, "Id|INT|1; Twice|BIGINT|2");
    let query = "SELECT table_name, view_definition FROM information_schema.views \
                 WHERE table_schema = 'main' ORDER BY 1";
    assert_eq!(
        rows(&mut session, query).await,
        "broken|SELECT a FROM gone; v|SELECT id, amount * 2 AS Twice FROM sales"
    );
}

/// The engine took a struct column that is called anew by its own name for two.
#[tokio::test]
async fn a_field_of_a_struct_is_read_through_a_view_and_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.parquet").display().to_string();
    let mut session = setup(
        "CREATE TABLE t AS SELECT {'a': {'b': 1}} AS s, 7 AS id; CREATE VIEW v AS SELECT s, id FROM t;
         CREATE VIEW c AS SELECT {'a': {'b': 1}} AS s; CREATE VIEW r (q) AS SELECT s FROM t",
    )
    .await;
    ok(&mut session, &format!("COPY t TO '{file}'")).await;
    for query in [
        "SELECT s.a.b FROM v".to_owned(),
        "SELECT v.s.a.b FROM v WHERE s.a.b = 1 AND id = 7".to_owned(),
        "SELECT s['a']['b'] FROM c".to_owned(),
        "SELECT q.a.b FROM r".to_owned(),
        format!("SELECT s.a.b FROM '{file}'"),
    ] {
        assert_eq!(rows(&mut session, &query).await, "1", "{query}");
    }
}
