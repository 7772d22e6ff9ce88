//! CHECKPOINT, ANALYZE, VACUUM of tables by path, and what a session may use.

use tarndb_sql::SqlError;
use tarndb_table::{DataType, Field};

use crate::support::*;

#[tokio::test]
async fn a_checkpoint_of_a_table_is_written_when_it_is_asked_for() {
    let mut session =
        setup("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
            .await;
    assert_eq!(rows(&mut session, "CHECKPOINT t").await, "NULL|3; main.t|2");
    let key = "main/t/_delta_log/_last_checkpoint";
    let hint = session
        .database()
        .store()
        .get(&tarndb_storage::Path::from(key))
        .await
        .unwrap();
    assert!(String::from_utf8_lossy(&hint.unwrap()).contains("\"version\":2"));
    for all in ["CHECKPOINT", "CHECKPOINT DATABASE"] {
        assert_eq!(rows(&mut session, all).await, "NULL|3");
    }
    assert_eq!(rows(&mut session, "SELECT sum(a) FROM t").await, "3");
    for (statement, state) in [
        ("CHECKPOINT nope", "42P01"),
        ("BEGIN; CHECKPOINT t", "0A000"),
        ("CHECKPOINT delta.`/nowhere/t`", "0A000"),
    ] {
        assert_eq!(
            err(&mut session, statement).await.sqlstate(),
            state,
            "{statement}"
        );
        let _ = session.sql("ROLLBACK").await;
    }
}

#[tokio::test]
async fn a_table_by_path_is_vacuumed_by_its_own_log() {
    let fields = vec![Field::new("a", DataType::Long, true)];
    let (_folder, path) = table_by_path(fields, &[], &[]).await;
    let mut session = setup("CREATE TABLE other (a BIGINT)").await;
    ok(
        &mut session,
        &format!("INSERT INTO delta.`{path}` VALUES (1)"),
    )
    .await;
    ok(&mut session, &format!("TRUNCATE TABLE delta.`{path}`")).await;
    let dry = format!("VACUUM delta.`{path}` DRY RUN");
    assert_eq!(rows(&mut session, &dry).await, "");
    let too_short = err(
        &mut session,
        &format!("VACUUM delta.`{path}` RETAIN 0 HOURS"),
    )
    .await;
    assert!(
        chain(&too_short).contains("retention"),
        "{}",
        chain(&too_short)
    );
    let missing = err(&mut session, "VACUUM delta.`/nowhere/at/all`").await;
    assert_eq!(missing.sqlstate(), "58P01");
}

#[tokio::test]
async fn a_statement_ends_when_its_time_is_up_and_changes_nothing() {
    let mut session = setup("CREATE TABLE t (a BIGINT)").await;
    let endless = "SELECT sum(v % 7) FROM generate_series(1, 100000000000) g(v)";
    ok(&mut session, "SET statement_timeout = '50ms'").await;
    assert_eq!(rows(&mut session, "SHOW statement_timeout").await, "50ms");
    let error = err(&mut session, endless).await;
    assert_eq!(error.sqlstate(), "57014");
    assert!(matches!(error, SqlError::TimedOut { .. }), "{error}");
    // Rows that come late end with an error too, and a change leaves nothing.
    let error = err(&mut session, &format!("INSERT INTO t {endless}")).await;
    assert_eq!(error.sqlstate(), "57014");
    assert!(!session.in_transaction());
    ok(&mut session, "RESET statement_timeout").await;
    assert_eq!(rows(&mut session, "SHOW statement_timeout").await, "NULL");
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "0");
    // Inside a transaction it fails the transaction.
    ok(
        &mut session,
        "BEGIN; INSERT INTO t VALUES (1); SET statement_timeout = 50",
    )
    .await;
    err(&mut session, &format!("INSERT INTO t {endless}")).await;
    assert!(session.is_failed());
    ok(&mut session, "ROLLBACK; SET statement_timeout = 'none'").await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "0");
}

#[tokio::test]
async fn resources_are_set_shown_reset_and_refused_by_name() {
    let mut session = setup("CREATE TABLE t (a BIGINT)").await;
    for (name, value, shown) in [
        ("tarndb.memory_limit", "'64MiB'", "67108864"),
        ("tarndb.threads", "3", "3"),
        ("datafusion.execution.target_partitions", "2", "2"),
        ("statement_timeout", "1500", "1500ms"),
    ] {
        ok(&mut session, &format!("SET {name} = {value}")).await;
        assert_eq!(rows(&mut session, &format!("SHOW {name}")).await, shown);
    }
    let sorted = "SELECT max(v) FROM (SELECT v FROM generate_series(1, 100000) g(v) ORDER BY -v)";
    assert_eq!(rows(&mut session, sorted).await, "100000");
    ok(
        &mut session,
        "RESET tarndb.memory_limit; RESET tarndb.threads",
    )
    .await;
    assert_eq!(rows(&mut session, "SHOW tarndb.memory_limit").await, "NULL");
    for wrong in [
        "SET tarndb.memory_limit = 'much'",
        "SET tarndb.threads = 0",
        "SET tarndb.temp_dir = '/no/such/folder'",
        "SET statement_timeout = 'soon'",
    ] {
        assert_eq!(
            err(&mut session, wrong).await.sqlstate(),
            "22023",
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn a_memory_limit_set_in_sql_is_obeyed() {
    let mut session = setup("CREATE TABLE t (a BIGINT)").await;
    ok(&mut session, "SET tarndb.memory_limit = '4MB'").await;
    // A text of one aggregate is not spilled.
    let large = "SELECT length(string_agg(md5(x::text), '')) FROM generate_series(1, 400000) a(x)";
    assert_eq!(err(&mut session, large).await.sqlstate(), "53200");
}

#[tokio::test]
async fn analyze_says_that_all_files_have_statistics() {
    let mut session = setup("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1)").await;
    session.take_notices();
    for statement in ["ANALYZE t", "ANALYZE TABLE t COMPUTE STATISTICS"] {
        ok(&mut session, statement).await;
        let said = session.take_notices();
        assert_eq!(said, ["table t has statistics of all of its 1 files"]);
    }
    for (statement, state) in [("ANALYZE nope", "42P01"), ("BEGIN; ANALYZE t", "0A000")] {
        assert_eq!(err(&mut session, statement).await.sqlstate(), state);
        let _ = session.sql("ROLLBACK").await;
    }
}
