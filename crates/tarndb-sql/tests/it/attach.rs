//! ATTACH TABLE and DETACH TABLE as statements.

use tarndb_table::{DataType, Field};

use crate::support::*;

/// A folder with a table of its own in it.
async fn table() -> (tempfile::TempDir, String) {
    let fields = vec![
        Field::new("Id", DataType::Integer, true),
        Field::new("f", DataType::Double, true),
    ];
    table_by_path(fields, &[], &[]).await
}

#[tokio::test]
async fn attached_table_takes_part_in_everything_and_is_given_back() {
    let (_guard, path) = table().await;
    let mut session = setup("CREATE TABLE s (id INT, f DOUBLE)").await;
    let by_path = format!("delta.`{path}`");
    ok(
        &mut session,
        &format!("INSERT INTO {by_path} VALUES (1, 1), (2, 2)"),
    )
    .await;
    ok(&mut session, &format!("ATTACH TABLE '{path}' AS taken")).await;
    let script = "BEGIN; INSERT INTO taken VALUES (3, 'NaN'); INSERT INTO s SELECT * FROM taken; \
                  UPDATE taken SET f = 20 WHERE id = 2; DELETE FROM taken WHERE id = 1; COMMIT";
    ok(&mut session, script).await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM s").await, "3");
    let ids = "SELECT id FROM taken ORDER BY id";
    assert_eq!(rows(&mut session, ids).await, "2; 3");
    // NaN is above every number, whoever wrote the file's bounds.
    let above = "SELECT id FROM taken WHERE f > 100";
    assert_eq!(rows(&mut session, above).await, "3");
    let before = "SELECT id FROM taken VERSION AS OF 1 ORDER BY id";
    assert_eq!(rows(&mut session, before).await, "1; 2");
    let error = err(
        &mut session,
        &format!("INSERT INTO {by_path} VALUES (9, 9)"),
    )
    .await;
    assert_eq!(error.sqlstate(), "0A000", "{error}");
    let error = err(&mut session, "DROP TABLE taken").await;
    assert!(error.to_string().contains("DETACH TABLE"), "{error}");
    assert_eq!(error.sqlstate(), "0A000");

    ok(
        &mut session,
        "DETACH TABLE taken; DETACH TABLE IF EXISTS taken",
    )
    .await;
    let error = err(&mut session, "DETACH TABLE taken").await;
    assert_eq!(error.sqlstate(), "42P01", "{error}");
    ok(
        &mut session,
        &format!("INSERT INTO {by_path} VALUES (4, 4)"),
    )
    .await;
    let query = format!("SELECT id FROM {by_path} ORDER BY id");
    assert_eq!(rows(&mut session, &query).await, "2; 3; 4");
    // Back to a version of the time when the database managed it, and yet nobody's.
    let restore = format!("RESTORE {by_path} TO VERSION AS OF 3");
    ok(&mut session, &restore).await;
    assert_eq!(rows(&mut session, &query).await, "2; 3");
    ok(
        &mut session,
        &format!("INSERT INTO {by_path} VALUES (4, 4)"),
    )
    .await;
    ok(
        &mut session,
        &format!("ATTACH TABLE {by_path} AS main.again"),
    )
    .await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM again").await, "3");
}

#[tokio::test]
async fn attach_and_detach_stand_alone_and_say_what_is_wrong() {
    let (_guard, path) = table().await;
    let mut session = setup("CREATE TABLE s (id INT)").await;
    for statement in [
        format!("ATTACH TABLE '{path}' AS x"),
        "DETACH TABLE s".to_owned(),
    ] {
        let error = err(&mut session, &format!("BEGIN; {statement}")).await;
        assert_eq!(error.sqlstate(), "0A000", "{error}");
        ok(&mut session, "ROLLBACK").await;
    }
    for (statement, state) in [
        (format!("ATTACH TABLE '{path}/no' AS x"), "58P01"),
        (format!("ATTACH TABLE '{path}' AS s"), "42P07"),
        (format!("ATTACH TABLE '{path}' AS no.x"), "3F000"),
        ("ATTACH TABLE 'ftp://a/b' AS x".to_owned(), "22000"),
        (format!("ATTACH TABLE '{path}'"), "42601"),
        ("DETACH TABLE none".to_owned(), "42P01"),
    ] {
        let error = err(&mut session, &statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {error}");
    }
}

/// Statements that must be refused as not supported.
async fn refuse(session: &mut tarndb_sql::Session, statements: &[&str]) {
    for statement in statements {
        let error = err(session, statement).await;
        assert_eq!(error.sqlstate(), "0A000", "{statement}: {error}");
    }
}

#[tokio::test]
async fn tables_that_share_files_stay_in_the_database() {
    let script = "CREATE TABLE src (id INT); INSERT INTO src SELECT value FROM generate_series(1, 2000); \
                  CREATE TABLE sharing SHALLOW CLONE src; CREATE TABLE own CLONE src";
    let mut session = setup(script).await;
    session.database().publish().await.unwrap();
    ok(
        &mut session,
        "CREATE OR REPLACE TABLE sharing SHALLOW CLONE src",
    )
    .await;
    refuse(&mut session, &["DETACH TABLE src", "DETACH TABLE sharing"]).await;
    // A dropped table can come back.
    ok(&mut session, "DROP TABLE sharing").await;
    refuse(&mut session, &["DETACH TABLE src"]).await;
    ok(&mut session, "DETACH TABLE own").await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM src").await, "2000");
}

#[tokio::test]
async fn table_from_outside_is_cloned_deep_only() {
    let (_guard, path) = table().await;
    let mut session = setup("").await;
    let fill = format!("INSERT INTO delta.`{path}` SELECT value, 1 FROM generate_series(1, 2000)");
    ok(&mut session, &fill).await;
    ok(&mut session, &format!("ATTACH TABLE '{path}' AS far")).await;
    refuse(&mut session, &["CREATE TABLE c SHALLOW CLONE far"]).await;
    ok(&mut session, "CREATE TABLE c CLONE far; DETACH TABLE far").await;
    let sum = "SELECT count(*), sum(id) FROM c";
    assert_eq!(rows(&mut session, sum).await, "2000|2001000");
    std::fs::remove_dir_all(&path).unwrap();
    assert_eq!(rows(&mut session, sum).await, "2000|2001000");
}

#[tokio::test]
async fn table_with_a_file_outside_of_it_is_not_attached() {
    let (_guard, path) = table().await;
    let mut session = setup("").await;
    let add = r#"{"add":{"path":"../elsewhere.parquet","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true}}"#;
    let log = format!("{path}/_delta_log");
    std::fs::write(
        format!("{log}/00000000000000000001.json"),
        format!("{add}\n"),
    )
    .unwrap();
    let before = std::fs::read_dir(&log).unwrap().count();
    let error = err(&mut session, &format!("ATTACH TABLE '{path}' AS x")).await;
    assert!(chain(&error).contains("outside"), "{}", chain(&error));
    assert_eq!(std::fs::read_dir(&log).unwrap().count(), before);
}
