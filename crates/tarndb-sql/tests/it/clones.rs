//! CREATE TABLE .. CLONE in SQL.

use crate::support::*;

/// Versions 0: nothing, 1: rows 1 and 2, 2: row 2, 3: rows 2 and 3.
const TABLE: &str = "
    CREATE SCHEMA s;
    CREATE TABLE s.T (Id INT NOT NULL, v TEXT DEFAULT 'none', CHECK (id > 0)) PARTITIONED BY (v);
    INSERT INTO s.t VALUES (1, 'a/b'), (2, 'b');
    DELETE FROM s.t WHERE id = 1;
    INSERT INTO s.t VALUES (3, 'c')";

#[tokio::test]
async fn clones_of_every_kind_and_version_have_the_rows() {
    for (kind, version, expected) in [
        ("CLONE", "", "2|b; 3|c"),
        ("DEEP CLONE", "VERSION AS OF 1", "1|a/b; 2|b"),
        ("SHALLOW CLONE", "", "2|b; 3|c"),
        ("shallow clone", "FOR VERSION AS OF 2", "2|b"),
        ("SHALLOW CLONE", "VERSION AS OF 0", ""),
    ] {
        let mut session = setup(TABLE).await;
        ok(
            &mut session,
            &format!("CREATE TABLE c {kind} s.t {version}"),
        )
        .await;
        let query = "SELECT * FROM C ORDER BY id";
        assert_eq!(
            rows(&mut session, query).await,
            expected,
            "{kind} {version}"
        );
        // Rules and spelling come along; neither sees what happens to the other.
        err(&mut session, "INSERT INTO c VALUES (-1, 'x')").await;
        ok(
            &mut session,
            "INSERT INTO c (id) VALUES (9); DELETE FROM s.t",
        )
        .await;
        let added = "SELECT v FROM c WHERE id = 9";
        assert_eq!(rows(&mut session, added).await, "none", "{kind} {version}");
        assert_eq!(columns(&mut session, query).await, ["Id", "v"]);
        assert_eq!(rows(&mut session, "SELECT count(*) FROM s.t").await, "0");
        let history = rows(&mut session, "DESCRIBE HISTORY c").await;
        assert!(history.contains("|CLONE|"), "{history}");
    }
}

#[tokio::test]
async fn names_are_taken_kept_or_replaced_as_said() {
    let mut session = setup(TABLE).await;
    ok(
        &mut session,
        "CREATE TABLE c (x INT); INSERT INTO c VALUES (7)",
    )
    .await;
    err(&mut session, "CREATE TABLE c CLONE s.t").await;
    ok(&mut session, "CREATE TABLE IF NOT EXISTS c CLONE s.t").await;
    assert_eq!(rows(&mut session, "SELECT * FROM c").await, "7");
    ok(&mut session, "CREATE OR REPLACE TABLE c SHALLOW CLONE s.t").await;
    let query = "SELECT * FROM c ORDER BY id";
    assert_eq!(rows(&mut session, query).await, "2|b; 3|c");
    ok(
        &mut session,
        "BEGIN; CREATE OR REPLACE TABLE s.t CLONE c; DELETE FROM s.t WHERE id = 2; \
         CREATE TABLE gone SHALLOW CLONE s.t; DROP TABLE gone; COMMIT",
    )
    .await;
    assert_eq!(rows(&mut session, query).await, "2|b; 3|c");
    assert_eq!(rows(&mut session, "SELECT * FROM s.t").await, "3|c");
    // Somewhere in the middle of it nothing is left behind.
    ok(&mut session, "BEGIN; CREATE TABLE d CLONE c; ROLLBACK").await;
    err(&mut session, "SELECT * FROM d").await;
}

#[tokio::test]
async fn what_a_clone_cannot_be_is_told() {
    let mut session = setup(TABLE).await;
    for (statement, told) in [
        ("CREATE TABLE c CLONE nowhere", "nowhere"),
        ("CREATE TABLE c CLONE s.t VERSION AS OF 9", "no version 9"),
        ("CREATE TABLE x.c CLONE s.t", "x"),
        ("CREATE OR REPLACE TABLE s.t CLONE s.t", "itself"),
        ("CREATE TABLE c CLONE delta.`/some/where`", "no Delta table"),
        (
            "CREATE TABLE c SHALLOW CLONE delta.`/some/where`",
            "DEEP CLONE",
        ),
        ("CREATE TABLE delta.`/some/where` CLONE s.t", "/some/where"),
        (
            "CREATE TABLE c CLONE s.t TBLPROPERTIES ('a.b' = '1')",
            "ALTER TABLE",
        ),
        ("CREATE TABLE c SHALLOW s.t", "SHALLOW"),
        ("CREATE TABLE c CLONE s.t nonsense", "nonsense"),
    ] {
        let error = err(&mut session, statement).await;
        let text = format!("{} {error:?}", chain(&error));
        assert!(text.contains(told), "{statement}: {text}");
    }
}

#[tokio::test]
async fn a_table_by_path_is_copied_at_the_version_that_the_transaction_reads() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("t")).unwrap();
    let path = folder.path().join("t").display().to_string();
    let mut session =
        setup("CREATE TABLE o (a INT, p TEXT); INSERT INTO o VALUES (1, 'x y'), (2, NULL)").await;
    let script = format!(
        "COPY (SELECT a, p FROM o) TO '{path}/one.parquet'; CONVERT TO DELTA '{path}'; \
         INSERT INTO delta.`{path}` VALUES (3, 'z')"
    );
    ok(&mut session, &script).await;
    ok(
        &mut session,
        &format!("CREATE TABLE c DEEP CLONE delta.`{path}`"),
    )
    .await;
    ok(
        &mut session,
        &format!("CREATE TABLE d CLONE delta.`{path}` VERSION AS OF 0"),
    )
    .await;
    ok(
        &mut session,
        &format!("INSERT INTO delta.`{path}` VALUES (4, 'later')"),
    )
    .await;
    let all = "SELECT * FROM c ORDER BY a";
    assert_eq!(rows(&mut session, all).await, "1|x y; 2|NULL; 3|z");
    assert_eq!(rows(&mut session, "SELECT count(*) FROM d").await, "2");
    ok(
        &mut session,
        "DELETE FROM c WHERE a = 1; INSERT INTO c VALUES (5, 'own')",
    )
    .await;
    assert_eq!(rows(&mut session, all).await, "2|NULL; 3|z; 5|own");
    let theirs = format!("SELECT count(*) FROM delta.`{path}`");
    assert_eq!(rows(&mut session, &theirs).await, "4");
}
