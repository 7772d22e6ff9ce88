//! Earlier versions of tables, their history and their changes in SQL.

use crate::support::*;

/// Versions 0: nothing, 1: rows 1 and 2, 2: row 2, 3: rows 2 and 3.
const TABLE: &str = "
    CREATE SCHEMA s;
    CREATE TABLE s.T (Id INT, v TEXT) WITH ('delta.enableChangeDataFeed' = 'true');
    INSERT INTO s.t VALUES (1, 'a'), (2, 'b');
    DELETE FROM s.t WHERE id = 1;
    INSERT INTO s.t VALUES (3, 'c');
    CREATE TABLE plain (n INT)";

#[tokio::test]
async fn versions_are_read_under_every_spelling_beside_the_present_one() {
    let mut session = setup(TABLE).await;
    for (query, expected) in [
        ("SELECT * FROM s.t VERSION AS OF 0", ""),
        (
            "SELECT id, v FROM s.T VERSION AS OF 1 ORDER BY id",
            "1|a; 2|b",
        ),
        ("SELECT s.t.id FROM s.t VERSION AS OF 2", "2"),
        (
            "SELECT x.ID FROM s.t FOR VERSION AS OF 1 AS x WHERE x.id < 2",
            "1",
        ),
        ("SELECT count(*) FROM s.t VERSION AS OF 3", "2"),
        (
            "SELECT old.id FROM s.t VERSION AS OF 1 old LEFT JOIN s.t new ON old.id = new.id \
             WHERE new.id IS NULL",
            "1",
        ),
        (
            "SELECT (SELECT count(*) FROM s.t VERSION AS OF 1) - \
             (SELECT count(*) FROM s.t VERSION AS OF 2)",
            "1",
        ),
    ] {
        assert_eq!(rows(&mut session, query).await, expected, "{query}");
    }
    let old = "SELECT * FROM s.t VERSION AS OF 1";
    assert_eq!(columns(&mut session, old).await, ["Id", "v"]);
}

#[tokio::test]
async fn a_timestamp_from_the_history_is_the_version_of_then() {
    let mut session = setup(TABLE).await;
    let history = "DESCRIBE HISTORY s.t";
    let told = rows(&mut session, history).await;
    let versions: Vec<Vec<&str>> = told
        .split("; ")
        .map(|row| row.split('|').collect())
        .collect();
    let numbers: Vec<&str> = versions.iter().map(|row| row[0]).collect();
    assert_eq!(numbers, ["3", "2", "1", "0"], "{told}");
    let operations: Vec<&str> = versions.iter().map(|row| row[2]).collect();
    assert_eq!(
        operations,
        ["WRITE", "DELETE", "WRITE", "CREATE TABLE"],
        "{told}"
    );
    let newest = rows(&mut session, "DESCRIBE HISTORY s.t LIMIT 1").await;
    assert!(
        newest.starts_with("3|") && !newest.contains("; "),
        "{newest}"
    );
    let time = versions[2][1];
    for of in ["TIMESTAMP", "FOR SYSTEM_TIME", "FOR TIMESTAMP"] {
        let query = format!("SELECT id FROM s.t {of} AS OF '{time}' ORDER BY id");
        assert_eq!(rows(&mut session, &query).await, "1; 2", "{query}");
    }
    ok(&mut session, "CREATE TABLE history (h INT)").await;
    assert!(
        rows(&mut session, "DESCRIBE history")
            .await
            .starts_with("h|")
    );
}

