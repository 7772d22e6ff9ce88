//! Prepared statements: by SQL and by the API.

use tarndb_sql::{Parameter, Session};

use crate::support::*;

const TABLE: &str = "CREATE TABLE t (n BIGINT, s TEXT, d DATE, p DECIMAL(10,2), b BINARY); \
    INSERT INTO t VALUES (1, 'one', DATE '2026-01-01', 1.5, NULL), \
    (2, 'it''s', DATE '2026-01-02', 2.25, NULL), (NULL, NULL, NULL, NULL, NULL)";

#[tokio::test]
async fn a_prepared_statement_runs_with_each_value() {
    let mut session = setup(TABLE).await;
    ok(
        &mut session,
        "PREPARE q AS SELECT s FROM t WHERE n = $1 OR n = $2 ORDER BY n",
    )
    .await;
    assert_eq!(rows(&mut session, "EXECUTE q (1, 2)").await, "one; it's");
    assert_eq!(rows(&mut session, "EXECUTE Q (1 + 1, NULL)").await, "it's");
    ok(
        &mut session,
        "PREPARE i (BIGINT, TEXT) AS INSERT INTO t (n, s) VALUES ($1, $2)",
    )
    .await;
    ok(
        &mut session,
        "BEGIN; EXECUTE i ('7', 'x'); EXECUTE i (-8, NULL); COMMIT",
    )
    .await;
    ok(&mut session, "PREPARE u AS UPDATE t SET s = ? WHERE n = ?").await;
    ok(&mut session, "EXECUTE u ('why', 7)").await;
    assert_eq!(
        rows(
            &mut session,
            "SELECT n, s FROM t WHERE n NOT IN (1, 2) ORDER BY n"
        )
        .await,
        "-8|NULL; 7|why"
    );
    ok(
        &mut session,
        "PREPARE l AS SELECT n FROM t ORDER BY n LIMIT $1",
    )
    .await;
    assert_eq!(rows(&mut session, "EXECUTE l (1)").await, "-8");
    ok(&mut session, "DEALLOCATE q").await;
    assert_eq!(
        err(&mut session, "EXECUTE q (1, 2)").await.sqlstate(),
        "26000"
    );
    ok(&mut session, "DEALLOCATE ALL; PREPARE u AS SELECT 1").await;
}

#[tokio::test]
async fn a_value_never_becomes_a_part_of_the_statement() {
    let mut session = setup(TABLE).await;
    let hostile = "' OR TRUE; DROP TABLE t; --";
    let template = Session::prepare("SELECT count(*) FROM t WHERE s = $1").unwrap();
    for text in [hostile, "$1", "?", "it''s", "\\'", "--", "/*"] {
        let outcome = session.execute_prepared(&template, &[text.into()]).await;
        assert_eq!(text_of(outcome.unwrap(), text).await, "0", "{text}");
    }
    let outcome = session.execute_prepared(&template, &["it's".into()]).await;
    assert_eq!(text_of(outcome.unwrap(), "it").await, "1");
    // A value binds closer than any operator around it.
    ok(&mut session, "PREPARE p AS SELECT 2 * $1").await;
    assert_eq!(rows(&mut session, "EXECUTE p (1 + 1)").await, "4");
}

#[tokio::test]
async fn values_of_every_kind_arrive_as_they_are() {
    let mut session = setup(TABLE).await;
    let typed = |text: &str, data_type: &str| Parameter::Typed(text.into(), data_type.into());
    let template =
        Session::prepare("INSERT INTO t (n, s, d, p, b) VALUES ($1, $2, $3, $4, $5);").unwrap();
    assert_eq!(template.parameters(), 5);
    let values = [
        Parameter::Integer(i64::MIN),
        Parameter::Text("a\nb 'c' \\ \u{e4}".into()),
        typed("2026-11-30", "DATE"),
        typed("12.50", "DECIMAL(10,2)"),
        Parameter::Binary(vec![0, 255]),
    ];
    session.execute_prepared(&template, &values).await.unwrap();
    session
        .execute_prepared(&template, &vec![Parameter::Null; 5])
        .await
        .unwrap();
    assert_eq!(
        rows(
            &mut session,
            "SELECT n, s = E'a\\nb ''c'' \\\\ \u{e4}', d, p, b FROM t WHERE n < 0"
        )
        .await,
        "-9223372036854775808|true|2026-11-30|12.50|00ff"
    );
    assert_eq!(
        rows(&mut session, "SELECT count(*) FROM t WHERE n IS NULL").await,
        "2"
    );
    let template = Session::prepare("SELECT $1, $2, $3").unwrap();
    let values = [
        Parameter::Double(0.1),
        true.into(),
        Parameter::from(None::<i64>),
    ];
    let outcome = session.execute_prepared(&template, &values).await.unwrap();
    assert_eq!(text_of(outcome, "values").await, "0.1|true|NULL");
    let wrong = [
        typed("1", "NOTYPE); DROP TABLE t; --"),
        true.into(),
        true.into(),
    ];
    let error = session
        .execute_prepared(&template, &wrong)
        .await
        .unwrap_err();
    assert_eq!(error.sqlstate(), "42704");
}

#[tokio::test]
async fn what_cannot_be_prepared_or_executed_is_refused() {
    let mut session = setup(TABLE).await;
    ok(&mut session, "PREPARE q AS SELECT $2").await;
    for (statement, state) in [
        ("PREPARE q AS SELECT 1", "42P05"),
        ("PREPARE x AS CREATE TABLE u (a INT)", "42601"),
        ("PREPARE x AS SELECT FROM WHERE $1", "42601"),
        ("PREPARE x AS SELECT $1 + ?", "42601"),
        ("PREPARE x AS SELECT $0", "42601"),
        ("PREPARE x AS SELECT $99999999999999999999", "42601"),
        ("PREPARE x (NOTYPE) AS SELECT $1", "42601"),
        ("EXECUTE q (1)", "42601"),
        ("EXECUTE q (1, 2, 3)", "42601"),
        ("EXECUTE q (n, 2)", "42601"),
        ("EXECUTE q ((SELECT 1), 2)", "42601"),
        ("EXECUTE nothing", "26000"),
        ("DEALLOCATE nothing", "26000"),
        ("SELECT $1", "42601"),
    ] {
        assert_eq!(
            err(&mut session, statement).await.sqlstate(),
            state,
            "{statement}"
        );
    }
    // Its error fails an open transaction, as every other.
    ok(&mut session, "BEGIN").await;
    err(&mut session, "EXECUTE nothing").await;
    assert!(session.is_failed());
}

#[tokio::test]
async fn a_syntax_error_in_a_prepared_statement_has_its_place_in_the_script() {
    let mut session = setup(TABLE).await;
    let script = "SELECT 1;\n  PREPARE x AS SELECT n FROM t\n WHERE n == = $1";
    let error = err(&mut session, script).await;
    assert_eq!(error.position(), Some((3, 13)), "{error}");
}
