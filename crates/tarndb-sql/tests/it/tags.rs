//! Versions of the database in SQL: tags, `tarndb.as_of`, RESTORE DATABASE, UNDROP TABLE.

use crate::support::*;

/// Version 1 creates `t`, 2 fills it.
const TABLE: &str = "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)";

#[tokio::test]
async fn a_session_reads_an_older_version_until_it_is_reset() {
    let mut session = setup(TABLE).await;
    ok(&mut session, "CREATE TAG Before").await;
    assert_eq!(session.take_notices(), ["tag Before is version 2"]);
    ok(
        &mut session,
        "DELETE FROM t WHERE a = 1; CREATE TABLE u (b INT); CREATE VIEW v AS SELECT a FROM t",
    )
    .await;
    for as_of in ["version 2", "tag BEFORE", "TAG before"] {
        ok(&mut session, &format!("SET tarndb.as_of = '{as_of}'")).await;
        assert_eq!(
            rows(&mut session, "SELECT a FROM t ORDER BY a").await,
            "1; 2"
        );
        assert_eq!(rows(&mut session, "SHOW tarndb.as_of").await, as_of);
        assert_eq!(rows(&mut session, "SHOW TABLES").await, "main|t");
        assert_eq!(
            err(&mut session, "SELECT * FROM v").await.sqlstate(),
            "42P01"
        );
        for statement in [
            "INSERT INTO t VALUES (9)",
            "CREATE TABLE x (a INT)",
            "CREATE VIEW x AS SELECT 1 AS a",
            "DROP TAG before",
            "RESTORE DATABASE TO VERSION AS OF 1",
            "VACUUM DATABASE",
            "EXPLAIN ANALYZE INSERT INTO t VALUES (9)",
        ] {
            let error = err(&mut session, statement).await;
            assert_eq!(error.sqlstate(), "25006", "{statement}: {error}");
        }
        ok(&mut session, "BEGIN").await;
        assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "2");
        ok(&mut session, "COMMIT").await;
    }
    ok(&mut session, "RESET tarndb.as_of").await;
    assert_eq!(rows(&mut session, "SELECT a FROM v").await, "2");
    ok(&mut session, "INSERT INTO t VALUES (9)").await;
    for (as_of, state) in [
        ("tag nope", "42704"),
        ("version 99", "58P01"),
        ("timestamp 1999-01-01", "58P01"),
        ("timestamp 2999-01-01", "58P01"),
        ("yesterday", "22023"),
    ] {
        let error = err(&mut session, &format!("SET tarndb.as_of = '{as_of}'")).await;
        assert_eq!(error.sqlstate(), state, "{as_of}: {error}");
    }
    ok(&mut session, "BEGIN").await;
    let error = err(&mut session, "SET tarndb.as_of = 'version 1'").await;
    assert_eq!(error.sqlstate(), "25001", "{error}");
}

#[tokio::test]
async fn a_timestamp_of_the_transactions_is_the_version_of_then() {
    let mut session = setup(TABLE).await;
    ok(&mut session, "INSERT INTO t VALUES (3)").await;
    let told = rows(&mut session, "SHOW TRANSACTIONS").await;
    let lines: Vec<Vec<&str>> = told
        .split("; ")
        .map(|row| row.split('|').collect())
        .collect();
    let shown: Vec<_> = lines.iter().map(|row| (row[0], row[3], row[4])).collect();
    assert_eq!(
        shown,
        [
            ("3", "WRITE", "main.t version 2"),
            ("2", "WRITE", "main.t version 1"),
            ("1", "CREATE TABLE", "main.t version 0"),
            ("0", "CREATE DATABASE", ""),
        ],
        "{told}"
    );
    assert!(lines.iter().all(|row| row[5] == "snapshot"), "{told}");
    let then = lines[1][1].to_owned();
    ok(
        &mut session,
        &format!("SET tarndb.as_of = 'timestamp {then}'"),
    )
    .await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "2");
    // An older version tells what was there then.
    let told = rows(&mut session, "SHOW TRANSACTIONS LIMIT 1").await;
    assert!(told.starts_with("2|"), "{told}");
}