#[tokio::test]
async fn changes_are_a_table_function() {
    let mut session = setup(TABLE).await;
    for (query, expected) in [
        (
            "SELECT id, V, _change_type, _commit_version FROM table_changes('s.T', 0) ORDER BY 4, 1",
            "1|a|insert|1; 2|b|insert|1; 1|a|delete|2; 3|c|insert|3",
        ),
        (
            "SELECT id FROM table_changes('s.t', 1, 1) c WHERE c.id > 1",
            "2",
        ),
        ("SELECT count(*) FROM table_changes('s.t', 2, 3)", "2"),
    ] {
        assert_eq!(rows(&mut session, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn a_version_is_never_passed_over() {
    let mut session = setup(TABLE).await;
    for (query, state) in [
        ("SELECT * FROM s.t VERSION AS OF 4", "58P01"),
        ("SELECT * FROM s.t TIMESTAMP AS OF '2001-01-01'", "58P01"),
        ("SELECT * FROM s.t TIMESTAMP AS OF '2999-01-01'", "58P01"),
        ("SELECT * FROM s.t TIMESTAMP AS OF 'soon'", "22023"),
        ("SELECT * FROM s.t VERSION AS OF 1.5", "22023"),
        ("SELECT * FROM s.t TIMESTAMP AS OF now()", "0A000"),
        ("SELECT * FROM s.t AT(VERSION => 1)", "0A000"),
        ("SELECT * FROM s.nothing VERSION AS OF 1", "42P01"),
        (
            "SELECT * FROM generate_series(1, 2) VERSION AS OF 1",
            "42601",
        ),
        ("SELECT * FROM table_changes('s.t', 3, 2)", "22000"),
        ("SELECT * FROM table_changes('s.t')", "42883"),
        ("SELECT * FROM table_changes('s.t', 9)", "58P01"),
        ("SELECT * FROM table_changes('s.t', 1, 2, 3)", "42883"),
        ("RESTORE TABLE s.t TO VERSION AS OF 4", "58P01"),
        ("RESTORE s.t TO TIMESTAMP AS OF '2001-01-01'", "58P01"),
        ("RESTORE s.t TO TIMESTAMP AS OF 'soon'", "22023"),
        ("RESTORE s.t TO VERSION AS OF 'x'", "42601"),
        ("RESTORE s.t TO 1", "42601"),
        ("RESTORE s.nothing TO VERSION AS OF 1", "42P01"),
        ("CREATE TABLE b CLONE s.t VERSION AS OF 4", "58P01"),
    ] {
        let error = err(&mut session, query).await;
        assert_eq!(error.sqlstate(), state, "{query}: {}", chain(&error));
    }
    let off = err(&mut session, "SELECT * FROM table_changes('plain', 0)").await;
    assert!(chain(&off).contains("plain"), "{}", chain(&off));
    ok(&mut session, "BEGIN; CREATE TABLE fresh (n INT)").await;
    let fresh = err(&mut session, "SELECT * FROM fresh VERSION AS OF 0").await;
    assert_eq!(fresh.sqlstate(), "0A000", "{}", chain(&fresh));
}

#[tokio::test]
async fn rows_are_brought_back_from_an_earlier_version() {
    let mut session = setup(TABLE).await;
    let back = "INSERT OVERWRITE s.t SELECT * FROM s.t VERSION AS OF 1";
    ok(&mut session, back).await;
    let query = "SELECT id FROM s.t ORDER BY id";
    assert_eq!(rows(&mut session, query).await, "1; 2");
}

#[tokio::test]
async fn changes_before_a_set_not_null_keep_their_nulls() {
    let mut session = setup(
        "CREATE TABLE m (k INT, v INT) WITH ('delta.enableChangeDataFeed' = 'true');
         INSERT INTO m VALUES (1, NULL);
         UPDATE m SET v = 1;",
    )
    .await;
    ok(&mut session, "ALTER TABLE m ALTER COLUMN v SET NOT NULL").await;
    let query = "SELECT v, _change_type FROM table_changes('m', 1) ORDER BY _commit_version, v";
    let found = rows(&mut session, query).await;
    assert!(found.starts_with("NULL|insert; "), "{found}");
    assert!(found.contains("1|update_postimage"), "{found}");
}

#[tokio::test]
async fn a_table_is_restored_alone_and_among_other_statements() {
    let mut session = setup(TABLE).await;
    let figures = rows(&mut session, "RESTORE TABLE s.t TO VERSION AS OF 1").await;
    // Size and number of files afterwards, files that went and came, their sizes.
    let figures: Vec<i64> = figures.split('|').map(|n| n.parse().unwrap()).collect();
    assert_eq!(figures.len(), 6);
    assert!(figures[0] > 0 && figures[1] > 0, "{figures:?}");
    let query = "SELECT id FROM s.t ORDER BY id";
    assert_eq!(rows(&mut session, query).await, "1; 2");
    let told = "DESCRIBE HISTORY s.t LIMIT 1";
    let told = rows(&mut session, told).await;
    assert!(
        told.contains("RESTORE") && told.contains("numRestoredFiles"),
        "{told}"
    );
    ok(
        &mut session,
        "BEGIN;
         INSERT INTO s.t SELECT * FROM s.t;
         RESTORE s.t TO VERSION AS OF 0;
         INSERT INTO s.t SELECT * FROM s.t VERSION AS OF 1 WHERE id = 2;",
    )
    .await;
    assert_eq!(rows(&mut session, query).await, "2");
    ok(&mut session, "COMMIT").await;
    assert_eq!(rows(&mut session, query).await, "2");
    ok(
        &mut session,
        "BEGIN; RESTORE s.t TO VERSION AS OF 1; ROLLBACK",
    )
    .await;
    assert_eq!(rows(&mut session, query).await, "2");
}

#[tokio::test]
async fn times_in_errors_can_be_said_in_a_statement() {
    let mut session = setup(TABLE).await;
    let error = err(
        &mut session,
        "SELECT * FROM s.t TIMESTAMP AS OF '2001-01-01'",
    )
    .await;
    let told = chain(&error);
    assert!(told.contains("2001-01-01T00:00:00.000Z"), "{told}");
    assert!(!told.contains("ms since 1970"), "{told}");
}

#[tokio::test]
async fn a_name_of_with_has_no_versions_and_hides_no_table_out_of_its_sight() {
    let mut session = setup(TABLE).await;
    ok(
        &mut session,
        "CREATE TABLE v (n INT); INSERT INTO v VALUES (1); TRUNCATE v",
    )
    .await;
    for query in [
        "WITH v AS (SELECT 7 AS n) SELECT n FROM v VERSION AS OF 1",
        "WITH V AS (SELECT 7 AS n), w AS (SELECT * FROM v VERSION AS OF 1) SELECT n FROM w",
        "WITH v AS (SELECT 7 AS n) SELECT (SELECT max(n) FROM v VERSION AS OF 1)",
    ] {
        let error = err(&mut session, query).await;
        assert_eq!(error.sqlstate(), "0A000", "{query}: {}", chain(&error));
        assert!(chain(&error).contains("WITH"), "{}", chain(&error));
    }
    for query in [
        "WITH v AS (SELECT n FROM v VERSION AS OF 1) SELECT n FROM v",
        "WITH w AS (SELECT n FROM v VERSION AS OF 1), v AS (SELECT 7) SELECT n FROM w",
        "SELECT n FROM (WITH v AS (SELECT 7) SELECT * FROM v), v VERSION AS OF 1",
        "WITH v AS (SELECT 7 AS n) SELECT n FROM main.v VERSION AS OF 1",
    ] {
        assert_eq!(rows(&mut session, query).await, "1", "{query}");
    }
}
