//! BEGIN, COMMIT, ROLLBACK, conflicts.

use tarndb_sql::Outcome;

use crate::support::*;

#[tokio::test]
async fn a_commit_over_two_tables_is_seen_whole_or_not_at_all() {
    let db = database().await;
    let (mut one, mut two) = (session(&db), session(&db));
    ok(&mut one, "CREATE TABLE a (n INT); CREATE TABLE b (n INT); INSERT INTO a VALUES (100); INSERT INTO b VALUES (0)").await;
    ok(
        &mut one,
        "BEGIN; UPDATE a SET n = n - 30; UPDATE b SET n = n + 30",
    )
    .await;
    let sums = "SELECT (SELECT sum(n) FROM a), (SELECT sum(n) FROM b)";
    assert_eq!(rows(&mut one, sums).await, "70|30");
    assert_eq!(rows(&mut two, sums).await, "100|0");
    assert!(one.in_transaction() && !two.in_transaction());
    ok(&mut one, "COMMIT").await;
    assert_eq!(rows(&mut two, sums).await, "70|30");
}

#[tokio::test]
async fn a_transaction_sees_its_own_writes_and_nothing_later() {
    let db = database().await;
    let (mut one, mut two) = (session(&db), session(&db));
    ok(&mut one, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    ok(&mut one, "BEGIN").await;
    assert_eq!(rows(&mut one, "SELECT sum(n) FROM t").await, "1");
    ok(
        &mut two,
        "INSERT INTO t VALUES (10); CREATE TABLE later (x INT)",
    )
    .await;
    assert_eq!(rows(&mut one, "SELECT sum(n) FROM t").await, "1");
    assert_eq!(
        err(&mut one, "SELECT * FROM later").await.sqlstate(),
        "42P01"
    );
    ok(
        &mut one,
        "ROLLBACK; BEGIN; CREATE TABLE own (x INT); INSERT INTO own VALUES (1), (2)",
    )
    .await;
    ok(
        &mut one,
        "UPDATE own SET x = x + 1 WHERE x = 1; DELETE FROM own WHERE x = 2",
    )
    .await;
    assert_eq!(rows(&mut one, "SELECT count(*) FROM own").await, "0");
    ok(
        &mut one,
        "INSERT INTO own VALUES (5); UPDATE own SET x = 6; COMMIT",
    )
    .await;
    assert_eq!(rows(&mut two, "SELECT x FROM own").await, "6");
}

#[tokio::test]
async fn a_failed_statement_aborts_until_rollback() {
    let mut session = setup("CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    ok(&mut session, "BEGIN; INSERT INTO t VALUES (2)").await;
    assert_eq!(
        err(&mut session, "SELECT nope FROM t").await.sqlstate(),
        "42703"
    );
    assert!(session.is_failed());
    assert_eq!(err(&mut session, "SELECT 1").await.sqlstate(), "25P02");
    assert_eq!(err(&mut session, "BEGIN").await.sqlstate(), "25P02");
    let outcome = ok(&mut session, "COMMIT").await;
    assert!(
        matches!(outcome, Outcome::Done { tag: "ROLLBACK" }),
        "{outcome:?}"
    );
    assert_eq!(rows(&mut session, "SELECT sum(n) FROM t").await, "1");
    ok(&mut session, "BEGIN").await;
    assert_eq!(err(&mut session, "SELEC").await.sqlstate(), "42601");
    assert!(session.is_failed());
    ok(&mut session, "ROLLBACK").await;
    ok(&mut session, "BEGIN").await;
    assert_eq!(err(&mut session, "BEGIN").await.sqlstate(), "25001");
}

#[tokio::test]
async fn changes_of_one_row_conflict_with_40001_and_of_two_rows_do_not() {
    let db = database().await;
    let (mut one, mut two) = (session(&db), session(&db));
    ok(
        &mut one,
        "CREATE TABLE t (id INT, n INT); INSERT INTO t VALUES (1, 0), (2, 0)",
    )
    .await;
    ok(&mut one, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1").await;
    ok(&mut two, "UPDATE t SET n = n + 1 WHERE id = 2").await;
    ok(&mut one, "COMMIT").await;
    assert_eq!(
        rows(&mut two, "SELECT id, n FROM t ORDER BY id").await,
        "1|1; 2|1"
    );
    ok(&mut one, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1").await;
    ok(&mut two, "UPDATE t SET n = n + 1 WHERE id = 1").await;
    let error = err(&mut one, "COMMIT").await;
    assert_eq!(error.sqlstate(), "40001", "{error}");
    assert!(
        error.is_retryable() && error.to_string().contains("main.t"),
        "{error}"
    );
    assert!(!one.in_transaction());
    assert_eq!(
        rows(&mut two, "SELECT id, n FROM t ORDER BY id").await,
        "1|2; 2|1"
    );
}

#[tokio::test]
async fn an_incompatible_conflict_is_not_40001() {
    let db = database().await;
    let (mut one, mut two) = (session(&db), session(&db));
    ok(&mut one, "BEGIN; CREATE TABLE t (a INT)").await;
    ok(&mut two, "CREATE TABLE T (b INT)").await;
    let error = err(&mut one, "COMMIT").await;
    assert_eq!(error.sqlstate(), "55000", "{error}");
}

#[tokio::test]
async fn serializable_refuses_write_skew_and_snapshot_allows_it() {
    for (level, state) in [("SNAPSHOT", None), ("SERIALIZABLE", Some("40001"))] {
        let db = database().await;
        let (mut one, mut two) = (session(&db), session(&db));
        ok(&mut one, "CREATE TABLE a (n INT); CREATE TABLE b (n INT); INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)").await;
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        ok(&mut one, &begin).await;
        ok(&mut two, &begin).await;
        ok(&mut one, "INSERT INTO a SELECT sum(n) FROM b").await;
        ok(&mut two, "INSERT INTO b SELECT sum(n) FROM a").await;
        ok(&mut one, "COMMIT").await;
        match state {
            None => drop(ok(&mut two, "COMMIT").await),
            Some(state) => assert_eq!(err(&mut two, "COMMIT").await.sqlstate(), state),
        }
    }
}

#[tokio::test]
async fn increments_of_one_row_by_many_sessions_all_arrive() {
    let db = database().await;
    let mut first = session(&db);
    ok(
        &mut first,
        "CREATE TABLE c (n INT); INSERT INTO c VALUES (0)",
    )
    .await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let mut session = session(&db);
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                assert_eq!(count(&mut session, "UPDATE c SET n = n + 1").await, 1);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(rows(&mut first, "SELECT n FROM c").await, "40");
}

#[tokio::test]
async fn a_half_read_result_keeps_its_snapshot() {
    use arrow_array::cast::AsArray;
    use futures::StreamExt;
    let mut session =
        setup("CREATE TABLE t (n INT); INSERT INTO t SELECT * FROM generate_series(1, 50000)")
            .await;
    ok(
        &mut session,
        "CREATE TABLE u (n INT); INSERT INTO u SELECT n + 50000 FROM t",
    )
    .await;
    let Outcome::Rows { mut stream, .. } =
        ok(&mut session, "SELECT n FROM t UNION ALL SELECT n FROM u").await
    else {
        panic!("rows");
    };
    let sum = |batch: &arrow_array::RecordBatch| {
        let numbers = arrow::compute::cast(batch.column(0), &arrow_schema::DataType::Int64);
        let numbers = numbers.unwrap();
        let numbers = numbers.as_primitive::<arrow_array::types::Int64Type>();
        arrow::compute::sum(numbers).unwrap_or(0)
    };
    let mut seen = sum(&stream.next().await.unwrap().unwrap());
    for round in 0..25 {
        let change = format!(
            "DELETE FROM t WHERE n % 25 = {round}; UPDATE u SET n = -n WHERE n % 25 = {round}"
        );
        ok(&mut session, &change).await;
    }
    ok(&mut session, "TRUNCATE u; DROP TABLE t").await;
    while let Some(batch) = stream.next().await {
        seen += sum(&batch.unwrap());
    }
    assert_eq!(seen, 100_000 * 100_001 / 2);
}

#[tokio::test]
async fn the_transaction_id_can_be_chosen_and_shown() {
    let db = database().await;
    let mut session = session(&db);
    let id = tarndb_types::Uuid::from_u128(7);
    session.set_txn_id(Some(id));
    ok(&mut session, "CREATE TABLE t (n INT)").await;
    let shown = rows(&mut session, "SHOW tarndb.transaction_id").await;
    assert!(shown.ends_with(&id.to_string()), "{shown}");
    ok(&mut session, "BEGIN").await;
    let open = rows(&mut session, "SHOW tarndb.transaction_id").await;
    assert_ne!(open, shown);
    assert_eq!(open, session.transaction().unwrap().to_string());
}

#[tokio::test]
async fn ddl_is_transactional() {
    let mut session =
        setup("CREATE SCHEMA s; CREATE TABLE s.t (n INT); INSERT INTO s.t VALUES (1)").await;
    ok(
        &mut session,
        "BEGIN; ALTER TABLE s.t RENAME TO main.u; ALTER TABLE u ADD COLUMN m TEXT; DROP SCHEMA s",
    )
    .await;
    assert_eq!(rows(&mut session, "SELECT * FROM u").await, "1|NULL");
    ok(&mut session, "ROLLBACK").await;
    assert_eq!(rows(&mut session, "SELECT * FROM s.t").await, "1");
    assert_eq!(err(&mut session, "DROP SCHEMA s").await.sqlstate(), "2BP01");
    ok(
        &mut session,
        "DROP SCHEMA s CASCADE; DROP SCHEMA IF EXISTS s; DROP TABLE IF EXISTS s.t",
    )
    .await;
    assert_eq!(
        err(&mut session, "DROP TABLE s.t").await.sqlstate(),
        "3F000"
    );
}

#[tokio::test]
async fn a_small_commit_on_a_warm_handle_costs_one_write_and_no_read() {
    let db = tarndb_db::Database::create(
        tarndb_storage::Store::memory(tarndb_storage::Context::seeded(1)),
        tarndb_db::DbOptions {
            publish: tarndb_db::PublishMode::Manual,
            ..Default::default()
        },
    )
    .await
    .unwrap();
    let mut session = session(&db);
    ok(
        &mut session,
        "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)",
    )
    .await;
    let before = db.store().meter().counts();
    ok(&mut session, "INSERT INTO t VALUES (2)").await;
    let cost = db.store().meter().counts() - before;
    assert_eq!(
        (cost.put, cost.put_if_absent, cost.requests()),
        (0, 1, 1),
        "the record, with the data file in it: {cost}"
    );
    let before = db.store().meter().counts();
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "2");
    let cost = db.store().meter().counts() - before;
    assert_eq!(
        (cost.get, cost.get_range, cost.list, cost.head),
        (1, 0, 0, 0),
        "{cost}"
    );
}

#[tokio::test]
async fn conditional_statements_that_lose_a_race_run_again() {
    let db = database().await;
    let storm = (0..4).map(|number| {
        let mut session = session(&db);
        async move {
            for turn in 0..15 {
                let statement = match (turn + number) % 4 {
                    0 => "CREATE TABLE IF NOT EXISTS t (a INT)",
                    1 => "DROP TABLE IF EXISTS t",
                    2 => "CREATE SCHEMA IF NOT EXISTS s",
                    _ => "DROP SCHEMA IF EXISTS s",
                };
                ok(&mut session, statement).await;
            }
        }
    });
    futures::future::join_all(storm).await;
}

#[tokio::test]
async fn an_overwrite_replaces_what_is_live_when_it_commits() {
    let db = database().await;
    let (mut one, mut two) = (session(&db), session(&db));
    ok(
        &mut one,
        "CREATE TABLE t (n INT); INSERT INTO t VALUES (1), (2)",
    )
    .await;
    ok(&mut one, "BEGIN; INSERT OVERWRITE t VALUES (7), (8)").await;
    assert_eq!(rows(&mut one, "SELECT n FROM t ORDER BY n").await, "7; 8");
    ok(
        &mut two,
        "INSERT INTO t VALUES (3); DELETE FROM t WHERE n = 1",
    )
    .await;
    ok(&mut one, "COMMIT").await;
    assert_eq!(rows(&mut two, "SELECT n FROM t ORDER BY n").await, "7; 8");
}

#[tokio::test]
async fn an_overwrite_computed_from_its_table_conflicts_when_the_table_changed() {
    let db = database().await;
    let (mut one, mut two) = (session(&db), session(&db));
    ok(&mut one, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)").await;
    ok(
        &mut one,
        "BEGIN; INSERT OVERWRITE TABLE t SELECT n + 1 FROM t",
    )
    .await;
    ok(&mut two, "INSERT INTO t VALUES (10)").await;
    assert_eq!(err(&mut one, "COMMIT").await.sqlstate(), "40001");
    ok(&mut one, "INSERT OVERWRITE t (n) SELECT n + 1 FROM t").await;
    assert_eq!(rows(&mut two, "SELECT n FROM t ORDER BY n").await, "2; 11");
}