#[tokio::test]
async fn tags_are_listed_and_dropped_and_taken_once() {
    let db = database().await;
    let (mut one, mut two) = (session(&db), session(&db));
    ok(&mut one, TABLE).await;
    ok(&mut one, "CREATE TAG a VERSION AS OF 1; CREATE TAG b").await;
    let told = rows(&mut one, "SHOW TAGS").await;
    let shown: Vec<&str> = told.split("; ").collect();
    assert!(
        shown[0].starts_with("a|1|") && shown[1].starts_with("b|3|"),
        "{told}"
    );
    for (statement, state) in [
        ("CREATE TAG A", "42710"),
        ("CREATE TAG c VERSION AS OF 99", "58P01"),
        ("DROP TAG nope", "42704"),
        ("CREATE TAG c TAG nope", "42704"),
    ] {
        let error = err(&mut one, statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {error}");
    }
    ok(
        &mut one,
        "CREATE TAG IF NOT EXISTS a; DROP TAG IF EXISTS nope",
    )
    .await;
    ok(&mut one, "BEGIN; CREATE TAG c; DROP TAG b").await;
    ok(&mut two, "DROP TAG b").await;
    let error = err(&mut one, "COMMIT").await;
    assert_eq!(error.sqlstate(), "55000", "{error}");
    let told = rows(&mut one, "SHOW TAGS").await;
    assert!(told.starts_with("a|1|") && !told.contains(';'), "{told}");
}

#[tokio::test]
async fn a_dropped_table_comes_back_with_its_rows() {
    let db = database().await;
    let mut session = session(&db);
    ok(&mut session, TABLE).await;
    ok(
        &mut session,
        "DELETE FROM t WHERE a = 1; DROP TABLE t; CREATE TABLE t (other TEXT); DROP TABLE t;
         UNDROP TABLE T",
    )
    .await;
    // The last one of the name.
    assert_eq!(columns(&mut session, "SELECT * FROM t").await, ["other"]);
    assert_eq!(
        err(&mut session, "UNDROP TABLE t").await.sqlstate(),
        "42P07"
    );
    ok(
        &mut session,
        "ALTER TABLE t RENAME TO newer; UNDROP TABLE t",
    )
    .await;
    assert_eq!(rows(&mut session, "SELECT a FROM t").await, "2");
    ok(&mut session, "BEGIN; DROP TABLE t").await;
    assert_eq!(
        err(&mut session, "UNDROP TABLE t").await.sqlstate(),
        "55000"
    );
    ok(&mut session, "ROLLBACK; DROP TABLE t").await;
    // Changed in the transaction that brings it back.
    ok(
        &mut session,
        "BEGIN; UNDROP TABLE t; DELETE FROM t WHERE a = 2; INSERT INTO t VALUES (5), (6)",
    )
    .await;
    assert_eq!(
        rows(&mut session, "SELECT a FROM t ORDER BY a").await,
        "5; 6"
    );
    ok(&mut session, "COMMIT").await;
    assert_eq!(
        rows(&mut session, "SELECT a FROM t ORDER BY a").await,
        "5; 6"
    );
    let reopened = reopened(&db).await;
    let mut other = crate::support::session(&reopened);
    assert_eq!(rows(&mut other, "SELECT a FROM t ORDER BY a").await, "5; 6");
    for statement in ["UNDROP TABLE nope", "UNDROP TABLE main.newest"] {
        assert_eq!(err(&mut session, statement).await.sqlstate(), "42704");
    }
    assert_eq!(
        err(&mut session, "UNDROP TABLE s.t").await.sqlstate(),
        "3F000"
    );
    assert!(db.check(true, |_| {}).await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn the_whole_database_goes_back_and_forth() {
    let db = database().await;
    let mut session = session(&db);
    ok(&mut session, TABLE).await;
    ok(
        &mut session,
        "CREATE SCHEMA s; CREATE TABLE s.gone (g INT); INSERT INTO s.gone VALUES (7);
         CREATE TABLE a (x INT); INSERT INTO a VALUES (1);
         CREATE TABLE b (x INT); INSERT INTO b VALUES (2);
         CREATE VIEW v AS SELECT a FROM t; CREATE VIEW kept AS SELECT 1 AS one; CREATE TAG first_state",
    )
    .await;
    let before = state(&mut session).await;
    ok(
        &mut session,
        "UPDATE t SET a = a + 10; ALTER TABLE t ADD COLUMN c INT; DROP SCHEMA s CASCADE;
         ALTER TABLE a RENAME TO c; ALTER TABLE b RENAME TO a; ALTER TABLE c RENAME TO b;
         CREATE SCHEMA fresh; CREATE TABLE fresh.f (z INT); CREATE TABLE new (n INT);
         CREATE OR REPLACE VIEW v AS SELECT 5 AS q; CREATE VIEW later AS SELECT 6 AS q",
    )
    .await;
    let told = rows(&mut session, "RESTORE DATABASE TO TAG first_state").await;
    assert_eq!(told, "1|1|2|2|2");
    assert_eq!(state(&mut session).await, before);
    assert_eq!(
        rows(&mut session, "SELECT a FROM t ORDER BY a").await,
        "1; 2"
    );
    assert_eq!(rows(&mut session, "SELECT x FROM a").await, "1");
    assert_eq!(rows(&mut session, "SELECT g FROM s.gone").await, "7");
    let told = rows(&mut session, "SHOW TRANSACTIONS LIMIT 1").await;
    assert!(told.contains("RESTORE DATABASE"), "{told}");
    // It is the state already.
    assert_eq!(
        rows(&mut session, "RESTORE DATABASE TO TAG first_state").await,
        "0|0|0|0|0"
    );
    // Its own version is one to go back from.
    ok(&mut session, "BEGIN; CREATE TABLE x (a INT)").await;
    let error = err(&mut session, "RESTORE DATABASE TO VERSION AS OF 1").await;
    assert_eq!(error.sqlstate(), "55000", "{error}");
    ok(
        &mut session,
        "ROLLBACK; RESTORE DATABASE TO VERSION AS OF 1",
    )
    .await;
    assert_eq!(rows(&mut session, "SHOW TABLES").await, "main|t");
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "0");
    assert!(db.check(true, |_| {}).await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn a_restore_of_the_database_leaves_nothing_of_others_as_it_is() {
    let db = database().await;
    let (mut one, mut two) = (session(&db), session(&db));
    ok(&mut one, TABLE).await;
    ok(&mut one, "CREATE TABLE u (b INT)").await;
    for beside in [
        "INSERT INTO u VALUES (1)",
        "CREATE TABLE w1 (c INT)",
        "CREATE VIEW w2 AS SELECT 1 AS c",
        "CREATE SCHEMA w3",
    ] {
        ok(&mut one, "INSERT INTO t VALUES (3)").await;
        ok(&mut one, "BEGIN; RESTORE DATABASE TO VERSION AS OF 3").await;
        ok(&mut two, beside).await;
        let error = err(&mut one, "COMMIT").await;
        assert_eq!(error.sqlstate(), "40001", "{beside}: {}", chain(&error));
    }
    ok(&mut one, "RESTORE DATABASE TO VERSION AS OF 3").await;
    assert_eq!(rows(&mut two, "SHOW TABLES").await, "main|t; main|u");
    assert_eq!(rows(&mut two, "SELECT count(*) FROM u").await, "0");
}

async fn state(session: &mut tarndb_sql::Session) -> String {
    let mut told = rows(session, "SHOW TABLES").await;
    for query in ["SHOW VIEWS", "SHOW SCHEMAS", "DESCRIBE t"] {
        told.push_str(" / ");
        told.push_str(&rows(session, query).await);
    }
    told
}
